"""A run whose fault must have changed a leader proves nothing when none changed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from highwater.runs.plans.leader_changes import leader_changes
from highwater.runs.plans.schedule import StepDone
from highwater_chaos import faults as f
from highwater_chaos.plan import Step
from highwater_checker.looks import Look
from highwater_checker.verdict import Requirement
from highwater_core.ids import NodeId, TopicPartition
from highwater_core.messages import NodeSnapshot, ReplicaSnapshot

SESSION_MS = 2_000
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
    return list(leader_changes(steps, looks, BEGIN_NS, SESSION_MS))


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


def test_a_later_leader_counts_even_if_the_first_leads_again_at_the_end() -> None:
    back = look(9_000, leader=1, leader_epoch=2)
    step = done(f.Kill("broker-1", 4_000), node=1)
    (requirement,) = required([step], LED, look(3_500, leader=0, leader_epoch=1), back)
    assert requirement.met
    assert requirement.evidence == "broker 1 led at leader_epoch 0, then broker 0 at 1"


def test_a_node_that_misses_one_look_takes_nothing_from_what_is_required() -> None:
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
