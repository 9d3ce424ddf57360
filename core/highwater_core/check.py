"""The always-on check of what must be true unless this program has a bug."""

from __future__ import annotations


class BugFound(BaseException):
    """Our own code broke a rule of its own. Not an Exception: nothing may swallow it."""


def check(condition: object, message: str) -> None:
    """Raise BugFound with the message unless the condition holds.

    Raises:
        BugFound: always a fault in this program, never a peer's bad input; the process stops.
    """
    if not condition:
        raise BugFound(message)
