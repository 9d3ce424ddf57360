"""What is proven of a run while it goes on, from the lines that are written. No I/O.

A check is live only if nothing that is written later can refute what it finds: each alert is one of
the findings of the judge, who has all the evidence at the end, or one that only looks show. The
rules are the checker's own functions, called with the evidence that is kept; what is kept is
bounded, so that an alert may be missing that the verdict has.

- inconsistent-offsets: two clients report two records at one offset.
- realtime-send, nonmonotonic-send, I20: a record lies below one that was acknowledged, or sent,
  before it was sent.
- I6: the ISR that a leader shows.
- I7: two brokers show themselves as leaders in one leader epoch. The judge has the traces for it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import PurePosixPath
from typing import NamedTuple

import msgspec

from highwater_checker.finding import Finding
from highwater_checker.history import (
    BEGUN_FIRST,
    POLL,
    SEND,
    Acknowledged,
    HistoryEvent,
    OperationType,
    client_of,
)
from highwater_checker.invariants.isr import PartitionRecord, check_isr
from highwater_checker.invariants.order import check_order
from highwater_checker.looks import Look, leaders_in
from highwater_checker.run_folder import names
from highwater_checker.wording import Wording
from highwater_core.messages import ReplicaSnapshot

ALERTS_MAX = 20
"""Of a run; its verdict counts all findings."""
ALIKE_MAX = 3
"""Of those, of one invariant and partition: one loss shows at each of a hundred offsets."""
OFFSETS_KEPT = 40_000
"""Of all partitions of a run, the highest ones of each."""
SENDS_KEPT = 3_000
"""Acknowledged sends of all partitions of a run, the last ones of each."""
OPEN_KEPT = 5_000
"""Sends of one process without an outcome."""
EPOCHS_KEPT = 8
"""Of a partition, the highest ones."""
VALUE_CHARACTERS = 64
"""What is kept of a value: findings show less."""

Place = tuple[str, int]
"""Topic, partition."""


@dataclass(frozen=True, slots=True)
class Alert:
    """A finding in a run that goes on.

    time_ns: of the line that shows it, as in histories and looks.
    file: that line's, by its path in the run's folder.
    """

    finding: Finding
    time_ns: int
    file: str


@dataclass(frozen=True, slots=True)
class Known:
    """What the run's first files say of it.

    weak: the clients whose acknowledgements promise nothing.
    has_histories: whether histories can be judged before the end. A topic that is created again
      has its offsets anew, and a simulated run may excuse what its disks lost.
    """

    has_histories: bool = False
    weak: tuple[str, ...] = ()
    one_at_a_time: tuple[str, ...] = ()
    idempotent: tuple[str, ...] = ()


class _Open(NamedTuple):
    invoked_ns: int
    topic: str
    partition: int
    value: int


class _Acknowledged(NamedTuple):
    process: str
    operation_id: int
    offset: int
    invoked_ns: int
    acknowledged_ns: int
    tries: int
    value: str


@dataclass(slots=True)
class _Process:
    """newest: the highest id of an operation that has begun; open: its sends without an outcome."""

    newest: int = -1
    open: dict[int, _Open] = field(default_factory=dict)


@dataclass(slots=True)
class RunState:
    """The evidence of one run that later lines are compared with.

    told: by partition and offset, the digest of the value that a client reported first.
    leaders: by partition and topic's id, the first leader seen in each leader epoch.
    ids: of topics, by name; "" of one that had two.
    told_alerts: the keys of the alerts so far, by invariant and partition.
    """

    known: Known | None = None
    processes: dict[str, _Process] = field(default_factory=dict)
    acknowledged: dict[Place, list[_Acknowledged]] = field(default_factory=dict)
    told: dict[Place, dict[int, int]] = field(default_factory=dict)
    leaders: dict[tuple[str, int, str], dict[int, int]] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    told_alerts: dict[str, list[str]] = field(default_factory=dict)


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(RunState)
_EVENTS = msgspec.json.Decoder(HistoryEvent)
_LOOKS = msgspec.json.Decoder(Look)
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def encode_state(state: RunState) -> bytes:
    return _ENCODER.encode(state)


def decode_state(data: bytes) -> RunState:
    return _DECODER.decode(data)


def take(state: RunState, lines: Iterable[tuple[str, bytes]]) -> list[Alert]:
    """Return what the next lines prove, each once in a run, and change the state.

    lines: each with its file's path in the run's folder; of a file in its order. A line that cannot
    be read is left out: the judge tells of it.
    """
    found: list[Alert] = []
    sent: defaultdict[Place, list[_Acknowledged]] = defaultdict(list)
    for file, line in lines:
        try:
            if file == names.LOOKS:
                found += _of_look(state, _LOOKS.decode(line))
            elif state.known is not None and state.known.has_histories:
                found += _of_event(state, state.known, _EVENTS.decode(line), file, sent)
        except _UNREADABLE:
            continue
    if state.known is not None:
        for place, new in sent.items():
            found += _of_order(state, state.known, place, new)
    _forget(state)
    return [alert for alert in found if _is_new(state, alert.finding)]


def _is_new(state: RunState, finding: Finding) -> bool:
    """Return whether the finding was not alerted yet, and there is room for it; note it then."""
    place = f"{finding.invariant} {finding.topic}-{finding.partition}"
    alike = state.told_alerts.setdefault(place, [])
    has_room = len(alike) < ALIKE_MAX and sum(map(len, state.told_alerts.values())) < ALERTS_MAX
    if not has_room or key_of(finding) in alike:
        return False
    alike.append(key_of(finding))
    return True


def key_of(finding: Finding) -> str:
    """Return what tells a finding of the run from the others of its invariant and partition.

    Of an operation it is the operation: the words of one finding change with what is known.
    """
    return f"{finding.offset} {finding.operation}" if finding.operation else str(finding)


# ---------------------------------------------------------------- looks


def _of_look(state: RunState, look: Look) -> Iterator[Alert]:
    leading = sorted(leaders_in(look), key=lambda each: each[0])
    for _, replica in leading:
        topic = replica.topic_partition.topic
        if replica.topic_id and state.ids.setdefault(topic, replica.topic_id) != replica.topic_id:
            state.ids[topic] = ""
    findings = [*check_isr(_records(leading, look.time_ns)).findings]
    for node, replica in leading:
        findings += _second_leader(state, node, replica, look.time_ns)
    for finding in findings:
        yield Alert(finding, look.time_ns, names.LOOKS)


def _records(
    leading: Iterable[tuple[int, ReplicaSnapshot]], time_ns: int
) -> Iterator[PartitionRecord]:
    """Yield what each partition's leader says of it: that of the highest epoch, as the judge."""
    best: dict[Place, tuple[int, ReplicaSnapshot]] = {}
    for node, replica in leading:
        place = replica.topic_partition.topic, replica.topic_partition.partition
        if place not in best or best[place][1].leader_epoch < replica.leader_epoch:
            best[place] = node, replica
    for (topic, partition), (node, replica) in best.items():
        yield PartitionRecord(
            topic=topic,
            partition=partition,
            leader=node,
            leader_epoch=replica.leader_epoch,
            isr=tuple(sorted(replica.isr)),
            assigned_replicas=replica.assigned_replicas,
            seen_ns=time_ns,
        )


def _second_leader(
    state: RunState, node: int, replica: ReplicaSnapshot, time_ns: int
) -> Iterator[Finding]:
    """Yield a finding if another broker led in this epoch.

    A topic without an id may be another one of the same name: it is left to the end.
    """
    if not replica.topic_id:
        return
    at, epoch = replica.topic_partition, replica.leader_epoch
    of_life = state.leaders.setdefault((at.topic, at.partition, replica.topic_id), {})
    first = of_life.setdefault(epoch, node)
    if first != node:
        message = Wording.TWO_LEADERS.filled(first=first, leader=node, leader_epoch=epoch)
        yield Finding("I7", message, at.topic, at.partition, broker=node, looks=(time_ns,))


# ---------------------------------------------------------------- histories


def _of_event(
    state: RunState,
    known: Known,
    event: HistoryEvent,
    file: str,
    sent: defaultdict[Place, list[_Acknowledged]],
) -> Iterator[Alert]:
    """Yield a finding of one line; add an acknowledgement that counts to `sent`."""
    if event.process != PurePosixPath(file).stem:
        return
    if event.function == POLL and event.type is OperationType.OK:
        yield from _told(state, event, file)
    elif event.function in BEGUN_FIRST:
        acknowledged = _outcome(state.processes.setdefault(event.process, _Process()), event)
        if acknowledged is not None and client_of(event.process) not in known.weak:
            sent[event.topic, event.partition].append(acknowledged)
            yield from _told(state, event, file)


def _outcome(process: _Process, event: HistoryEvent) -> _Acknowledged | None:
    """Return the acknowledgement that the event is, of a send that has begun.

    Ids of operations rise: lines that came back, or lost theirs, are left out as by the judge.
    """
    if event.type is OperationType.INVOKE:
        if event.operation_id > process.newest:
            process.newest = event.operation_id
            if event.function == SEND:
                process.open[event.operation_id] = _Open(
                    event.time_ns, event.topic, event.partition, _digest(event.value)
                )
        return None
    begun = process.open.pop(event.operation_id, None) if event.function == SEND else None
    if begun is None or event.type is not OperationType.OK or event.offset < 0:
        return None
    is_elsewhere = begun.partition >= 0 and begun.partition != event.partition
    if begun.topic != event.topic or begun.value != _digest(event.value) or is_elsewhere:
        return None
    return _Acknowledged(
        event.process,
        event.operation_id,
        event.offset,
        begun.invoked_ns,
        event.time_ns,
        event.tries,
        event.value[:VALUE_CHARACTERS],
    )


def _told(state: RunState, event: HistoryEvent, file: str) -> Iterator[Alert]:
    """Yield a finding if a client reported another record at the event's offset before."""
    if state.ids.get(event.topic) == "":
        return
    digest = _digest(event.value)
    at = state.told.setdefault((event.topic, event.partition), {})
    if at.setdefault(event.offset, digest) != digest:
        message = f"{event.value[:VALUE_CHARACTERS]!r} here; another record was told here before"
        finding = Finding(
            "inconsistent-offsets",
            message,
            event.topic,
            event.partition,
            event.offset,
            operation=event.operation,
        )
        yield Alert(finding, event.time_ns, file)


def _of_order(
    state: RunState, known: Known, place: Place, new: list[_Acknowledged]
) -> Iterator[Alert]:
    """Yield what the new acknowledgements of a partition, and those that are kept, contradict."""
    topic, partition = place
    own = state.acknowledged.setdefault(place, [])
    own += new
    if state.ids.get(topic) == "":
        return
    result = check_order(
        [
            Acknowledged(
                topic,
                partition,
                each.offset,
                each.value,
                each.invoked_ns,
                each.acknowledged_ns,
                each.process,
                each.operation_id,
                each.tries,
            )
            for each in own
        ],
        lambda process: client_of(process) in known.one_at_a_time,
        lambda process: client_of(process) in known.idempotent,
    )
    times = {(each.process, each.operation_id): each.acknowledged_ns for each in own}
    by_words = {f"{process}'s send {number}": (process, number) for process, number in times}
    for finding in result.findings:
        process, number = by_words[finding.operation]
        yield Alert(finding, times[process, number], f"{names.HISTORY}/{process}.jsonl")


def _forget(state: RunState) -> None:
    """Drop the oldest evidence where there is too much: later lines are seldom compared with it."""
    if state.told:
        most = max(1, OFFSETS_KEPT // len(state.told))
        for place, told in state.told.items():
            if len(told) > most + most // 4:
                kept = sorted(told)[-most:]
                state.told[place] = {offset: told[offset] for offset in kept}
    if state.acknowledged:
        most = max(1, SENDS_KEPT // len(state.acknowledged))
        for acknowledged in state.acknowledged.values():
            del acknowledged[:-most]
    for process in state.processes.values():
        for number in [*process.open][:-OPEN_KEPT]:
            del process.open[number]
    for epochs in state.leaders.values():
        for epoch in sorted(epochs)[:-EPOCHS_KEPT]:
            del epochs[epoch]


def _digest(value: str) -> int:
    """Return seven bytes of a digest: of different ones the values differ."""
    return int.from_bytes(blake2b(value.encode("utf-8", "surrogatepass"), digest_size=7).digest())
