"""New partitions get their first leader, replicas of vanished topics are stopped.

Source: V3 design, on_topic_change and init_leaders.
"""

from __future__ import annotations

from collections.abc import Sequence

from highwater_controller.admin_znodes import forget_reassignments
from highwater_controller.chunks import pieces
from highwater_controller.loading import load_leaderships, put_found_states
from highwater_controller.logic.leader_selectors import Selector
from highwater_controller.logic.partition_states import PartitionState
from highwater_controller.logic.replica_states import ReplicaState
from highwater_controller.lost_topic_ids import write_lost_id_back
from highwater_controller.partition_state_machine import (
    elect_leaders_where_none,
    move_partitions,
    put_partition,
)
from highwater_controller.reassignment import (
    adopt_unassigned,
    advance_reassignments,
    resume_reassignments,
)
from highwater_controller.renouncing import renounce_lost
from highwater_controller.replica_state_machine import move_replicas
from highwater_controller.request_batch import RequestBatch
from highwater_controller.state_reader import (
    has_states,
    read_leadership,
    read_topic_names,
    read_topics,
)
from highwater_controller.term import Term
from highwater_controller.topic_deletion import on_deletions_requested
from highwater_core import znodes
from highwater_core.events import EventKind
from highwater_core.ids import NO_TOPIC_ID, TopicPartition
from highwater_core.ports import Stat
from highwater_core.topic_znode import decode_topic
from highwater_core.znodes import MalformedZnode


async def on_topics_changed(term: Term) -> None:
    """Compare the topics with the known ones and act on the difference.

    Ordering: metadata of vanished topics without leaders -> their replicas stopped and deleted, the
    topics forgotten -> new topics' znodes and states read -> their partitions New -> their replicas
    New -> the partitions Online, led by the first live replica -> the replicas Online, those of
    dead brokers Offline -> requested deletions begun.
    """
    context = term.context
    names = await read_topic_names(term)
    present = frozenset(names)
    vanished = [topic for topic in context.topics() if topic not in present]
    for topic in vanished:
        await _stop_vanished(term, topic)
    context.unreadable_topics.intersection_update(names)
    term.waits.topics_listed(present)
    unknown = [topic for topic in names if not context.is_known(topic)]
    added = await read_topics(term, unknown)
    created = [topic for topic in unknown if context.is_known(topic)]
    if not (created or vanished):
        return
    term.emit(EventKind.TOPICS_CHANGED, created=created, deleted=vanished)
    await _bring_up(term, added)
    if created:
        await on_deletions_requested(term)


async def on_topic_znodes_changed(term: Term, topics: Sequence[str]) -> None:
    """Look at each of the topics' znodes, and handle those that have changed.

    Where there are several each is read once, many at the same time: after a lost connection few of
    them differ from what was last taken in.
    """
    if len(topics) == 1:
        await on_topic_znode_changed(term, topics[0])
        return
    known = [topic for topic in topics if term.context.is_known(topic)]
    stats = await term.store.each(known, lambda topic: _watch_topic(term, topic))
    for topic, stat in zip(known, stats, strict=True):
        if stat is None or not term.context.is_as_taken_in(topic, stat):
            await on_topic_znode_changed(term, topic)
    if len(known) < len(topics):
        await on_topics_changed(term)


async def _watch_topic(term: Term, topic: str) -> Stat | None:
    """Return the metadata of the topic's znode, None if it is gone; a watch fires at a change."""
    read = await term.store.get(znodes.topic_path(topic), watch=True)
    return None if read is None else read[1]


async def on_topic_znode_changed(term: Term, topic: str) -> None:
    """Handle added partitions, a repair, or another topic of the same name.

    Ordering: where the topic has another id, the known one stopped and forgotten, the other loaded
    as a new one -> else the topic's znode read -> a lost id written back -> its added partitions
    brought up as those of a new topic.
    """
    if term.context.is_known(topic) and await _is_another_topic(term, topic):
        await _stop_vanished(term, topic)
    if not term.context.is_known(topic):
        await on_topics_changed(term)
        return
    context = term.context
    was_spoiled = topic in context.unreadable_topics | context.unwritable_topics
    context.unwritable_topics.discard(topic)
    added = await read_topics(term, [topic])
    await write_lost_id_back(term, topic)
    await _bring_up(term, added)
    if was_spoiled and topic not in context.unreadable_topics:
        await advance_reassignments(term, context.partitions_of(topic))


async def on_partition_state_repaired(term: Term, partition: TopicPartition) -> None:
    """Read a repaired state znode again, and bring the partition up.

    Ordering: the state read -> replicas that lost records out of ISR and ELR -> LeaderAndIsr to the
    assigned replicas -> a leader elected where there is none -> its reassignment resumed.
    """
    context = term.context
    if partition not in context.unreadable_partitions or partition not in context.assignments:
        return
    found = await read_leadership(term, partition)
    if found is None:
        return
    context.leaderships[partition] = found
    if context.is_to_be_deleted(partition.topic):
        return
    await renounce_lost(term, [partition])
    if context.has_live_leader(partition):
        put_partition(term, partition, PartitionState.ONLINE)
    batch = RequestBatch(term)
    batch.add_leader_and_isr(context.assignments[partition], partition)
    batch.send()
    await elect_leaders_where_none(term)
    await resume_reassignments(term, [partition])


async def _is_another_topic(term: Term, topic: str) -> bool:
    """Return whether the name was given to a new topic meanwhile (KIP-516).

    A topic with partition states that has lost its id, or got one, is the known one: a tool that
    knows no ids wrote the znode (KAFKA-14190), or one that gives them. `read_topics` keeps the id.
    """
    if not term.toggles.topic_id:
        return False
    read = await term.store.get(znodes.topic_path(topic))
    if read is None:
        return False
    try:
        topic_id = decode_topic(read[0], topic).topic_id
    except MalformedZnode:
        return False  # read_topics traces it
    known_id = term.context.topic_id(topic)
    if topic_id == known_id or term.context.topic_with_id(topic_id) is not None:
        return False
    return NO_TOPIC_ID not in (topic_id, known_id) or not await has_states(term, topic)


async def _bring_up(term: Term, added: list[TopicPartition]) -> None:
    """Elect first leaders of new partitions; load partitions that have a state already.

    They come up a step at a time, each with its commands: no command has thousands at once.
    """
    may_have_state = await _with_states(term, added)
    for some in pieces(added):
        await _bring_up_together(term, some, may_have_state)


async def _with_states(term: Term, added: list[TopicPartition]) -> frozenset[TopicPartition]:
    """Return the partitions that may have a state znode: none of a topic without any."""
    topics = list(dict.fromkeys(partition.topic for partition in added))
    listed = await term.store.each(
        topics, lambda topic: term.store.children(znodes.partitions_path(topic))
    )
    names = {topic: frozenset(found) for topic, found in zip(topics, listed, strict=True)}
    return frozenset(at for at in added if str(at.partition) in names[at.topic])


async def _bring_up_together(
    term: Term, added: Sequence[TopicPartition], may_have_state: frozenset[TopicPartition]
) -> None:
    context = term.context
    await load_leaderships(term, [partition for partition in added if partition in may_have_state])
    adopt_unassigned(term, added)
    await renounce_lost(term, added)
    found = [
        partition
        for partition in added
        if partition in context.leaderships or partition in context.unreadable_partitions
    ]
    await move_replicas(term, put_found_states(term, found), ReplicaState.ONLINE)
    fresh = [partition for partition in added if partition not in found]
    replicas = context.replicas_of_partitions(fresh)
    await move_partitions(term, fresh, PartitionState.NEW)
    await move_replicas(term, replicas, ReplicaState.NEW)
    await move_partitions(term, fresh, PartitionState.ONLINE, Selector.INITIAL)
    live = [replica for replica in replicas if replica.broker_id in context.live_brokers]
    dead = [replica for replica in replicas if replica.broker_id not in context.live_brokers]
    await move_replicas(term, live, ReplicaState.ONLINE)
    await move_replicas(term, dead, ReplicaState.OFFLINE)
    if found:
        await elect_leaders_where_none(term)
        await resume_reassignments(term, found)


async def _stop_vanished(term: Term, topic: str) -> None:
    """Stop and delete the replicas of a topic whose znode was removed by hand (V3)."""
    context = term.context
    context.topics_to_delete.setdefault(topic)
    partitions = context.partitions_of(topic)
    batch = RequestBatch(term)
    batch.add_update_metadata(context.live_brokers, partitions)
    for replica in context.replicas_of_partitions(partitions):
        batch.add_stop_replica(replica.broker_id, replica.topic_partition, delete=True)
    batch.send()
    await forget_reassignments(term, partitions)
    context.forget_topic(topic)
    term.waits.deletion_ended(topic)
