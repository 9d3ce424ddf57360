"""Fail-points: arming, reaching and counting."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind, TraceEvent
from highwater_core.fail_points import (
    BROKER_FAIL_POINTS,
    CONTROLLER_FAIL_POINTS,
    FailPoint,
    FailPoints,
)
from highwater_core.messages import FailPointAction, SetFailPointRequest
from highwater_core.traces import TraceRecorder
from highwater_simulator.kernel import Kernel

HERE = FailPoint.BEFORE_LOG_FLUSH
ELSEWHERE = FailPoint.BEFORE_ISR_WRITE


@dataclass
class Scene:
    kernel: Kernel = field(default_factory=Kernel)
    events: list[TraceEvent] = field(default_factory=list)
    passed_ms: list[int] = field(default_factory=list)
    exits: int = 0

    def __post_init__(self) -> None:
        self.runtime = self.kernel.runtime("broker-1")
        trace = TraceRecorder(self.runtime, 1, 1, self.events.append)
        self.points = FailPoints(self.runtime, trace, self._exit_now, BROKER_FAIL_POINTS)

    def _exit_now(self) -> None:
        self.exits += 1

    def pass_by(self, times: int = 1) -> list[int]:
        """Run a task that passes the seam, and return the time of each pass."""

        async def work() -> None:
            for _ in range(times):
                await self.points.reach(HERE)
                self.passed_ms.append(self.runtime.now_ms())

        self.runtime.start("passer", work())
        self.kernel.run_for(1_000)
        return self.passed_ms

    def hits(self) -> list[tuple[str, str]]:
        return [
            (event.detail["name"], event.detail["action"])
            for event in self.events
            if event.kind is EventKind.FAIL_POINT_HIT
        ]


@pytest.fixture
def scene() -> Iterator[Scene]:
    made = Scene()
    yield made
    made.kernel.close()


def test_a_seam_that_is_not_armed_is_passed_without_a_wait(scene: Scene) -> None:
    scene.points.arm(ELSEWHERE, FailPointAction.EXIT)
    work = scene.points.reach(HERE)
    with pytest.raises(StopIteration):
        work.send(None)
    assert (scene.exits, scene.hits()) == (0, [])


def test_delay_holds_back_each_pass_and_is_traced(scene: Scene) -> None:
    assert scene.points.arm(HERE, FailPointAction.DELAY, delay_ms=40) is ErrorCode.NONE
    assert scene.pass_by(times=2) == [40, 80]
    assert scene.hits() == [("before_log_flush", "delay")] * 2


def test_after_its_count_of_hits_a_fail_point_disarms_itself(scene: Scene) -> None:
    scene.points.arm(HERE, FailPointAction.DELAY, count=2, delay_ms=10)
    assert scene.pass_by(times=4) == [10, 20, 20, 20]
    assert len(scene.hits()) == 2


def test_exit_is_traced_first_and_nothing_behind_the_seam_happens(scene: Scene) -> None:
    scene.points.arm(HERE, FailPointAction.EXIT, count=1)
    assert scene.pass_by() == []
    assert (scene.exits, scene.hits()) == (1, [("before_log_flush", "exit")])


def test_off_disarms_and_arming_again_replaces(scene: Scene) -> None:
    scene.points.arm(HERE, FailPointAction.EXIT)
    scene.points.arm(HERE, FailPointAction.DELAY, delay_ms=5)
    assert scene.pass_by() == [5]
    assert scene.points.arm(HERE, FailPointAction.OFF) is ErrorCode.NONE
    assert scene.points.arm(HERE, FailPointAction.OFF) is ErrorCode.NONE
    assert scene.pass_by() == [5, 1_000]


@pytest.mark.parametrize(
    ("name", "count", "delay_ms", "error"),
    [
        ("before_log_flush", 0, 0, ErrorCode.NONE),
        ("before_log_flush", -1, 0, ErrorCode.INVALID_REQUEST),
        ("before_log_flush", 0, -1, ErrorCode.INVALID_REQUEST),
        ("no_such_seam", 0, 0, ErrorCode.INVALID_REQUEST),
        ("during_failover", 0, 0, ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_node_arms_its_own_seams_only(
    scene: Scene, name: str, count: int, delay_ms: int, error: ErrorCode
) -> None:
    request = SetFailPointRequest(name, FailPointAction.DELAY, count, delay_ms)
    assert scene.points.answer(request).error is error


def test_every_seam_belongs_to_one_kind_of_node() -> None:
    assert (*BROKER_FAIL_POINTS, *CONTROLLER_FAIL_POINTS) == tuple(FailPoint)
