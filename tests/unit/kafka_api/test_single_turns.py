"""Work that takes turns: first asked, first served, one in each pass of the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from highwater_adapters.asyncio_runtime import AsyncioRuntime
from highwater_broker.kafka_api.turns import Turns
from highwater_simulator.kernel import Kernel


class Bench:
    """Workers that each take some turns, and what they did in order."""

    def __init__(self) -> None:
        self.kernel = Kernel()
        self.runtime = self.kernel.runtime("broker")
        self.scope = self.runtime.scope("workers")
        self.turns = Turns(self.runtime)
        self.done: list[str] = []

    async def work(self, name: str, turns: int) -> None:
        for _ in range(turns):
            await self.turns.next()
            self.done.append(name)


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.kernel.close()


def test_turns_go_round(bench: Bench) -> None:
    for name, turns in (("a", 3), ("b", 1), ("c", 2)):
        bench.scope.spawn(name, bench.work(name, turns))
    bench.kernel.run_for(0)
    assert "".join(bench.done) == "abcaca"


def test_whoever_comes_late_waits_for_one_turn_of_each(bench: Bench) -> None:
    for name in "abc":
        bench.scope.spawn(name, bench.work(name, 100))

    async def late() -> None:
        while len(bench.done) < 30:
            await bench.runtime.sleep(0)
        begun = len(bench.done)
        await bench.turns.next()
        bench.done.append(f"late after {len(bench.done) - begun}")

    bench.scope.spawn("late", late())
    bench.kernel.run_for(0)
    assert "late after 3" in bench.done


@pytest.mark.parametrize("cancelled", ["a", "b", "c"])
def test_a_worker_that_is_cancelled_hands_its_turn_on(bench: Bench, cancelled: str) -> None:
    tasks = {name: bench.scope.spawn(name, bench.work(name, 50)) for name in "abc"}

    async def cancel() -> None:
        while len(bench.done) < 10:
            await bench.runtime.sleep(0)
        tasks[cancelled].cancel()

    bench.scope.spawn("cancel", cancel())
    bench.kernel.run_for(0)
    others = [name for name in "abc" if name != cancelled]
    assert [bench.done.count(name) for name in others] == [50, 50]
    assert bench.done.count(cancelled) < 50
    assert all(task.is_done() for task in tasks.values())


def test_one_turn_is_taken_in_a_pass_of_the_loop() -> None:
    async def run() -> list[int]:
        runtime = AsyncioRuntime(lambda _name, error: pytest.fail(repr(error)))
        turns = Turns(runtime)
        taken: list[int] = []
        passes = 0

        async def work() -> None:
            for _ in range(20):
                await turns.next()
                taken.append(passes)

        workers = [asyncio.ensure_future(work()) for _ in range(5)]
        while not all(worker.done() for worker in workers):
            passes += 1
            await asyncio.sleep(0)
        return taken

    taken = asyncio.run(run())
    assert len(taken) == len(set(taken)) == 100
