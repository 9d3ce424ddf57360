"""Tries a path before hours of work whose result goes there."""

from __future__ import annotations

from pathlib import Path

from highwater.errors import HarnessError


class CannotWrite(HarnessError):
    """The path cannot be written; the message says why."""


def check_can_write(path: Path) -> None:
    """Open the file for writing without changing it; missing folders are made.

    Raises:
        CannotWrite: it cannot be opened.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        was_there = path.exists()
        path.open("ab").close()
        if not was_there:
            path.unlink()
    except OSError as error:
        raise CannotWrite(f"{path}: {error.strerror}") from error
