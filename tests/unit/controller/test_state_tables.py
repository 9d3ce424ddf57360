"""The state machines' tables against docs/explanation/replication.md, "The controller"."""

from __future__ import annotations

import pytest

from highwater_controller.logic import partition_states, replica_states
from highwater_controller.logic.partition_states import PartitionEffect, PartitionState
from highwater_controller.logic.replica_states import (
    ReplicaEffect,
    ReplicaState,
    without_replicas,
)
from highwater_core.ids import NO_LEADER

P, R = PartitionState, ReplicaState

PARTITION_MOVES = {
    (P.NON_EXISTENT, P.NEW),
    (P.NEW, P.ONLINE),
    (P.ONLINE, P.ONLINE),
    (P.OFFLINE, P.ONLINE),
    (P.NEW, P.OFFLINE),
    (P.ONLINE, P.OFFLINE),
    (P.OFFLINE, P.OFFLINE),
    (P.OFFLINE, P.NON_EXISTENT),
}

REPLICA_MOVES = {
    (R.NON_EXISTENT, R.NEW),
    *((previous, R.ONLINE) for previous in (R.NEW, R.ONLINE, R.OFFLINE, R.DELETION_INELIGIBLE)),
    *((previous, R.OFFLINE) for previous in (R.NEW, R.ONLINE, R.OFFLINE, R.DELETION_INELIGIBLE)),
    (R.OFFLINE, R.DELETION_STARTED),
    (R.DELETION_STARTED, R.DELETION_SUCCESSFUL),
    (R.OFFLINE, R.DELETION_INELIGIBLE),
    (R.DELETION_STARTED, R.DELETION_INELIGIBLE),
    (R.DELETION_SUCCESSFUL, R.NON_EXISTENT),
}


def test_partitions_move_only_as_the_table_says():
    allowed = {(a, b) for a in P for b in P if partition_states.may_become(a, b)}
    assert allowed == PARTITION_MOVES
    assert set(partition_states.EFFECTS) == PARTITION_MOVES


def test_replicas_move_only_as_the_table_says():
    allowed = {(a, b) for a in R for b in R if replica_states.may_become(a, b)}
    assert allowed == REPLICA_MOVES
    assert set(replica_states.EFFECTS) == REPLICA_MOVES


def test_only_a_new_partition_creates_its_state_and_others_elect():
    writing = {
        move: effect
        for move, effect in partition_states.EFFECTS.items()
        if effect is not PartitionEffect.REMEMBER
    }
    assert writing == {
        (P.NEW, P.ONLINE): PartitionEffect.CREATE_STATE,
        (P.ONLINE, P.ONLINE): PartitionEffect.ELECT,
        (P.OFFLINE, P.ONLINE): PartitionEffect.ELECT,
    }


@pytest.mark.parametrize(
    ("previous", "target", "effect"),
    [
        (R.NON_EXISTENT, R.NEW, ReplicaEffect.SEND_NEW),
        (R.NEW, R.ONLINE, ReplicaEffect.REMEMBER),
        (R.OFFLINE, R.ONLINE, ReplicaEffect.SEND_LEADERSHIP),
        (R.DELETION_INELIGIBLE, R.ONLINE, ReplicaEffect.SEND_LEADERSHIP),
        (R.ONLINE, R.OFFLINE, ReplicaEffect.STOP),
        (R.OFFLINE, R.DELETION_STARTED, ReplicaEffect.STOP_AND_DELETE),
        (R.DELETION_STARTED, R.DELETION_SUCCESSFUL, ReplicaEffect.REMEMBER),
        (R.DELETION_SUCCESSFUL, R.NON_EXISTENT, ReplicaEffect.FORGET),
    ],
)
def test_the_commands_of_a_replicas_change_of_state(previous, target, effect):
    assert replica_states.EFFECTS[previous, target] is effect


@pytest.mark.parametrize(
    ("has_leadership", "leader_is_live", "expected"),
    [(False, False, P.NEW), (True, True, P.ONLINE), (True, False, P.OFFLINE)],
)
def test_state_in_which_a_new_controller_finds_a_partition(
    has_leadership, leader_is_live, expected
):
    found = partition_states.initial_state(
        has_leadership=has_leadership, leader_is_live=leader_is_live
    )
    assert found is expected


@pytest.mark.parametrize(
    ("leader", "isr", "offline", "expected"),
    [
        (1, (1, 2, 3), (3,), (1, (1, 2))),
        (1, (1, 2, 3), (2,), (1, (1, 3))),
        (1, (1, 2, 3), (1,), (NO_LEADER, (2, 3))),
        (1, (1, 2, 3), (2, 3), (1, (1,))),
        (1, (1,), (1,), (NO_LEADER, (1,))),  # never below one
        (1, (1, 2), (1, 2), (NO_LEADER, (1, 2))),
        (NO_LEADER, (1,), (1,), None),
        (1, (1, 2), (3,), None),
    ],
)
def test_offline_replicas_leave_the_isr_but_never_empty_it(leader, isr, offline, expected):
    shrunk = without_replicas(leader, isr, offline)
    assert (None if shrunk is None else (shrunk.leader, shrunk.isr)) == expected
