"""AlterConfigs: makes the checks without cluster state, and forwards the rest to the controller.

Source: KIP-133. Deviation: any broker accepts changes of any broker's configuration, since the
controller makes them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeVar

from highwater_broker.kafka_api.forwarding import SILENT, ControllerForwarding
from highwater_broker.kafka_api.lookup import is_legal_topic_name
from highwater_broker.kafka_api.refusals import Outcome, listener_refusal
from highwater_broker.kafka_api.topic_waits import Deadlines
from highwater_broker.kafka_api.turns import Turns
from highwater_core import admin_messages as control
from highwater_core.admin_messages import (
    AlteredConfig,
    ConfigChange,
    ConfigEntity,
    ConfigOperation,
)
from highwater_core.config_layers import ConfigOwner
from highwater_core.errors import ErrorCode
from highwater_wire.kafka.config_messages import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlteredConfigResult,
    AlteredResource,
    ConfigResourceType,
    ReplacedConfig,
)
from highwater_wire.kafka.text import quoted, shortened

TIMEOUT_MS = 30_000
"""The timeout of the controller's call; Kafka's requests have none."""

R = TypeVar("R", ReplacedConfig, AlteredResource)
Key = tuple[int, str]
"""A resource's type and name."""


class Refused(Exception):
    """A resource's change is invalid in any state of the cluster."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error


class ConfigForwarding:
    """Forwards changes to the controller, each independent of the others."""

    def __init__(
        self, forwarding: ControllerForwarding, deadlines: Deadlines, turns: Turns
    ) -> None:
        self._forwarding = forwarding
        self._deadlines = deadlines
        self._turns = turns

    async def alter(
        self,
        resources: Sequence[R],
        changes_of: Callable[[R], tuple[ConfigChange, ...]],
        *,
        validate_only: bool,
        listener: str,
    ) -> tuple[AlteredConfigResult, ...]:
        """Return each resource's outcome; REQUEST_TIMED_OUT: unknown.

        changes_of may raise Refused.
        """
        deadline = self._deadlines(TIMEOUT_MS)
        named = Counter(_key(resource) for resource in resources)
        outcomes: dict[Key, Outcome] = {}
        wanted: list[AlteredConfig] = []

        def changed(resource: R) -> AlteredConfig:
            refused = listener_refusal(listener)
            if refused is not None:
                raise Refused(*refused)
            if named[_key(resource)] > 1:
                raise Refused(ErrorCode.INVALID_REQUEST, "the request names it twice")
            owner = _owner_of(resource)
            replaces_all = isinstance(resource, ReplacedConfig)
            return AlteredConfig(owner.entity, owner.name, changes_of(resource), replaces_all)

        def sort_out(resource: R) -> None:
            try:
                wanted.append(changed(resource))
            except Refused as refused:
                outcomes[_key(resource)] = Outcome(refused.error, str(refused))

        await self._turns.each(sort_out, resources)
        if wanted:
            request = control.AlterConfigsRequest(
                tuple(wanted), validate_only, deadline.remaining_ms()
            )
            told = await self._forwarding.ask(request, control.AlterConfigsResponse, deadline)
            keys = [(int(each.entity), each.name) for each in wanted]
            if isinstance(told, Outcome):
                outcomes |= dict.fromkeys(keys, told)
            else:
                outcomes |= dict.fromkeys(keys, SILENT)
                outcomes |= {
                    (int(each.entity), each.name): Outcome(each.error, shortened(each.message))
                    for each in told.results
                }
        return tuple(
            AlteredConfigResult(outcomes[key].error, outcomes[key].message or None, *key)
            for key in named
        )


class AlterConfigsHandler:
    """Answers AlterConfigs."""

    def __init__(self, configs: ConfigForwarding) -> None:
        self._configs = configs

    async def handle(self, request: AlterConfigsRequest, listener: str) -> AlterConfigsResponse:
        """Return each resource's outcome; all other values of a resource are removed."""
        return AlterConfigsResponse(
            await self._configs.alter(
                request.resources,
                _replacing,
                validate_only=request.validate_only,
                listener=listener,
            )
        )


def _key(resource: ReplacedConfig | AlteredResource) -> Key:
    return resource.resource_type, resource.resource_name


def _owner_of(resource: ReplacedConfig | AlteredResource) -> ConfigOwner:
    """Return the owner of the configuration; a resource without one is refused."""
    name = resource.resource_name
    if resource.resource_type == ConfigResourceType.TOPIC:
        if not is_legal_topic_name(name):
            message = "1 to 249 of [a-zA-Z0-9._-], not '.' or '..'"
            raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, message)
        return ConfigOwner(ConfigEntity.TOPIC, name)
    if resource.resource_type == ConfigResourceType.BROKER:
        if name and not (name.isascii() and name.isdecimal()):
            raise Refused(ErrorCode.INVALID_REQUEST, f"{quoted(name)} is no broker's id")
        return ConfigOwner(ConfigEntity.BROKER, name)
    message = "only topics (2) and brokers (4) have configurations"
    raise Refused(ErrorCode.INVALID_REQUEST, message)


def _replacing(resource: ReplacedConfig) -> tuple[ConfigChange, ...]:
    refuse_repeated([name for name, _ in resource.configs])
    return tuple(
        ConfigChange(name, ConfigOperation.SET, given_value(name, text))
        for name, text in resource.configs
    )


def refuse_repeated(names: Sequence[str]) -> None:
    if len(dict.fromkeys(names)) != len(names):
        raise Refused(ErrorCode.INVALID_REQUEST, "a configuration is named twice")


def given_value(name: str, text: str | None) -> str:
    if text is None:
        raise Refused(ErrorCode.INVALID_REQUEST, f"{quoted(name)} has no value")
    return text
