"""The end of a test's cluster: when it is at rest, and its promises and requirements then."""

from __future__ import annotations

import pytest

from highwater.runs.judged.ending import (
    Ending,
    NodeAtEnd,
    NodesDown,
    nodes_down,
    partitions_of,
    promises_of,
    requirements_of,
    topics_of,
    unsettled,
)
from highwater_checker.looks import Look
from highwater_checker.run_folder.documents import PromisedTopic
from highwater_core.errors import ErrorCode
from highwater_core.ids import LeaderEpoch, NodeId
from highwater_wire.kafka.config_messages import ConfigEntry, DescribedConfig
from highwater_wire.kafka.messages import MetadataPartition, MetadataTopic
from tests.support.evidence_makers import AT, look, replica

ORDERS = PromisedTopic("orders", 1, 2)


LEADER = replica("leader", 5, 5)
FOLLOWER = replica("follower", 5, 5)
LEFT_BEHIND = replica("leader", 5, 5, isr=(0, 2))


@pytest.mark.parametrize(
    ("seen", "in_sync_alone", "lacking"),
    [
        (look(1, LEADER, FOLLOWER, FOLLOWER), False, ""),
        (look(1, None, FOLLOWER, FOLLOWER), False, "t-0 has no leader"),
        (look(1, LEFT_BEHIND, FOLLOWER, FOLLOWER), False, "t-0: the ISR is [0, 2], of [0, 1, 2]"),
        (look(1, LEFT_BEHIND, None, FOLLOWER), True, ""),
        (
            look(1, LEADER, FOLLOWER, replica("follower", 3, 5)),
            False,
            "t-0: broker 2 has HW 3, LEO 5 where the leader's log ends at 5",
        ),
        (
            look(1, replica("leader", 4, 5), FOLLOWER, FOLLOWER),
            True,
            "t-0: broker 0 has HW 4, LEO 5 where the leader's log ends at 5",
        ),
        (
            look(1, LEADER, None, FOLLOWER),
            True,
            "t-0: broker 1 is in the ISR and does not answer",
        ),
    ],
)
def test_a_cluster_is_at_rest_when_its_isrs_have_all_records_committed(
    seen: Look, in_sync_alone: bool, lacking: str
) -> None:
    assert unsettled(seen, [AT], in_sync_alone=in_sync_alone) == lacking


@pytest.mark.parametrize(
    ("runs", "answers", "has_fault", "down"),
    [
        (True, True, False, NodesDown()),
        (True, False, False, NodesDown()),  # slow
        (False, False, True, NodesDown(by_test=("n",))),  # killed
        (True, False, True, NodesDown(by_test=("n",))),  # cut off
        (True, True, True, NodesDown()),  # healed by other means
        (False, False, False, NodesDown(otherwise=("n",))),  # crashed, or removed
    ],
)
def test_a_node_is_down_by_the_test_or_otherwise(
    runs: bool, answers: bool, has_fault: bool, down: NodesDown
) -> None:
    assert nodes_down(iter([NodeAtEnd("n", runs, answers, has_fault)])) == down


def test_a_cluster_without_topics_is_at_rest() -> None:
    assert unsettled(Look(1, {0: None}), [], in_sync_alone=False) == ""


def test_all_replicas_are_asked_for_where_the_test_left_every_node_up() -> None:
    promises = promises_of(Ending((ORDERS,)), (), ())
    assert promises.topics == (ORDERS,)
    assert not promises.only_in_sync
    assert promises.to_the_end
    assert promises.least_acknowledged == 1
    assert all(each.met for each in requirements_of(Ending((ORDERS,))))


def test_replicas_of_nodes_that_were_left_down_are_not_asked_for_and_the_verdict_says_so() -> None:
    ending = Ending((ORDERS,), down=NodesDown(by_test=("broker-1",)))
    assert promises_of(ending, (), ()).only_in_sync
    _, settled, _ = requirements_of(ending)
    assert all(each.met for each in requirements_of(ending))
    assert settled.name.endswith("but for broker-1, which the test left down")


@pytest.mark.parametrize(
    ("ending", "unmet"),
    [
        (Ending(None), "a broker told the cluster's topics"),
        (Ending((ORDERS,), unsettled="x"), "the cluster came to rest after the test"),
        (
            Ending((ORDERS,), NodesDown(otherwise=("broker-1",))),
            "no node is down but by the test",
        ),
        (Ending((ORDERS,), unread={"c0": "x"}), "c0 read to the end"),
    ],
)
def test_an_end_that_proves_too_little_leaves_the_verdict_unknown(
    ending: Ending, unmet: str
) -> None:
    assert [each.name for each in requirements_of(ending) if not each.met] == [unmet]


def test_a_consumer_that_did_not_read_to_the_end_has_missed_no_records() -> None:
    assert not promises_of(Ending((ORDERS,), unread={"c0": "slow"}), (), ()).to_the_end


def test_topics_are_promised_as_brokers_tell_them() -> None:
    partitions = tuple(
        MetadataPartition(
            ErrorCode.NONE, number, NodeId(0), LeaderEpoch(1), (NodeId(0), NodeId(1)), (NodeId(0),)
        )
        for number in range(2)
    )
    told = [
        MetadataTopic(ErrorCode.NONE, "plain", partitions),
        MetadataTopic(ErrorCode.NONE, "keyed", partitions[:1]),
    ]
    configs = [
        DescribedConfig(ErrorCode.NONE, None, 2, name, (ConfigEntry("cleanup.policy", policy, 5),))
        for name, policy in (("plain", "delete"), ("keyed", "compact,delete"))
    ]
    topics = topics_of(told, configs)
    assert topics == (PromisedTopic("keyed", 1, 2, True), PromisedTopic("plain", 2, 2))
    assert len(partitions_of(topics)) == 3
