"""Ids of topics that a tool without topic ids has left out of their znodes.

Such a tool writes the whole znode of a topic to which it adds partitions. Apache Kafka's next
controller gave the topic a new id, and its brokers refused all commands for it. Here the active
controller writes the id back; the next one learns it from a leader.
Source: KAFKA-14190.
"""

from __future__ import annotations

from highwater_controller.assignment_updates import update_assignment
from highwater_controller.request_batch import RequestBatch
from highwater_controller.state_reader import report_malformed
from highwater_controller.term import Term
from highwater_core.ids import NO_TOPIC_ID, TopicId
from highwater_core.ports import TooLarge
from highwater_core.znodes import topic_path


async def write_lost_id_back(term: Term, topic: str) -> None:
    """Write the topic's known id into its znode, if that has none."""
    if term.context.topic_id(topic) == NO_TOPIC_ID:
        return
    try:
        await update_assignment(
            term, topic, lambda before: before if before.topic_id == NO_TOPIC_ID else None
        )
    except TooLarge as fault:
        report_malformed(term, topic_path(topic), fault)


async def learn_lost_id(term: Term, topic: str, topic_id: TopicId) -> None:
    """Take the id that the log of a leader has for a topic of which no id is known.

    Ordering: znode -> metadata of all its partitions to all brokers.
    """
    context = term.context
    if not term.toggles.topic_id or topic_id == NO_TOPIC_ID or not context.is_known(topic):
        return
    if context.topic_id(topic) != NO_TOPIC_ID or context.topic_with_id(topic_id) is not None:
        return
    context.set_topic_id(topic, topic_id)
    await write_lost_id_back(term, topic)
    batch = RequestBatch(term)
    batch.add_update_metadata(context.live_brokers, context.partitions_of(topic))
    batch.send()
