"""IncrementalAlterConfigs: makes the checks without cluster state, and forwards the rest.

Source: KIP-339. Deviation: as for AlterConfigs.
"""

from __future__ import annotations

from highwater_broker.kafka_api.alter_configs import (
    ConfigForwarding,
    Refused,
    given_value,
    refuse_repeated,
)
from highwater_core.admin_messages import ConfigChange, ConfigOperation
from highwater_core.errors import ErrorCode
from highwater_core.topic_configs import TOPIC_CONFIG_KEYS, ConfigType
from highwater_wire.kafka.config_messages import (
    AlteredResource,
    ConfigAlteration,
    ConfigOperationType,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from highwater_wire.kafka.text import quoted


class IncrementalAlterConfigsHandler:
    """Answers IncrementalAlterConfigs."""

    def __init__(self, configs: ConfigForwarding) -> None:
        self._configs = configs

    async def handle(
        self, request: IncrementalAlterConfigsRequest, listener: str
    ) -> IncrementalAlterConfigsResponse:
        """Return each resource's outcome; its other values stay as they are."""
        return IncrementalAlterConfigsResponse(
            await self._configs.alter(
                request.resources,
                _altering,
                validate_only=request.validate_only,
                listener=listener,
            )
        )


def _altering(resource: AlteredResource) -> tuple[ConfigChange, ...]:
    refuse_repeated([each.name for each in resource.alterations])
    return tuple(map(_to_change, resource.alterations))


def _to_change(alteration: ConfigAlteration) -> ConfigChange:
    name, kind = alteration.name, ConfigOperationType
    key = TOPIC_CONFIG_KEYS.get(name)
    if alteration.operation == kind.DELETE:
        return ConfigChange(name, ConfigOperation.DELETE)
    if alteration.operation not in (kind.SET, kind.APPEND, kind.SUBTRACT):
        raise Refused(ErrorCode.INVALID_REQUEST, f"no such operation: {alteration.operation}")
    text = given_value(name, alteration.value)
    if alteration.operation != kind.SET and (key is None or key.type is not ConfigType.LIST):
        raise Refused(ErrorCode.INVALID_CONFIG, f"{quoted(name)} is no list to add to or take from")
    return ConfigChange(name, ConfigOperation(alteration.operation), text)
