"""The requirements on a run's files without which its checks prove nothing. No I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from highwater_checker.run_folder.documents import Promises
from highwater_checker.run_folder.histories import incarnations_missing, incarnations_of
from highwater_checker.verdict import Requirement
from highwater_core.ids import TopicPartition


def enough_was_acknowledged(promises: Promises, acknowledged: int) -> Requirement:
    """Return whether enough records were acknowledged for the run to prove anything."""
    least = promises.least_acknowledged
    return Requirement(
        f"at least {least} records were acknowledged", acknowledged >= least, str(acknowledged)
    )


def replicas_were_read(
    promises: Promises, read: Collection[TopicPartition], missing: Sequence[str]
) -> Requirement:
    """Return whether every promised partition has a leader, and every required replica a log.

    read: the partitions with a leader.
    missing: required replicas without a log.
    """
    expected = [
        TopicPartition(topic.name, partition)
        for topic in promises.topics
        for partition in range(topic.partitions)
    ]
    not_read = list(missing)
    if not promises.only_in_sync:
        not_read += [str(at) for at in expected if at not in read]
    return Requirement(
        "every replica of every partition was read",
        not not_read,
        f"{len(read)} partitions were, of {len(expected)} promised; not read: {not_read}",
    )


def histories_are_whole(
    promises: Promises, processes: Collection[str], torn: Sequence[str]
) -> Iterator[Requirement]:
    """Yield whether every client, and every start of one, has a whole history.

    processes: those with a history.
    torn: histories that end in half a line, of processes that were not killed.
    """
    clients = [("producer", each.client) for each in promises.producers]
    clients += [("consumer", each.client) for each in promises.consumers]
    clients += [("member", member) for group in promises.groups for member in group.members]
    for kind, client in clients:
        has_history = bool(incarnations_of(client, processes))
        yield Requirement(f"{kind} {client} left a history", has_history, "there is none")
    missing = incarnations_missing(processes)
    yield Requirement(
        "every start of a client left a history", not missing, f"there is none of {missing}"
    )
    yield Requirement(
        "no history ends in half a line but those of clients that were killed",
        not torn,
        f"those of {list(torn)} do",
    )
