"""Locks on folders of a store: one process writes, and no process reads meanwhile.

A lock is the kernel's, on a file: it ends with its process, even by a kill. Other machines that
share the folder respect it if the file system shares locks, as NFS does.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_FILE = "lock"


class InUse(Exception):
    """Another process has locked the folder; the message names the folder."""


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Lock the folder, which is made if it is missing, for this process alone.

    Raises:
        InUse: another process writes or reads there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / _FILE).open("a") as file:
        _lock(file.fileno(), fcntl.LOCK_EX, folder)
        yield


@contextmanager
def reading(folder: Path) -> Iterator[None]:
    """Keep other processes from writing to the folder. This writes no file: it may be read-only.

    A folder to which nobody ever wrote under a lock is read without one.

    Raises:
        InUse: another process writes there.
    """
    path = folder / _FILE
    if not path.exists():
        yield
        return
    with path.open() as file:
        _lock(file.fileno(), fcntl.LOCK_SH, folder)
        yield


def _lock(file: int, kind: int, folder: Path) -> None:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise InUse(f"another process is at work in {folder}") from error
