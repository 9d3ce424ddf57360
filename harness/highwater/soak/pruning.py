"""Bounds the disk that a soak takes: runs that passed keep their verdict and their sums alone."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from highwater.soak.folder import write_whole
from highwater.soak.ledger import Entry
from highwater_checker.run_folder.documents import (
    BUILD,
    CLOCK,
    PLAN,
    STEPS,
    TOPOLOGY,
    VERDICT,
    BadDocument,
)
from highwater_checker.verdict import Outcome

KEPT = tuple(each.name for each in (PLAN, VERDICT, STEPS, TOPOLOGY, BUILD, CLOCK))
SUMS = "sums.json"


class Sums(msgspec.Struct, frozen=True):
    """What a pruned run had: files and bytes of each subfolder, "" for the folder itself."""

    files: dict[str, int]
    size_bytes: dict[str, int]


def size_of(folder: Path) -> int:
    """Return the bytes of all files below the folder; one that is removed meanwhile has none."""
    size = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                size += (Path(place) / name).lstat().st_size
    return size


def prune(run: Path) -> None:
    """Keep the run's verdict, plan and outcome of steps, and write the sums of what goes.

    Ordering: the sums are on the disk before anything is removed. One that was interrupted goes on.
    """
    if not run.is_dir():
        return
    if not (run / SUMS).exists():
        _write_sums(run)
    for path in sorted(run.iterdir()):
        if path.name in (*KEPT, SUMS):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _write_sums(run: Path) -> None:
    files: dict[str, int] = {}
    sizes: dict[str, int] = {}
    for path in sorted(run.rglob("*")):
        if path.is_file() and not path.is_symlink():
            inside = path.relative_to(run).parts
            part = inside[0] if len(inside) > 1 else ""
            files[part] = files.get(part, 0) + 1
            sizes[part] = sizes.get(part, 0) + path.stat().st_size
    write_whole(run / SUMS, msgspec.json.encode(Sums(files, sizes)) + b"\n")


def is_whole(run: Path) -> bool:
    """Return whether the run's folder is there with all its evidence."""
    return run.is_dir() and not (run / SUMS).exists()


def _takes_room(run: Path) -> bool:
    """Return whether pruning the run frees room: it is whole, or its pruning was interrupted."""
    return is_whole(run) or (
        run.is_dir() and any(path.name not in (*KEPT, SUMS) for path in run.iterdir())
    )


def may_be_pruned(runs: Path, entries: Sequence[Entry]) -> list[Path]:
    """Return folders with evidence of which the least is lost, the first one first.

    Runs that were interrupted, then unknown ones, the oldest first. A failed run is never pruned,
    also where the ledger has lost its line.
    """
    known = {run for entry in entries for run in (entry.run, *(r.run for r in entry.again))}
    others = (path for path in runs.iterdir() if path.name not in known and not path.is_symlink())
    interrupted = sorted(path for path in others if not _failed(path))
    unknown = [
        runs / entry.run for entry in entries if entry.run and entry.outcome is Outcome.UNKNOWN
    ]
    return [path for path in (*interrupted, *unknown) if _takes_room(path)]


def _failed(run: Path) -> bool:
    try:
        verdict = VERDICT.read(run)
    except BadDocument:
        return False
    return verdict is not None and verdict.outcome is Outcome.FAIL
