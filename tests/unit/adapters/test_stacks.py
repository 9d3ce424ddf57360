"""A node tells at a signal where its threads and tasks are, also while its loop stands still."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from pathlib import Path

import pytest

from highwater_adapters.stacks import MOST_PLACES, SIGNAL, say_tasks
from highwater_core.ports import Ports
from highwater_core.stacks import STACKS_END
from tests.unit.adapters.node_process import run_to_the_end
from tests.unit.adapters.node_settings import Settings


class NodeThatIsAsked:
    """Has a thread and three tasks that wait, asks itself twice, and stops."""

    def __init__(self, settings: Settings, ports: Ports) -> None:
        self.ports = ports
        self.never = ports.runtime.event()

    def request_stop(self) -> None:
        """It stops by itself."""

    async def run(self) -> None:
        waiting = threading.Event()
        thread = threading.Thread(target=wait_in_a_thread, args=(waiting,))
        thread.start()
        scope = self.ports.runtime.scope("waiters")
        for number in range(3):
            scope.spawn(f"waiter-{number}", self.wait_for_what_never_comes())
        await asyncio.sleep(0)  # they begin to wait
        os.kill(os.getpid(), SIGNAL)
        stand_still()
        scope.cancel()
        waiting.set()
        thread.join()

    async def wait_for_what_never_comes(self) -> None:
        await self.never.wait()


def wait_in_a_thread(waiting: threading.Event) -> None:
    waiting.wait()


def stand_still() -> None:
    """Keep the loop from turning, and ask a second time meanwhile."""
    signal.raise_signal(SIGNAL)


def test_a_node_writes_its_threads_and_tasks_each_time_that_it_is_asked(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run_to_the_end(NodeThatIsAsked, Settings(str(tmp_path))) == 0
    first, second, rest = capfd.readouterr().err.split(f"{STACKS_END}\n")
    assert rest == ""
    for told in (first, second):
        assert " in wait_in_a_thread" in told
        assert "Task waiter-0, waiter-1, waiter-2:" in told
        awaits = told.partition("Task waiter-0")[2].split("Task ")[0]
        assert awaits.index(" in wait\n") < awaits.index(" in wait_for_what_never_comes\n")
    assert " in stand_still" in second.partition("tasks (most recent call first)")[0]


def test_many_tasks_are_told_by_their_places_and_the_text_has_an_end() -> None:
    places = {f"  File {number}\n": ["reader"] for number in range(MOST_PLACES + 2)}
    places["  File all\n"] = [f"handler-{number}" for number in range(9)]
    said = say_tasks(dict(list(places.items())[-1:]))
    assert said == (
        "9 tasks (most recent call first):\n"
        "Task handler-0, handler-1, handler-2 and 6 more:\n"
        "  File all\n"
    )
    told = say_tasks(places)
    assert told.count("Task ") == MOST_PLACES
    assert told.endswith("... and tasks at 3 more places\n")
