"""The client history: the clients' requests and their answers.

One operation is an `invoke` and at most one completion of the same `operation_id`: `ok` happened,
`fail` certainly did not, `info` may have. An invoke without a completion counts as `info`.
On disk: one JSON object a line, in the order in which the one recorder wrote them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated

import msgspec

from highwater_checker.lives_of_records import ONLY, LifeOfRecord, LivesOfRecords
from highwater_core.ids import TopicPartition
from highwater_core.json_lines import decode_lines
from highwater_core.numbers import Int64

SEND = "send"
POLL = "poll"
"""One record that was read, or a poll that met an error."""
LATEST = "latest"
"""The partition's latest offset in a ListOffsets answer."""
HIGH_WATERMARK = "high_watermark"
"""The partition's high watermark in a fetch's answer."""
RESET = "reset"
"""The consumer went to another offset, by the policy that `value` names."""
COMMIT = "commit"
"""A group's offset, which is committed; `value` names the group."""
FETCH_COMMITTED = "fetch_committed"
"""A group's offset as its coordinator answers it: -1 where it has none."""
ASSIGNED = "assigned"
"""A partition that a member of a group was assigned in a generation; `value` names the group, `key`
a static member's instance, and `offset` tells where to go on. Without a topic: it was assigned
none."""
OF_MEMBERS = (ASSIGNED, COMMIT, FETCH_COMMITTED)
"""Recorded by members of groups alone, and by who commits for a group."""
BEGUN_FIRST = (SEND, COMMIT, FETCH_COMMITTED)
"""Their outcomes follow an invoke of the same operation; what consumers record has none."""


_ANY = "|".join((SEND, POLL, LATEST, HIGH_WATERMARK, RESET, COMMIT, FETCH_COMMITTED, ASSIGNED))
Function = Annotated[str, msgspec.Meta(pattern=rf"\A({_ANY})\Z")]
"""One of these."""


class OperationType(StrEnum):
    INVOKE = "invoke"
    OK = "ok"
    FAIL = "fail"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class HistoryEvent:
    """One line of a history.

    Units: time_ns is the recorder's monotonic clock, from the run's start.
    offset: of the acknowledged or read record, -1 when unknown.
    tries: how often the record was sent; of an invoke, how often it may be sent at most; 0 when the
    client does not report it.
    high_watermark: in the answer from which the record was read, -1 when the client does not report
    it.
    key: the record's, "" when it has none.
    generation: of the group in which a partition was assigned, -1 of all else.
    """

    time_ns: Int64
    type: OperationType
    operation_id: Int64
    process: str
    function: Function
    topic: str
    partition: Int64
    value: str
    offset: Int64 = -1
    error: str = ""
    tries: Int64 = 0
    high_watermark: Int64 = -1
    key: str = ""
    generation: Int64 = -1

    @property
    def operation(self) -> str:
        """The event's operation in words."""
        return f"{self.process}'s {self.function} {self.operation_id}"


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A send that was acknowledged to its client, with process and operation_id.

    life: the life of its topic in which it was acknowledged.
    """

    topic: str
    partition: int
    offset: int
    value: str
    invoked_ns: int
    acknowledged_ns: int
    process: str = ""
    operation_id: int = -1
    tries: int = 0
    life: LifeOfRecord = ONLY
    key: str = ""

    @property
    def operation(self) -> str:
        """The operation in words; "" where it is not known."""
        return f"{self.process}'s send {self.operation_id}" if self.process else ""


@dataclass(frozen=True, slots=True)
class Sends:
    """The sends of a history, by how they ended; acknowledged in order of acknowledgement."""

    acknowledged: tuple[Acknowledged, ...]
    failed: tuple[HistoryEvent, ...]
    unknown: tuple[HistoryEvent, ...]

    def with_lives(self, lives: LivesOfRecords) -> Sends:
        """Return the sends, each acknowledged one with its life in the topic."""
        return replace(
            self, acknowledged=tuple(_with_life(ack, lives) for ack in self.acknowledged)
        )


def _with_life(ack: Acknowledged, lives: LivesOfRecords) -> Acknowledged:
    at = TopicPartition(ack.topic, ack.partition)
    return replace(ack, life=lives.of(at, ack.offset, ack.invoked_ns, ack.acknowledged_ns))


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(HistoryEvent)


def encode(event: HistoryEvent) -> bytes:
    return _ENCODER.encode(event)


def decode(lines: Iterable[bytes]) -> list[HistoryEvent]:
    """Return the events of complete lines; a torn last line of a killed recorder is left out.

    Raises:
        DamagedLines: a line before the last is malformed.
    """
    return decode_lines(_DECODER.decode, lines)


def sends_of(events: Iterable[HistoryEvent], *, gets_offsets: bool = True) -> Sends:
    """Return every send with its outcome; one that never completed is unknown.

    Outcomes without a send of their own are left out, as are sends whose operation_id an operation
    before them had: see unmatched_of. One that was acknowledged without the offset that its
    producer should have got, as another record, or before it was sent is unknown: nobody can look
    for its record.

    gets_offsets: see OpenOperations.
    """
    open_sends: dict[int, HistoryEvent] = {}
    used: defaultdict[str, _UsedIds] = defaultdict(_UsedIds)
    acknowledged: list[Acknowledged] = []
    failed: list[HistoryEvent] = []
    unknown: list[HistoryEvent] = []
    for event in events:
        is_send = event.function == SEND
        if event.type is OperationType.INVOKE and event.function in BEGUN_FIRST:
            if used[event.process].add(event.operation_id) and is_send:
                open_sends[event.operation_id] = event
            continue
        if not is_send:
            continue
        invoked = open_sends.pop(event.operation_id, None)
        if invoked is None:
            continue
        if _lacks_its_offset(event, gets_offsets=gets_offsets) or _is_of_another(event, invoked):
            unknown.append(invoked)
        elif event.type is OperationType.OK:
            acknowledged.append(
                Acknowledged(
                    topic=event.topic,
                    partition=event.partition,
                    offset=event.offset,
                    value=event.value,
                    invoked_ns=invoked.time_ns,
                    acknowledged_ns=event.time_ns,
                    process=event.process,
                    operation_id=event.operation_id,
                    tries=event.tries,
                    key=event.key,
                )
            )
        elif event.type is OperationType.FAIL:
            failed.append(event)
        else:
            unknown.append(event)
    unknown.extend(open_sends.values())
    return Sends(tuple(acknowledged), tuple(failed), tuple(unknown))


class _UsedIds:
    """The ids of operations that have begun; ids in a row, as recorders give them, take no room."""

    def __init__(self) -> None:
        self._end = 0
        """All from 0 to here have been used."""
        self._others: set[int] = set()

    def add(self, operation_id: int) -> bool:
        """Return whether the id is new."""
        if 0 <= operation_id < self._end or operation_id in self._others:
            return False
        self._others.add(operation_id)
        while self._end in self._others:
            self._others.remove(self._end)
            self._end += 1
        return True


class OpenOperations:
    """Which sends, commits and fetches of committed offsets of one process have no outcome yet.

    gets_offsets: whether its acknowledgements of sends have offsets: those with acks=0 have none.
    """

    def __init__(self, *, gets_offsets: bool = True) -> None:
        self._open: dict[int, HistoryEvent] = {}
        self._used = _UsedIds()
        self._gets_offsets = gets_offsets

    def is_unmatched(self, event: HistoryEvent) -> bool:
        """Return whether the process's next event has no counterpart: an outcome that had not
        begun, a second outcome, an invoke whose operation_id another before it had, an
        acknowledgement without an offset, or the outcome of another record than was sent, or of a
        send at a later time."""
        if event.function not in BEGUN_FIRST:
            return False
        if _lacks_its_offset(event, gets_offsets=self._gets_offsets):
            self._open.pop(event.operation_id, None)
            return True
        if event.type is OperationType.INVOKE:
            is_new = self._used.add(event.operation_id)
            if is_new:  # as sends_of
                self._open[event.operation_id] = event
            return not is_new
        begun = self._open.pop(event.operation_id, None)
        return begun is None or _is_of_another(event, begun)


def _is_of_another(outcome: HistoryEvent, begun: HistoryEvent) -> bool:
    """Return whether a send's outcome names another record than was sent, or comes before it.

    A send whose partition the client's library chooses has partition -1, and so may a failure.
    """
    is_same = (outcome.topic, outcome.value) == (begun.topic, begun.value)
    is_placed = outcome.type is OperationType.OK or outcome.partition >= 0
    is_elsewhere = is_placed and begun.partition >= 0 and outcome.partition != begun.partition
    is_too_early = outcome.time_ns < begun.time_ns
    return outcome.function == SEND and (not is_same or is_elsewhere or is_too_early)


def _lacks_its_offset(event: HistoryEvent, *, gets_offsets: bool) -> bool:
    is_acknowledgement = event.function == SEND and event.type is OperationType.OK
    return gets_offsets and is_acknowledgement and event.offset < 0


def unmatched_of(
    events: Iterable[HistoryEvent], *, gets_offsets: bool = True
) -> list[HistoryEvent]:
    """Return a process's lines without a counterpart, in order.

    gets_offsets, and which lines these are: see OpenOperations.
    """
    open_operations = OpenOperations(gets_offsets=gets_offsets)
    return [event for event in events if open_operations.is_unmatched(event)]


# ---------------------------------------------------------------- clients and their incarnations


def process_name(client: str, incarnation: int) -> str:
    """Return the name of a client's incarnation, from 1: p0, p0.2, p0.3.

    Every value of a producer begins with it, so that no two incarnations write the same value.
    """
    return client if incarnation == 1 else f"{client}.{incarnation}"


def client_of(process: str) -> str:
    """Return the client of the process, which is one of its incarnations."""
    return process.partition(".")[0]


def nobody(process: str) -> bool:
    """Return False: of no process is it so."""
    return False


def incarnation_of(process: str) -> int:
    """Return the number of the process's incarnation."""
    number = process.partition(".")[2]
    return int(number) if number else 1
