"""Reads whole files of a run's folder, which may come from anywhere."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import stat
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def open_regular(path: Path) -> Iterator[io.BufferedReader]:
    """Open the file; links are followed.

    Raises:
        OSError: it cannot be read, or is no regular file: a read of a pipe or device may not end.
    """
    with open(path, "rb", opener=_open_at_once) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        yield file


def read_whole(path: Path) -> bytes:
    """Return the file's content.

    Raises:
        OSError: as open_regular.
    """
    with open_regular(path) as file:
        return file.read()


def last_byte_of(path: Path) -> bytes:
    """Return the file's last byte alone, b"" of an empty one: files of a long run are large.

    Raises:
        OSError: as open_regular.
    """
    with open_regular(path) as file:
        if file.seek(0, os.SEEK_END):
            file.seek(-1, os.SEEK_END)
        return file.read(1)


def is_torn(path: Path) -> bool:
    """Return whether the file ends in half a line; False also of an unreadable one."""
    try:
        return last_byte_of(path) not in (b"", b"\n")
    except OSError:
        return False


def files_in(folder: Path, suffix: str) -> list[Path]:
    """Return what is in the folder under names that end so, by name; [] of one without access.

    Names that begin with a dot are those of unfinished copies, and left out.
    Path.glob raises, or returns nothing, where access is denied: it depends on whose folder denies.
    """
    try:
        found = (path for path in folder.iterdir() if path.name.endswith(suffix))
        return sorted(path for path in found if not path.name.startswith("."))
    except OSError:
        return []


def may_be_there(path: Path) -> bool:
    """Return whether there is something at the path, or access is denied: reading it says so.

    A link to nothing is something: who put it there meant a file to be there.
    """
    try:
        path.lstat()
    except (FileNotFoundError, ValueError):  # a path with a NUL cannot be there
        return False
    except OSError:
        return True
    return True


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of the file's content, which is read in parts, in hexadecimal digits.

    Raises:
        OSError: as open_regular.
    """
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def text_of(path: Path | str) -> str:
    """Return the path for texts: bytes that are no UTF-8, which no JSON may have, are replaced."""
    return os.fsencode(path).decode(errors="replace")


def _open_at_once(path: str, flags: int) -> int:
    """Open the path; a pipe that nobody writes to is not waited for."""
    return os.open(path, flags | os.O_NONBLOCK)
