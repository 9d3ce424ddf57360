"""A node that is killed after each start: how often, until when, and kills by others."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import pytest

from highwater.cluster.cluster import KILLED_EXIT_CODE
from highwater.faults.done import NotDone
from highwater.faults.processes.crash_loops import CrashLoop
from highwater.faults.processes.nodes import NodeFaults
from highwater.runs.plans.schedule import StepDone
from highwater_chaos import faults as f
from highwater_chaos.plan import Step


class Node:
    """Counts its kills and starts; breaks_at: the kill before which it has ended by itself."""

    def __init__(self, breaks_at: int = 0) -> None:
        self.kills = 1
        self.starts = 0
        self._breaks_at = breaks_at

    def kill(self) -> None:
        if self.kills + 1 == self._breaks_at:
            raise NotDone("node 1 is exited")
        self.kills += 1

    def start(self) -> None:
        self.starts += 1


class Clock:
    """Waits that take no time; ends_at: the wait, from 1, during which the loop is ended."""

    def __init__(self, ends_at: int = 0) -> None:
        self.waited_s: list[float] = []
        self.comes = threading.Event()
        self._ends_at = ends_at

    def wait(self, is_over: threading.Event, seconds: float) -> bool:
        self.waited_s.append(seconds)
        if len(self.waited_s) != self._ends_at:
            return False
        self.comes.set()
        return is_over.wait(5.0)


def test_it_is_killed_so_often_and_stays_up_after_the_last_start() -> None:
    node, clock = Node(), Clock()
    loop = CrashLoop(3, 0.25, node.kill, node.start, clock.wait)
    loop.begin()
    loop._thread.join()
    assert (node.kills, node.starts, clock.waited_s) == (3, 3, [0.25, 0.25])
    assert loop.end() == "killed 3 of 3 times"


def test_a_loop_of_one_is_a_kill_and_a_start() -> None:
    node = Node()
    loop = CrashLoop(1, 9.0, node.kill, node.start)
    loop.begin()
    assert (loop.end(), node.kills, node.starts) == ("killed 1 of 1 times", 1, 1)


def test_an_ended_loop_kills_no_more_and_reports_its_kills() -> None:
    node, clock = Node(), Clock(ends_at=2)
    loop = CrashLoop(9, 1.0, node.kill, node.start, clock.wait)
    loop.begin()
    assert clock.comes.wait(5.0)
    assert loop.end() == loop.end() == "killed 2 of 9 times"
    assert (node.kills, node.starts) == (2, 2)


def test_a_node_that_ended_in_another_way_was_not_killed_as_often_as_was_asked() -> None:
    node = Node(breaks_at=3)
    loop = CrashLoop(4, 0.0, node.kill, node.start, Clock().wait)
    loop.begin()
    loop._thread.join()
    with pytest.raises(NotDone, match="killed 2 of 4 times: node 1 is exited"):
        loop.end()


@pytest.mark.parametrize(
    ("times", "breaks_at", "kills", "has_looped"),
    [(1, 0, 1, True), (2, 2, 1, False), (3, 2, 1, False), (3, 3, 2, True), (3, 0, 3, True)],
)
def test_asked_for_more_than_one_kill_a_loop_has_acted_from_the_second_on(
    times: int, breaks_at: int, kills: int, *, has_looped: bool
) -> None:
    node = Node(breaks_at)
    loop = CrashLoop(times, 0.0, node.kill, node.start, Clock().wait)
    assert loop.has_looped() is (times == 1)
    loop.begin()
    loop._thread.join()
    assert (node.kills, loop.has_looped()) == (kills, has_looped)


class OneNode:
    """A cluster's node that is killed once, and does not run again."""

    def __init__(self) -> None:
        self.word = "running"

    def status(self, node: int) -> str:
        return self.word

    def kill(self, node: int) -> None:
        self.word = "exited"

    def exit_code(self, node: int) -> int:
        return KILLED_EXIT_CODE


@pytest.mark.parametrize(("times", "has_fired"), [(1, True), (2, False)])
def test_a_step_whose_loop_killed_but_once_of_several_times_has_not_fired(
    times: int, *, has_fired: bool
) -> None:
    cluster: Any = OneNode()
    fault = f.CrashLoop("broker-1", times, every_ms=0)
    nodes = NodeFaults(cluster, lambda node: None)
    acting = nodes.crash_again_and_again(fault, lambda words: 1)
    assert StepDone(Step(0, fault), missed="", acting=acting).has_fired is has_fired
    with contextlib.suppress(NotDone):  # the thread's end
        acting.revert()
