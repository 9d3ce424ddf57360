"""Alters configurations in ZooKeeper, as the broker that a client asks.

A configuration and the announcement of its change, which all brokers watch, are one transaction.
Source: KIP-133, KIP-339; docs/decisions/0010.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from highwater_broker.current_session import CurrentSession
from highwater_broker.first_design.cluster_view import ClusterView
from highwater_broker.first_design.told_once import ToldOnce
from highwater_core.admin_messages import AlteredConfig, ConfigEntity, ConfigResult
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
from highwater_core.ports import (
    ANY_VERSION,
    CheckOp,
    CreateOp,
    MultiFailed,
    MultiOp,
    NoNode,
    SetOp,
    Stat,
    TooLarge,
    Trace,
)
from highwater_core.topic_names import find_name_fault
from highwater_core.topic_plans import Refused
from highwater_core.znodes import (
    BROKER_CONFIGS,
    CONFIG_CHANGES,
    TOPIC_CONFIGS,
    MalformedZnode,
    TopicConfigZnode,
    decode,
    is_id,
    topic_path,
)

MAX_ATTEMPTS = 20
"""To write a configuration that others write meanwhile."""
KEPT_MAX = 1_000
"""Most announcements that stay: a broker removes the oldest beyond when it adds one. A broker that
comes back reads all configurations in any case."""


class ConfigRequests:
    """Several requests may be carried out at a time."""

    def __init__(
        self, session: CurrentSession, trace: Trace, view: ClusterView, told: ToldOnce
    ) -> None:
        self._session = session
        self._trace = trace
        self._view = view
        self._told = told

    async def alter(
        self, configs: Sequence[AlteredConfig], *, validate_only: bool
    ) -> list[ConfigResult]:
        """Return each owner's outcome, in the request's order.

        Raises:
            CoordinationError: the outcome of an owner is unknown.
        """
        results: list[ConfigResult] = []
        for parent in (TOPIC_CONFIGS, BROKER_CONFIGS, CONFIG_CHANGES):
            await self._session.get().ensure_path(parent)
        for altered in configs:
            error, message = ErrorCode.NONE, ""
            try:
                owner = ConfigOwner(altered.entity, altered.name)
                await self._refuse_unknown(owner)
                await self._alter(owner, altered, validate_only=validate_only)
            except Refused as refused:
                error, message = refused.error, str(refused)
                self._trace.emit(
                    EventKind.REQUEST_REFUSED,
                    request="AlterConfigsRequest",
                    error=error.name,
                    message=message[:300],
                )
            results.append(ConfigResult(altered.entity, altered.name, error, message))
        if not validate_only:
            await self._remove_old()
        return results

    async def _refuse_unknown(self, owner: ConfigOwner) -> None:
        """Refuse an owner that is no topic and no broker: its znode would never be removed."""
        name = owner.name
        if owner.entity is ConfigEntity.TOPIC:
            is_sound = not find_name_fault(name)
            if not is_sound or await self._session.get().exists(topic_path(name)) is None:
                raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no such topic")
        elif name and not (is_id(name) and self._is_known_broker(NodeId(int(name)))):
            raise Refused(ErrorCode.INVALID_REQUEST, "there is no such broker")

    def _is_known_broker(self, broker: NodeId) -> bool:
        view = self._view
        return broker in view.live() or any(
            broker in view.replicas_of(at) for at in view.partitions()
        )

    async def _alter(
        self, owner: ConfigOwner, altered: AlteredConfig, *, validate_only: bool
    ) -> None:
        """Write the configuration with its changes, and announce it.

        Raises:
            Refused: a change is not allowed, or others write it again and again.
        """
        path = config_path(owner)
        announced = CreateOp(CONFIG_CHANGE_PREFIX, encode_config_change(owner), sequential=True)
        for _ in range(MAX_ATTEMPTS):
            before, stat = await self._read(path)
            config = plan_config(owner, before, altered)
            if validate_only:
                return
            data = encode_config(config)
            operations: list[MultiOp] = [
                CreateOp(path, data) if stat is None else SetOp(path, data, stat.node_version),
                announced,
            ]
            if owner.entity is ConfigEntity.TOPIC:  # one that is deleted takes its own along
                operations.append(CheckOp(topic_path(owner.name), ANY_VERSION))
            try:
                await self._session.get().multi(operations)
            except MultiFailed:
                await self._refuse_unknown(owner)
                continue
            except TooLarge as large:
                raise Refused(ErrorCode.POLICY_VIOLATION, str(large)) from None
            names = sorted({change.name for change in altered.changes})
            self._trace.emit(EventKind.CONFIG_ALTERED, where=path, names=names, config=config)
            return
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, "others write it again and again")

    async def _read(self, path: str) -> tuple[Mapping[str, str], Stat | None]:
        """Return the set values; a malformed znode has none, is traced, and may be overwritten."""
        try:
            data, stat = await self._session.get().get(path)
        except NoNode:
            return {}, None
        try:
            return decode(TopicConfigZnode, data, path).config, stat
        except MalformedZnode as fault:
            self._told.tell(path, str(fault), stat.mzxid)
            return {}, stat

    async def _remove_old(self) -> None:
        """Remove the first of too many announcements."""
        names = sorted(await self._session.get().children(CONFIG_CHANGES))
        for name in names[: max(0, len(names) - KEPT_MAX)]:
            with suppress(NoNode):
                await self._session.get().delete(f"{CONFIG_CHANGES}/{name}")
