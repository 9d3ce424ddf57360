"""The single operations of clients that a run's page shows when a reader zooms in. No I/O.

They are those nearest to the run's moments: a run may have a million.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import nsmallest

from highwater_checker.history import BEGUN_FIRST, HistoryEvent, OperationType
from highwater_checker.run_folder.histories import Histories

MOST_OPERATIONS = 4_000
MOST_ROWS = 12
"""Of a process: operations at the same time are below each other."""
_LONGEST_TEXT = 200
_S = 1e9
UNKNOWN = "unknown"
_OUTCOMES = {OperationType.OK: "acknowledged", OperationType.FAIL: "failed"}


@dataclass(frozen=True, slots=True)
class Operation:
    """A send, a commit, or a question for a committed offset.

    Units: seconds from the run's start. end_s: of one without an outcome, the run's end.
    outcome: acknowledged, failed or unknown. row: in its process's lane, from 0 on; operations of
    one row do not overlap, but those of the last may.
    """

    process: str
    begin_s: float
    end_s: float
    outcome: str
    text: str
    row: int


@dataclass(frozen=True, slots=True)
class Operations:
    """The operations that are shown, by process and time, and how many the run has."""

    shown: tuple[Operation, ...]
    total: int

    @property
    def rows_by_process(self) -> dict[str, int]:
        """Return how many rows each process's lane has, by process."""
        found: dict[str, int] = {}
        for each in self.shown:
            found[each.process] = max(found.get(each.process, 0), each.row + 1)
        return found


NONE = Operations((), 0)
Pair = tuple[HistoryEvent, HistoryEvent | None]
"""An operation's invoke and its outcome, None where the history has none."""


def operations_of(
    histories: Histories,
    moments_ns: Sequence[int],
    end_ns: int,
    most: int = MOST_OPERATIONS,
) -> Operations:
    """Return the operations nearest to the moments, without a moment those that took longest.

    Units: ns from the run's start. end_ns: of the run.
    """
    moments = sorted(moments_ns)
    pairs = [pair for process in sorted(histories) for pair in _pairs(histories[process])]

    def rank(pair: Pair) -> int:
        begin_ns, end = pair[0].time_ns, _end_ns(pair, end_ns)
        return _distance_ns(begin_ns, end, moments) if moments else begin_ns - end

    kept = nsmallest(most, pairs, key=rank)
    kept.sort(key=lambda pair: (pair[0].process, pair[0].time_ns, pair[0].operation_id))
    return Operations(tuple(_in_rows(kept, end_ns)), len(pairs))


def _pairs(events: Sequence[HistoryEvent]) -> Iterator[Pair]:
    begun: dict[int, HistoryEvent] = {}
    for event in events:
        if event.function not in BEGUN_FIRST:
            continue
        if event.type is OperationType.INVOKE:
            begun[event.operation_id] = event
        elif (invoked := begun.pop(event.operation_id, None)) is not None:
            yield invoked, event
    for invoked in begun.values():
        yield invoked, None


def _end_ns(pair: Pair, run_end_ns: int) -> int:
    invoked, outcome = pair
    return max(invoked.time_ns, run_end_ns if outcome is None else outcome.time_ns)


def _distance_ns(begin_ns: int, end_ns: int, moments: Sequence[int]) -> int:
    """Return how far the operation is from the nearest moment: 0 where one is within it."""
    after = bisect_left(moments, begin_ns)
    to_next = max(0, moments[after] - end_ns) if after < len(moments) else None
    to_last = begin_ns - moments[after - 1] if after else None
    return min(each for each in (to_next, to_last) if each is not None)


def _in_rows(pairs: Sequence[Pair], run_end_ns: int) -> Iterator[Operation]:
    """Yield the operations, each in the first row of its process that is free by then."""
    free_at: dict[str, list[int]] = {}
    for pair in pairs:
        invoked, outcome = pair
        end_ns = _end_ns(pair, run_end_ns)
        rows = free_at.setdefault(invoked.process, [])
        row = next((at for at, free in enumerate(rows) if free <= invoked.time_ns), len(rows))
        if row == len(rows) < MOST_ROWS:
            rows.append(end_ns)
        row = min(row, MOST_ROWS - 1)
        rows[row] = max(rows[row], end_ns)
        yield Operation(
            invoked.process,
            invoked.time_ns / _S,
            end_ns / _S,
            UNKNOWN if outcome is None else _OUTCOMES.get(outcome.type, UNKNOWN),
            _say(invoked, outcome)[:_LONGEST_TEXT],
            row,
        )


def _say(invoked: HistoryEvent, outcome: HistoryEvent | None) -> str:
    """Return the operation and its outcome in one sentence."""
    at = f" of {invoked.topic}-{invoked.partition}" if invoked.topic else ""
    if outcome is None:
        return f"{invoked.operation}{at}: no outcome was recorded"
    if outcome.type is OperationType.OK:
        where = f" at offset {outcome.offset}" if outcome.offset >= 0 else ""
        tries = f", sent {outcome.tries} times" if outcome.tries > 1 else ""
        return f"{invoked.operation}{at}: acknowledged{where}{tries}"
    said = _OUTCOMES.get(outcome.type, UNKNOWN)
    return f"{invoked.operation}{at}: {said}{f', {outcome.error}' if outcome.error else ''}"
