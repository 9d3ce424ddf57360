"""Large requests are handled in chunks, one at a time, and do not hold up small ones."""

from __future__ import annotations

from typing import Any

import pytest

from highwater_broker.kafka_api.turns import CHUNK, NS_PER_THING, Turns
from highwater_simulator.kernel import Kernel


class Working:
    """Starts requests that note each thing they do."""

    def __init__(self) -> None:
        self.kernel = Kernel()
        self.runtime = self.kernel.runtime("node")
        self.scope = self.runtime.scope("requests")
        self.turns = Turns(self.runtime)
        self.done: list[str] = []

    def start(self, name: str, count: int) -> Any:
        async def work() -> None:
            assert await self.turns.each(lambda n: self.done.append(name) or n, range(count)) == [
                *range(count)
            ]
            self.done.append(f"{name} ended")

        return self.scope.spawn(name, work())

    def step(self) -> None:
        """Let each ready task run once."""
        self.kernel.run_for(0)


@pytest.fixture
def working() -> Any:
    started = Working()
    yield started
    assert started.turns.is_free, "a request kept its turn"
    started.kernel.close()


def runs(done: list[str]) -> list[tuple[str, int]]:
    """Return who did how much in a row."""
    counted: list[tuple[str, int]] = []
    for name in done:
        if counted and counted[-1][0] == name:
            counted[-1] = (name, counted[-1][1] + 1)
        else:
            counted.append((name, 1))
    return counted


def test_a_small_request_waits_for_nothing(working: Any) -> None:
    coroutine = working.turns.each(lambda n: n, range(CHUNK))
    with pytest.raises(StopIteration):
        coroutine.send(None)


def test_a_small_request_is_answered_between_two_chunks_of_a_large_one(working: Any) -> None:
    working.start("large", 3 * CHUNK)
    working.start("small", 1)
    working.step()
    assert runs(working.done)[-1] == ("large ended", 1)
    assert working.done.index("small") <= CHUNK


def test_of_large_requests_the_one_with_the_least_to_do_goes_on(working: Any) -> None:
    working.start("a", 4 * CHUNK)
    working.start("b", 4 * CHUNK)
    working.start("c", 2 * CHUNK)
    working.step()
    assert [each for each in working.done if "ended" in each] == ["c ended", "a ended", "b ended"]
    assert working.done.index("c ended") <= 4 * CHUNK  # one of the others' between two of its own


def test_a_request_that_waited_as_long_as_its_work_goes_before_smaller_ones(working: Any) -> None:
    """Else a client that asks for small things without end keeps a large request for ever."""
    held = working.turns.each(lambda n: n, range(2 * CHUNK))
    held.send(None)  # it has the turn, and nobody lets it go on
    working.start("large", 4 * CHUNK)
    working.step()
    working.kernel.run_for(4 * CHUNK * NS_PER_THING // 1_000_000)
    working.start("small", 2 * CHUNK)
    working.step()
    assert working.done == []
    held.close()
    working.step()
    assert runs(working.done)[0] == ("large", CHUNK)
    assert working.done[-1] == "large ended"


@pytest.mark.parametrize("cancelled", ["a", "b", "c"])
def test_a_cancelled_request_passes_its_turn_on(working: Any, cancelled: str) -> None:
    tasks = {name: working.start(name, 2 * CHUNK) for name in "abc"}
    working.scope.spawn("canceller", cancel(tasks[cancelled]))
    working.step()
    assert [name for name in "abc" if f"{name} ended" in working.done] == [
        name for name in "abc" if name != cancelled
    ]


async def cancel(task: Any) -> None:
    task.cancel()


def test_work_that_fails_passes_its_turn_on(working: Any) -> None:
    coroutine = working.turns.each(lambda n: 1 // (n - CHUNK - 1), range(3 * CHUNK))

    async def failing() -> None:
        with pytest.raises(ZeroDivisionError):
            await coroutine

    working.scope.spawn("failing", failing())
    working.start("b", 2 * CHUNK)
    working.step()
    assert working.done[-1] == "b ended"
