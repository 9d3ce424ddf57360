"""The list of a run's files of evidence, with their sizes: it shows where a copy is cut short.

Evidence that ends early looks like evidence of less: a history whose last lines are gone has fewer
acknowledged records to ask for, a trace fewer events to judge.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from highwater_checker.run_folder import names
from highwater_checker.run_folder.documents import (
    CLOCK,
    EXCUSED,
    FINAL_LOOK,
    REQUIREMENTS,
    WATCHED,
)

_PATTERNS = (
    *(each.name for each in (CLOCK, EXCUSED, FINAL_LOOK, REQUIREMENTS, WATCHED)),
    names.LOOKS,
    names.PROBES,
    f"{names.HISTORY}/*.jsonl",
    f"{names.TRACE}/*.jsonl",
    f"{names.SEGMENTS}/*/*/*.log",
)
"""The files that a verdict is made from; promises.json, which names the list, has no place in it.
"""


def sizes_of(folder: Path) -> dict[str, int]:
    """Return the bytes of each file of evidence that the folder has, by its path in it."""
    return {
        path.relative_to(folder).as_posix(): path.stat().st_size
        for pattern in _PATTERNS
        for path in sorted(folder.glob(pattern))
    }


def not_as_written(folder: Path, kept: Iterable[str], sizes: Mapping[str, int]) -> Iterator[str]:
    """Yield the files that are missing, or whose size has changed.

    kept: files of any size.
    """
    for name in dict.fromkeys((*kept, *sizes)):
        found = _size_of(folder / name)
        if found is None:
            yield f"{name} is missing"
        elif found != sizes.get(name, found):
            yield f"{name}: {found} bytes, where {sizes[name]} were written"


def _size_of(path: Path) -> int | None:
    """Return the bytes at the path, which may be of any kind and length; None without any."""
    try:
        return path.stat().st_size
    except (OSError, ValueError):
        return None
