"""A failed run's nodes, stopped for their files, are started again and stay where they are to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from highwater.errors import ClusterStartFailed
from highwater.report.screen import Screen
from highwater.runs.plans.in_containers import left_up_if_failed
from highwater.runs.plans.outcome import PlanResult
from highwater_checker.finding import CheckResult, Finding
from highwater_checker.verdict import Requirement, Verdict, judge
from highwater_core.ids import NodeId


class StoppedCluster:
    """Stands for a cluster whose files were copied; notes what is done to it."""

    run_id, bootstrap = "again-1", "127.0.0.1:9"

    def __init__(self, *, comes_up: bool) -> None:
        self._comes_up = comes_up
        self.started: list[int] = []
        self.is_left_up = False

    def start_node(self, node: int) -> None:
        self.started.append(node)

    def wait_until_ready(self) -> None:
        if not self._comes_up:
            raise ClusterStartFailed("node 1 ended while the cluster started")

    def leave_up(self) -> None:
        self.is_left_up = True


def verdict_of(*invariants: str, met: bool = True) -> Verdict:
    findings = tuple(Finding(each, "why") for each in invariants)
    return judge([CheckResult("c", 1, findings)], [Requirement("r", met, "never")])


@pytest.mark.parametrize(
    ("verdict", "comes_up", "stays"),
    [
        (verdict_of(), True, False),
        (verdict_of(met=False), True, False),
        (verdict_of("I1"), True, True),
        (verdict_of("I1"), False, True),
    ],
)
def test_the_cluster_of_a_failed_run_is_left_up(
    verdict: Verdict, comes_up: bool, stays: bool
) -> None:
    cluster: Any = StoppedCluster(comes_up=comes_up)
    were_up = [NodeId(0), NodeId(1000)]
    screen = Screen(Console(quiet=True))
    result = left_up_if_failed(cluster, were_up, PlanResult(Path("runs/x"), verdict), screen)
    assert cluster.started == (were_up if stays else [])
    assert cluster.is_left_up is stays
    assert ("remove it: highwater down again-1" in result.left_up) is stays
