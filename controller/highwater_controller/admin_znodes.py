"""Jobs that somebody writes into ZooKeeper: /admin/reassign_partitions and
/admin/preferred_replica_election.

What cannot be done is told and left out; the rest is done. A reassignment stays in its znode until
it has completed, as before KIP-455; an election's znode goes once all elections were held.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeVar

from highwater_controller.state_reader import report_malformed
from highwater_controller.store import TermOver
from highwater_controller.term import Term
from highwater_core import znodes
from highwater_core.ids import NodeId, TopicPartition
from highwater_core.znodes import MalformedZnode

WRITE_ATTEMPTS = 100

Wanted = dict[TopicPartition, tuple[NodeId, ...]]
Jobs = TypeVar("Jobs", znodes.ReassignmentsZnode, znodes.PartitionsZnode)


async def read_reassignments(term: Term) -> Wanted:
    """Return the targets in /admin/reassign_partitions; a watch tells of its next change."""
    found = await _read_jobs(term, znodes.REASSIGN_PARTITIONS, znodes.ReassignmentsZnode)
    return {
        TopicPartition(each.topic, each.partition): tuple(NodeId(r) for r in each.replicas)
        for each in (() if found is None else found.partitions)
    }


async def forget_reassignments(term: Term, done: Collection[TopicPartition]) -> None:
    """Take partitions out of /admin/reassign_partitions, which goes when it is empty.

    Raises:
        TermOver: others wrote it again and again.
    """
    path = znodes.REASSIGN_PARTITIONS
    gone = frozenset(done)
    if not gone:
        return
    for _ in range(WRITE_ATTEMPTS):
        read = await term.store.get(path)
        if read is None:
            return
        data, stat = read
        try:
            listed = znodes.decode(znodes.ReassignmentsZnode, data, path).partitions
        except MalformedZnode:
            return  # read_reassignments tells of it
        left = [each for each in listed if TopicPartition(each.topic, each.partition) not in gone]
        if len(left) == len(listed) and left:
            return
        content = znodes.encode(znodes.ReassignmentsZnode(left)) if left else None
        if await term.store.replace(path, content, stat.node_version):
            return
    raise TermOver(f"{path}: others wrote it {WRITE_ATTEMPTS} times between a read and a write")


async def read_preferred_elections(term: Term) -> Sequence[TopicPartition]:
    """Return the partitions that /admin/preferred_replica_election names, watched as the other."""
    found = await _read_jobs(term, znodes.PREFERRED_REPLICA_ELECTION, znodes.PartitionsZnode)
    listed = () if found is None else found.partitions
    return [TopicPartition(each.topic, each.partition) for each in listed]


async def forget_preferred_elections(term: Term) -> None:
    await term.store.delete(znodes.PREFERRED_REPLICA_ELECTION)


async def _read_jobs(term: Term, path: str, kind: type[Jobs]) -> Jobs | None:
    """Return the admin znode's content, None where there is none; a watch tells of its next change.

    One that holds something else than its JSON is told. It is removed, and so is one that names no
    partition: nobody could go on with it.
    """
    await term.store.exists(path, watch=True)
    read = await term.store.get(path)
    if read is None:
        return None
    try:
        found = znodes.decode(kind, read[0], path)
    except MalformedZnode as fault:
        report_malformed(term, path, fault)
        found = None
    if found is None or not found.partitions:
        await term.store.delete(path)
    return found
