"""Read, decide, write on the version that was read, and again after a conflict."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from highwater_controller.patience import RACE_ATTEMPTS
from highwater_controller.store import TermOver

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Conflict:
    """A write that met another version than the read one.

    seen: the read content. Both are None where there was no znode.
    """

    seen: object
    node_version: int | None


async def until_written(path: str, attempt: Callable[[], Awaitable[T | Conflict]]) -> T:
    """Return the result of the first attempt to read, decide and write without a conflict.

    Raises:
        TermOver: others wrote the znode again and again; the message has the last content.
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
