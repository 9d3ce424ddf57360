"""Groups in plans: members share a topic, leave, return, die, and lose no committed offset."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from highwater_chaos import faults as f
from highwater_chaos.plan import Group, Plan, PlanTopology, Step, Topic, Workload
from highwater_checker.history import COMMIT, FETCH_COMMITTED, POLL, HistoryEvent, OperationType
from highwater_checker.invariants.committed_offsets import check_committed_offsets
from highwater_client.group_member import Assigned
from highwater_client.group_reader import GroupReader
from highwater_core.ids import Offset
from highwater_core.internal_topics import OFFSETS_TOPIC
from highwater_planted import planted
from highwater_simulator.runner import RunResult, run_plan

PLAN = Plan(
    seed=4,
    topology=PlanTopology(
        broker_settings={
            "session_timeout_ms": 500,
            "replica_lag_time_max_ms": 500,
            "group_min_session_timeout_ms": 100,
            "group_initial_rebalance_delay_ms": 100,
            "offsets_topic_partitions": 1,
        },
        controller_settings={"session_timeout_ms": 500},
    ),
    workload=Workload(
        topics=(Topic(partitions=3, min_insync_replicas=2),),
        groups=(Group(members=2, session_timeout_ms=800, request_timeout_ms=500),),
    ),
    quiet_after_ms=3_000,
)
KILLED = Step(1_000, f.Kill(f"leader of {OFFSETS_TOPIC}-0", 1_000))


def changed(*steps: Step, **of_group: Any) -> Plan:
    """Return the plan with these steps and its group changed."""
    group = replace(PLAN.workload.groups[0], **of_group)
    return replace(PLAN, steps=steps, workload=replace(PLAN.workload, groups=(group,)))


def passed(plan: Plan) -> RunResult:
    """Return the result of the run; it has no violation, nor one of committed offsets."""
    result = run_plan(plan)
    assert result.violation is None
    in_order = sorted(result.history, key=lambda event: event.time_ns)
    checked = check_committed_offsets(in_order)
    assert (checked.findings, checked.examined > 0) == ((), True)
    return result


def of_members(result: RunResult, function: str) -> list[HistoryEvent]:
    """Return the successful operations of groups' members."""
    return [
        event
        for event in result.history
        if event.function == function
        and event.type is OperationType.OK
        and event.process.startswith("g0m")
    ]


def test_members_share_the_partitions_and_commit_their_offsets() -> None:
    result = passed(PLAN)
    polls, commits = of_members(result, POLL), of_members(result, COMMIT)
    assert {event.process for event in polls} == {"g0m0", "g0m1"}
    assert {event.value for event in commits} == {"g0"}
    read = {(event.partition, event.offset) for event in polls}
    assert len(polls) == len(read) >= result.acknowledged


def test_a_group_goes_on_where_a_dead_coordinator_left_it() -> None:
    result = passed(changed(KILLED))
    assert result.outcome.fired == [KILLED]
    told = of_members(result, FETCH_COMMITTED)
    assert any(event.offset > 0 for event in told)


def test_members_that_go_come_again_and_read_on() -> None:
    result = passed(changed(stays_ms=700))
    one = [event for event in of_members(result, FETCH_COMMITTED) if event.process == "g0m0"]
    assert len({event.time_ns for event in one}) > 2


def test_a_killed_member_is_a_client_of_the_plan() -> None:
    kill = Step(1_200, f.KillClient("g0m1", 300))
    result = passed(changed(kill))
    assert result.outcome.fired == [kill]
    assert {"g0m1", "g0m1.2"} <= set(result.processes)
    assert "g0m1.2" in {event.process for event in of_members(result, FETCH_COMMITTED)}


def test_a_commit_that_is_acknowledged_too_soon_is_found() -> None:
    cut = Step(1_000, f.Isolate(f"leader of {OFFSETS_TOPIC}-0", 1_500))
    with planted("offset_commit_acknowledged_on_append"):
        found = run_plan(changed(cut)).violation
    assert found is not None
    assert found.invariant == "I14"


def test_records_that_no_member_reads_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each member skips the record after the last committed one."""
    read = GroupReader._read

    def skip_one(self: GroupReader, assigned: Assigned) -> None:
        ahead = {
            at: Offset(offset + 1) if offset > 0 else offset
            for at, offset in assigned.positions.items()
        }
        read(self, Assigned(assigned.generation, assigned.member_id, ahead))

    monkeypatch.setattr(GroupReader, "_read", skip_one)
    found = run_plan(changed(stays_ms=700)).violation
    assert found is not None
    assert found.invariant == "unseen"
