"""The kernel beyond the port of runtimes: kill, pause, limits, failures, repeatability."""

from __future__ import annotations

import pytest

from highwater_core.check import BugFound
from highwater_core.runtime import TaskCancelled
from highwater_simulator.kernel import Kernel, LimitPassed, SimulationFailed


def test_equal_deadlines_run_in_the_order_in_which_they_were_asked_for() -> None:
    kernel, ran = Kernel(), []
    for number in range(100):
        kernel.call_at(1_000, lambda number=number: ran.append(number))  # type: ignore[misc]
    kernel.call_at(999, lambda: ran.append(-1))
    kernel.run_for(1)
    assert ran == [-1, *range(100)]


def test_time_jumps_to_the_next_event_and_to_the_end_of_the_run() -> None:
    kernel, seen = Kernel(), []
    kernel.call_later(5, lambda: seen.append(kernel.now_ns()))
    kernel.run_for(3_600_000)
    assert seen == [5]
    assert kernel.now_ns() == 3_600_000_000_000


def test_cancelled_timer_does_not_run() -> None:
    kernel, ran = Kernel(), []
    kernel.call_later(5, lambda: ran.append(1)).cancel()
    kernel.run_for(1)
    assert ran == []


def test_killed_nodes_tasks_clean_up_and_take_no_further_step() -> None:
    kernel = Kernel()
    runtime, steps = kernel.runtime("node"), []

    async def work() -> None:
        try:
            steps.append("began")
            await runtime.sleep(10)
            steps.append("went on")
        finally:
            steps.append(f"cleaned up, alive={runtime.is_alive}")

    scope = runtime.scope("s")
    scope.spawn("work", work())
    kernel.run_for(5)
    scope.spawn("never begun", work())
    runtime.kill()
    kernel.run_for(100)
    assert steps == ["began", "cleaned up, alive=False"]
    scope.spawn("after death", work())
    kernel.run_for(100)
    assert len(steps) == 2


def test_node_starts_anew_only_after_its_last_incarnation_died() -> None:
    kernel = Kernel()
    first = kernel.runtime("node")
    assert first.incarnation == 1
    with pytest.raises(BugFound):
        kernel.runtime("node")
    first.kill()
    assert kernel.runtime("node").incarnation == 2


def test_paused_node_takes_its_held_steps_in_order_when_it_resumes() -> None:
    kernel = Kernel()
    runtime, woken = kernel.runtime("node"), []

    async def sleeper(number: int) -> None:
        await runtime.sleep(10 * number)
        woken.append((number, kernel.now_ns() // 1_000_000))

    for number in (3, 1, 2):
        runtime.start("sleeper", sleeper(number))
    kernel.run_for(5)
    runtime.pause()
    kernel.run_for(100)
    assert woken == []
    runtime.resume()
    kernel.run_for(0)
    assert woken == [(1, 105), (2, 105), (3, 105)]


def test_error_that_a_task_did_not_catch_stops_the_simulation_and_says_where() -> None:
    kernel = Kernel()
    runtime, ran = kernel.runtime("broker-1"), []

    async def work() -> None:
        await runtime.sleep(1)
        raise ValueError("broken rule")

    runtime.scope("s").spawn("ReplicaFetcherThread-0", work())
    kernel.call_later(2_000_000, lambda: ran.append("later"))
    with pytest.raises(SimulationFailed) as failure:
        kernel.run_for(10)
    assert "broker-1 (incarnation 1) ReplicaFetcherThread-0: ValueError" in str(failure.value)
    assert isinstance(failure.value.__cause__, ValueError)
    assert ran == []


def test_task_that_awaits_after_its_cancellation_is_a_bug() -> None:
    kernel = Kernel()
    runtime = kernel.runtime("node")

    async def work() -> None:
        try:
            await runtime.sleep(10)
        except TaskCancelled:
            await runtime.sleep(1)

    task = runtime.start("work", work())
    kernel.run_for(1)
    task.cancel()
    with pytest.raises(BugFound, match="awaits after it was cancelled"):
        kernel.run_for(5)


def test_task_that_cancels_itself_is_a_bug() -> None:
    kernel = Kernel()
    runtime = kernel.runtime("node")
    scope = runtime.scope("s")

    async def work() -> None:
        scope.cancel()

    scope.spawn("work", work())
    with pytest.raises(SimulationFailed, match="work cancels itself"):
        kernel.run_for(5)


def test_condition_that_never_holds_ends_with_the_wait_of_every_task() -> None:
    kernel = Kernel()
    runtime = kernel.runtime("node")

    async def wait_for_nothing() -> None:
        await runtime.event().wait()

    runtime.start("waiter", wait_for_nothing())
    with pytest.raises(LimitPassed, match=r"the end did not hold.*(?s:.*)waiter at test_kernel"):
        kernel.run_until(lambda: False, 100, "the end")
    assert kernel.now_ns() == 100_000_000
    kernel.close()


def test_livelock_is_found() -> None:
    kernel = Kernel(max_events_at_one_instant=1_000)
    runtime = kernel.runtime("node")

    async def spin() -> None:
        while True:
            await runtime.sleep(0)

    runtime.start("spinner", spin())
    with pytest.raises(BugFound, match="livelock"):
        kernel.run_for(1)
    kernel.close()


def test_run_that_never_ends_is_found() -> None:
    kernel = Kernel(max_events=1_000)
    runtime = kernel.runtime("node")

    async def beat() -> None:
        while True:
            await runtime.sleep(1)

    runtime.start("heart", beat())
    with pytest.raises(BugFound, match="more than 1000 events"):
        kernel.run_for(1_000_000)
    kernel.close()


def test_cancelled_timers_do_not_pile_up() -> None:
    kernel, ran = Kernel(), []
    kept = [kernel.call_at(1_000_000 + number, lambda: ran.append(1)) for number in range(10)]
    for _ in range(20_000):
        kernel.call_later(3_000_000_000, lambda: ran.append(2)).cancel()
    assert len(kernel._heap) <= 2_048
    kernel.run_for(10_000)
    assert ran == [1] * len(kept)


def test_whoever_looks_after_each_event_sees_it_done() -> None:
    kernel, seen = Kernel(), []
    done: list[int] = []
    kernel.after_event = lambda: seen.append((kernel.event_count, len(done)))
    for number in range(3):
        kernel.call_at(number, lambda: done.append(1))
    kernel.run_for(1)
    assert seen == [(1, 1), (2, 2), (3, 3)]


def test_step_and_answer_within_one_event() -> None:
    kernel = Kernel()
    runtime, steps = kernel.runtime("node"), []
    future = runtime.future()

    async def work() -> None:
        steps.append("began")
        steps.append(await future.wait())

    kernel.call_at(5, lambda: runtime.start_now("work", work()))
    kernel.call_at(9, lambda: future.set_now("answer"))
    kernel.run_for(1)
    assert (steps, kernel.event_count) == (["began", "answer"], 2)


def test_paused_node_takes_no_step_within_the_event_either() -> None:
    kernel = Kernel()
    runtime, steps = kernel.runtime("node"), []
    future = runtime.future()

    async def work() -> None:
        steps.append("began")
        steps.append(await future.wait())

    runtime.pause()
    runtime.start_now("work", work())
    runtime.resume()
    kernel.run_for(1)
    runtime.pause()
    future.set_now("answer")
    assert steps == ["began"]
    runtime.resume()
    kernel.run_for(1)
    assert steps == ["began", "answer"]


def test_answer_to_a_wait_that_timed_out_in_a_pause_takes_no_second_step() -> None:
    """The answer comes at the very instant at which the node goes on."""
    kernel = Kernel()
    runtime, steps = kernel.runtime("node"), []
    future, items = runtime.future(), runtime.queue()

    async def work() -> None:
        steps.append(await future.wait(timeout_ms=5))
        steps.append(await items.get())

    def answer_as_it_resumes() -> None:
        runtime.resume()
        future.set_now("answer")

    runtime.start("work", work())
    kernel.run_for(1)
    runtime.pause()
    kernel.run_for(10)
    kernel.call_later(0, answer_as_it_resumes)
    kernel.run_for(1)
    assert steps == ["answer"]
    items.put("item")
    kernel.run_for(1)
    assert steps == ["answer", "item"]


def test_dead_node_starts_nothing_within_an_event() -> None:
    kernel = Kernel()
    runtime, steps = kernel.runtime("node"), []

    async def work() -> None:
        steps.append("began")

    runtime.kill()
    runtime.start_now("work", work())
    kernel.run_for(1)
    assert steps == []
