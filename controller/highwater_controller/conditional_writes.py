"""Read, decide, write on the condition that nobody wrote meanwhile, and again if somebody did."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from highwater_controller.store import TermOver

T = TypeVar("T")

WRITE_ATTEMPTS = 100
"""So many others may write the znode between our read and our write, one after another."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """A write that met another version than the one that was read; data: None of no znode."""

    data: bytes | None
    node_version: int | None


async def until_written(path: str, attempt: Callable[[], Awaitable[T | Conflict]]) -> T:
    """Return what the attempt to read, decide and write comes to, once it is no conflict.

    Raises:
        TermOver: others wrote the znode again and again; it says what was read last.
    """
    seen = Conflict(None, None)
    for _ in range(WRITE_ATTEMPTS):
        outcome = await attempt()
        if not isinstance(outcome, Conflict):
            return outcome
        seen = outcome
    raise TermOver(
        f"{path}: others wrote it {WRITE_ATTEMPTS} times between a read and a write,"
        f" the last time on version {seen.node_version}: {repr(seen.data)[:200]}"
    )
