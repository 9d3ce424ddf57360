"""Jobs in ZooKeeper's admin znodes: /admin/reassign_partitions and
/admin/preferred_replica_election.

An impossible job is traced and left out; the others are done. A reassignment stays in its znode
until it has completed, as before KIP-455; an election's znode is removed after all its elections.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from highwater_controller.conditional_writes import Conflict, until_written
from highwater_controller.context import NOTHING_LISTED, ListedReassignments
from highwater_controller.state_reader import report_malformed
from highwater_controller.term import Term
from highwater_core import znodes
from highwater_core.ids import NodeId, TopicPartition
from highwater_core.ports import Stat
from highwater_core.znodes import MalformedZnode

Jobs = TypeVar("Jobs", znodes.ReassignmentsZnode, znodes.PartitionsZnode)


async def read_reassignments(term: Term) -> Sequence[TopicPartition]:
    """Read the jobs in /admin/reassign_partitions; return its partitions, in ascending order.

    None are returned where this term knows the znode's version, as after a write of its own. A
    watch fires at the next change.
    """
    context = term.context
    stat = await term.store.exists(znodes.REASSIGN_PARTITIONS, watch=True)
    if stat is not None and context.listed_reassignments.is_as_in(stat):
        return ()
    found = None
    if stat is not None:
        found = await _read_jobs(term, znodes.REASSIGN_PARTITIONS, znodes.ReassignmentsZnode)
    context.listed_reassignments = NOTHING_LISTED if found is None else _listed(*found)
    context.ended_reassignments.clear()  # listed partitions are checked again
    return sorted(context.listed_reassignments.targets)


def _listed(znode: znodes.ReassignmentsZnode, stat: Stat) -> ListedReassignments:
    targets = {
        TopicPartition(each.topic, each.partition): tuple(NodeId(r) for r in each.replicas)
        for each in znode.partitions
    }
    return ListedReassignments(stat.czxid, stat.node_version, targets)


async def end_reassignments(term: Term, over: Iterable[TopicPartition]) -> None:
    """Remove partitions from /admin/reassign_partitions a little later, together with others.

    With the last of them the znode is removed at once. A controller that dies before leaves
    completed partitions there, which the next one removes.

    Raises:
        TermOver: others wrote it again and again.
    """
    context = term.context
    listed = context.listed_reassignments.targets
    context.ended_reassignments.update((at, None) for at in over if at in listed)
    if len(context.ended_reassignments) == len(listed):
        await forget_ended_reassignments(term)


async def forget_ended_reassignments(term: Term) -> None:
    """Remove completed and impossible jobs from /admin/reassign_partitions.

    Ordering: the znode read -> written without these jobs, or removed, on the version that was
    read.
    Source: Kafka's KafkaController.maybeRemoveFromZkReassignment.

    Raises:
        TermOver: others wrote it again and again.
    """
    await forget_reassignments(term, list(term.context.ended_reassignments))


async def forget_reassignments(term: Term, gone: Iterable[TopicPartition]) -> None:
    """Remove partitions from /admin/reassign_partitions, and the znode when it is empty.

    Raises:
        TermOver: others wrote it again and again.
    """
    path, context = znodes.REASSIGN_PARTITIONS, term.context
    named = frozenset(at for at in gone if at in context.listed_reassignments.targets)
    if not named:
        return

    async def attempt() -> Conflict | None:
        read = await term.store.get(path)
        if read is None:
            return None
        data, stat = read
        try:
            listed = znodes.decode(znodes.ReassignmentsZnode, data, path).partitions
        except MalformedZnode:
            return None  # read_reassignments traces it
        left = [each for each in listed if TopicPartition(each.topic, each.partition) not in named]
        if len(left) == len(listed) and left:
            return None
        content = znodes.encode(znodes.ReassignmentsZnode(left)) if left else None
        if not await term.store.replace(path, content, stat.node_version):
            return Conflict(data, stat.node_version)
        context.listed_reassignments = context.listed_reassignments.written_on(stat)
        return None

    await until_written(path, attempt)
    context.listed_reassignments = context.listed_reassignments.without(named)
    for at in named & context.ended_reassignments.keys():
        del context.ended_reassignments[at]


async def read_preferred_elections(term: Term) -> Sequence[TopicPartition]:
    """Return the partitions that /admin/preferred_replica_election names, each once.

    A watch fires at the next change.
    """
    await term.store.exists(znodes.PREFERRED_REPLICA_ELECTION, watch=True)
    found = await _read_jobs(term, znodes.PREFERRED_REPLICA_ELECTION, znodes.PartitionsZnode)
    listed = () if found is None else found[0].partitions
    return list(dict.fromkeys(TopicPartition(each.topic, each.partition) for each in listed))


async def forget_preferred_elections(term: Term) -> None:
    await term.store.delete(znodes.PREFERRED_REPLICA_ELECTION)


async def _read_jobs(term: Term, path: str, kind: type[Jobs]) -> tuple[Jobs, Stat] | None:
    """Return the admin znode's content, None where it names no partition.

    A malformed one is traced. It is removed, and so is one without partitions: there is no job in
    it.
    """
    read = await term.store.get(path)
    if read is None:
        return None
    data, stat = read
    try:
        found = znodes.decode(kind, data, path)
    except MalformedZnode as fault:
        report_malformed(term, path, fault)
    else:
        if found.partitions:
            return found, stat
    await term.store.delete(path)
    return None
