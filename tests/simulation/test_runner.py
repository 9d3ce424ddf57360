"""Runs of whole plans: they repeat, end at the first violation, and report excused losses."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import msgspec
import pytest

from highwater_broker.partition import Partition
from highwater_chaos import faults as f
from highwater_chaos.plan import (
    Consumer,
    Latencies,
    Network,
    Plan,
    PlanTopology,
    Producer,
    Step,
    Topic,
    Workload,
)
from highwater_checker.history import OperationType, sends_of
from highwater_checker.stories.entries import Note
from highwater_core.config import Preset
from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import TopicPartition
from highwater_planted import planted
from highwater_simulator import runner
from highwater_simulator.runner import CRASH, MINIMUM_PROBED, NOT_READY, PlanRun, run_plan
from tests.support.presets import each_preset

AT = TopicPartition("t", 0)
PLAN = Plan(
    seed=3,
    topology=PlanTopology(
        broker_settings={"session_timeout_ms": 500, "replica_lag_time_max_ms": 500},
        controller_settings={"session_timeout_ms": 500},
    ),
    workload=Workload(producers=(Producer(rate_per_s=40),)),
    steps=(Step(100, f.Kill("leader of t-0", 300)),),
    quiet_after_ms=1_500,
)


def changed(**more: Any) -> Plan:
    return msgspec.structs.replace(PLAN, **more)


def test_a_run_passes_and_reports_its_steps() -> None:
    result = run_plan(PLAN)
    assert result.passed
    assert (result.violation, result.flags, result.excused) == (None, (), ())
    assert result.acknowledged > 20
    assert result.outcome.fired == [PLAN.steps[0]]
    assert result.marks["became_leader"] >= 2
    assert result.simulated_ns > PLAN.quiet_after_ms * 1_000_000
    assert result.events > 1_000
    assert {event.process for event in result.history} >= {"p0", "c0"}


def test_equal_plans_give_equal_runs_and_other_seeds_others() -> None:
    plan = changed(network=Network(shuffles_ties=True))
    digest = run_plan(plan).digest()
    assert run_plan(plan).digest() == digest
    assert run_plan(msgspec.structs.replace(plan, seed=4)).digest() != digest


def test_the_network_is_as_the_plan_says() -> None:
    def acknowledged(network: Network) -> int:
        return run_plan(changed(network=network, steps=())).acknowledged

    assert acknowledged(Network(minimum_us=60_000, maximum_us=70_000)) < acknowledged(Network())


def test_a_violation_ends_the_run_with_its_trace() -> None:
    with planted("acknowledged_on_append"):
        result = run_plan(changed(steps=()))
    assert result.violation is not None
    assert (result.violation.invariant, result.violation.topic) == ("I1", "t")
    assert not result.passed
    last = result.trace.entries[-1]
    assert last.at_ns == result.violation.at_ns == result.simulated_ns
    assert str(result.violation) in str(last)


def test_an_error_of_a_node_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(self: Partition, *args: Any) -> None:
        raise ZeroDivisionError("an error of a node")

    monkeypatch.setattr(Partition, "append", fails)
    result = run_plan(PLAN)
    assert result.violation is not None
    assert result.violation.invariant == CRASH
    assert "an error of a node" in result.violation.message


def test_a_cluster_that_does_not_begin_to_work_is_a_violation() -> None:
    result = run_plan(changed(network=Network(minimum_us=700_000, maximum_us=800_000)))
    assert result.violation is not None
    assert result.violation.invariant == NOT_READY


def test_a_loss_of_a_lone_disk_is_excused_and_counted() -> None:
    slow_flush = {**PLAN.topology.broker_settings, "log_flush_interval_ms": 10_000}
    result = run_plan(
        changed(
            topology=PlanTopology(
                broker_settings=slow_flush, controller_settings={"session_timeout_ms": 500}
            ),
            workload=Workload((Topic(replication_factor=1),), (Producer(rate_per_s=40),), ()),
            steps=(Step(1_000, f.Kill("leader of t-0", 300, f.DiskAtStart.EMPTY)),),
        )
    )
    assert result.violation is None
    assert result.excused == ((AT, 0),)


def test_a_loss_of_records_that_another_replica_holds_is_no_excuse() -> None:
    with planted("acknowledged_on_append"):
        result = run_plan(changed(steps=(Step(500, f.PowerLoss("leader of t-0", 300)),)))
    assert result.violation is not None
    assert result.excused == ()


@pytest.mark.parametrize("left_behind", ["broker-1", "controller-1000"])
def test_a_small_core_makes_progress_without_the_rest(left_behind: str) -> None:
    names = ("broker-0", "broker-1", "broker-2", "controller-1000", "controller-1001")
    run = PlanRun(changed(core=tuple(name for name in names if name != left_behind)))
    result = run.run()
    assert result.violation is None
    leadership = run.world.partition_state(AT)
    assert leadership is not None
    assert (1 in leadership.isr) is (left_behind != "broker-1")


def test_a_replica_that_does_not_get_the_probe_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    probe = PlanRun._probe

    def then_stop_fetching(self: PlanRun, core: Any) -> None:
        leadership = self.world.partition_state(AT)
        assert leadership is not None
        follower = next(int(each) for each in leadership.isr if each != leadership.leader)
        node = self.world.broker_node(follower)
        assert node is not None
        node._fetchers.remove(AT)
        probe(self, core)

    monkeypatch.setattr(PlanRun, "_probe", then_stop_fetching)
    monkeypatch.setattr(runner, "SETTLE_WITHIN_MS", 3_000)
    result = run_plan(changed(steps=()))
    assert result.violation is not None
    assert result.violation.invariant in ("L4", "L8")


def test_a_leader_goes_on_without_a_follower_that_cannot_fetch_and_takes_it_back() -> None:
    result = run_plan(changed(steps=(), probes_shrinking=True))
    assert result.passed
    cut = next(
        number
        for number, entry in enumerate(result.trace.entries)
        if isinstance(entry.event, Note) and "cannot fetch from" in entry.event.what
    )
    isrs = [
        len(entry.event.detail["isr"])
        for entry in result.trace.entries[cut:]
        if isinstance(entry.event, TraceEvent) and entry.event.kind is EventKind.ISR_CHANGED
    ]
    assert isrs == [2, 3]
    assert run_plan(changed(steps=())).marks["isr_changed"] == 0


LATE = Network(latencies=Latencies.HEAVY_TAILED, minimum_us=1_000, maximum_us=30_000)
"""A message may take 7.9 s; the bounds of a run's phases are longer by that."""


@pytest.mark.parametrize("network", [Network(), LATE], ids=["even", "heavy-tailed"])
def test_a_leader_that_keeps_a_follower_that_cannot_fetch_is_seen(network: Network) -> None:
    with planted("isr_never_shrinks"):
        assert run_plan(changed(steps=(), network=network)).passed
        result = run_plan(changed(steps=(), probes_shrinking=True, network=network))
    assert result.violation is not None
    assert result.violation.invariant == "L5"


RAISED = changed(steps=(Step(200, f.ChangeConfig("t", "min.insync.replicas", "2")),))


@pytest.mark.parametrize("preset", each_preset())
def test_a_record_that_too_few_have_is_not_acknowledged_once_the_minimum_is_raised(
    preset: Preset,
) -> None:
    result = run_plan(
        msgspec.structs.replace(
            RAISED, topology=msgspec.structs.replace(RAISED.topology, preset=preset)
        )
    )
    assert result.violation is None
    assert result.marks[MINIMUM_PROBED] == 1


def test_a_broker_that_ignores_a_raised_minimum_is_seen() -> None:
    with planted("raised_minimum_ignored"):
        violation = run_plan(RAISED).violation
    assert violation is not None
    assert violation.invariant == "I17"


def test_a_consumer_that_never_reads_is_missed() -> None:
    plan = changed(workload=Workload(producers=(Producer(rate_per_s=40),), consumers=(Consumer(),)))
    run = PlanRun(plan)
    run.load.consumers[0].now.stop()
    result = run.run()
    assert result.violation is not None
    assert result.violation.invariant == "unseen"


@pytest.mark.parametrize("client", ["p0", "c0", "any"])
def test_clients_are_killed_and_started_again_with_values_of_their_own(client: str) -> None:
    steps = (Step(300, f.KillClient(client, 200)), Step(900, f.KillClient(client)))
    workload = Workload(producers=(Producer(rate_per_s=2_000),), consumers=(Consumer(),))
    result = run_plan(changed(steps=steps, workload=workload))
    assert result.passed, result.violation
    assert result.outcome.fired == list(steps)
    processes = {event.process for event in result.history} - {"admin"}
    dead = {name for name in ("p0", "c0") if client in (name, "any")}
    assert processes == {"p0", "c0"} | {f"{name}.{n}" for name in dead for n in (2, 3)}
    invoked = [event.value for event in result.history if event.type is OperationType.INVOKE]
    assert len(set(invoked)) == len(invoked)
    if "p0" in dead:
        unknown = [
            sends_of([event for event in result.history if event.process == process]).unknown
            for process in ("p0", "p0.2", "p0.3")
        ]
        assert [bool(each) for each in unknown] == [True, True, False]


@pytest.mark.parametrize("bug", ["", "deleted_log_reused"])
def test_a_topic_that_is_created_again_begins_anew(bug: str) -> None:
    recreated = changed(
        steps=(
            Step(0, f.CreateTopic("x", 1, 2, records=3)),
            Step(700, f.DeleteTopic("x")),
            Step(1_500, f.CreateTopic("x", 1, 2, records=1)),
        ),
        quiet_after_ms=2_500,
    )
    with planted(bug) if bug else nullcontext():
        violation = run_plan(recreated).violation
    assert (violation is None) is (not bug)
    assert violation is None or (violation.invariant, violation.topic) == ("I13", "x")


def test_the_oracle_knows_who_is_assigned_from_a_partitions_first_state_on() -> None:
    """Found: it read the assignment under another name, and had no bound for ISRs and minima."""
    run = PlanRun(PLAN)
    assert run.run().passed
    assert sorted(run.oracle.partitions[AT].assigned_replicas) == [0, 1, 2]
