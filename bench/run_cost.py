"""Times a run in containers without its plan's own time: a plan without steps, by phase."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from highwater.cluster.cluster import Cluster
from highwater.errors import HarnessError
from highwater.faults.on_containers import ContainerFaults
from highwater.report.screen import Screen
from highwater.run_folder import RunFolder, new_run_id
from highwater.runs.plans import in_containers
from highwater.runs.plans.load_process import LoadProcess
from highwater_chaos.plan import Consumer, Plan, PlanTopology, Producer, Topic, Workload
from highwater_checker.verdict import Outcome

QUIET_MS = 3_000
"""The plan's own time, in which clients work; it does not count as a cost."""

PHASES: tuple[tuple[str, type, str], ...] = (
    ("the cluster starts", Cluster, "start"),
    ("clients start, topics and full ISRs", LoadProcess, "await_done"),
    ("all is healed, and compared with before", ContainerFaults, "heal_all"),
    ("clients stop, replicas are level, all is read", in_containers._Run, "_settle"),
    ("evidence is copied out, nodes stop", Cluster, "collect"),
    ("the cluster is removed", Cluster, "stop"),
    ("evidence is judged, report written", in_containers._Run, "conclude"),
)
"""Each phase, with the call that takes its time."""
WHOLE = "all of it"
REST = "the rest"


def plan_without_steps() -> Plan:
    workload = Workload((Topic(min_insync_replicas=2),), (Producer(rate_per_s=50),), (Consumer(),))
    return Plan(1, topology=PlanTopology(), workload=workload, quiet_after_ms=QUIET_MS)


def measure_run(folder: Path) -> dict[str, float]:
    """Return the seconds of each phase of a run, and of the whole run, without the plan's own time.

    Raises:
        HarnessError: the run did not pass, so that its times mean nothing.
    """
    took: dict[str, float] = {}
    with _timed(took), Screen() as screen:
        began = time.perf_counter()
        result = in_containers.run_in_containers(
            plan_without_steps(), RunFolder(folder / new_run_id("bench")), screen
        )
        whole_s = time.perf_counter() - began - QUIET_MS / 1000
    if result.verdict.outcome is not Outcome.PASS:
        raise HarnessError("\n".join(result.verdict.reasons))
    return {**took, REST: whole_s - sum(took.values()), WHOLE: whole_s}


@contextmanager
def _timed(took: dict[str, float]) -> Iterator[None]:
    """Within the block, time each phase's call."""
    plain = [(owner, name, getattr(owner, name)) for _, owner, name in PHASES]
    for phase, owner, name in PHASES:
        setattr(owner, name, _timing(getattr(owner, name), phase, took))
    try:
        yield
    finally:
        for owner, name, call in plain:
            setattr(owner, name, call)


def _timing(call: Callable[..., Any], phase: str, took: dict[str, float]) -> Callable[..., Any]:
    @functools.wraps(call)
    def timed(*arguments: Any, **named: Any) -> Any:
        began = time.perf_counter()
        try:
            return call(*arguments, **named)
        finally:
            took[phase] = took.get(phase, 0.0) + time.perf_counter() - began

    return timed
