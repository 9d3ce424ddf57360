"""Work that takes turns: in order of requests, one in each pass of the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from highwater_adapters.asyncio_runtime import AsyncioRuntime
from highwater_broker.kafka_api.turns import SHARED, Turns
from highwater_simulator.kernel import Kernel


class Bench:
    """Workers that each take some turns; done: the names of workers in the order of turns."""

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


# ---------------------------------------------------------------- shared ones


def passes_taken(count: int, size: int) -> list[int]:
    """Let so many small requests share steps; return how many of them each pass did."""

    async def run() -> list[int]:
        runtime = AsyncioRuntime(lambda _name, error: pytest.fail(repr(error)))
        turns = Turns(runtime)
        taken = [0]

        async def work() -> None:
            await turns.share(size)
            taken[-1] += 1

        workers = [asyncio.ensure_future(work()) for _ in range(count)]
        while not all(worker.done() for worker in workers):
            taken.append(0)
            await asyncio.sleep(0)
        return [each for each in taken if each]

    return asyncio.run(run())


def test_small_requests_that_one_event_woke_take_a_few_steps_together() -> None:
    """Found: three hundred of ten partitions took a pass each, 2.8 s beside a busy client."""
    size, count = 10, 300
    taken = passes_taken(count, size)
    assert sum(taken) == count
    assert max(taken) <= 2 * SHARED // size, "those of two steps may meet in a pass"
    assert len(taken) <= 2 * (count * size // SHARED + 1)


def test_work_that_fills_a_step_alone_shares_none() -> None:
    assert max(passes_taken(5, SHARED)) <= 2


@pytest.mark.parametrize("cancelled", range(4))
def test_who_shares_a_step_is_not_left_behind_by_one_who_leaves(
    bench: Bench, cancelled: int
) -> None:
    bench.scope.spawn("large", bench.work("large", 20))

    async def share(name: str) -> None:
        await bench.turns.share(10)
        bench.done.append(name)

    tasks = [bench.scope.spawn(name, share(name)) for name in "abcd"]

    async def cancel() -> None:
        await bench.runtime.sleep(0)
        tasks[cancelled].cancel()

    bench.scope.spawn("cancel", cancel())
    bench.kernel.run_for(0)
    assert all(task.is_done() for task in tasks)
    assert {*"abcd"} - {*bench.done} in ({"abcd"[cancelled]}, set())
    assert bench.done.count("large") == 20
    assert bench.turns.is_free
