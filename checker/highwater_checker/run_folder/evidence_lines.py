"""Finds the lines of a run's files that show its findings."""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from highwater_checker.finding import Finding, Probed, Traced
from highwater_checker.history import POLL, decode
from highwater_checker.probes import decode_probes
from highwater_checker.run_folder import names
from highwater_checker.run_folder.documents import FINAL_LOOK
from highwater_checker.run_folder.files import files_in, may_be_there, read_whole, text_of
from highwater_checker.run_folder.histories import processes_in
from highwater_core.json_lines import DamagedLines
from highwater_core.traces import decode_events

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class EvidenceLine:
    """A line of a run: its file's path in the run's folder, its number from 1, its text."""

    file: str
    line: int
    text: str


_Told = Callable[[bytes], Hashable]
"""Returns the subject of a line, None if it cannot be read."""
_Found = dict[Hashable, list[EvidenceLine]]


def evidence_of(run_folder: Path, findings: Sequence[Finding]) -> list[tuple[EvidenceLine, ...]]:
    """Return each finding's lines: of its operation, then of its events, looks and probe.

    A line that is there twice is returned twice. Missing and unreadable lines are left out. Of a
    poll, which has a line for each record, those of the finding's record.
    """
    wanted = {key for finding in findings for key in _keys_of(finding)}
    found: _Found = {}
    for path, told in _files_of(run_folder, wanted):
        for line in _lines_in(run_folder, path):
            key = told(line.text.encode())
            if key in wanted:
                found.setdefault(key, []).append(line)
    _add_final_look(run_folder, wanted, found)
    by_place = {key: _by_place(found.get(key, [])) for key in wanted if _is_poll(key)}
    return [
        tuple(
            line
            for key in _keys_of(finding)
            for line in by_place.get(key, {}).get(_place_of(finding)) or found.get(key, [])
        )
        for finding in findings
    ]


def _is_poll(key: Hashable) -> bool:
    return isinstance(key, str) and f" {POLL} " in key


def _place_of(finding: Finding) -> tuple[str, int, int]:
    return finding.topic, finding.partition, finding.offset


def _by_place(lines: Sequence[EvidenceLine]) -> dict[object, list[EvidenceLine]]:
    """Return a poll's lines by their records' places."""
    found: dict[object, list[EvidenceLine]] = {}
    for line in lines:
        found.setdefault(_place(line.text.encode()), []).append(line)
    return found


@dataclass(frozen=True, slots=True)
class _Look:
    """The time at which a look was complete."""

    time_ns: int


def _keys_of(finding: Finding) -> Iterator[Hashable]:
    if finding.operation:
        yield finding.operation
    yield from finding.traced
    yield from map(_Look, finding.looks)
    if finding.probed is not None:
        yield finding.probed


def _files_of(run_folder: Path, wanted: Collection[Hashable]) -> Iterator[tuple[Path, _Told]]:
    """Yield the files that may have wanted lines, and the readers of these lines."""
    kinds = {type(key) for key in wanted}
    history = run_folder / names.HISTORY
    for process in processes_in(history) if str in kinds else ():
        if any(isinstance(key, str) and key.startswith(f"{process}'s ") for key in wanted):
            yield history / f"{process}.jsonl", _operation
    for path in files_in(run_folder / names.TRACE, ".jsonl") if Traced in kinds else ():
        yield path, _event
    for name, kind, told in ((names.LOOKS, _Look, _look), (names.PROBES, Probed, _probe)):
        if kind in kinds and may_be_there(run_folder / name):
            yield run_folder / name, told


def _lines_in(run_folder: Path, path: Path) -> Iterator[EvidenceLine]:
    """Yield the lines of one of the run's files, none of an unreadable one.

    Invalid text is replaced.
    """
    file = text_of(path.relative_to(run_folder).as_posix())
    try:
        content = read_whole(path)
    except OSError:
        return
    for number, line in enumerate(io.BytesIO(content), start=1):
        yield EvidenceLine(file, number, line.removesuffix(b"\n").decode(errors="replace"))


def _add_final_look(run_folder: Path, wanted: Collection[Hashable], found: _Found) -> None:
    """Add the file of the final look where it is wanted and not among the run's looks."""
    try:
        content = read_whole(run_folder / FINAL_LOOK.name)
    except OSError:
        return
    key = _look(content)
    if key in wanted and key not in found:
        found[key] = [EvidenceLine(FINAL_LOOK.name, 1, content.decode(errors="replace"))]


# ---------------------------------------------------------------- subjects of lines


def _operation(line: bytes) -> str | None:
    return _first(event.operation for event in _read(decode, line))


def _place(line: bytes) -> tuple[str, int, int] | None:
    """Return the topic, partition and offset of an operation's line."""
    return _first((event.topic, event.partition, event.offset) for event in _read(decode, line))


def _event(line: bytes) -> Traced | None:
    return _first(map(Traced.of, _read(decode_events, line)))


def _probe(line: bytes) -> Probed | None:
    return _first(each.probed for each in _read(decode_probes, line))


def _look(line: bytes) -> _Look | None:
    try:
        return msgspec.json.decode(line, type=_Look)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _read(decoder: Callable[[Iterable[bytes]], list[T]], line: bytes) -> list[T]:
    try:
        return decoder([line])
    except DamagedLines:
        return []


def _first(found: Iterable[T]) -> T | None:
    return next(iter(found), None)
