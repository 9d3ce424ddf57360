"""The requirements on a run's files without which its checks prove nothing. No I/O."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from highwater_checker.history import Acknowledged
from highwater_checker.looks import Look
from highwater_checker.run_folder.documents import Excused, Promises
from highwater_checker.run_folder.histories import incarnations_missing, incarnations_of
from highwater_checker.segments import ReplicaLog
from highwater_checker.verdict import Requirement
from highwater_core.events import TraceEvent
from highwater_core.ids import TopicPartition

COMMITTED = "every acknowledged record was committed at the end"
PLAYED_TO_ITS_END = "the plan was run to its end"
IN_SYNC = "every replica was in the ISR at the end"
COMPARED = "every record that was acknowledged or read has a log to be compared with"
OWN_STARTS = "every start of a node was the run's own"
_ENOUGH = re.compile("at least [0-9]+ records were acknowledged")
STARTS_ARE_TOLD_SINCE = 2
"""The format of folders whose intents have a line for every start of a node."""


def enough_was_acknowledged(promises: Promises, acknowledged: int) -> Requirement:
    """Return whether enough records were acknowledged for the run to prove anything."""
    least = promises.least_acknowledged
    return Requirement(
        f"at least {least} records were acknowledged", acknowledged >= least, str(acknowledged)
    )


def acknowledged_in(requirements: Iterable[Requirement]) -> int:
    """Return how many records were acknowledged, as the requirement above tells; 0 without it."""
    told = [each.evidence for each in requirements if _ENOUGH.fullmatch(each.name)]
    return int(told[0]) if told else 0


def is_of_progress(name: str) -> bool:
    """Return whether the requirement of that name rests on the cluster's progress alone."""
    return name in (PLAYED_TO_ITS_END, IN_SYNC, COMMITTED) or _ENOUGH.fullmatch(name) is not None


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
        f"{sum(at in read for at in expected)} of {len(expected)} promised partitions were read"
        + (f"; not read: {', '.join(not_read)}" if not_read else ""),
    )


def replicas_were_in_sync(lagging: Sequence[str]) -> Requirement:
    """Return whether every required replica was in the ISR at the end.

    One that was not may have lost its newest records, or not have fetched them: nobody can tell.

    lagging: those that were not.
    """
    detail = f"not in it: {', '.join(lagging)}" if lagging else ""
    return Requirement(IN_SYNC, not lagging, detail)


def nodes_answered(promises: Promises, final_look: Look, node_count: int) -> Iterator[Requirement]:
    """Yield whether every node answered at the end; where nodes may stay down, was asked.

    A node that somebody stopped or removed while the run went on is silent then. A final look
    without a node lacks the partitions that it leads.

    node_count: of the run's brokers and controllers, 0 where it is not known.
    """
    if promises.only_in_sync:
        not_asked = max(0, node_count - len(final_look.nodes))
        detail = f"{not_asked} of {node_count} were not" if not_asked else ""
        yield Requirement("every node was asked at the end", not not_asked, detail)
        return
    silent = [node for node, each in sorted(final_look.nodes.items()) if each is None]
    missing = max(0, node_count - len(final_look.nodes))
    told = [f"nodes {silent} did not"] if silent else []
    told += [f"{missing} of {node_count} were not asked"] if missing else []
    detail = ", and ".join(told)
    yield Requirement("every node answered at the end", not silent and not missing, detail)


def records_have_logs(without: Collection[TopicPartition]) -> Requirement:
    """Return whether each partition of which a record was acknowledged or read has a log.

    without: those that have none.
    """
    detail = ", ".join(map(str, sorted(without)))
    return Requirement(COMPARED, not without, f"{detail}: no replica was read" if without else "")


def acknowledged_is_committed(
    promises: Promises,
    acknowledged: Iterable[Acknowledged],
    logs: Mapping[TopicPartition, Sequence[ReplicaLog]],
    excused: Iterable[Excused],
) -> Iterator[Requirement]:
    """Yield whether the final high watermarks lie above all acknowledged records.

    Replicas are compared below their high watermarks alone: a low one would hide a difference.
    Where nodes may stay down it is enough that the highest, the leader's, lies above. Partitions
    that lost records lawfully are left out.

    acknowledged: by all in sync, of topics that were not deleted.
    """
    ends: dict[TopicPartition, int] = {}
    for ack in acknowledged:
        at = TopicPartition(ack.topic, ack.partition)
        ends[at] = max(ends.get(at, 0), ack.offset)
    lost = {(each.topic, each.partition) for each in excused}
    choose = max if promises.only_in_sync else min
    low = []
    for at, offset in sorted(ends.items()):
        own = [log.high_watermark for log in logs.get(at, ())]
        if own and at not in lost and offset >= choose(own):
            low.append(f"{at}: acknowledged up to {offset}, high watermark {choose(own)}")
    yield Requirement(COMMITTED, not low, "; ".join(low))


def starts_are_the_runs_own(
    promises: Promises,
    traces: Iterable[TraceEvent],
    own: Mapping[int, int],
    before: Mapping[int, int],
) -> Iterator[Requirement]:
    """Yield whether the run itself made every start of a node after the node's first one.

    Somebody else may have restarted a node in the middle of the run: then the plan's faults are not
    all that happened, and the checks prove nothing of the plan. Whatever kind of fault ends a node,
    the run starts it again, and says so before. A node counts its starts on its disk, so that
    starts without a trace count too.

    own: how often the run started each node again, by node.
    before: the last start of each node that lived before the run.
    """
    if promises.format_version < STARTS_ARE_TOLD_SINCE:
        return
    counted = {node: (start, start) for node, start in before.items()}
    for event in traces:
        if event.incarnation < before.get(event.node, 0):
            continue
        first, last = counted.get(event.node, (event.incarnation, event.incarnation))
        counted[event.node] = min(first, event.incarnation), max(last, event.incarnation)
    strange = [
        f"node {node} was started again {last - first} times, by the run {own.get(node, 0)} times"
        for node, (first, last) in sorted(counted.items())
        if last - first > own.get(node, 0)
    ]
    yield Requirement(OWN_STARTS, not strange, "; ".join(strange))


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
        told = "" if has_history else "there is none"
        yield Requirement(f"{kind} {client} left a history", has_history, told)
    missing = incarnations_missing(processes)
    yield Requirement(
        "every start of a client left a history",
        not missing,
        f"there is none of {missing}" if missing else "",
    )
    yield Requirement(
        "no history ends in half a line but those of clients that were killed",
        not torn,
        f"those of {list(torn)} do" if torn else "",
    )
