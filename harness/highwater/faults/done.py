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

    node: the node that it acts on; None where there are several. Of a cut on the zookeeper plane,
        the node that ZooKeeper no longer hears.
    proof: how the fault is seen to act, in words.
    revert: takes it back, and returns how it is seen to be gone. It does no harm when it is called
        twice, or after the node was started again.
    acted_ns: from when on the fault acts, CLOCK_MONOTONIC; None: since it was begun.
    later: returns what came of the fault after its proof, "" when there is nothing to add.
    has_acted: returns whether the fault has had its effect so far. A fail-point waits to be hit,
        and a crash loop needs a second kill.
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
