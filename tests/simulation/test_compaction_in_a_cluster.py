"""Compacted topics in whole clusters: replicas compact at different times, and brokers crash."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import pytest

from highwater_chaos import faults as f
from highwater_chaos.plan import Plan, PlanTopology, Producer, Step, Topic, Workload
from highwater_core.events import EventKind, TraceEvent
from highwater_planted import PLANTED, planted
from highwater_simulator.runner import RunResult, run_plan

OFTEN = {
    "segment_bytes": 700,
    "min_cleanable_dirty_ratio": 0,
    "log_cleaner_backoff_ms": 130,
    "log_flush_interval_ms": 150,
}


@dataclass(frozen=True)
class Compacted:
    """The events of a run in which a log was compacted."""

    result: RunResult

    @property
    def swaps(self) -> list[TraceEvent]:
        events = (getattr(entry, "event", None) for entry in self.result.trace.entries)
        return [
            event
            for event in events
            if isinstance(event, TraceEvent) and event.kind is EventKind.LOG_COMPACTED
        ]

    @property
    def removed_records(self) -> int:
        return sum(event.detail["removed_records"] for event in self.swaps)


def plan_of(steps: Sequence[Step] = (), *, seed: int = 1, keys: int = 4, **settings: int) -> Plan:
    return Plan(
        seed=seed,
        topology=PlanTopology(broker_settings={**OFTEN, **settings}),
        workload=Workload(
            topics=(Topic(is_compacted=True, min_insync_replicas=2),),
            producers=(Producer(keys=keys, rate_per_s=80, max_in_flight=5),),
        ),
        steps=tuple(steps),
        quiet_after_ms=2_400,
    )


def compacted(plan: Plan) -> Compacted:
    found = Compacted(run_plan(plan))
    assert found.result.violation is None
    assert found.removed_records > 50
    return found


def test_every_replica_compacts_for_itself() -> None:
    found = compacted(plan_of())
    assert {event.node for event in found.swaps} == {0, 1, 2}
    assert all(event.detail["dirty_end"] <= event.detail["high_watermark"] for event in found.swaps)


def test_a_follower_that_was_away_goes_on_in_a_log_compacted_meanwhile() -> None:
    steps = [Step(600, f.Kill("broker-2", 1_700)), Step(2_350, f.Kill("leader of t-0", 900))]
    compacted(plan_of(steps))


def test_a_follower_that_comes_back_empty_copies_a_compacted_log() -> None:
    steps = [Step(1_500, f.Kill("broker-2", 300, disk=f.DiskAtStart.EMPTY))]
    compacted(plan_of(steps))


def test_passes_with_room_for_few_keys_are_many() -> None:
    assert compacted(plan_of(keys=12, log_cleaner_keys_max=2)).swaps


def test_a_policy_that_changes_is_obeyed() -> None:
    steps = [
        Step(500, f.ChangeConfig("t", "cleanup.policy", "delete")),
        Step(1_500, f.ChangeConfig("t", "cleanup.policy", "compact,delete")),
    ]
    found = compacted(plan_of(steps))
    times_ms = sorted((event.ts_ns - found.swaps[0].ts_ns) // 1_000_000 for event in found.swaps)
    assert max(late - early for early, late in pairwise(times_ms)) > 700


@pytest.mark.parametrize("lost", [f.Kill, f.PowerLoss])
@pytest.mark.parametrize("at_ms", range(1_000, 1_100, 33))
def test_a_crash_at_any_time_loses_nothing(
    lost: type[f.Kill] | type[f.PowerLoss], at_ms: int
) -> None:
    steps = [Step(at_ms, lost("broker-1", 300)), Step(at_ms + 777, lost("leader of t-0", 300))]
    compacted(plan_of(steps, seed=at_ms))


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("compaction_drops_newest", ()),
        (
            "compaction_above_high_watermark",
            tuple(Step(900, f.Pause(f"{which}follower of t-0", 1_200)) for which in ("", "last ")),
        ),
        (
            "compacted_segment_not_synced",
            tuple(Step(1_100 + 450 * each, f.PowerLoss("broker-1", 40)) for each in range(3)),
        ),
    ],
)
def test_a_mistake_of_compaction_is_seen(name: str, steps: Sequence[Step]) -> None:
    # A mistake shows where a flush comes between two passes: no one interval is sure to have that.
    for interval_ms in (250, 370, 490):
        plan = plan_of(steps, log_flush_interval_ms=interval_ms)
        assert run_plan(plan).violation is None
        with planted(name):
            violation = run_plan(plan).violation
        if violation is not None:
            break
    assert violation is not None
    assert violation.invariant in PLANTED[name].breaks
