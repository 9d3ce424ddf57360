"""The replicas that partitions are asked to have: /brokers/partitions_reassigned/T/P, which is RAR.

Source: the first design (V2), onPartitionsReassigned.
"""

from __future__ import annotations

from dataclasses import dataclass

from highwater_broker.current_session import CurrentSession
from highwater_broker.first_design.cluster_view import ClusterView
from highwater_broker.first_design.told_once import ToldOnce
from highwater_core.first_design_znodes import (
    REASSIGNED_PARTITIONS,
    decode_reassigned,
    reassigned_path,
    reassigned_topic_path,
)
from highwater_core.ids import NodeId, TopicPartition
from highwater_core.ports import NoNode
from highwater_core.znodes import MalformedZnode, is_id


@dataclass(frozen=True, slots=True)
class Asked:
    """RAR, as it was read. replicas: None where nobody asks for any; there is no znode then."""

    replicas: tuple[NodeId, ...] | None = None
    node_version: int = -1
    mzxid: int = -1


class AskedReplicas:
    """Reads these znodes; a malformed one is traced."""

    def __init__(self, session: CurrentSession, view: ClusterView, told: ToldOnce) -> None:
        self._session = session
        self._view = view
        self._told = told

    async def read(self, at: TopicPartition, *, watch: bool = False) -> Asked | None:
        """Return RAR; None where it is malformed, or has just gone."""
        path, session = reassigned_path(at), self._session.get()
        if await session.exists(path, watch=watch) is None:
            return Asked()
        try:
            data, stat = await session.get(path, watch=watch)
        except NoNode:
            return None
        try:
            return Asked(decode_reassigned(data, path), stat.node_version, stat.mzxid)
        except MalformedZnode as fault:
            self._told.tell(path, str(fault), stat.mzxid)
            return None

    async def listed(self) -> dict[TopicPartition, tuple[NodeId, ...]]:
        """Return RAR of each partition that has one; a znode of no known partition is traced."""
        found: dict[TopicPartition, tuple[NodeId, ...]] = {}
        for topic in await self._names(REASSIGNED_PARTITIONS):
            for name in await self._names(reassigned_topic_path(topic)):
                at = TopicPartition(topic, int(name)) if is_id(name) else None
                if at is None or not self._view.replicas_of(at):
                    path = f"{reassigned_topic_path(topic)}/{name}"
                    self._told.tell(path, "there is no such partition")
                    continue
                asked = await self.read(at)
                if asked is not None and asked.replicas is not None:
                    found[at] = asked.replicas
        return found

    async def _names(self, path: str) -> list[str]:
        try:
            return sorted(await self._session.get().children(path))
        except NoNode:
            return []
