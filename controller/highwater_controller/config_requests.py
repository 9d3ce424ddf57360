"""AlterConfigs, as brokers forward it: checks the changes and writes them.

Ordering: a configuration and the announcement of its change are one transaction, so that every
change in ZooKeeper is announced. Each owner's is written and answered by itself.
Source: KIP-133, KIP-339; Kafka's ZkAdminManager and AdminZkClient. Deviation: those write the
configuration first, and a crash before the announcement leaves it to the next restart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from highwater_controller.chunks import TOPICS_PER_STEP
from highwater_controller.conditional_writes import Conflict, until_written
from highwater_controller.refusals import refuse
from highwater_controller.state_reader import report_malformed
from highwater_controller.term import Term
from highwater_controller.topic_waits import Done
from highwater_core import znodes
from highwater_core.admin_messages import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlteredConfig,
    ConfigEntity,
    ConfigResult,
)
from highwater_core.config_layers import ConfigOwner
from highwater_core.config_plans import plan_config
from highwater_core.config_znodes import (
    CONFIG_CHANGE_PREFIX,
    config_path,
    encode_config,
    encode_config_change,
)
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.ids import NodeId
from highwater_core.ports import CreateOp, NoNode, TooLarge
from highwater_core.topic_plans import Refused
from highwater_core.znodes import MalformedZnode, TopicConfigZnode


class Altering:
    """An AlterConfigs request, carried out a step at a time."""

    def __init__(self, request: AlterConfigsRequest) -> None:
        self._request = request
        self._results: list[ConfigResult] = []

    @property
    def is_over(self) -> bool:
        return len(self._results) == len(self._request.configs)

    @property
    def answer(self) -> AlterConfigsResponse:
        return AlterConfigsResponse(ErrorCode.NONE, tuple(self._results))

    async def step(self, term: Term, make_done: Callable[[], Done]) -> None:
        """Alter the next configurations."""
        first = len(self._results)
        for altered in self._request.configs[first : first + TOPICS_PER_STEP]:
            owner = ConfigOwner(altered.entity, altered.name)
            error, message = ErrorCode.NONE, ""
            try:
                _refuse_unknown(term, owner)
                await _alter(term, owner, altered, validate_only=self._request.validate_only)
            except Refused as fault:
                refuse(term, "AlterConfigsRequest", fault)
                error, message = fault.error, str(fault)
            self._results.append(ConfigResult(altered.entity, altered.name, error, message))


def _refuse_unknown(term: Term, owner: ConfigOwner) -> None:
    """Refuse an owner that is no topic and no broker: its znode would never be removed."""
    name = owner.name
    if owner.entity is ConfigEntity.TOPIC:
        is_known = term.context.is_known(name) and not term.context.is_to_be_deleted(name)
        if not is_known:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no such topic")
    elif name and not (znodes.is_id(name) and _is_known_broker(term, NodeId(int(name)))):
        raise Refused(ErrorCode.INVALID_REQUEST, "there is no such broker")


def _is_known_broker(term: Term, broker_id: NodeId) -> bool:
    context = term.context
    return broker_id in context.live_brokers or bool(context.partitions_on(broker_id))


async def _alter(
    term: Term, owner: ConfigOwner, altered: AlteredConfig, *, validate_only: bool
) -> None:
    """Write the configuration with its changes, and announce it.

    Raises:
        Refused: a change is not allowed; the configuration is unchanged.
        TermOver: others wrote it again and again.
    """
    path = config_path(owner)
    announcement = CreateOp(CONFIG_CHANGE_PREFIX, encode_config_change(owner), sequential=True)

    async def attempt() -> Conflict | None:
        data, node_version = await _read(term, path)
        before = _decode(term, path, data)
        config = plan_config(owner, before, altered)
        if validate_only:
            return None
        try:
            is_written = await term.store.set_config(
                path, encode_config(config), node_version, announcement
            )
        except TooLarge as fault:
            raise Refused(ErrorCode.POLICY_VIOLATION, str(fault)) from None
        except NoNode:
            message = "ZooKeeper lacks the parents of configurations, or it went meanwhile"
            raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, message) from None
        if not is_written:
            return Conflict(data, node_version)
        names = sorted({change.name for change in altered.changes})
        term.emit(EventKind.CONFIG_ALTERED, where=path, names=names, config=config)
        return None

    await until_written(path, attempt)


async def _read(term: Term, path: str) -> tuple[bytes | None, int | None]:
    """Return the znode's data and version; None for both where there is none."""
    read = await term.store.get(path)
    return (None, None) if read is None else (read[0], read[1].node_version)


def _decode(term: Term, path: str, data: bytes | None) -> Mapping[str, str]:
    """Return the set values.

    A malformed znode has none: it is traced, and may be overwritten.
    """
    if data is None:
        return {}
    try:
        return znodes.decode(TopicConfigZnode, data, path).config
    except MalformedZnode as fault:
        report_malformed(term, path, fault)
        return {}
