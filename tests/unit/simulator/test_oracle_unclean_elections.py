"""The oracle knows which elections from outside the ISR an operator allows, and what they cost."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from highwater_core import znodes
from highwater_core.admin_messages import ConfigEntity, ElectionType
from highwater_core.config_layers import EVERY_BROKER, UNCLEAN_ELECTION, ConfigOwner
from highwater_core.config_znodes import config_path
from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import NO_TOPIC_ID, NodeId, TopicPartition
from highwater_core.ports import Stat
from highwater_core.topic_znode import Reassignment, encode_topic
from highwater_simulator.oracle.losses import Excuse
from highwater_simulator.oracle.unclean_elections import UncleanElections
from highwater_wire.kafka.admin_messages import ElectLeadersRequest
from tests.unit.simulator.test_oracle_partition import AT, NOW_NS, Judged, record, written

OTHER = TopicPartition("u", 0)
OF_TOPIC = ConfigOwner(ConfigEntity.TOPIC, AT.topic)


def elected_from_outside(*, is_allowed: bool) -> Judged:
    """Return replicas of which broker 2 lacks a committed record, and is elected all the same."""
    judged = Judged((3, 3, 2))
    judged.oracle._may_elect_anyone = lambda: is_allowed
    judged.write("broker-0", written(0, 0, (0, 1)))
    judged.see(0, 3, isr=(0, 1))
    judged.write("controller-1000", written(2, 1, (2,)))
    return judged


def test_i12_nobody_is_elected_from_outside_the_isr_unless_an_operator_allows_it() -> None:
    judged = elected_from_outside(is_allowed=False)
    judged.see(2, 2, 1, isr=(2,), entries=((0, 0), (1, 2)))
    assert judged.broken == ["I12", "I4"]


def test_what_an_allowed_unclean_election_costs_is_excused() -> None:
    judged = elected_from_outside(is_allowed=True)
    judged.see(2, 2, 1, isr=(2,), entries=((0, 0), (1, 2)))
    assert judged.reports == []
    assert judged.oracle.excuses == [Excuse(AT, 2, 3, NOW_NS)]
    judged.cut(0, 2)
    judged.give(2, record(2, epoch=1))
    judged.see(2, 3, 1, isr=(2,), entries=((0, 0), (1, 2)))
    assert judged.oracle.committed.end_offset == 3
    assert judged.reports == []


def test_i2_whoever_was_elected_may_lack_what_the_deposed_leader_commits_after_it() -> None:
    """Found by a search: the elected broker's log folder had failed, so that it never led."""
    judged = elected_from_outside(is_allowed=True)
    for broker in (0, 1):
        judged.give(broker, record(3))
    judged.see(0, 4, isr=(0, 1))
    assert judged.reports == []
    assert judged.oracle.committed.end_offset == 4


def test_i4_an_unclean_election_excuses_no_later_leader() -> None:
    judged = elected_from_outside(is_allowed=True)
    judged.see(2, 2, 1, isr=(2,), entries=((0, 0), (1, 2)))
    judged.write("controller-1000", written(2, 2, (2,)))
    judged.shadows[2].chain.keep(1)
    judged.see(2, 1, 2, isr=(2,), entries=((0, 0), (2, 1)))
    assert judged.reports == [("I4", 1)]


def world_with(configs: dict[ConfigOwner, str]) -> Any:
    data = {
        config_path(owner): (
            znodes.encode(znodes.TopicConfigZnode({UNCLEAN_ELECTION: value})),
            None,
        )
        for owner, value in configs.items()
    }
    return SimpleNamespace(zookeeper=SimpleNamespace(data=data.get))


def elections_in(world: Any, knows: tuple[int, ...] = (), reports: Any = None) -> UncleanElections:
    """Return the oracle's part; the controller knows the registrations of these brokers."""

    def report(at: TopicPartition | None, invariant: str, message: str) -> None:
        reports.append((at, invariant))

    return UncleanElections(
        world, lambda author, broker, broker_epoch: broker in knows and broker_epoch == 7, report
    )


@pytest.mark.parametrize(
    ("configs", "are_allowed"),
    [
        ({}, False),
        ({OF_TOPIC: "true"}, True),
        ({EVERY_BROKER: "true"}, True),
        ({EVERY_BROKER: "true", OF_TOPIC: "false"}, False),
    ],
)
def test_a_configuration_allows_them(configs: dict[ConfigOwner, str], are_allowed: bool) -> None:
    assert elections_in(world_with(configs)).are_allowed(AT) is are_allowed


@pytest.mark.parametrize(
    ("election_type", "partitions", "allowed"),
    [
        (ElectionType.PREFERRED, (AT,), []),
        (ElectionType.UNCLEAN, (AT,), [AT]),
        (ElectionType.UNCLEAN, None, [AT, OTHER]),
    ],
)
def test_a_client_that_asks_for_one_allows_it(
    election_type: ElectionType,
    partitions: tuple[TopicPartition, ...] | None,
    allowed: list[TopicPartition],
) -> None:
    elections = elections_in(world_with({}))
    heard: list[object] = []
    request = ElectLeadersRequest(election_type, partitions, 1_000)
    elections.heard_before(heard.append)(request)
    assert [at for at in (AT, OTHER) if elections.are_allowed(at)] == allowed
    assert heard == [request]


ASSIGNED = (NodeId(2), NodeId(0), NodeId(1))
MOVING = encode_topic({0: ASSIGNED}, NO_TOPIC_ID, {0: Reassignment((NodeId(2),), (NodeId(1),))})
SHUTDOWN = TraceEvent(
    1, 1000, 1, 0, EventKind.SHUTDOWN_BEGUN, detail={"broker": 1, "broker_epoch": 7}
)
FAILED = TraceEvent(1, 1, 1, 0, EventKind.LOG_FOLDER_FAILED)


@pytest.mark.parametrize(
    ("elected", "registered", "knows", "traced", "reported"),
    [
        pytest.param(2, (1, 2), (1, 2), None, True, id="added, though another one lives"),
        pytest.param(1, (1, 2), (1, 2), None, False, id="there before"),
        pytest.param(0, (0, 1, 2), (0, 1, 2), None, False, id="in sync"),
        pytest.param(2, (2,), (1, 2), None, False, id="added, and no other lives"),
        pytest.param(2, (1, 2), (2,), None, False, id="its controller has not heard of the other"),
        pytest.param(2, (1, 2), (1, 2), SHUTDOWN, False, id="the other shuts down"),
        pytest.param(2, (1, 2), (1, 2), FAILED, False, id="the other's disk has failed"),
    ],
)
def test_i12_an_added_replica_is_elected_last(
    elected: int,
    registered: tuple[int, ...],
    knows: tuple[int, ...],
    traced: TraceEvent | None,
    reported: bool,
) -> None:
    znode = (b"", Stat(7, 7, 0, 1))
    data = {znodes.broker_path(NodeId(broker)): znode for broker in registered}
    data[znodes.topic_path(AT.topic)] = (MOVING, Stat(3, 3, 0, 0))
    reports: list[object] = []
    world = SimpleNamespace(zookeeper=SimpleNamespace(data=data.get))
    elections = elections_in(world, knows, reports)
    if traced is not None:
        elections.event_traced(traced)
    before, after = written(0, 1, (0,)), written(elected, 2, (elected,))
    elections.leadership_written(AT, "controller-1000", before, after)
    assert reports == [(AT, "I12")] * reported
