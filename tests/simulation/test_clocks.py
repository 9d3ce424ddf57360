"""A node's clocks: jumps of the wall clock, and a monotonic clock at another rate."""

from __future__ import annotations

import pytest

from highwater_core.check import BugFound
from highwater_core.events import EventKind, TraceEvent
from highwater_core.traces import TraceRecorder
from highwater_simulator.clocks import TRUE_RATE_PPM, WALL_CLOCK_START_MS, NodeClock
from highwater_simulator.kernel import Kernel
from highwater_simulator.tasks import NodeRuntime


def woken_at(runtime: NodeRuntime, *sleeps_ms: int) -> list[tuple[int, int, int]]:
    """Start sleepers; the list gets for each its duration, its clock's time and virtual time."""
    woken: list[tuple[int, int, int]] = []

    async def sleeper(duration_ms: int) -> None:
        await runtime.sleep(duration_ms)
        woken.append((duration_ms, runtime.now_ns(), runtime.clockwork.time_ns))

    for duration_ms in sleeps_ms:
        runtime.start("sleeper", sleeper(duration_ms))
    return woken


def test_wall_clock_jumps_and_the_monotonic_clock_does_not() -> None:
    kernel = Kernel()
    runtime, other = kernel.runtime("node"), kernel.runtime("other")
    kernel.run_for(10)
    runtime.jump_wall_clock(5_000)
    assert runtime.wall_clock_ms() == WALL_CLOCK_START_MS + 5_010
    runtime.jump_wall_clock(-8_000)
    assert runtime.wall_clock_ms() == WALL_CLOCK_START_MS - 2_990
    assert (runtime.now_ms(), other.wall_clock_ms()) == (10, WALL_CLOCK_START_MS + 10)


def test_traces_are_stamped_by_the_true_time_whatever_the_nodes_clock_shows() -> None:
    """They are evidence: the events of all nodes stay in order."""
    kernel = Kernel()
    runtime = kernel.runtime("node")
    events: list[TraceEvent] = []
    recorder = TraceRecorder(runtime, 0, 1, events.append)
    runtime.jump_wall_clock(-3_600_000)
    runtime.set_clock_rate(1_500_000)
    kernel.run_for(10)
    recorder.emit(EventKind.NODE_STARTED)
    assert [event.ts_ns for event in events] == [(WALL_CLOCK_START_MS + 10) * 1_000_000]


def test_clocks_go_on_as_they_were_through_a_restart() -> None:
    kernel = Kernel()
    runtime = kernel.runtime("node")
    runtime.jump_wall_clock(700)
    runtime.set_clock_rate(1_100_000)
    kernel.run_for(100)
    runtime.kill()
    kernel.run_for(100)
    again = kernel.runtime("node")
    assert again.now_ms() == 220
    assert again.wall_clock_ms() == WALL_CLOCK_START_MS + 920


@pytest.mark.parametrize(("rate_ppm", "true_ms"), [(900_000, 100), (1_250_000, 72)])
def test_sleep_lasts_as_long_as_the_nodes_own_clock_says(rate_ppm: int, true_ms: int) -> None:
    kernel = Kernel()
    runtime = kernel.runtime("node")
    runtime.set_clock_rate(rate_ppm)
    woken = woken_at(runtime, 90)
    kernel.run_for(1_000)
    assert woken == [(90, 90_000_000, true_ms * 1_000_000)]
    assert runtime.now_ms() == 1_000 * rate_ppm // TRUE_RATE_PPM


@pytest.mark.parametrize("rate_ppm", [500_000, 2_000_000])
def test_change_of_rate_moves_the_deadlines_of_waits_under_way(rate_ppm: int) -> None:
    kernel = Kernel()
    runtime, other = kernel.runtime("node"), kernel.runtime("other")
    woken, unmoved = woken_at(runtime, 30, 20, 20), woken_at(other, 20)
    kernel.run_for(10)
    runtime.set_clock_rate(rate_ppm)
    kernel.run_for(100)
    true_ns = [10_000_000 + left * 1_000_000 * 1_000_000 // rate_ppm for left in (10, 10, 20)]
    assert woken == [
        (20, 20_000_000, true_ns[0]),
        (20, 20_000_000, true_ns[1]),
        (30, 30_000_000, true_ns[2]),
    ]
    assert unmoved == [(20, 20_000_000, 20_000_000)]


def test_wait_that_is_over_stays_over_when_the_rate_changes() -> None:
    kernel = Kernel()
    runtime = kernel.runtime("node")
    event, seen = runtime.event(), []

    async def waiter() -> None:
        seen.append(await event.wait(50))

    runtime.start("waiter", waiter())
    kernel.run_for(10)
    event.set()
    kernel.run_for(0)
    runtime.set_clock_rate(900_000)
    kernel.run_for(100)
    assert seen == [True]


def test_monotonic_clock_never_falls_and_shows_a_deadline_first_when_it_is_due() -> None:
    clock, time_ns, shown_ns = NodeClock(), 0, 0
    for step, rate_ppm in enumerate((900_001, 1_099_999, 1_000_000, 333_333, 7_000_001), start=1):
        time_ns += 1_234_567 * step
        assert clock.shown_ns(time_ns) >= shown_ns
        shown_ns = clock.shown_ns(time_ns)
        clock.set_rate(rate_ppm, time_ns)
        assert clock.shown_ns(time_ns) == shown_ns
        for deadline_ns in range(shown_ns + 1, shown_ns + 50):
            due_ns = clock.time_ns(deadline_ns)
            assert clock.shown_ns(due_ns - 1) < deadline_ns <= clock.shown_ns(due_ns)


def test_clock_that_stands_still_is_a_bug() -> None:
    with pytest.raises(BugFound):
        Kernel().runtime("node").set_clock_rate(0)
