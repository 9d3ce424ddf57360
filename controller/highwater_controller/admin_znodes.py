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
from highwater_core.ports import CheckOp, SetOp, Stat
from highwater_core.request_sizes import MAX_REQUEST_BYTES, size_of_multi
from highwater_core.znodes import MalformedZnode

Job = TypeVar("Job", znodes.ReassignedPartition, znodes.PartitionName)


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
        found = await _read_jobs(term, znodes.REASSIGN_PARTITIONS, znodes.ReassignedPartition)
    context.listed_reassignments = NOTHING_LISTED if found is None else _listed(*found)
    context.ended_reassignments.clear()  # listed partitions are checked again
    return sorted(context.listed_reassignments.targets)


def _listed(jobs: Iterable[znodes.ReassignedPartition], stat: Stat) -> ListedReassignments:
    targets = {
        TopicPartition(each.topic, each.partition): tuple(NodeId(r) for r in each.replicas)
        for each in jobs
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
            listed, malformed = znodes.decode_entries(znodes.ReassignedPartition, data, path)
        except MalformedZnode:
            return None  # read_reassignments traces it
        left = [each for each in listed if TopicPartition(each.topic, each.partition) not in named]
        if len(left) == len(listed) and not malformed and left:
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


async def read_preferred_elections(term: Term) -> tuple[Sequence[TopicPartition], int]:
    """Return the partitions that /admin/preferred_replica_election names, each once, and its
    version.

    A watch fires at the next change.
    """
    await term.store.exists(znodes.PREFERRED_REPLICA_ELECTION, watch=True)
    found = await _read_jobs(term, znodes.PREFERRED_REPLICA_ELECTION, znodes.PartitionName)
    if found is None:
        return (), -1
    listed = (TopicPartition(each.topic, each.partition) for each in found[0])
    return list(dict.fromkeys(listed)), found[1].node_version


async def forget_preferred_elections(term: Term, node_version: int) -> None:
    """Remove the znode, unless others have written it since that version."""
    await term.store.replace(znodes.PREFERRED_REPLICA_ELECTION, None, node_version)


async def _read_jobs(term: Term, path: str, kind: type[Job]) -> tuple[list[Job], Stat] | None:
    """Return the admin znode's jobs, None where it has none.

    Malformed jobs are left out and traced, in one event. A znode without jobs is removed, and so is
    a malformed one. One that others have written since is left to the event of its watch.
    """
    read = await term.store.get(path)
    if read is None:
        return None
    data, stat = read
    try:
        if path == znodes.REASSIGN_PARTITIONS:
            _check_size(data, path)
        jobs, malformed = znodes.decode_entries(kind, data, path)
    except MalformedZnode as fault:
        report_malformed(term, path, fault)
    else:
        if malformed:
            report_malformed(term, path, malformed)
        if jobs:
            return jobs, stat
    await term.store.replace(path, None, stat.node_version)
    return None


def _check_size(data: bytes, path: str) -> None:
    """Check that the znode could be written without one of its jobs.

    Others may write more than a node does. No term could ever remove a job from such a znode.

    Raises:
        MalformedZnode: it is too large.
    """
    size_bytes = size_of_multi((CheckOp(znodes.CONTROLLER_EPOCH, 0), SetOp(path, data, 0)))
    if size_bytes > MAX_REQUEST_BYTES:
        raise MalformedZnode(
            f"{path}: a write takes {size_bytes} bytes, at most {MAX_REQUEST_BYTES}"
        )
