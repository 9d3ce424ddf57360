"""What node code may rely on of any Runtime: one suite for virtual time and for asyncio."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol

import pytest

from highwater_core.check import BugFound, check
from highwater_core.runtime import Queue, Runtime, TimedOut

Body = Callable[[Runtime], Coroutine[Any, Any, None]]


class World(Protocol):
    name: str
    failures: list[tuple[str, BaseException]]

    def run(self, body: Body) -> None: ...


async def settle(runtime: Runtime) -> None:
    """Let everything that is due run."""
    for _ in range(5):
        await runtime.sleep(0)


def test_equal_sleeps_end_in_the_order_in_which_they_began(world: World) -> None:
    async def body(runtime: Runtime) -> None:
        woken: list[int] = []

        async def sleeper(number: int) -> None:
            await runtime.sleep(5)
            woken.append(number)

        scope = runtime.scope("s")
        for number in range(20):
            scope.spawn(f"sleeper-{number}", sleeper(number))
        await runtime.sleep(40)
        assert woken == list(range(20))

    world.run(body)


def test_time_moves_by_what_was_slept(world: World) -> None:
    async def body(runtime: Runtime) -> None:
        began_ms, began_ns, wall_ms = runtime.now_ms(), runtime.now_ns(), runtime.wall_clock_ms()
        await runtime.sleep(20)
        assert runtime.now_ms() - began_ms >= 19
        assert runtime.now_ns() - began_ns >= 19_000_000
        assert runtime.wall_clock_ms() - wall_ms >= 18

    world.run(body)


def test_event_wakes_its_waiters_in_the_order_in_which_they_began_to_wait(world: World) -> None:
    async def body(runtime: Runtime) -> None:
        event, woken = runtime.event(), []

        async def waiter(number: int) -> None:
            assert await event.wait()
            woken.append(number)

        scope = runtime.scope("s")
        for number in range(10):
            scope.spawn("waiter", waiter(number))
        await settle(runtime)
        event.set()
        assert woken == []
        await settle(runtime)
        assert woken == list(range(10))

    world.run(body)


def test_waiter_that_was_woken_sees_true_although_the_event_was_cleared_since(
    world: World,
) -> None:
    async def body(runtime: Runtime) -> None:
        event, seen = runtime.event(), []

        async def waiter() -> None:
            seen.append(await event.wait(1_000))

        runtime.scope("s").spawn("waiter", waiter())
        await settle(runtime)
        event.set()
        event.clear()
        await settle(runtime)
        assert seen == [True]
        assert not event.is_set()

    world.run(body)


def test_event_that_is_set_needs_no_waiting(world: World) -> None:
    async def body(runtime: Runtime) -> None:
        event = runtime.event()
        event.set()
        assert await event.wait(0)
        assert await event.wait()

    world.run(body)


def test_wait_for_an_event_returns_false_when_its_time_has_passed(world: World) -> None:
    async def body(runtime: Runtime) -> None:
        event = runtime.event()
        assert not await event.wait(5)
        assert not await event.wait(0)
        event.set()
        assert await event.wait(5)

    world.run(body)


def test_future_gives_its_value_to_all_waiters_and_to_later_ones(world: World) -> None:
    async def body(runtime: Runtime) -> None:
        future, seen = runtime.future(), []

        async def waiter(number: int) -> None:
            seen.append((number, await future.wait()))

        scope = runtime.scope("s")
        for number in range(3):
            scope.spawn("waiter", waiter(number))
        await settle(runtime)
        assert not future.is_set()
        future.set("value")
        await settle(runtime)
        assert seen == [(0, "value"), (1, "value"), (2, "value")]
        assert await future.wait(0) == "value"

    world.run(body)


def test_future_may_hold_none(world: World) -> None:
    async def body(runtime: Runtime) -> None:
        future = runtime.future()
        future.set(None)
        assert future.is_set()
        assert await future.wait() is None

    world.run(body)


def test_future_that_is_set_twice_is_a_bug(world: World) -> None:
    async def body(runtime: Runtime) -> None:
        future = runtime.future()
        future.set(1)
        with pytest.raises(BugFound):
            future.set(2)

    world.run(body)


def test_value_may_come_after_a_wait_for_it_timed_out(world: World) -> None:
    async def body(runtime: Runtime) -> None:
        future = runtime.future()
        with pytest.raises(TimedOut):
            await future.wait(5)
        future.set(7)
        assert await future.wait(5) == 7

    world.run(body)


def test_queue_is_first_in_first_out_and_drains_in_that_order(world: World) -> None:
    async def body(runtime: Runtime) -> None:
        queue: Queue[int] = runtime.queue()
        for item in (1, 2, 3):
            queue.put(item)
        assert len(queue) == 3
        assert await queue.get() == 1
        assert queue.drain() == [2, 3]
        assert len(queue) == 0
        with pytest.raises(TimedOut):
            await queue.get(5)

    world.run(body)


def test_takers_of_a_queue_are_served_in_the_order_in_which_they_came(world: World) -> None:
    async def body(runtime: Runtime) -> None:
        queue: Queue[str] = runtime.queue()
        served: list[tuple[int, str]] = []

        async def taker(number: int) -> None:
            served.append((number, await queue.get()))

        scope = runtime.scope("s")
        for number in range(3):
            scope.spawn("taker", taker(number))
        await settle(runtime)
        for item in "abc":
            queue.put(item)
        await settle(runtime)
        assert served == [(0, "a"), (1, "b"), (2, "c")]

    world.run(body)


def test_cancelled_taker_leaves_its_item_to_the_next(world: World) -> None:
    async def body(runtime: Runtime) -> None:
        queue: Queue[str] = runtime.queue()
        served: list[tuple[int, str]] = []

        async def taker(number: int) -> None:
            served.append((number, await queue.get()))

        scope = runtime.scope("s")
        first = scope.spawn("taker", taker(1))
        scope.spawn("taker", taker(2))
        await settle(runtime)
        queue.put("a")
        first.cancel()
        await settle(runtime)
        assert served == [(2, "a")]
        queue.put("b")
        assert await queue.get(50) == "b"

    world.run(body)


def test_cancelled_task_cleans_up_and_takes_no_further_step(world: World) -> None:
    async def body(runtime: Runtime) -> None:
        steps: list[str] = []

        async def work() -> None:
            try:
                steps.append("began")
                await runtime.sleep(5)
                steps.append("went on")
            finally:
                steps.append("cleaned up")

        task = runtime.scope("s").spawn("work", work())
        await settle(runtime)
        assert not task.is_done()
        task.cancel()
        assert steps == ["began"]
        await settle(runtime)
        assert task.is_done()
        await runtime.sleep(10)
        assert steps == ["began", "cleaned up"]

    world.run(body)


def test_task_that_was_woken_and_then_cancelled_takes_no_further_step(world: World) -> None:
    async def body(runtime: Runtime) -> None:
        event, steps = runtime.event(), []

        async def work() -> None:
            await event.wait()
            steps.append("went on")

        task = runtime.scope("s").spawn("work", work())
        await settle(runtime)
        event.set()
        task.cancel()
        await settle(runtime)
        assert steps == []
        assert task.is_done()

    world.run(body)


def test_task_that_is_cancelled_before_its_first_step_never_runs(world: World) -> None:
    async def body(runtime: Runtime) -> None:
        steps: list[str] = []

        async def work() -> None:
            steps.append("ran")

        task = runtime.scope("s").spawn("work", work())
        task.cancel()
        task.cancel()
        await settle(runtime)
        assert steps == []
        assert task.is_done()

    world.run(body)


def test_spawned_task_takes_its_first_step_after_the_spawner_waits(world: World) -> None:
    async def body(runtime: Runtime) -> None:
        order: list[str] = []

        async def work(name: str) -> None:
            order.append(name)

        scope = runtime.scope("s")
        scope.spawn("a", work("a"))
        scope.spawn("b", work("b"))
        order.append("spawner")
        await settle(runtime)
        assert order == ["spawner", "a", "b"]

    world.run(body)


def test_scope_lists_its_running_tasks_and_cancels_them_oldest_first(world: World) -> None:
    async def body(runtime: Runtime) -> None:
        ended: list[str] = []

        async def work(name: str) -> None:
            try:
                await runtime.sleep(1_000)
            finally:
                ended.append(name)

        async def short() -> None:
            ended.append("short")

        scope = runtime.scope("s")
        for name in ("a", "b", "c"):
            scope.spawn(name, work(name))
        scope.spawn("short", short())
        await settle(runtime)
        assert [task.name for task in scope.tasks()] == ["a", "b", "c"]
        scope.cancel()
        await settle(runtime)
        assert ended == ["short", "a", "b", "c"]
        assert scope.tasks() == ()
        scope.spawn("d", short())
        await settle(runtime)
        assert ended[-1] == "short"

    world.run(body)


def test_cancelled_waiter_does_not_hinder_those_behind_it(world: World) -> None:
    async def body(runtime: Runtime) -> None:
        event, woken = runtime.event(), []

        async def waiter(number: int) -> None:
            await event.wait()
            woken.append(number)

        scope = runtime.scope("s")
        tasks = [scope.spawn("waiter", waiter(number)) for number in range(3)]
        await settle(runtime)
        tasks[1].cancel()
        await settle(runtime)
        event.set()
        await settle(runtime)
        assert woken == [0, 2]

    world.run(body)


@pytest.mark.parametrize("is_bug", [False, True])
def test_exception_that_a_task_did_not_catch_is_reported_as_a_bug(
    world: World, is_bug: bool
) -> None:
    async def body(runtime: Runtime) -> None:
        async def work() -> None:
            await runtime.sleep(0)
            if is_bug:
                check(False, "broken rule")
            raise ValueError("broken rule")

        runtime.scope("s").spawn("worker-7", work())
        await runtime.sleep(1_000)

    world.run(body)
    assert len(world.failures) == 1
    where, error = world.failures[0]
    assert "worker-7" in where
    assert isinstance(error, BugFound if is_bug else ValueError)
    assert str(error) == "broken rule"
