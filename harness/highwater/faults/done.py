"""What doing a fault comes to: its proof and the way back, or why it was not done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Find = Callable[[str], int | None]
"""Returns the id of the node that a plan's words mean now, None when none is that."""


def _nothing() -> str:
    return ""


def _at_once() -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Done:
    """A fault that acts.

    node: on whom, None for a fault of several; of a cut, whom ZooKeeper hears nothing of.
    proof: how that was seen. revert takes it back and says how that was seen; done twice, or after
    the node was started again, it does no harm. acted_ns: CLOCK_MONOTONIC, from when on it acts;
    None where that is when it was begun. later: tells what came of it after its proof; has_acted:
    whether it did so far what it is for: a fail-point waits for its moment, and a crash loop needs
    a second kill.
    """

    node: int | None
    proof: str
    revert: Callable[[], str]
    acted_ns: int | None = None
    later: Callable[[], str] = _nothing
    has_acted: Callable[[], bool] = _at_once


class NotDone(Exception):
    """The fault could not be done now, or it is not seen to act; the message says why."""


def prove(is_so: bool, otherwise: str) -> None:
    """Go on only if it is so.

    Raises:
        NotDone: it is not.
    """
    if not is_so:
        raise NotDone(otherwise)


NOBODY = "nobody is that now"


def found(find: Find, words: str) -> int:
    """Return the node that the words mean now.

    Raises:
        NotDone: none is that.
    """
    node = find(words)
    if node is None:
        raise NotDone(NOBODY)
    return node
