"""An append to the offsets topic succeeds once it is committed in its own term."""

from __future__ import annotations

from dataclasses import replace

from highwater_broker.coordinator.records import MAX_TEXT_BYTES
from highwater_broker.roles import CommittedIsr, Leading
from highwater_core.errors import ErrorCode
from highwater_core.ids import NodeId
from tests.unit.coordinator.conftest import COMMIT_TIMEOUT_MS, CoordinatorWorld, committed


def test_an_append_is_answered_once_its_records_are_committed(world: CoordinatorWorld) -> None:
    partition = world.host_for("g")
    world.lead_loaded(partition)
    answers = world.start_append("g", committed("g", 1), committed("g", 2, partition=1))
    assert (answers, partition.log_end_offset) == ([], 2)
    partition.commit(1)
    world.kernel.run_for(100)
    assert answers == []
    partition.commit(2)
    world.kernel.run_for(0)
    assert answers == [ErrorCode.NONE]


def test_appends_are_answered_in_their_order(world: CoordinatorWorld) -> None:
    partition = world.host_for("g")
    world.lead_loaded(partition)
    first = world.start_append("g", committed("g", 1))
    second = world.start_append("g", committed("g", 2))
    partition.commit(1)
    world.kernel.run_for(0)
    assert (first, second) == ([ErrorCode.NONE], [])
    partition.commit(2)
    world.kernel.run_for(0)
    assert second == [ErrorCode.NONE]


def test_nothing_is_appended_for_a_group_that_is_coordinated_elsewhere_or_not_loaded(
    world: CoordinatorWorld,
) -> None:
    assert world.start_append("g", committed("g", 1)) == [ErrorCode.NOT_COORDINATOR]
    partition = world.host_for("g", [committed("g", 1)])
    assert world.start_append("g", committed("g", 1)) == [ErrorCode.NOT_COORDINATOR]
    world.lead(partition)
    assert world.start_append("g", committed("g", 2)) == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    assert partition.log_end_offset == 1


def test_an_append_without_records_is_done(world: CoordinatorWorld) -> None:
    world.lead_loaded(world.host_for("g"))
    assert world.start_append("g") == [ErrorCode.NONE]


def test_who_loses_the_lead_meanwhile_is_no_coordinator(world: CoordinatorWorld) -> None:
    partition = world.host_for("g")
    world.lead_loaded(partition)
    answers = world.start_append("g", committed("g", 1))
    partition.lose_leadership()
    world.kernel.run_for(0)
    assert answers == [ErrorCode.NOT_COORDINATOR]


def test_a_leader_that_lost_the_lead_and_has_it_again_acknowledges_no_earlier_append(
    world: CoordinatorWorld,
) -> None:
    partition = world.host_for("g")
    world.lead_loaded(partition)
    answers = world.start_append("g", committed("g", 1))
    partition.lose_leadership()
    world.lead(partition)
    partition.commit(1)
    world.kernel.run_for(100)
    assert answers == [ErrorCode.NOT_COORDINATOR]


def test_who_leads_on_in_a_new_epoch_acknowledges(world: CoordinatorWorld) -> None:
    partition = world.host_for("g")
    world.lead_loaded(partition)
    answers = world.start_append("g", committed("g", 1))
    world.lead(partition)
    partition.commit(1)
    world.kernel.run_for(0)
    assert answers == [ErrorCode.NONE]


def test_an_append_that_is_not_committed_in_time_may_be_committed_later(
    world: CoordinatorWorld,
) -> None:
    partition = world.host_for("g")
    world.lead_loaded(partition)
    answers = world.start_append("g", committed("g", 1))
    world.kernel.run_for(COMMIT_TIMEOUT_MS)
    assert answers == [ErrorCode.COORDINATOR_NOT_AVAILABLE]


def test_with_too_few_in_sync_nothing_is_appended(world: CoordinatorWorld) -> None:
    partition = world.host_for("g")
    world.lead_loaded(partition)
    partition.take_min_insync_replicas(2)
    role = partition.role
    assert isinstance(role, Leading)
    role.in_sync = CommittedIsr((NodeId(0),))
    assert world.start_append("g", committed("g", 1)) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert partition.log_end_offset == 0


def test_records_that_the_log_has_no_room_for_are_refused(world: CoordinatorWorld) -> None:
    world.lead_loaded(world.host_for("g"))
    many = [replace(committed("g", 1, "t", number), metadata="m" * 30_000) for number in range(50)]
    assert world.start_append("g", *many) == [ErrorCode.MESSAGE_TOO_LARGE]
    too_long = committed("g", 1, "t" * (MAX_TEXT_BYTES + 1))
    assert world.start_append("g", too_long) == [ErrorCode.UNKNOWN_SERVER_ERROR]
