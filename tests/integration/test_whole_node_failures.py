"""Nodes die under load and come back: no acknowledged record is lost, whichever broker leads.

Under v3 no client writes while a broker is killed, so that HW = LEO everywhere and is checkpointed.
Otherwise that design loses records by its known flaw (catalogue row 1), not this test's subject.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater import ClientKind, Outcome, Plan, PlanResult
from highwater_chaos.faults import Fault, Kill, KillClient
from highwater_chaos.plan import Expected, PlanTopology, Producer, Step, Topic, Workload
from highwater_checker.looks import leaderships
from highwater_checker.run_folder.evidence import read_evidence
from highwater_core.config import Preset
from highwater_core.ids import TopicPartition
from tests.integration.plan_runs import run_plan

pytestmark = pytest.mark.docker

FIRST = TopicPartition("t", 0)
SESSION = {"session_timeout_ms": 2_000}
presets = pytest.mark.parametrize(
    "preset", [Preset.FENCED, pytest.param(Preset.V3, marks=pytest.mark.full)]
)


def kills(preset: Preset, *nodes: str, rests: bool) -> Plan:
    """Return a plan that kills the nodes at once under load.

    rests: whether the client is stopped from 2 s before the kill until 1 s after it.
    """
    faults: list[tuple[int, Fault]] = [(4_500, Kill(node, for_ms=6_000)) for node in nodes]
    if rests:
        faults.insert(0, (2_500, KillClient(for_ms=3_000)))
    return Plan(
        seed=1,
        topology=PlanTopology(
            preset=preset,
            broker_settings=SESSION | {"high_watermark_checkpoint_interval_ms": 500},
            controller_settings=SESSION,
        ),
        workload=Workload(
            (Topic(partitions=2, min_insync_replicas=2),),
            (Producer(rate_per_s=300, max_in_flight=5, batch_max_records=50, linger_ms=2),),
        ),
        steps=tuple(Step(at_ms, fault) for at_ms, fault in faults),
        quiet_after_ms=14_000,
        expected=Expected(least_acknowledged=600),
    )


def assert_passes(plan: Plan, folder: Path) -> PlanResult:
    result = run_plan(plan, folder, client=ClientKind.CONFLUENT)
    verdict = result.verdict
    assert verdict.outcome is Outcome.PASS, "\n".join(verdict.reasons)
    done = [each for each in verdict.requirements if each.name.startswith("done: ")]
    assert len(done) == len(plan.steps)
    return result


def assert_required(result: PlanResult, start: str) -> None:
    """Fail unless the run, which passed, has a requirement whose name begins with start."""
    names = [each.name for each in result.verdict.requirements]
    assert any(name.startswith(start) for name in names), names


def acknowledged_in_a_later_epoch(result: PlanResult) -> int:
    """Return the number of records of t-0 acknowledged after a look with a later leader epoch."""
    evidence = read_evidence(result.folder)
    epochs = [
        (look.time_ns, leadership.leader_epoch)
        for look in evidence.looks
        if (leadership := leaderships(look).get(FIRST)) is not None
    ]
    _, first = epochs[0]
    changed_ns = next(time_ns for time_ns, epoch in epochs if epoch > first)
    return sum(
        ack.acknowledged_ns > changed_ns
        for ack in evidence.sends.acknowledged
        if (ack.topic, ack.partition) == FIRST
    )


@presets
def test_no_acknowledged_record_is_lost_when_a_leader_is_killed(
    preset: Preset, tmp_path: Path
) -> None:
    plan = kills(preset, "leader of t-0", rests=preset is Preset.V3)
    result = assert_passes(plan, tmp_path)
    assert_required(result, "t-0 changed its leader: kill of broker ")
    assert acknowledged_in_a_later_epoch(result) >= 200
    if preset is Preset.FENCED:
        assert [gap.partition for gap in result.gaps] == [0]
        assert 1 < result.gaps[0].length_s < 10


@presets
def test_no_acknowledged_record_is_lost_when_the_active_controller_is_killed(
    preset: Preset, tmp_path: Path
) -> None:
    result = assert_passes(kills(preset, "active controller", rests=False), tmp_path)
    assert_required(result, "another controller was active: kill of 100")


@presets
def test_no_acknowledged_record_is_lost_when_all_brokers_are_killed(
    preset: Preset, tmp_path: Path
) -> None:
    plan = kills(preset, "broker-0", "broker-1", "broker-2", rests=preset is Preset.V3)
    # Their number depends on how soon a busy machine starts three brokers.
    assert acknowledged_in_a_later_epoch(assert_passes(plan, tmp_path)) > 0
