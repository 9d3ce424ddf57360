"""What a broker has read of the cluster: live brokers and topics' assignments, by its own watches.

Source: docs/decisions/0010: metadata for clients without a controller.
"""

from __future__ import annotations

from collections.abc import Iterator

from highwater_broker.current_session import CurrentSession
from highwater_broker.first_design.told_once import ToldOnce
from highwater_core.ids import BrokerEpoch, NodeId, TopicPartition
from highwater_core.messages import BrokerEndpoints
from highwater_core.ports import NoNode
from highwater_core.topic_names import find_name_fault
from highwater_core.topic_znode import decode_topic
from highwater_core.znodes import (
    BROKER_IDS,
    TOPICS,
    MalformedZnode,
    broker_path,
    decode_broker,
    decode_broker_id,
    topic_path,
)


class ClusterView:
    """The state of the last reads; each read sets its watch anew."""

    def __init__(self, session: CurrentSession, told: ToldOnce) -> None:
        self._session = session
        self._told = told
        self._live: dict[NodeId, BrokerEndpoints] = {}
        self._topics: dict[str, dict[TopicPartition, tuple[NodeId, ...]]] = {}

    # ------------------------------------------------------------ queries

    def live(self) -> tuple[NodeId, ...]:
        return tuple(self._live)

    def endpoints(self) -> tuple[BrokerEndpoints, ...]:
        return tuple(self._live.values())

    def replicas_of(self, at: TopicPartition) -> tuple[NodeId, ...]:
        """Return AR; () where the partition is not known."""
        return self._topics.get(at.topic, {}).get(at, ())

    def partitions(self) -> Iterator[TopicPartition]:
        """Yield all partitions, by topic and number."""
        for topic in sorted(self._topics):
            yield from self._topics[topic]

    def partitions_of(self, topic: str) -> tuple[TopicPartition, ...]:
        return tuple(self._topics.get(topic, ()))

    # ------------------------------------------------------------ reads

    async def read_brokers(self) -> None:
        """Read and watch the registrations; malformed ones are told, and count as not live."""
        found: dict[NodeId, BrokerEndpoints] = {}
        for name in await self._session.get().children(BROKER_IDS, watch=True):
            try:
                broker = decode_broker_id(name)
                data, stat = await self._session.get().get(broker_path(broker))
                found[broker] = decode_broker(data, broker, BrokerEpoch(stat.czxid))
            except NoNode:
                continue  # it has just gone: the watch tells
            except MalformedZnode as fault:
                self._told.tell(f"{BROKER_IDS}/{name}", str(fault))
        self._live = {broker: found[broker] for broker in sorted(found)}

    async def read_topics(self) -> tuple[list[str], list[TopicPartition]]:
        """Read and watch the topics' names; return new topics, and partitions that are gone.

        A topic with an impossible name is told, and left alone.
        """
        names = await self._session.get().children(TOPICS, watch=True)
        for name in names:
            if fault := find_name_fault(name):
                self._told.tell(f"{TOPICS}/{name}", fault)
        wanted = dict.fromkeys(name for name in names if not find_name_fault(name))
        gone: list[TopicPartition] = []
        for topic in [each for each in sorted(self._topics) if each not in wanted]:
            gone.extend(self._topics.pop(topic))
        return [name for name in wanted if name not in self._topics], gone

    async def read_topic(self, topic: str) -> list[TopicPartition]:
        """Read and watch the topic's assignment; return the partitions that are gone.

        A malformed assignment is told, and the known one stays.
        """
        path = topic_path(topic)
        before = self.partitions_of(topic)
        try:
            data, stat = await self._session.get().get(path, watch=True)
        except NoNode:
            self._topics.pop(topic, None)
            return list(before)
        try:
            self._topics[topic] = dict(decode_topic(data, topic).assignment)
        except MalformedZnode as fault:
            self._told.tell(path, str(fault), stat.mzxid)
        return [at for at in before if at not in self._topics.get(topic, {})]
