"""Writes where this process is to standard error, at a signal: for one that seems to hang.

The stacks of threads are written within the signal itself, whatever the threads do. The stacks of
tasks are written by the main thread, between two of its steps, so also while its event loop does
not turn; but not while it is within one call of C code.
"""

from __future__ import annotations

import asyncio
import faulthandler
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import Any

from highwater_core.stacks import STACKS_END, STACKS_SIGNAL

SIGNAL = signal.Signals[f"SIG{STACKS_SIGNAL}"]
MOST_PLACES = 60
MOST_NAMES = 3
"""Of places with tasks, and of the tasks' names at one of them: a busy broker has many."""


def write_stacks_at_the_signal() -> None:
    """Write all stacks to standard error at each SIGNAL from now on. In the main thread alone."""
    signal.signal(SIGNAL, _write_tasks)
    faulthandler.register(SIGNAL, chain=True)  # threads first, then _write_tasks


def _write_tasks(number: int, interrupted: FrameType | None) -> None:
    # To the descriptor itself: sys.stderr may be amid the write that the signal interrupted.
    text = f"{say_tasks(tasks_by_place())}{STACKS_END}\n".encode()
    while text:
        text = text[os.write(sys.stderr.fileno(), text) :]


def tasks_by_place() -> Mapping[str, list[str]]:
    """Return the names of the running loop's tasks by where they wait; none without a loop."""
    try:
        tasks = asyncio.all_tasks()
    except RuntimeError:
        return {}
    places: dict[str, list[str]] = {}
    for task in tasks:
        place = "".join(reversed([*_lines_of(task.get_coro())]))
        places.setdefault(place, []).append(task.get_name())
    return places


def say_tasks(places: Mapping[str, list[str]]) -> str:
    """Return the tasks in words, those at one place together; places with few tasks first."""
    count = sum(map(len, places.values()))
    said = [f"{count} tasks (most recent call first):\n"]
    ordered = sorted(places.items(), key=lambda each: (len(each[1]), sorted(each[1])))
    for place, names in ordered[:MOST_PLACES]:
        more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        said.append(f"Task {', '.join(sorted(names)[:MOST_NAMES])}{more}:\n{place}")
    if len(ordered) > MOST_PLACES:
        said.append(f"... and tasks at {len(ordered) - MOST_PLACES} more places\n")
    return "".join(said)


def _lines_of(step: Any) -> Iterator[str]:
    """Yield a line for each coroutine of the chain of awaits, the task's own first."""
    while step is not None:
        frame = getattr(step, "cr_frame", None) or getattr(step, "gi_frame", None)
        if frame is None:
            return
        code = frame.f_code
        yield f'  File "{code.co_filename}", line {frame.f_lineno} in {code.co_name}\n'
        step = getattr(step, "cr_await", None) or getattr(step, "gi_yieldfrom", None)
