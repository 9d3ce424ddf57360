"""The always-on check of conditions that only a bug of this program makes false."""

from __future__ import annotations


class BugFound(BaseException):
    """A bug of our own. A BaseException, so that no handler swallows it."""


def check(condition: object, message: str) -> None:
    """Raise BugFound with the message unless the condition holds.

    Raises:
        BugFound: always a fault in this program, never a peer's bad input; the process stops.
    """
    if not condition:
        raise BugFound(message)
