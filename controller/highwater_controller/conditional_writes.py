"""Read, decide, write on the condition that nobody wrote meanwhile, and again if somebody did."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from highwater_controller.patience import RACE_ATTEMPTS
from highwater_controller.store import TermOver

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Conflict:
    """A write that met another version than the one that was read.

    seen: what the read version held. Both are None where there was no znode.
    """

    seen: object
    node_version: int | None


async def until_written(path: str, attempt: Callable[[], Awaitable[T | Conflict]]) -> T:
    """Return what the attempt to read, decide and write comes to, once it is no conflict.

    Raises:
        TermOver: others wrote the znode again and again; it says what was read last.
    """
    last = Conflict(None, None)
    for _ in range(RACE_ATTEMPTS):
        outcome = await attempt()
        if not isinstance(outcome, Conflict):
            return outcome
        last = outcome
    raise TermOver(
        f"{path}: others wrote it {RACE_ATTEMPTS} times between a read and a write,"
        f" the last time on version {last.node_version}: {repr(last.seen)[:200]}"
    )
