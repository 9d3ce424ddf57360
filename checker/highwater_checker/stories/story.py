"""A run's story: the lines of its trace that change a leader, an ISR or a log. Pure.

A simulated run's story begins with the faults and ends with the violation, or where all is healed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from highwater_checker.history import POLL, SEND
from highwater_checker.stories.display import Piece, Role, pieces
from highwater_checker.stories.entries import (
    FAULTS_BEGIN,
    HEALED,
    JUDGE,
    ORACLE,
    PLAN,
    Entry,
    Note,
)
from highwater_core.events import EventKind
from highwater_core.internal_topics import OFFSETS_TOPIC

UNTOLD = frozenset(
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
CLIENTS = "clients"
MOST_ENTRIES, LAST = 80, 12
"""The longest story has so many entries, and so many of them are the run's last."""
MOST_COLUMNS = 160
_CUT = " ..."


@dataclass(frozen=True, slots=True)
class Story:
    """Entries of a run, in order; sends that follow each other with one outcome are one entry.

    gaps: entries' places, from 0, and how many are missing before each; in order.
    """

    entries: tuple[Entry, ...]
    gaps: tuple[tuple[int, int], ...] = ()

    def lines(self) -> Iterator[str]:
        """Yield the entries as the simulator shows them, none longer than MOST_COLUMNS.

        An event's partition, epochs and offset are never cut, however long its topic's name is.
        """
        for line in self.pieces():
            *head, last = (text for text, _ in line)
            yield _shorten("".join(head), last)

    def pieces(self) -> Iterator[tuple[Piece, ...]]:
        """Yield the pieces of each of the lines, whole, with their roles."""
        missing = dict(self.gaps)
        for number, entry in enumerate(self.entries):
            if number in missing:
                yield ((f"{'':12}  ... {missing[number]} lines are left out", Role.DETAIL),)
            yield pieces(entry)


def _shorten(head: str, detail: str) -> str:
    line = f"{head}{detail}".rstrip()
    most = max(MOST_COLUMNS, len(head.rstrip()) + len(_CUT))
    return line if len(line) <= most else f"{line[: most - len(_CUT)]}{_CUT}"


def story_of(entries: Sequence[Entry], topic: str = "", violation: str = "") -> Story:
    """Return the story of the topic up to the oracle's note of the violation.

    topic: "" for all topics but groups' offsets. violation: "" for a story up to the healing.
    """
    told = joined(each for each in _part_of(entries, violation) if _is_told(each, topic))
    return cut(list(told), lambda entry: False)


def cut(told: Sequence[Entry], is_kept: Callable[[Entry], bool]) -> Story:
    """Return the story of the first entries and the last ones, and of those kept in between."""
    entries: list[Entry] = []
    gaps: list[tuple[int, int]] = []
    missing = 0
    for number, entry in enumerate(told):
        is_within = MOST_ENTRIES - LAST <= number < len(told) - LAST
        if len(told) > MOST_ENTRIES and is_within and not is_kept(entry):
            missing += 1
            continue
        if missing:
            gaps.append((len(entries), missing))
            missing = 0
        entries.append(entry)
    return Story(tuple(entries), tuple(gaps))


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
    if event.kind in UNTOLD:
        return False
    if event.topic is None:
        return True
    return event.topic == topic if topic else event.topic != OFFSETS_TOPIC


def joined(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Yield the entries, one for all sends in a row with one outcome."""
    for outcome, group in groupby(entries, outcome_of_send):
        together = list(group)
        yield from [_sum_of(together, outcome)] if outcome else together


def outcome_of_send(entry: Entry) -> str:
    """Return the outcome of a send, "" for any other entry."""
    event = entry.event
    if not isinstance(event, Note) or entry.who in (PLAN, ORACLE, JUDGE):
        return ""
    return event.what if event.what.startswith(f"{SEND} ") and "offset" in event.detail else ""


def _sum_of(sends: Sequence[Entry], outcome: str) -> Entry:
    """Return one entry at the time of the first send, with their number and offsets."""
    notes = [each.event for each in sends if isinstance(each.event, Note)]
    offsets = [note.detail["offset"] for note in notes if note.detail["offset"] >= 0]
    detail: dict[str, object] = {"records": len(notes)}
    if offsets:
        detail["offsets"] = f"{min(offsets)}-{max(offsets)}"
    return Entry(sends[0].at_ns, CLIENTS, Note(CLIENTS, outcome, detail))
