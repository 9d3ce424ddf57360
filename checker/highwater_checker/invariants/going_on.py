"""I9 and nonmonotonic-poll: a consumer goes on where it was, while leaders' logs have that place.

Source: docs/reference/invariants.md, I9 and nonmonotonic-poll; Jepsen's Kafka workload.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from highwater_checker.finding import CheckResult, Finding
from highwater_checker.history import ASSIGNED, POLL, RESET, HistoryEvent, OperationType
from highwater_checker.leaders_logs import LeadersLogs
from highwater_checker.wording import Wording
from highwater_core.errors import ErrorCode
from highwater_core.ids import TopicPartition

CHECK = "consumers go on where they were (I9)"

ANSWERED_NS = 1_000_000_000
"""So long an answer with records may be under way."""
HANDED_OVER_NS = 10_000_000_000
"""So long a stock client may keep records before it hands them over."""


@dataclass(frozen=True, slots=True)
class _Departure:
    """A consumer's leaving of the offset at which it was to go on.

    since_ns: when it had read the record below. event: the refusal, the reset, or the read below.
    """

    event: HistoryEvent
    offset: int
    since_ns: int

    def finding(self) -> Finding:
        """Return the finding where no leader's log gave cause for it."""
        event = self.event
        invariant, what = "I9", Wording.REFUSED_WITHOUT_CAUSE.filled(process=event.process)
        if self.is_read:
            invariant = "nonmonotonic-poll"
            what = Wording.READ_BELOW.filled(
                value=event.value, read_offset=event.offset, process=event.process
            )
        place = event.topic, event.partition, self.offset
        return Finding(invariant, what, *place, operation=event.operation)

    @property
    def is_read(self) -> bool:
        return self.event.function == POLL and self.event.type is OperationType.OK


def check_going_on(
    histories: Iterable[Sequence[HistoryEvent]], logs: Callable[[], LeadersLogs]
) -> CheckResult:
    """Find consumers that were refused their offset, or went back, without cause.

    A cause is a leader whose log may have begun above the offset, or ended below it. Clients of
    stock libraries report no refusals: the same causes excuse them where they go back. What a
    group's member reads again is I22's.

    histories: of one process each, whole, in the order of its lines.
    logs: the leaders' logs by the traces; called where a consumer has left its place.
    """
    examined = 0
    departures: list[_Departure] = []
    for history in histories:
        examined += sum(_is_read(event) for event in history)
        departures += _departures(history)
    leaders = logs() if departures else None
    findings = tuple(
        each.finding()
        for each in departures
        if leaders is not None and not _has_cause(each, leaders)
    )
    return CheckResult(CHECK, examined, findings)


def _is_read(event: HistoryEvent) -> bool:
    return event.function == POLL and event.type is OperationType.OK


def _is_refusal(event: HistoryEvent) -> bool:
    return event.function == POLL and event.error == ErrorCode.OFFSET_OUT_OF_RANGE.name


def _departures(history: Iterable[HistoryEvent]) -> Iterator[_Departure]:
    known: dict[tuple[str, int], tuple[int, int]] = {}  # offset to go on at, and since when
    refused: dict[tuple[str, int], None] = {}
    assignment: int | None = None
    for event in history:
        place = event.topic, event.partition
        next_offset, since_ns = known.get(place, (-1, 0))
        if event.function == ASSIGNED:
            if event.operation_id != assignment:
                assignment = event.operation_id
                known.clear()
            known[place] = event.offset, event.time_ns
        elif _is_read(event):
            if event.offset < next_offset and assignment is None:
                yield _Departure(event, next_offset, since_ns)
            known[place] = event.offset + 1, event.time_ns
        elif event.function == RESET:
            if place not in refused and next_offset >= 0:
                yield _Departure(event, next_offset, since_ns)
            refused.pop(place, None)
            known[place] = event.offset, event.time_ns
        elif _is_refusal(event) and event.offset >= max(next_offset, 0):
            yield _Departure(event, event.offset, since_ns)
            refused[place] = None


def _has_cause(departure: _Departure, leaders: LeadersLogs) -> bool:
    event = departure.event
    kept_ns = HANDED_OVER_NS if departure.is_read else ANSWERED_NS
    at = TopicPartition(event.topic, event.partition)
    return leaders.may_lack(at, departure.offset, departure.since_ns, event.time_ns, kept_ns)
