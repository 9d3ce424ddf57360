"""The result of doing a fault: its proof and its revert, or why it was not done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Find = Callable[[str], int | None]
"""Returns the id of the node that a plan's words ("leader of t-0") mean now, None when no node."""


def _nothing() -> str:
    return ""


def _at_once() -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Done:
    """A fault that acts.

    node: the node that it acts on; None where there are several. For a cut on the zookeeper plane
        it is the node that ZooKeeper no longer hears.
    proof: how the fault is seen to act, in words.
    revert: undoes the fault, and returns in words how it is seen to be gone. It does no harm when
        it is called twice, or after the node was started again.
    acted_ns: when the fault began to act, CLOCK_MONOTONIC; None: as soon as it was begun.
    later: returns, in words, the effects of the fault after its proof; "" when there are none.
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
    """Return if the condition holds.

    Raises:
        NotDone: it does not; the message is `otherwise`.
    """
    if not is_so:
        raise NotDone(otherwise)


NOBODY = "nobody is that now"


def found(find: Find, words: str) -> int:
    """Return the node that the words mean now.

    Raises:
        NotDone: they mean no node now.
    """
    node = find(words)
    if node is None:
        raise NotDone(NOBODY)
    return node
