"""What a broker has read of the cluster: live brokers and topics' znodes, by its own watches.

Source: docs/decisions/0010: metadata for clients without a controller.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from highwater_broker.current_session import CurrentSession
from highwater_broker.first_design.told_once import ToldOnce
from highwater_core.ids import BrokerEpoch, NodeId, TopicPartition
from highwater_core.messages import BrokerEndpoints
from highwater_core.ports import NoNode, Stat
from highwater_core.reassignments import NOT_REASSIGNED
from highwater_core.topic_names import find_name_fault
from highwater_core.topic_znode import Reassignment, TopicContent, decode_topic
from highwater_core.znodes import (
    BROKER_IDS,
    TOPICS,
    MalformedZnode,
    broker_path,
    decode_broker,
    decode_broker_id,
    topic_path,
)


@dataclass(frozen=True, slots=True)
class KnownTopic:
    """A topic's znode, as it was read, or written by this broker.

    czxid, mzxid: ZooKeeper's numbers of the transactions that made it, and wrote it last.
    """

    content: TopicContent
    node_version: int
    czxid: int
    mzxid: int


class ClusterView:
    """The state of the last reads; each read sets its watch anew."""

    def __init__(self, session: CurrentSession, told: ToldOnce) -> None:
        self._session = session
        self._told = told
        self._live: dict[NodeId, BrokerEndpoints] = {}
        self._topics: dict[str, KnownTopic] = {}
        self._closed: dict[TopicPartition, None] = {}
        """Replicas of this broker that were closed since their topics were read."""

    # ------------------------------------------------------------ queries

    def live(self) -> tuple[NodeId, ...]:
        return tuple(self._live)

    def endpoints(self) -> tuple[BrokerEndpoints, ...]:
        return tuple(self._live.values())

    def replicas_of(self, at: TopicPartition) -> tuple[NodeId, ...]:
        """Return AR; () where the partition is not known."""
        known = self._topics.get(at.topic)
        return known.content.assignment.get(at, ()) if known else ()

    def is_closed(self, at: TopicPartition) -> bool:
        """Return whether this broker's replica was closed since the assignment was read."""
        return at in self._closed

    def reassignment_of(self, at: TopicPartition) -> Reassignment:
        known = self._topics.get(at.topic)
        return known.content.reassignments.get(at, NOT_REASSIGNED) if known else NOT_REASSIGNED

    def topic(self, name: str) -> KnownTopic | None:
        return self._topics.get(name)

    def partitions(self) -> Iterator[TopicPartition]:
        """Yield all partitions, by topic and number."""
        for topic in sorted(self._topics):
            yield from self._topics[topic].content.assignment

    def partitions_of(self, topic: str) -> tuple[TopicPartition, ...]:
        known = self._topics.get(topic)
        return tuple(known.content.assignment) if known else ()

    # ------------------------------------------------------------ this broker's own deeds

    def wrote_topic(self, name: str, content: TopicContent, stat: Stat) -> None:
        """Know what this broker has written; its watch tells of it, and of later writes, too."""
        self._topics[name] = KnownTopic(content, stat.node_version, stat.czxid, stat.mzxid)

    def closed(self, at: TopicPartition) -> None:
        """Take this broker's replica as closed until the topic is read again."""
        self._closed[at] = None

    # ------------------------------------------------------------ reads

    async def read_brokers(self) -> None:
        """Read and watch the registrations; malformed ones are traced, and count as not live."""
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

        A topic with an impossible name is traced, and left alone.
        """
        names = await self._session.get().children(TOPICS, watch=True)
        for name in names:
            if fault := find_name_fault(name):
                self._told.tell(f"{TOPICS}/{name}", fault)
        wanted = dict.fromkeys(name for name in names if not find_name_fault(name))
        gone: list[TopicPartition] = []
        for topic in [each for each in sorted(self._topics) if each not in wanted]:
            gone.extend(self._topics.pop(topic).content.assignment)
        return [name for name in wanted if name not in self._topics], gone

    async def read_topic(self, topic: str) -> list[TopicPartition]:
        """Read and watch the topic's assignment; return the partitions that are gone.

        A malformed assignment is traced, and the known one stays.
        """
        path = topic_path(topic)
        before = self.partitions_of(topic)
        for at in [each for each in self._closed if each.topic == topic]:
            del self._closed[at]
        try:
            data, stat = await self._session.get().get(path, watch=True)
        except NoNode:
            self._topics.pop(topic, None)
            return list(before)
        try:
            self._topics[topic] = KnownTopic(
                decode_topic(data, topic), stat.node_version, stat.czxid, stat.mzxid
            )
        except MalformedZnode as fault:
            self._told.tell(path, str(fault), stat.mzxid)
        left = frozenset(self.partitions_of(topic))
        return [at for at in before if at not in left]
