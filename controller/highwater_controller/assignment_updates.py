"""The one way in which the controller changes an existing topic's znode.

Read the znode, decide on its next content, write this on the version that was read. Other content
(the topic id, other partitions) stays.
Source: KIP-455, KIP-195.
"""

from __future__ import annotations

from collections.abc import Callable

from highwater_controller.conditional_writes import Conflict, until_written
from highwater_controller.state_reader import report_malformed
from highwater_controller.term import Term
from highwater_core.ids import NO_TOPIC_ID, TopicId
from highwater_core.topic_znode import TopicContent, decode_topic, encode_topic
from highwater_core.znodes import MalformedZnode, topic_path

Decide = Callable[[TopicContent], TopicContent | None]
"""Returns the next content of the topic's znode; None leaves it."""


async def update_assignment(term: Term, topic: str, decide: Decide) -> TopicContent | None:
    """Write the content that `decide` returns, and return it; None when the znode was left.

    It is left where `decide` returns None, and where the topic is gone, another one or unreadable.
    A known id that the znode has lost is written with the content.

    Raises:
        TooLarge: ZooKeeper has no room for it.
        TermOver: a newer controller has been elected, or others wrote the znode again and again.
    """
    path = topic_path(topic)

    async def attempt() -> TopicContent | Conflict | None:
        read = await term.store.get(path)
        if read is None:
            return None
        data, stat = read
        try:
            before = decode_topic(data, topic)
        except MalformedZnode as fault:
            report_malformed(term, path, fault)
            term.context.unreadable_topics.add(topic)
            return None
        topic_id = _id_in_force(term, topic, before)
        if term.toggles.topic_id and topic_id != term.context.topic_id(topic):
            return None
        after = decide(before)
        if after is None:
            return None
        content = encode_topic(
            {at.partition: replicas for at, replicas in after.assignment.items()},
            topic_id,
            {at.partition: each for at, each in after.reassignments.items()},
        )
        if content == data or await term.store.set_topic(path, content, stat.node_version):
            return after
        return Conflict(data, stat.node_version)

    return await until_written(path, attempt)


def _id_in_force(term: Term, topic: str, read: TopicContent) -> TopicId:
    """Return the topic's id; the known one where a tool that knows no ids wrote the znode.

    Source: KAFKA-14190.
    """
    return read.topic_id or (term.context.topic_id(topic) if term.toggles.topic_id else NO_TOPIC_ID)
