"""The list of a run's files of evidence, with their sizes and digests: it shows what has changed.

Evidence that ends early looks like evidence of less: a history whose last lines are gone has fewer
acknowledged records to ask for, a trace fewer events to judge. Evidence of the same size with other
bytes may show anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePath

from highwater_checker.run_folder import names
from highwater_checker.run_folder.documents import (
    CLOCK,
    EXCUSED,
    FINAL_LOOK,
    PROMISES,
    REQUIREMENTS,
    SLICE,
    TOPOLOGY,
    WATCHED,
    WrittenFile,
)
from highwater_checker.run_folder.files import sha256_of, text_of

_PATTERNS = (
    *(each.name for each in (CLOCK, EXCUSED, FINAL_LOOK, PROMISES, REQUIREMENTS, SLICE)),
    TOPOLOGY.name,
    WATCHED.name,
    names.LOOKS,
    names.PROBES,
    names.INTENTS,
    f"{names.HISTORY}/*.jsonl",
    f"{names.TRACE}/*.jsonl",
    f"{names.SEGMENTS}/*/*/*.log",
)
"""The files that a verdict is made from; promises.json names the list, and is written before."""
_LISTED_LATER = (TOPOLOGY.name,)
"""Files that a list may lack: earlier versions, of the same format, did not list them."""


def written_files(folder: Path) -> dict[str, WrittenFile]:
    """Return each file of evidence that the folder has, by its path in it.

    Raises:
        OSError: one cannot be read.
    """
    return {
        name: WrittenFile((folder / name).stat().st_size, sha256_of(folder / name))
        for name in _names_in(folder)
    }


def _names_in(folder: Path) -> list[str]:
    """Return the paths of the folder's files of evidence.

    Names that begin with a dot are left out: a copy by a Mac puts such files beside others.
    """
    found = (path for pattern in _PATTERNS for path in sorted(folder.glob(pattern)))
    return [path.relative_to(folder).as_posix() for path in found if not path.name.startswith(".")]


def not_as_written(
    folder: Path, kept: Iterable[str], written: Mapping[str, int | WrittenFile]
) -> Iterator[tuple[str, str]]:
    """Yield the files that are missing, that have changed, and that were added since.

    Each with the reason, in words.

    kept: files of any size and content.
    written: in an earlier format only the files' sizes, in bytes; then added files are not told.
    """
    for name in dict.fromkeys((*kept, *written)):
        found, as_written = _size_of(folder / name), written.get(name)
        size = as_written.size_bytes if isinstance(as_written, WrittenFile) else as_written
        if found is None:
            yield name, f"{name} is missing"
        elif size is not None and found != size:
            yield name, f"{name}: {found} bytes, where {size} were written"
        elif isinstance(as_written, WrittenFile) and as_written.sha256 != _digest(folder / name):
            yield name, f"{name}: its content is not as it was written"
    if any(isinstance(each, WrittenFile) for each in written.values()):
        known = {*written, *_LISTED_LATER}
        added = (name for name in _names_in(folder) if name not in known)
        yield from ((name, f"{text_of(name)} was not there when the run ended") for name in added)


def logs_among(names_of_files: Iterable[str]) -> frozenset[tuple[str, str]]:
    """Return the logs to which segments among the files belong, as (broker's folder, log's)."""
    paths = (PurePath(name).parts for name in names_of_files)
    return frozenset(
        (parts[1], parts[2]) for parts in paths if parts[0] == names.SEGMENTS and len(parts) == 4
    )


def _digest(path: Path) -> str:
    """Return the digest of the file's content, "" where it cannot be read."""
    try:
        return sha256_of(path)
    except (OSError, ValueError):
        return ""


def _size_of(path: Path) -> int | None:
    """Return the bytes at the path, which may be of any kind and length; None without any."""
    try:
        return path.stat().st_size
    except (OSError, ValueError):
        return None
