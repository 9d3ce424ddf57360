"""Locks on folders of a store: one process writes there, and nobody reads meanwhile.

A lock is the kernel's, on a file: it ends with its process, however that ends. Other machines
respect it where they share the folder by a file system that tells them (NFS does).
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_FILE = "lock"


class InUse(Exception):
    """Another process has the folder; the message says which folder."""


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Have the folder, which is made if need be, for this process alone.

    Raises:
        InUse: another process writes or reads there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / _FILE).open("a") as file:
        _lock(file.fileno(), fcntl.LOCK_EX, folder)
        yield


@contextmanager
def reading(folder: Path) -> Iterator[None]:
    """Have nobody write to the folder meanwhile; writes nothing, for it may be read-only.

    A folder that nobody ever wrote to under a lock is read without one.

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
