"""Reads whole files of a run's folder, which may come from anywhere."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def read_whole(path: Path) -> bytes:
    """Return the file's content; links are followed.

    Raises:
        OSError: it cannot be read, or is no regular file: a read of a pipe or device may not end.
    """
    with open(path, "rb", opener=_open_at_once) as file:
        mode = os.fstat(file.fileno()).st_mode
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        return file.read()


def text_of(path: Path | str) -> str:
    """Return the path for texts: bytes that are no UTF-8, which no JSON may have, are replaced."""
    return os.fsencode(path).decode(errors="replace")


def _open_at_once(path: str, flags: int) -> int:
    """Open the path; a pipe that nobody writes to is not waited for."""
    return os.open(path, flags | os.O_NONBLOCK)
