"""A run's story: the lines of its trace that change a leader, an ISR or a log. Pure.

A simulated run's story begins with the faults and ends with the violation, or where all is healed.
A finished run's story, from the files of its folder, is that of one finding.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from highwater_checker.finding import Traced
from highwater_checker.history import POLL, SEND
from highwater_checker.stories.display import Piece, Role, display_line, pieces
from highwater_checker.stories.entries import (
    FAULTS_BEGIN,
    HEALED,
    ORACLE,
    PLAN,
    STARTED,
    Entry,
    Note,
)
from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import TopicPartition
from highwater_core.internal_topics import OFFSETS_TOPIC

_UNTOLD = frozenset(
    {
        EventKind.CHECKPOINT_WRITTEN,
        EventKind.COMMAND_ANSWERED,
        EventKind.COMMAND_SENT,
        EventKind.HIGH_WATERMARK_ADVANCED,
        EventKind.LEADERSHIP_DECIDED,
        EventKind.LOG_APPENDED,
        EventKind.NODE_STARTED,
        EventKind.PARTITION_STATE_CHANGED,
        EventKind.REPLICA_STATE_CHANGED,
        EventKind.REQUEST_HANDLED,
        EventKind.SESSION_OPENED,
    }
)
"""Events of every step, or such as another line tells as well."""
_BEFORE = frozenset({EventKind.BECAME_LEADER, EventKind.ISR_CHANGED, EventKind.ISR_WRITTEN})
"""Events that say who led, and with which ISR, as the faults began."""
_LEAST = frozenset(
    {
        EventKind.BAD_INPUT_MET,
        EventKind.FETCHER_STARTED,
        EventKind.FETCHER_STOPPED,
        EventKind.ISR_CHANGE_PROPOSED,
        EventKind.REQUEST_REFUSED,
    }
)
"""Events that a story leaves out where it would be too long."""
CLIENTS = "clients"
MOST_ENTRIES, LAST = 80, 12
"""The longest story has so many entries, and so many of them are the run's last."""
MOST_COLUMNS = 160


@dataclass(frozen=True, slots=True)
class Story:
    """Entries of a run, in order; sends that follow each other with one outcome are one entry.

    left_out: how many entries are missing before the last ones.
    """

    entries: tuple[Entry, ...]
    left_out: int = 0

    def lines(self) -> Iterator[str]:
        """Yield the entries as the simulator shows them, none longer than MOST_COLUMNS."""
        for number, entry in enumerate(self.entries):
            if self.left_out and number == len(self.entries) - LAST:
                yield f"{'':12}  ... {self.left_out} lines are left out"
            yield shorten(display_line(entry))

    def pieces(self) -> Iterator[tuple[Piece, ...]]:
        """Yield the pieces of each of the lines, whole, with their roles."""
        for number, entry in enumerate(self.entries):
            if self.left_out and number == len(self.entries) - LAST:
                yield ((f"{'':12}  ... {self.left_out} lines are left out", Role.DETAIL),)
            yield pieces(entry)


def shorten(line: str) -> str:
    return line if len(line) <= MOST_COLUMNS else f"{line[: MOST_COLUMNS - 4]} ..."


def story_of(entries: Sequence[Entry], topic: str = "", violation: str = "") -> Story:
    """Return the story of the topic up to the oracle's note of the violation.

    topic: "" for all topics but groups' offsets. violation: "" for a story up to the healing.
    """
    told = tuple(_joined(each for each in _part_of(entries, violation) if _is_told(each, topic)))
    return _cut(told)


def story_of_finding(
    entries: Sequence[Entry], at: TopicPartition | None, shown: Collection[Traced]
) -> Story:
    """Return the story of a finding: who led before the first fault, then all up to the last entry.

    entries: in order; the last is the finding. at: its partition, None for all of them.
    shown: the events that show it, which are told whatever their kind, and whenever they were; so
    are the operations of clients that the entries have by name.
    """

    def is_of_it(event: TraceEvent) -> bool:
        return at is None or (event.topic, event.partition) in {at, (at.topic, None), (None, None)}

    def is_told(entry: Entry) -> bool:
        event = entry.event
        if isinstance(event, Note):
            return True
        if Traced.of(event) in shown:
            return True
        return event.kind not in _UNTOLD and is_of_it(event)

    begin = next((n for n, each in enumerate(entries) if each.who == PLAN), 0)
    before = _before(entries[:begin], shown, is_of_it)
    told = [*before, *filter(is_told, entries[begin:])]
    if len(told) > MOST_ENTRIES:
        told = [each for each in told if not _is_least(each, shown)]
    return _cut(tuple(_joined(told)))


def _before(
    entries: Sequence[Entry], shown: Collection[Traced], is_of_it: Callable[[TraceEvent], bool]
) -> list[Entry]:
    """Return who led as the faults began, with which ISR, and what shows the finding."""
    kept: list[Entry] = []
    newest: dict[tuple[TopicPartition | None, EventKind], Entry] = {}
    for entry in entries:
        event = entry.event
        if isinstance(event, Note):
            kept += [] if event.what == STARTED or _outcome_of(entry) else [entry]
        elif Traced.of(event) in shown:
            kept.append(entry)
        elif event.kind in _BEFORE and is_of_it(event):
            newest[event.topic_partition, event.kind] = entry
    return sorted([*kept, *newest.values()], key=lambda each: each.at_ns)


def _is_least(entry: Entry, shown: Collection[Traced]) -> bool:
    event = entry.event
    return isinstance(event, TraceEvent) and event.kind in _LEAST and Traced.of(event) not in shown


def _cut(told: tuple[Entry, ...]) -> Story:
    left_out = max(0, len(told) - MOST_ENTRIES)
    return Story(told[: MOST_ENTRIES - LAST] + told[-LAST:] if left_out else told, left_out)


def _part_of(entries: Sequence[Entry], violation: str) -> Sequence[Entry]:
    """Return the entries from the first fault up to the violation, or to the healing.

    A violation before the first fault has all entries up to it.
    """
    begins = (n for n, each in enumerate(entries) if _notes(each, PLAN) == FAULTS_BEGIN)
    begin = next(begins, 0)
    writer, last = (ORACLE, violation) if violation else (PLAN, HEALED)
    end = next(n for n, each in enumerate(entries) if _notes(each, writer) == last)
    return entries[begin if begin < end else 0 : end + 1]


def _notes(entry: Entry, who: str) -> str:
    """Return the text of that writer's note, "" for any other entry."""
    event = entry.event
    return event.what if entry.who == who and isinstance(event, Note) else ""


def _is_told(entry: Entry, topic: str) -> bool:
    event = entry.event
    if isinstance(event, Note):
        return not event.what.startswith(f"{POLL} ")
    if event.kind in _UNTOLD:
        return False
    if event.topic is None:
        return True
    return event.topic == topic if topic else event.topic != OFFSETS_TOPIC


def _joined(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Yield the entries, one for all sends in a row with one outcome."""
    for outcome, group in groupby(entries, _outcome_of):
        together = list(group)
        yield from [_sum_of(together, outcome)] if outcome else together


def _outcome_of(entry: Entry) -> str:
    """Return the outcome of a send, "" for any other entry."""
    event = entry.event
    if not isinstance(event, Note) or not event.what.startswith(f"{SEND} "):
        return ""
    return event.what


def _sum_of(sends: Sequence[Entry], outcome: str) -> Entry:
    """Return one entry at the time of the first send, with their number and offsets."""
    notes = [each.event for each in sends if isinstance(each.event, Note)]
    offsets = [note.detail["offset"] for note in notes if note.detail["offset"] >= 0]
    detail: dict[str, object] = {"records": len(notes)}
    if offsets:
        detail["offsets"] = f"{min(offsets)}-{max(offsets)}"
    return Entry(sends[0].at_ns, CLIENTS, Note(CLIENTS, outcome, detail))
