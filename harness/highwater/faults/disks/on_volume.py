"""Runs beside a node, on its volumes: empties a disk, flips a bit, fills a disk and makes room,
closes the folder.

A program of its own: it imports the standard library alone, and the harness passes its text to the
python3 of a helper. It reads its task, JSON, from its argument, and writes its report, JSON, to
standard output.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import shutil
import sys
from collections.abc import Callable
from io import RawIOBase
from pathlib import Path
from typing import Any

BALLAST = ".ballast"
"""The file that fills a disk. Its name is no partition's, so that no broker takes it for one."""
PROBE = ".probe"
PAGE_BYTES = 4_096
CLOSED_MODE, ALL_MODES = 0o000, 0o777
_BLOCKS_BYTES = (1 << 20, PAGE_BYTES)


SYNCED = "synced"
"""Beside the folder: what of a faulty disk was synced (highwater_adapters.faulty_disk)."""


def main(task: dict[str, Any]) -> dict[str, Any]:
    """Do the task, and return its report. Its keys are do (one of WORK) and its arguments."""
    return WORK[task.pop("do")](**task)


def empty(folder: str) -> dict[str, Any]:
    """Remove all files of the folder.

    files: how many there were.
    left: the names of files that are still there.
    """
    _forget_synced(folder)
    files = len(_files(folder))
    for entry in list(Path(folder).iterdir()):
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    return {"files": files, "left": sorted(entry.name for entry in Path(folder).iterdir())}


def flip(folder: str, suffixes: list[str]) -> dict[str, Any]:
    """Flip a random bit of a random file whose path ends with one of the suffixes.

    path: the file's; "" when no such file has a byte.
    before, after: SHA-256 of the whole file.
    """
    paths = [
        path
        for path in _files(folder)
        if str(path).endswith(tuple(suffixes)) and path.stat().st_size > 0
    ]
    if not paths:
        return {"path": "", "position": 0, "bit": 0, "before": "", "after": ""}
    _forget_synced(folder)
    path = secrets.choice(paths)
    position, bit = secrets.randbelow(path.stat().st_size), secrets.randbelow(8)
    before = _digest(path)
    with path.open("r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ 1 << bit]))
        file.flush()
        os.fsync(file.fileno())
    return {
        "path": str(path.relative_to(folder)), "position": position, "bit": bit,
        "before": before, "after": _digest(path),
    }  # fmt: skip


def fill(folder: str, most_bytes: int) -> dict[str, Any]:
    """Fill the folder's disk, and see that one more page is refused.

    A disk of more than most_bytes is left alone: it may be the host's own.
    refused: the name of the error (ENOSPC); "" when a page could still be written.
    ballast_bytes: the size of the ballast file.
    """
    about = os.statvfs(folder)
    size_bytes = about.f_blocks * about.f_frsize
    if size_bytes > most_bytes:
        return {"refused": "", "ballast_bytes": 0, "size_bytes": size_bytes}
    with (Path(folder) / BALLAST).open("ab", buffering=0) as ballast:
        for block_bytes in _BLOCKS_BYTES:
            block = bytes(block_bytes)
            while not _refusal(ballast, block):
                pass  # the last block may be written in part; the next one is refused
        taken = ballast.tell()
    return {"refused": _try_page(folder), "ballast_bytes": taken, "size_bytes": size_bytes}


def make_room(folder: str) -> dict[str, Any]:
    """Undo fill.

    ballast: whether there was any.
    refused_before: the error of writing a page before the ballast was removed, "" for none.
    refused: the same, afterwards.
    """
    ballast = Path(folder) / BALLAST
    is_there, before = ballast.exists(), _try_page(folder)
    ballast.unlink(missing_ok=True)
    return {"ballast": is_there, "refused_before": before, "refused": _try_page(folder)}


def close(folder: str) -> dict[str, Any]:
    """Take all rights on the folder from users without privileges; mode: its rights now."""
    Path(folder).chmod(CLOSED_MODE)
    return {"mode": Path(folder).stat().st_mode & ALL_MODES}


def reopen(folder: str, mode: int) -> dict[str, Any]:
    """Undo close with the folder's former mode; mode in the result: the folder's rights now."""
    Path(folder).chmod(mode)
    return {"mode": Path(folder).stat().st_mode & ALL_MODES}


def look(folder: str) -> dict[str, Any]:
    """Return whether there is ballast."""
    return {"ballast": (Path(folder) / BALLAST).exists()}


WORK: dict[str, Callable[..., dict[str, Any]]] = {
    "empty": empty,
    "flip": flip,
    "fill": fill,
    "make_room": make_room,
    "close": close,
    "reopen": reopen,
    "look": look,
}


def _forget_synced(folder: str) -> None:
    """Have a faulty disk take the folder for synced as it is from now on."""
    shutil.rmtree(Path(folder).parent / SYNCED, ignore_errors=True)


def _files(folder: str) -> list[Path]:
    return sorted(path for path in Path(folder).rglob("*") if path.is_file())


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _try_page(folder: str) -> str:
    """Write a page to a new file; return the name of the error, "" when it is written."""
    path = Path(folder) / PROBE
    try:
        with path.open("wb", buffering=0) as probe:
            return _refusal(probe, bytes(PAGE_BYTES))
    except OSError as error:
        return _name_of(error)
    finally:
        path.unlink(missing_ok=True)


def _refusal(file: RawIOBase, block: bytes) -> str:
    try:
        file.write(block)
    except OSError as error:
        return _name_of(error)
    return ""


def _name_of(error: OSError) -> str:
    return errno.errorcode.get(error.errno or 0, str(error))


if __name__ == "__main__":
    json.dump(main(json.loads(sys.argv[1])), sys.stdout)
