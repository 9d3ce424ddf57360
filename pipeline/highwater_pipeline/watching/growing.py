"""Which runs below a folder go on, how far their files of lines are written, and which have ended.

It reads names, sizes and line ends. A folder or a file that vanishes meanwhile is one that is not
there: a soak prunes the runs that passed, and people remove folders. So is one that is no regular
file, or cannot be read: a run's verdict tells of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from highwater_checker.run_folder import names
from highwater_checker.run_folder.documents import PROMISES
from highwater_checker.run_folder.files import may_be_there, open_regular, text_of

SUMS = "sums.json"
"""In a run's folder from which a soak has removed the evidence."""
STALE_AFTER_S = 600.0
"""A run without a verdict to which nothing was written for so long was interrupted."""
BLOCK_BYTES = 64 * 1024

_MARKS = (names.TOPOLOGY, names.PLAN, PROMISES.name, names.VERDICT, names.LOOKS)
Written = Mapping[str, int]
"""A file's path in its run's folder, to the number of its bytes."""


def runs_below(root: Path) -> Iterator[Path]:
    """Yield the run folders: `root` itself, or those in it or in its folder runs/, by name.

    Links are left out: `runs/latest` is a run that is there under its own name. A run goes by its
    name: of two of one name the first counts.
    """
    if _is_run(root):
        yield root
        return
    known: set[str] = set()
    for folder in (root, root / "runs"):
        for name in _entries(folder):
            path = folder / name
            if name in known or text_of(name) != name or path.is_symlink() or not _is_run(path):
                continue
            known.add(name)
            yield path


def has_ended(run: Path) -> bool:
    """Return whether the run is over: its verdict is written last of all that it is made from."""
    return may_be_there(run / names.VERDICT)


def was_pruned(run: Path) -> bool:
    """Return whether evidence may be missing; the mark is there before anything is removed."""
    return may_be_there(run / SUMS) or not may_be_there(run)


def goes_on(run: Path, now_s: float) -> bool:
    """Return whether the run has no verdict, and something was written to it of late.

    now_s: seconds since 1970, as times of files are.
    """
    if has_ended(run):
        return False
    times = [_written_s(run / file) for file in (*_line_files(run), names.TOPOLOGY, names.PLAN)]
    return max(times) > now_s - STALE_AFTER_S


def whole_lines(read: Mapping[Path, Written], limit_bytes: int) -> dict[Path, dict[str, int]]:
    """Return up to where each history, and the looks, of each run consist of whole lines.

    A last line without an end is left out: its writer is at it, or was killed.

    read: up to where the runs' files were read; a file that became shorter stays where it was.
    limit_bytes: at most so much further, of all files together, but one line of each at least.
    """
    found: dict[Path, dict[str, int]] = {run: dict(files) for run, files in read.items()}
    behind = {
        (run, file): max(0, _size(run / file) - files.get(file, 0))
        for run, files in read.items()
        for file in _line_files(run)
    }
    for (run, file), share in shares(behind, limit_bytes).items():
        try:
            end = _last_line_end(run / file, read[run].get(file, 0), share)
        except OSError:
            continue
        found[run][file] = end
    return found


_File = TypeVar("_File")


def shares(behind: Mapping[_File, int], limit_bytes: int) -> dict[_File, int]:
    """Return how many bytes of each file are read next: all, if there is room.

    Else files with little to read are read whole, and the others get equal shares.
    """
    left, found = limit_bytes, {}
    for number, (file, wanted) in enumerate(sorted(behind.items(), key=lambda each: each[1])):
        found[file] = min(wanted, left // (len(behind) - number))
        left -= found[file]
    return found


def _line_files(run: Path) -> Iterator[str]:
    if _is_file(run / names.LOOKS):
        yield names.LOOKS
    for name in _entries(run / names.HISTORY):
        if name.endswith(".jsonl") and not name.startswith(".") and text_of(name) == name:
            yield f"{names.HISTORY}/{name}"


def _last_line_end(path: Path, begin: int, limit_bytes: int) -> int:
    """Return the end of the last whole line before begin + limit_bytes; begin if there is none.

    A line that is longer than the limit is taken as a whole.
    """
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        block_end = end = min(size, begin + limit_bytes)
        while block_end > begin:
            block_begin = max(begin, block_end - BLOCK_BYTES)
            file.seek(block_begin)
            found = file.read(block_end - block_begin).rfind(b"\n")
            if found >= 0:
                return block_begin + found + 1
            block_end = block_begin
        file.seek(end)
        while end < size and (block := file.read(BLOCK_BYTES)):
            found = block.find(b"\n")
            if found >= 0:
                return end + found + 1
            end += len(block)
    return begin


def _is_run(folder: Path) -> bool:
    return any(_is_file(folder / mark) for mark in _MARKS)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a folder of somebody else
        return False


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _entries(folder: Path) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir())
    except OSError:
        return []


def _written_s(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
