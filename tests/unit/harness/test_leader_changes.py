"""A run is unknown if its fault should have changed a leader or the controller and did not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from highwater.runs.plans.leader_changes import (
    controller_changes,
    leader_changes,
    takeovers,
)
from highwater.runs.plans.schedule import StepDone
from highwater_chaos import faults as f
from highwater_chaos.plan import Expected, Plan, Step
from highwater_checker.history import Acknowledged
from highwater_checker.looks import Look
from highwater_checker.verdict import Requirement
from highwater_core.ids import NodeId, TopicPartition
from highwater_core.messages import NodeSnapshot, ReplicaSnapshot

SESSION_MS = 2_000
QUIET_MS = 60_000
"""When all is healed, in the plan's time."""
MS = 1_000_000
BEGIN_NS = 700 * MS
"""When the plan's time began in that of the looks."""


def look(at_ms: int, leader: int, leader_epoch: int, *, isr: tuple[int, ...] = (0, 1, 2)) -> Look:
    """Return a look in which that broker says it leads t-0, and all answer."""
    replica = ReplicaSnapshot(
        topic_partition=TopicPartition("t", 0),
        role="leader",
        leader=NodeId(leader),
        leader_epoch=leader_epoch,
        controller_epoch=1,
        isr=tuple(NodeId(broker) for broker in isr),
        high_watermark=9,
        log_start_offset=0,
        log_end_offset=9,
        partition_epoch=1,
        assigned_replicas=(NodeId(0), NodeId(1), NodeId(2)),
    )
    nodes = {
        broker: NodeSnapshot(
            node_id=NodeId(broker),
            kind="broker",
            incarnation=1,
            preset="fenced",
            controller_epoch=1,
            replicas=(replica,) if broker == leader else (),
        )
        for broker in range(3)
    }
    return Look(BEGIN_NS + at_ms * MS, nodes)


def done(fault: f.Fault, node: int | None, acted_ms: int = 1_000) -> StepDone:
    return StepDone(Step(1_000, fault), 1_000, acted_ms, acted_ms, acted_ms, node, "seen", "")


def required(steps: list[StepDone], *looks: Look) -> list[Requirement]:
    found = leader_changes(steps, looks, BEGIN_NS, SESSION_MS, QUIET_MS)
    return [change.requirement() for change in found]


def test_the_gap_of_a_change_is_the_pause_in_which_nobody_led() -> None:
    acknowledged = [
        Acknowledged(
            "t", 0, offset, f"v{offset}", invoked_ns=0, acknowledged_ns=BEGIN_NS + at_ms * MS
        )
        for offset, at_ms in enumerate((400, 990, 3_600, 3_700))
    ]
    step = done(f.Kill("broker-1", 4_000), node=1)
    (change,) = leader_changes([step], [LED, look(3_500, 2, 1)], BEGIN_NS, SESSION_MS, QUIET_MS)
    gap = change.gap(acknowledged)
    assert gap is not None
    assert (gap.topic, gap.partition, round(gap.length_s, 2)) == ("t", 0, 2.61)
    assert change.gap(acknowledged[:1]) is None


LED = look(900, leader=1, leader_epoch=0)


@pytest.mark.parametrize(
    "fault",
    [
        f.Kill("broker-1", 4_000),
        f.Pause("leader of t-0"),
        f.Isolate("broker-1", 4_000),
        f.Cut("broker-1", "zookeeper", "zookeeper", for_ms=4_000),
    ],
)
@pytest.mark.parametrize(
    ("after", "changed"),
    [
        (look(3_500, leader=2, leader_epoch=1), True),
        (look(3_500, leader=1, leader_epoch=1), False),
        (look(3_500, leader=1, leader_epoch=0), False),
    ],
)
def test_a_leader_that_is_out_for_long_must_have_a_successor(
    fault: f.Fault, after: Look, changed: bool
) -> None:
    (requirement,) = required([done(fault, node=1)], LED, after)
    assert requirement.met is changed
    assert requirement.name.startswith("t-0 changed its leader: ")


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(done(f.Kill("broker-1", 2 * SESSION_MS - 1), node=1), id="too short"),
        pytest.param(done(f.Kill("broker-2", 4_000), node=2), id="it leads nothing"),
        pytest.param(done(f.Terminate("broker-1", 4_000), node=1), id="it hands over"),
        pytest.param(
            replace(done(f.Kill("broker-1", 4_000), node=1), missed="nobody"), id="not done"
        ),
        pytest.param(done(f.Kill("broker-1", 4_000), node=1, acted_ms=100), id="led nothing yet"),
        pytest.param(
            done(f.Cut("broker-1", "broker-2", "replication", for_ms=4_000), node=None),
            id="ZooKeeper hears of it",
        ),
    ],
)
def test_nothing_is_required_where_no_leader_must_change(step: StepDone) -> None:
    assert required([step], LED) == []


def test_nothing_is_required_of_a_partition_without_another_member_that_answers() -> None:
    alone = look(900, leader=1, leader_epoch=0, isr=(1,))
    silent = replace(LED, nodes={**LED.nodes, 0: None, 2: None})
    for before in (alone, silent):
        assert required([done(f.Kill("broker-1", 4_000), node=1)], before) == []


@pytest.mark.parametrize(
    ("at_ms", "is_required"), [(0, True), (2_000, False), (5_100, False), (7_100, True)]
)
def test_nothing_is_required_while_zookeeper_is_out(at_ms: int, is_required: bool) -> None:
    killed = done(f.Kill("broker-1", 4_000), node=1, acted_ms=3_000)
    restarted = done(f.RestartZooKeeper(500), node=None, acted_ms=at_ms)
    led = look(2_900, leader=1, leader_epoch=0)
    assert bool(required([killed, restarted], led)) is is_required


def test_a_later_leader_counts_even_if_the_first_leads_again_at_the_end() -> None:
    back = look(9_000, leader=1, leader_epoch=2)
    step = done(f.Kill("broker-1", 4_000), node=1)
    (requirement,) = required([step], LED, look(3_500, leader=0, leader_epoch=1), back)
    assert requirement.met
    assert requirement.evidence == "broker 1 led at leader_epoch 0, then broker 0 at 1"


def test_a_node_that_misses_one_look_lifts_no_requirement() -> None:
    """A snapshot is asked for in bounded time; on a busy machine one comes late now and then."""

    def silent(at_ms: int, *brokers: int) -> Look:
        seen = look(at_ms, leader=1, leader_epoch=0)
        return replace(seen, nodes={**seen.nodes, **dict.fromkeys(brokers)})

    looks = [
        LED,
        silent(950, 1),
        *(silent(1_000 + 100 * n, *((0, 2) if n % 5 else ())) for n in range(40)),
    ]
    (requirement,) = required([done(f.Kill("broker-1", 4_000), node=1)], *looks)
    assert not requirement.met


def test_nothing_is_required_once_the_other_member_is_silent_for_half_a_session() -> None:
    gone = replace(look(2_100, leader=1, leader_epoch=0), nodes=dict.fromkeys(range(3)))
    assert required([done(f.Kill("broker-1", 4_000), node=1)], LED, gone) == []


def active(at_ms: int, node: int, controller_epoch: int, *silent: int) -> Look:
    """Return a look in which that controller of two says it is active."""
    nodes = {
        each: NodeSnapshot(
            node_id=NodeId(each),
            kind="controller",
            incarnation=1,
            preset="fenced",
            controller_epoch=controller_epoch,
            active_controller=each == node,
        )
        for each in (1000, 1001)
    }
    return Look(BEGIN_NS + at_ms * MS, {**nodes, **dict.fromkeys(silent)})


WAS_ACTIVE = active(900, 1000, 1)
KILLED = done(f.Kill("active controller", 4_000), node=1000)


@pytest.mark.parametrize(
    ("after", "changed"),
    [
        (active(3_500, 1001, 2, 1000), True),
        (active(6_000, 1000, 2), False),
        (active(3_500, 1000, 1), False),
    ],
)
def test_another_controller_must_be_active_after_a_kill(after: Look, changed: bool) -> None:
    found = controller_changes([KILLED], [WAS_ACTIVE, after], BEGIN_NS, SESSION_MS, QUIET_MS)
    (requirement,) = found
    assert requirement.met is changed
    assert requirement.name == "another controller was active: kill of 1000 at 1000 ms"


@pytest.mark.parametrize(
    ("steps", "looks"),
    [
        pytest.param([KILLED], [active(900, 1001, 1)], id="it was not active"),
        pytest.param([KILLED], [active(900, 1000, 1, 1001)], id="there is no other"),
        pytest.param(
            [done(f.Kill("controller-1000", 2 * SESSION_MS - 1), node=1000)],
            [WAS_ACTIVE],
            id="too short",
        ),
        pytest.param(
            [KILLED, done(f.Isolate("controller-1001", 500), node=1001)],
            [WAS_ACTIVE],
            id="something was done to the other",
        ),
        pytest.param(
            [KILLED, done(f.Kill("broker-0"), node=0), done(f.PauseZooKeeper(500), node=None)],
            [WAS_ACTIVE],
            id="something was done to ZooKeeper",
        ),
    ],
)
def test_no_other_controller_is_required_where_none_must_be(
    steps: list[StepDone], looks: list[Look]
) -> None:
    assert list(controller_changes(steps, looks, BEGIN_NS, SESSION_MS, QUIET_MS)) == []


def test_faults_on_brokers_and_clients_lift_no_requirement_of_controllers() -> None:
    steps = [KILLED, done(f.Kill("broker-0"), node=0), done(f.KillClient(), node=None)]
    looks = [WAS_ACTIVE, active(3_500, 1000, 1)]
    assert not next(controller_changes(steps, looks, BEGIN_NS, SESSION_MS, QUIET_MS)).met


# ---------------------------------------------------------------- faults without a leader change


def test_a_fault_that_was_healed_before_its_time_need_not_change_anything() -> None:
    step, looks = done(f.Pause("broker-1", 4_500), node=1), [LED, look(3_500, 1, 0)]
    for quiet_after_ms, count in ((4_999, 0), (5_000, 1)):
        found = leader_changes([step], looks, BEGIN_NS, SESSION_MS, quiet_after_ms)
        assert len(list(found)) == count


def test_where_all_others_of_the_isr_were_hit_too_nobody_need_take_over() -> None:
    killed = [done(f.Kill(f"broker-{node}", 4_000), node=node) for node in range(3)]
    assert required(killed, LED, look(3_500, 1, 0)) == []
    assert len(required(killed[:2], LED, look(3_500, 2, 1))) == 1


@pytest.mark.parametrize(("least", "met"), [(0, []), (1, [True]), (2, [False])])
def test_a_plan_may_demand_that_takeovers_could_be_judged(least: int, met: list[bool]) -> None:
    plan = Plan(seed=1, quiet_after_ms=QUIET_MS, expected=Expected(least_takeovers=least))
    step = done(f.Kill("broker-1", 4_000), node=1)
    looks = [LED, look(3_500, 2, 1)]
    required = takeovers(plan, [step], looks, BEGIN_NS, SESSION_MS)
    (change,) = leader_changes([step], looks, BEGIN_NS, SESSION_MS, QUIET_MS)
    assert required[0] == change.requirement()
    assert [each.met for each in required[1:]] == met
