"""A run's small files that a verdict needs; histories, traces and logs, which grow, are not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from highwater_checker.finding import CheckResult
from highwater_checker.looks import Look
from highwater_checker.run_folder import names
from highwater_checker.run_folder.documents import (
    EXCUSED,
    FILES,
    FINAL_LOOK,
    FORMAT_VERSION,
    PROMISES,
    REQUIREMENTS,
    SLICE,
    TOPOLOGY,
    WATCHED,
    BadDocument,
    Document,
    Excused,
    Promises,
    RunTopology,
    WrittenFile,
)
from highwater_checker.run_folder.evidence_files import not_as_written
from highwater_checker.run_folder.histories import (
    histories_missing,
    process_of,
    processes_in,
    torn_while_alive,
)
from highwater_checker.run_folder.lines import torn_traces
from highwater_checker.slices import Slices
from highwater_checker.verdict import Requirement

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SmallFiles:
    """What was promised and seen, and which processes left a history.

    promises, final_look, watched: None of a run without the file, and final_look where it is not as
    it was written. unread: what cannot be read or is missing. node_count: of brokers and
    controllers, 0 where no file says it.
    incomplete: processes whose histories end in half a line, are missing, or are not as written.
    changed: the files, by their paths in the folder, that are missing or are not as written.
    slices: where the traces of nodes begin that lived before the run.
    """

    promises: Promises | None
    requirements: tuple[Requirement, ...]
    final_look: Look | None
    watched: CheckResult | None
    excused: tuple[Excused, ...]
    processes: tuple[str, ...]
    torn_while_alive: tuple[str, ...]
    incomplete: tuple[str, ...]
    node_count: int
    slices: Slices
    unread: tuple[str, ...]
    changed: tuple[str, ...] = ()

    @property
    def last_look_is_final(self) -> bool:
        """Return whether the run's last look stands for the one at the end, which no file has.

        A simulated run without one had not settled: its last look was taken amid its faults.
        None stands for one that the run wrote, and that was lost or changed since.
        """
        may_stand_for_it = self.promises is None or not self.promises.only_in_sync
        had_none = FINAL_LOOK.name not in self.changed
        return self.final_look is None and had_none and may_stand_for_it

    def look_of_the_end(self, looks: Sequence[Look]) -> Look | None:
        """Return the look at the end: where no file has it, the last one of the run, if any."""
        return looks[-1] if looks and self.last_look_is_final else self.final_look


def _has_digest(written: int | WrittenFile) -> bool:
    return isinstance(written, WrittenFile)


def read_small_files(folder: Path) -> SmallFiles:
    """Return what the run's folder holds; what is damaged or missing is in `unread`."""
    unread: list[str] = []
    promises = read_document(PROMISES, folder, unread)
    if promises is not None and promises.format_version > FORMAT_VERSION:
        unread.append(f"{PROMISES.name}: of a later format, {promises.format_version}")
    kept = () if promises is None else promises.kept
    written = read_document(FILES, folder, unread, is_needed=False)
    if promises is not None and written is not None and FILES.name in kept:
        is_whole = PROMISES.name in written and all(map(_has_digest, written.values()))
        if promises.format_version > 1 and not is_whole:
            unread.append(f"{FILES.name}: it lacks digests of files of evidence")
    others = dict(not_as_written(folder, kept, written or {}))
    unread += others.values()
    topology = read_document(TOPOLOGY, folder, unread, is_needed=False) or RunTopology()
    begins = read_document(SLICE, folder, unread, is_needed=False)
    history = folder / names.HISTORY
    processes, torn = processes_in(history, unread), torn_while_alive(history)
    missing = histories_missing(() if promises is None else promises.clients, processes)
    requirements = read_document(REQUIREMENTS, folder, unread) or ()
    final_look = read_document(FINAL_LOOK, folder, unread)
    if FINAL_LOOK.name in others:
        final_look = None
    unread += _torn_of_the_living(folder, final_look)
    return SmallFiles(
        promises=promises,
        requirements=requirements,
        final_look=final_look,
        watched=read_document(WATCHED, folder, unread, is_needed=False),
        excused=read_document(EXCUSED, folder, unread, is_needed=False) or (),
        processes=tuple(processes),
        torn_while_alive=tuple(torn),
        incomplete=tuple(sorted({*torn, *missing, *filter(None, map(process_of, others))})),
        node_count=(topology.brokers or 0) + (topology.controllers or 0),
        slices=Slices(begins or ()),
        unread=tuple(dict.fromkeys(unread)),
        changed=tuple(others),
    )


def _torn_of_the_living(folder: Path, final_look: Look | None) -> list[str]:
    """Return the traces that end in half a line though their nodes answered at the end.

    A killed node's trace may. Another node ends its trace when it stops, after the final look.
    """
    if final_look is None:
        return []
    nodes = final_look.nodes.items()
    alive = {(node, each.incarnation) for node, each in nodes if each is not None}
    return [
        f"{name}: it ends in half a line, and its node answered at the end"
        for name, start in torn_traces(folder / names.TRACE)
        if start in alive
    ]


def read_document(
    document: Document[T], folder: Path, unread: list[str], *, is_needed: bool = True
) -> T | None:
    """Return what the file holds, None where it is damaged or missing: then `unread` says so."""
    try:
        value = document.read(folder)
    except BadDocument as error:
        unread.append(str(error))
        return None
    if value is None and is_needed:
        unread.append(f"{document.name} is missing")
    return value
