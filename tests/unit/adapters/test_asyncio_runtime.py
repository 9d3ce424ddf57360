"""The Runtime port over asyncio: wake order, timeouts, cancellation, failure."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from highwater_adapters.asyncio_runtime import AsyncioRuntime
from highwater_core.check import BugFound
from highwater_core.runtime import TimedOut

Body = Callable[[AsyncioRuntime], Awaitable[None]]


def run(body: Body, failures: list[tuple[str, BaseException]] | None = None) -> None:
    reported: list[tuple[str, BaseException]] = [] if failures is None else failures

    async def main() -> None:
        await body(AsyncioRuntime(lambda name, error: reported.append((name, error))))

    asyncio.run(main())
    assert failures is not None or reported == []


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_event_wakes_its_waiters_in_the_order_in_which_they_began_to_wait() -> None:
    async def body(runtime: AsyncioRuntime) -> None:
        event, scope, woken = runtime.event(), runtime.scope("s"), []

        async def wait(number: int) -> None:
            assert await event.wait(60_000)
            woken.append(number)

        for number in range(5):
            scope.spawn(f"w{number}", wait(number))
        await settle()
        event.set()
        event.clear()
        await settle()
        assert woken == [0, 1, 2, 3, 4]

    run(body)


def test_a_bounded_wait_ends_at_its_bound() -> None:
    async def body(runtime: AsyncioRuntime) -> None:
        assert not await runtime.event().wait(0)
        with pytest.raises(TimedOut):
            await runtime.future().wait(0)
        with pytest.raises(TimedOut):
            await runtime.queue().get(0)

    run(body)


def test_a_value_that_comes_after_a_timeout_goes_to_the_next_waiter() -> None:
    async def body(runtime: AsyncioRuntime) -> None:
        queue, future = runtime.queue(), runtime.future()
        with pytest.raises(TimedOut):
            await queue.get(0)
        with pytest.raises(TimedOut):
            await future.wait(0)
        queue.put("late")
        future.set("late")
        assert await queue.get() == "late"
        assert await future.wait() == "late"

    run(body)


def test_a_future_is_set_once() -> None:
    async def body(runtime: AsyncioRuntime) -> None:
        future = runtime.future()
        future.set(None)
        assert future.is_set()
        assert await future.wait() is None
        with pytest.raises(BugFound):
            future.set(None)

    run(body)


def test_queue_hands_items_to_waiters_first_in_first_out() -> None:
    async def body(runtime: AsyncioRuntime) -> None:
        queue, scope, got = runtime.queue(), runtime.scope("s"), []

        async def take(number: int) -> None:
            got.append((number, await queue.get()))

        for number in range(3):
            scope.spawn(f"t{number}", take(number))
        await settle()
        for item in "abc":
            queue.put(item)
        await settle()
        assert got == [(0, "a"), (1, "b"), (2, "c")]

    run(body)


def test_drain_takes_everything_and_a_woken_task_waits_on() -> None:
    async def body(runtime: AsyncioRuntime) -> None:
        queue, scope, got = runtime.queue(), runtime.scope("s"), []

        async def take() -> None:
            got.append(await queue.get())

        scope.spawn("t", take())
        await settle()
        queue.put(1)
        queue.put(2)
        assert queue.drain() == [1, 2]
        await settle()
        assert (got, len(queue)) == ([], 0)
        queue.put(3)
        await settle()
        assert got == [3]

    run(body)


def test_an_item_is_not_lost_when_the_task_it_woke_is_cancelled() -> None:
    async def body(runtime: AsyncioRuntime) -> None:
        queue, scope, got = runtime.queue(), runtime.scope("s"), []

        async def take(number: int) -> None:
            got.append((number, await queue.get()))

        first = scope.spawn("t0", take(0))
        scope.spawn("t1", take(1))
        await settle()
        queue.put("item")
        first.cancel()
        await settle()
        assert got == [(1, "item")]

    run(body)


def test_a_cancelled_task_runs_its_finally_and_nothing_else() -> None:
    async def body(runtime: AsyncioRuntime) -> None:
        scope, steps = runtime.scope("s"), []

        async def work(name: str) -> None:
            try:
                steps.append(f"{name} waits")
                await runtime.sleep(60_000)
                steps.append(f"{name} went on")
            finally:
                steps.append(f"{name} cleaned up")

        for name in "ab":
            scope.spawn(name, work(name))
        await settle()
        scope.cancel()
        scope.spawn("c", work("c")).cancel()  # before its first step
        await settle()
        assert steps == ["a waits", "b waits", "a cleaned up", "b cleaned up"]
        assert scope.tasks() == ()

    run(body)


def test_tasks_lists_the_running_ones_by_name_oldest_first() -> None:
    async def body(runtime: AsyncioRuntime) -> None:
        scope = runtime.scope("s")
        event = runtime.event()

        async def wait() -> None:
            await event.wait()

        async def end() -> None:
            return

        for name, work in (("a", wait()), ("b", end()), ("c", wait())):
            scope.spawn(name, work)
        await settle()
        assert [task.name for task in scope.tasks()] == ["a", "c"]
        event.set()
        await settle()
        assert scope.tasks() == ()

    run(body)


@pytest.mark.parametrize("error", [ValueError("x"), BugFound("x")])
def test_a_task_that_dies_of_an_error_is_reported_by_name(error: BaseException) -> None:
    failures: list[tuple[str, BaseException]] = []

    async def body(runtime: AsyncioRuntime) -> None:
        async def work() -> None:
            raise error

        runtime.scope("s").spawn("ReplicaFetcherThread-1", work())
        await settle()

    run(body, failures)
    assert failures == [("ReplicaFetcherThread-1", error)]


def test_a_task_must_not_cancel_itself() -> None:
    failures: list[tuple[str, BaseException]] = []

    async def body(runtime: AsyncioRuntime) -> None:
        tasks: list[Any] = []

        async def work() -> None:
            tasks[0].cancel()

        tasks.append(runtime.scope("s").spawn("t", work()))
        await settle()

    run(body, failures)
    assert isinstance(failures[0][1], BugFound)
