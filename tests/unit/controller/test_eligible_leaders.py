"""Eligible leader replicas, and brokers that return without all their records (KIP-966)."""

from __future__ import annotations

import itertools

import pytest

from highwater_controller.logic.eligible_leaders import (
    elect_eligible,
    next_eligible,
    without_lost,
)
from highwater_controller.logic.leader_selectors import Elected, NoLeader
from highwater_controller.logic.leadership_change import LeadershipChange
from highwater_core import znodes
from highwater_core.config import Preset
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.ids import BrokerEpoch, LeaderEpoch, NodeId, PartitionEpoch, TopicPartition
from highwater_core.messages import (
    AlterPartitionItem,
    AlterPartitionRequest,
    IsrMember,
    LeaderAndIsrRequest,
)
from highwater_core.topic_znode import decode_topic

NOBODY = -1
P0 = TopicPartition("t", 0)
PATH = znodes.partition_state_path(P0)

# ---------------------------------------------------------------- decisions


@pytest.mark.parametrize(
    ("isr", "elr", "next_isr", "minimum", "expected"),
    [
        # large enough to commit: nobody else holds all of it for long
        ((1, 2, 3), (), (1, 2), 2, ()),
        ((1, 2), (), (1, 2, 3), 2, ()),
        ((1, 2, 3, 4), (), (1, 2, 3), 2, ()),
        ((1,), (2,), (1, 2), 2, ()),
        # too small: whoever leaves now, or left since it is, holds all that is committed
        ((1, 2), (), (1,), 2, (2,)),
        ((1, 2, 3), (), (1,), 2, (2, 3)),
        ((1,), (2,), (1,), 2, (2,)),
        ((1, 2), (3,), (1,), 3, (3, 2)),
        # one that joins is no longer outside
        ((1,), (2, 3), (1, 2), 3, (3,)),
        # an eligible one leads: the old ISR holds as much
        ((1,), (2,), (2,), 2, (1,)),
        # one in sync suffices: never anybody
        ((1, 2), (), (1,), 1, ()),
    ],
)
def test_next_eligible(isr, elr, next_isr, minimum, expected):
    assert next_eligible(isr, elr, next_isr, minimum) == expected


@pytest.mark.parametrize(
    ("assigned", "elr", "live", "expected"),
    [
        ((1, 2, 3), (3, 2), {2, 3}, Elected(2, (2,))),
        ((1, 2, 3), (3,), {2, 3}, Elected(3, (3,))),
        ((1, 2, 3), (3,), {1, 2}, None),
        ((1, 2), (3,), {3}, None),
        ((1, 2), (), {1, 2}, None),
    ],
)
def test_the_first_live_eligible_replica_leads_alone(assigned, elr, live, expected):
    decision = elect_eligible(assigned, elr, frozenset(live))
    assert (None if isinstance(decision, NoLeader) else decision) == expected


@pytest.mark.parametrize(
    ("leader", "isr", "elr", "lost", "expected"),
    [
        (1, (1, 2), (3,), set(), None),
        (1, (1, 2), (3,), {9}, None),
        (1, (1, 2), (3,), {2}, LeadershipChange(1, (1,), (3,))),
        (1, (1, 2), (3,), {3}, LeadershipChange(1, (1, 2), ())),
        (1, (1, 2), (3,), {1}, LeadershipChange(NOBODY, (2,), (3,))),
        # nobody of the ISR is left: the eligible ones are the ISR, none of them leads yet
        (1, (1,), (3, 2), {1}, LeadershipChange(NOBODY, (3, 2), ())),
        (1, (1,), (3, 2), {1, 3}, LeadershipChange(NOBODY, (2,), ())),
        # nobody at all: the last that held everything
        (1, (1,), (), {1}, LeadershipChange(NOBODY, (1,), ())),
        (1, (1,), (2,), {1, 2}, LeadershipChange(NOBODY, (1,), ())),
        (NOBODY, (1, 2), (), {1, 2}, LeadershipChange(NOBODY, (1, 2), ())),
    ],
)
def test_replicas_that_lost_records_leave_isr_and_elr(leader, isr, elr, lost, expected):
    assert without_lost(leader, isr, elr, frozenset(lost)) == expected


def test_isr_and_elr_have_nobody_in_common_and_the_isr_is_never_empty():
    brokers = (1, 2, 3)
    subsets = [subset for size in range(4) for subset in itertools.combinations(brokers, size)]
    for isr, lost in itertools.product(subsets[1:], subsets):
        elr = tuple(broker for broker in brokers if broker not in isr)
        left = without_lost(isr[0], isr, elr, frozenset(lost))
        if left is not None:
            assert left.isr
            assert not set(left.isr) & set(left.elr)
            assert left.leader in (NOBODY, *left.isr)
        for next_isr in subsets[1:]:
            assert not set(next_eligible(isr, elr, next_isr, 2)) & set(next_isr)


# ---------------------------------------------------------------- the controller


def of(state):
    return state.leader, state.isr, state.elr


@pytest.fixture
def held(cluster):
    """Topic t on brokers 0, 1, 2, each with contents of its own; two in sync commit."""
    for broker_id in range(3):
        cluster.start_broker(broker_id, f"s{broker_id}")
    cluster.start_controller()
    cluster.until_failed_over()
    cluster.create_topic("t", (0, 1, 2), config={"min.insync.replicas": "2"})
    cluster.settle()
    return cluster


def die(cluster, *broker_ids):
    for broker_id in broker_ids:
        cluster.brokers[broker_id].die()
        cluster.settle()


def come_back(cluster, broker_id, storage_id):
    broker = cluster.start_broker(broker_id, storage_id)
    cluster.settle()
    return broker


def test_a_state_names_its_members_contents_and_its_leaders_registration(held):
    state = held.state("t")
    assert state.storage_ids == ((0, "s0"), (1, "s1"), (2, "s2"))
    czxid = held.zookeeper.dump()[znodes.broker_path(NodeId(0))][1].czxid
    assert state.leader_broker_epoch == czxid


def test_who_leaves_an_isr_that_still_commits_is_not_eligible(held):
    die(held, 2)
    assert of(held.state("t")) == (0, (0, 1), ())
    assert held.state("t").storage_ids == ((0, "s0"), (1, "s1"))


def test_who_leaves_an_isr_that_commits_no_more_may_lead(held):
    die(held, 2, 1)
    assert of(held.state("t")) == (0, (0,), (1,))
    die(held, 0)
    assert of(held.state("t")) == (NOBODY, (0,), (1,))
    assert held.state("t").storage_ids == ((0, "s0"), (1, "s1"))
    come_back(held, 2, "s2")
    assert held.state("t").leader == NOBODY
    come_back(held, 1, "s1")
    assert of(held.state("t")) == (1, (1,), (0,))
    assert held.events(EventKind.LEADER_ELECTED)[-1].detail["unclean"] is False


def test_with_one_in_sync_enough_nobody_is_eligible(cluster):
    for broker_id in range(2):
        cluster.start_broker(broker_id, f"s{broker_id}")
    cluster.start_controller()
    cluster.until_failed_over()
    cluster.create_topic("t", (0, 1))
    die(cluster, 1)
    assert of(cluster.state("t")) == (0, (0,), ())


def test_the_controllers_default_counts_where_the_topic_says_nothing(cluster):
    for broker_id in range(2):
        cluster.start_broker(broker_id, f"s{broker_id}")
    cluster.start_controller(default_min_insync_replicas=2)
    cluster.until_failed_over()
    cluster.create_topic("t", (0, 1))
    die(cluster, 1)
    assert of(cluster.state("t")) == (0, (0,), (1,))


@pytest.mark.parametrize("config", [b"no json", b'{"version":1,"config":{"no.such":"key"}}'])
def test_nobody_is_eligible_while_the_topics_configuration_is_unreadable(held, config):
    held.write(znodes.topic_config_path("t"), config)
    die(held, 2, 1)
    assert of(held.state("t")) == (0, (0,), ())


def lower(cluster, minimum):
    config = znodes.TopicConfigZnode(config={"min.insync.replicas": str(minimum)})
    cluster.write(znodes.topic_config_path("t"), znodes.encode(config))


def test_eligible_replicas_stay_eligible_when_the_minimum_changes(held):
    """Nothing was committed in the state that names them: its leader waits."""
    die(held, 2, 1, 0)
    assert of(held.state("t")) == (NOBODY, (0,), (1,))
    lower(held, 1)
    come_back(held, 1, "s1")
    assert of(held.state("t")) == (1, (1,), ())


def test_the_last_in_sync_that_lost_records_gives_way_to_the_eligible_ones(held):
    die(held, 2, 1, 0)
    come_back(held, 0, "other")
    assert of(held.state("t")) == (NOBODY, (1,), ())
    follower = come_back(held, 1, "s1")
    assert of(held.state("t")) == (1, (1,), ())
    assert follower.leaderships()[P0].leader == 1


def test_a_leader_back_on_another_disk_within_its_session_gives_way(held):
    """As in a quick restart: its death is seen together with its new registration."""
    die(held, 2, 1)
    held.pause_controller()
    held.brokers[0].die()
    held.start_broker(0, "other")
    held.resume_controller()
    held.settle()
    assert held.events(EventKind.BROKERS_CHANGED)[-1].detail["bounced"] == [0]
    assert of(held.state("t")) == (NOBODY, (1,), ())


def test_a_follower_that_lost_records_leaves_the_isr_by_commands_to_the_others(held):
    """It was the ISR's whole rest when it died: it stayed in it, and leads no more."""
    die(held, 2, 1)
    come_back(held, 1, "other")
    assert of(held.state("t")) == (0, (0,), ())
    told = held.brokers[0].leaderships()[P0]
    assert (told.leader_epoch, told.isr) == (held.state("t").leader_epoch, (0,))


def test_the_last_of_all_stays_though_it_lost_records_and_its_new_contents_count(cluster):
    cluster.start_broker(0, "s0")
    cluster.start_controller()
    cluster.until_failed_over()
    cluster.create_topic("t", (0,), config={"min.insync.replicas": "2"})
    die(cluster, 0)
    come_back(cluster, 0, "other")
    assert of(cluster.state("t")) == (0, (0,), ())
    assert cluster.state("t").storage_ids == ((0, "other"),)


def test_an_eligible_replica_that_lost_records_is_so_no_more(held):
    die(held, 2, 1, 0)
    come_back(held, 1, "other")
    assert of(held.state("t")) == (NOBODY, (0,), ())


# ---------------------------------------------------------------- while nobody looks


def change_while_no_controller_lives(cluster, broker_id, storage_id):
    cluster.kill_controller(1000)
    cluster.settle()
    cluster.brokers[broker_id].die()
    cluster.start_broker(broker_id, storage_id)
    cluster.start_controller(1001)
    cluster.until_failed_over()


def test_a_new_controller_sees_that_the_leader_lost_records(held):
    change_while_no_controller_lives(held, 0, "other")
    assert of(held.state("t")) == (1, (1, 2), ())
    assert held.brokers[1].leaderships()[P0].leader == 1


def test_a_new_controller_sees_that_a_follower_lost_records(held):
    change_while_no_controller_lives(held, 1, "other")
    assert of(held.state("t")) == (0, (0, 2), ())
    assert held.state("t").leader_epoch == 1


def test_a_leader_that_restarted_unseen_leads_in_a_new_epoch(held):
    before = held.state("t")
    change_while_no_controller_lives(held, 0, "s0")
    after = held.state("t")
    assert of(after) == (0, (0, 1, 2), ())
    assert after.leader_epoch > before.leader_epoch
    assert after.leader_broker_epoch > before.leader_broker_epoch
    commands = held.brokers[0].heard(LeaderAndIsrRequest)
    epochs = [item.leader_epoch for command in commands for item in command.partitions]
    assert before.leader_epoch not in epochs


def test_a_follower_that_restarted_unseen_stays_in_sync(held):
    before = held.state("t")
    change_while_no_controller_lives(held, 1, "s1")
    assert held.state("t") == before


def test_loss_counts_however_many_controllers_and_registrations_there_were_since(held):
    """The new contents are named by every later registration too."""
    held.kill_controller(1000)
    held.settle()
    for storage_id in ("other", "other"):
        held.brokers[0].die()
        held.start_broker(0, storage_id)
    held.start_controller(1001)
    held.until_failed_over()
    assert of(held.state("t")) == (1, (1, 2), ())


def test_states_without_these_keys_are_taken_as_they_are(cluster):
    """Of a preset without the rule, or of Kafka: nothing is known, nothing is held against it."""
    for broker_id in range(2):
        cluster.start_broker(broker_id, f"s{broker_id}")
    cluster.write_topic("t", (0, 1))
    cluster.write(PATH, b'{"version":1,"leader":0,"leader_epoch":3,"controller_epoch":0,"isr":[0]}')
    cluster.start_controller()
    cluster.until_failed_over()
    assert (cluster.state("t").leader_epoch, of(cluster.state("t"))) == (3, (0, (0,), ()))


def test_v3_writes_the_state_as_it_always_did(cluster):
    for broker_id in range(2):
        cluster.start_broker(broker_id, f"s{broker_id}")
    cluster.start_controller(preset=Preset.V3)
    cluster.until_failed_over()
    cluster.create_topic("t", (0, 1))
    die(cluster, 0)
    assert cluster.data(PATH) == (
        b'{"version":1,"leader":1,"leader_epoch":1,"controller_epoch":1,"isr":[1]}'
    )


# ---------------------------------------------------------------- AlterPartition


def alter(cluster, *isr, partition_epoch=None):
    path = znodes.topic_path("t")
    _, topic_id, _ = decode_topic(cluster.data(path), "t")
    dump = cluster.zookeeper.dump()
    epochs = {b: BrokerEpoch(dump[znodes.broker_path(NodeId(b))][1].czxid) for b in (0, *isr)}
    item = AlterPartitionItem(
        topic_partition=P0,
        leader_epoch=LeaderEpoch(0),
        new_isr=tuple(IsrMember(NodeId(b), epochs[b]) for b in isr),
        partition_epoch=PartitionEpoch(
            dump[PATH][1].node_version if partition_epoch is None else partition_epoch
        ),
        topic_id=topic_id,
    )
    response = cluster.ask(AlterPartitionRequest(NodeId(0), epochs[0], (item,)))
    (result,) = response.results
    assert result.error is ErrorCode.NONE
    return result


def test_who_a_leader_takes_out_of_the_isr_is_eligible_until_enough_are_in_sync(held):
    alter(held, 0, 1)
    assert of(held.state("t")) == (0, (0, 1), ())
    alter(held, 0)
    assert of(held.state("t")) == (0, (0,), (1,))
    alter(held, 0, 2)
    assert of(held.state("t")) == (0, (0, 2), ())
    assert held.state("t").storage_ids == ((0, "s0"), (2, "s2"))


def test_an_isr_that_is_large_enough_by_a_lowered_minimum_commits_from_its_next_state_on(cluster):
    for broker_id in range(3):
        cluster.start_broker(broker_id, f"s{broker_id}")
    cluster.start_controller()
    cluster.until_failed_over()
    cluster.create_topic("t", (0, 1, 2), config={"min.insync.replicas": "3"})
    cluster.settle()
    assert alter(cluster, 0, 1).elr == (2,)
    known = cluster.data(PATH)
    assert alter(cluster, 1, 0).elr == (2,), "nothing has changed"
    assert cluster.data(PATH) == known
    lower(cluster, 2)
    late = alter(cluster, 0, 1, partition_epoch=0)
    assert (late.elr, cluster.data(PATH)) == ((2,), known), "a repeat from before"
    assert alter(cluster, 0, 1).elr == ()
    assert of(cluster.state("t")) == (0, (0, 1), ())
    assert alter(cluster, 0).elr == (1,)


def test_who_was_eligible_stays_so_while_nothing_is_committed_by_a_lowered_minimum(cluster):
    for broker_id in range(3):
        cluster.start_broker(broker_id, f"s{broker_id}")
    cluster.start_controller()
    cluster.until_failed_over()
    cluster.create_topic("t", (0, 1, 2), config={"min.insync.replicas": "3"})
    cluster.settle()
    alter(cluster, 0, 1)
    lower(cluster, 2)
    alter(cluster, 0)
    assert of(cluster.state("t")) == (0, (0,), (2, 1))
