"""Reads brokers, topics and partition states from ZooKeeper into the controller's context.

A malformed znode is traced, left out and watched: the controller lives on, and reads it again once
it is repaired.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from highwater_controller.context import ControllerContext, VersionedLeadership
from highwater_controller.store import TermOver
from highwater_controller.term import Term
from highwater_core import znodes
from highwater_core.events import EventKind
from highwater_core.ids import (
    NO_STORAGE_ID,
    NO_TOPIC_ID,
    BrokerEpoch,
    NodeId,
    PartitionEpoch,
    TopicId,
    TopicPartition,
)
from highwater_core.messages import BrokerEndpoints
from highwater_core.ports import Stat
from highwater_core.topic_names import find_name_fault
from highwater_core.topic_znode import TopicContent, decode_topic
from highwater_core.znodes import MalformedZnode


def report_malformed(term: Term, where: str, what: object) -> None:
    term.emit(EventKind.BAD_INPUT_MET, where=where, what=str(what)[:200])


async def read_brokers(term: Term) -> dict[NodeId, BrokerEndpoints]:
    """Return the registered brokers, by id; watches fire at the next change.

    A broker with a malformed znode keeps its known registration, or is left out.
    """
    found: dict[NodeId, BrokerEndpoints] = {}
    for name in await term.store.children(znodes.BROKER_IDS, watch=True):
        path = f"{znodes.BROKER_IDS}/{name}"
        read = await term.store.get(path, watch=True)
        if read is None:
            continue
        data, stat = read
        try:
            broker_id = znodes.decode_broker_id(name)
            broker = znodes.decode_broker(data, broker_id, BrokerEpoch(stat.czxid))
            storage_id = znodes.decode_storage_id(data, broker_id)
            if storage_id != NO_STORAGE_ID:
                term.context.storage_ids[broker.broker_epoch] = storage_id
        except MalformedZnode as fault:
            report_malformed(term, path, fault)
            known = _known_broker(term, name)
            if known is None or known.broker_epoch != stat.czxid:
                continue
            broker = known
        found[broker.broker_id] = broker
    return dict(sorted(found.items()))


def _known_broker(term: Term, name: str) -> BrokerEndpoints | None:
    try:
        return term.context.live_brokers.get(znodes.decode_broker_id(name))
    except MalformedZnode:
        return None


async def read_topic_names(term: Term) -> list[str]:
    """Return the topics' names, sorted; a watch fires at the next change.

    An invalid name is left out, and traced once a term: no broker could host it.
    """
    allowed: list[str] = []
    for name in await term.store.children(znodes.TOPICS, watch=True):
        fault = find_name_fault(name)
        if not fault:
            allowed.append(name)
        elif name not in term.context.odd_topics:
            term.context.odd_topics.add(name)
            report_malformed(term, f"{znodes.TOPICS}/{name[:300]}", fault)
    return allowed


async def read_topics(term: Term, topics: Sequence[str]) -> list[TopicPartition]:
    """Take the topics' ids and their partitions' assignments in; return the partitions that are
    new.

    Present assignments stay: only reassignments move replicas. So does a known id where the znode
    has none. A topic with the id of another is malformed, since brokers identify a log by it. The
    known topic keeps the id, else the topic that was certainly created with it.
    """
    read = await term.store.each(topics, lambda topic: _read_topic(term, topic))
    found = [each for each in read if each is not None]
    owners = await _owners_of_shared_ids(term, found)
    added: list[TopicPartition] = []
    for each in found:
        owner = term.context.topic_with_id(each.topic_id) or owners.get(each.topic_id, each.topic)
        if owner == each.topic:
            added.extend(_take_in(term.context, each))
        else:
            whose = f"topic {owner[:300]} has" if owner else "several topics that were led have"
            _leave_out(term, each.topic, f"{whose} the id {each.topic_id}")
    return added


async def _owners_of_shared_ids(term: Term, found: Sequence[_FoundTopic]) -> Mapping[TopicId, str]:
    """Return the owner of each id that several topics have, "" where it is unknown.

    A topic with partition states had leaders, and may have records: it goes before topics without.
    Among several with states it is the one whose znode was never written again, if there is just
    one: the others may have copied its id. Otherwise it is unknown: with a wrong owner, one topic's
    log would be used for another, while topics that are left out only wait for an operator. Without
    any states no record can be lost, and the oldest topic has the id.
    """
    by_id: dict[TopicId, list[_FoundTopic]] = {}
    for each in found:
        by_id.setdefault(each.topic_id, []).append(each)
    owners: dict[TopicId, str] = {}
    for topic_id, sharing in by_id.items():
        if topic_id != NO_TOPIC_ID and len(sharing) > 1:
            led = [each for each in sharing if await has_states(term, each.topic)]
            owners[topic_id] = _owner_of(led, sharing)
    return owners


def _owner_of(led: Sequence[_FoundTopic], sharing: Sequence[_FoundTopic]) -> str:
    if not led:
        return min(sharing, key=lambda each: each.stat.czxid).topic
    as_created = [each for each in led if not each.stat.node_version]
    for owners in (led, as_created):
        if len(owners) == 1:
            return owners[0].topic
    return ""


async def has_states(term: Term, topic: str) -> bool:
    """Return whether the topic's partitions may have states: it has had leaders."""
    return await term.store.get(znodes.partitions_path(topic)) is not None


@dataclass(frozen=True, slots=True)
class _FoundTopic:
    topic: str
    topic_id: TopicId
    stat: Stat
    content: TopicContent


async def _read_topic(term: Term, topic: str) -> _FoundTopic | None:
    path = znodes.topic_path(topic)
    read = await term.store.get(path, watch=True)
    if read is None:
        return None
    try:
        content = _decode_topic(read[0], topic, path)
    except MalformedZnode as fault:
        _leave_out(term, topic, fault)
        return None
    topic_id = content.topic_id if term.toggles.topic_id else NO_TOPIC_ID
    return _FoundTopic(topic, topic_id, read[1], content)


def _leave_out(term: Term, topic: str, fault: object) -> None:
    report_malformed(term, znodes.topic_path(topic), fault)
    term.context.unreadable_topics.add(topic)


def _take_in(context: ControllerContext, found: _FoundTopic) -> list[TopicPartition]:
    context.unreadable_topics.discard(found.topic)
    context.set_topic_id(found.topic, found.topic_id or context.topic_id(found.topic))
    content = found.content
    if found.topic_id == context.topic_id(found.topic):  # else its lost id is to be written back
        context.take_in(found.topic, found.stat)
    added = [partition for partition in content.assignment if partition not in context.assignments]
    for partition in added:
        context.assign(partition, content.assignment[partition])
    context.reassignments.update(
        (partition, content.reassignments[partition])
        for partition in added
        if partition in content.reassignments
    )
    return added


def _decode_topic(data: bytes, topic: str, path: str) -> TopicContent:
    content = decode_topic(data, topic)
    for partition, replicas in content.assignment.items():
        if not replicas or len(set(replicas)) != len(replicas):
            raise MalformedZnode(f"{path}: partition {partition.partition} has replicas {replicas}")
    return content


async def read_leadership(term: Term, partition: TopicPartition) -> VersionedLeadership | None:
    """Return the partition's state znode; None when there is none or it is malformed.

    Raises:
        TermOver: a newer controller wrote it.
    """
    path = znodes.partition_state_path(partition)
    context = term.context
    read = await term.store.get(path)
    if read is None:
        context.unreadable_partitions.discard(partition)
        return None
    try:
        found = _decode_leadership(term, partition, *read)
    except MalformedZnode:
        read = await term.store.get(path, watch=True)
        if read is None:
            context.unreadable_partitions.discard(partition)
            return None
        try:
            found = _decode_leadership(term, partition, *read)
        except MalformedZnode as fault:
            report_malformed(term, path, fault)
            context.unreadable_partitions.add(partition)
            return None
    if found.leadership.controller_epoch > term.epoch.controller_epoch:
        if await _is_deposed(term):
            raise TermOver(f"a newer controller wrote {path}")
        # No controller of that epoch was ever elected: resigning would make every successor resign
        # too.
        report_malformed(term, path, f"controller_epoch {found.leadership.controller_epoch}")
        context.unreadable_partitions.add(partition)
        await term.store.get(path, watch=True)
        return None
    context.unreadable_partitions.discard(partition)
    return found


async def _is_deposed(term: Term) -> bool:
    """Return whether /controller_epoch is above this term's.

    Without a number it is not: no controller can have been elected with it.
    """
    read = await term.store.get(znodes.CONTROLLER_EPOCH)
    if read is None:
        return False
    try:
        return znodes.decode_controller_epoch(read[0]) > term.epoch.controller_epoch
    except MalformedZnode as fault:
        report_malformed(term, znodes.CONTROLLER_EPOCH, fault)
        return False


def _decode_leadership(
    term: Term, partition: TopicPartition, data: bytes, stat: Stat
) -> VersionedLeadership:
    path = znodes.partition_state_path(partition)
    leadership = znodes.decode_partition_state(data, path)
    assigned = term.context.assignments.get(partition, leadership.isr)
    # Between two writes of a reassignment the ISR may have members that are no longer assigned.
    if leadership.isr and not set(leadership.isr) & set(assigned):
        raise MalformedZnode(f"{path}: nobody of the ISR {leadership.isr} is among {assigned}")
    return VersionedLeadership(leadership, PartitionEpoch(stat.node_version))
