"""The one way to wait: until a condition is true, or the time is over; then show the last state."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

FIRST_PAUSE_S = 0.005
LONGEST_PAUSE_S = 0.1


class NeverHappened(AssertionError):
    """A condition did not come true in time; the message has the last state that was seen."""


def eventually(
    predicate: Callable[[], object],
    *,
    within: float,
    what: str = "",
    state: Callable[[], object] | None = None,
    retry_on: type[Exception] | tuple[type[Exception], ...] = (),
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> Any:
    """Return the predicate's first true value.

    It is called at once, then after pauses that grow to LONGEST_PAUSE_S, and once more at the end.

    Args:
        within: seconds.
        what: the awaited condition in words; default: the predicate's name.
        state: returns the text to show in a failure (the last state, container status, log tails).
        retry_on: exceptions of the predicate that count as "not yet"; others pass through.

    Raises:
        NeverHappened: it was not true within the time.
    """
    deadline = clock() + within
    pause_s = FIRST_PAUSE_S
    while True:
        last_look = clock() >= deadline
        seen: object
        try:
            seen = predicate()
        except retry_on as error:
            seen = error
        else:
            if seen:
                return seen
        if last_look:
            name = what or getattr(predicate, "__name__", "the condition")
            raise NeverHappened(_describe(name, within, seen, state))
        pause(max(0.0, min(pause_s, deadline - clock())))
        pause_s = min(pause_s * 1.5, LONGEST_PAUSE_S)


def _describe(name: str, within: float, seen: object, state: Callable[[], object] | None) -> str:
    lines = [f"not within {within:g} s: {name}", f"last seen: {seen!r}"]
    if state is not None:
        lines.append(f"state: {state()}")
    return "\n".join(lines)
