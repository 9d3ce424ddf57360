"""Timeouts, names and ids at their limits: they cost the member, never its coordinator."""

from __future__ import annotations

from typing import Any

import pytest

from highwater_core.errors import ErrorCode
from highwater_wire.kafka.group_messages import LeavingMember
from tests.support.groups import PARTITION, GroupWorld

E = ErrorCode


def two_static(world: GroupWorld, **fields: Any) -> None:
    """Have the static members A and B share a stable generation."""
    asked = [world.join(group_instance_id=name, **fields) for name in ("A", "B")]
    joined = world.wait(*asked)
    everything = {each.member_id: b"x" for each in joined}
    for name, each in zip(("A", "B"), joined, strict=True):
        assignments = everything if each.member_id == each.leader else None
        world.wait(world.sync(each.member_id, 1, assignments, group_instance_id=name))


@pytest.mark.parametrize("timeout_ms", [0, -1, -(2**31)])
def test_a_group_whose_members_leave_no_time_for_a_rebalance_hangs_nobody(
    world: GroupWorld, timeout_ms: int
) -> None:
    """Found: a rebalance without a joined leader was tried again at once, for ever."""
    two_static(world)
    world.wait(world.join(group_instance_id="A", rebalance_timeout_ms=timeout_ms))
    group = world.group()
    assert group is not None
    (left,) = [each for each in group.members.values() if each.group_instance_id == "B"]
    assert world.leave(LeavingMember(left.member_id, "B")) == [E.NONE]
    world.pass_ms(60_000)
    assert world.joined(client_id="other", group_id="other").generation == 1


def test_a_next_coordinator_is_not_hung_by_such_a_group_either(world: GroupWorld) -> None:
    """Found: it was stored, so each next leader of the partition hung in its turn."""
    two_static(world, session_timeout_ms=60_000)
    for name, session_timeout_ms in (("A", 1_800_000), ("B", 6_000)):
        world.wait(
            world.join(
                group_instance_id=name,
                rebalance_timeout_ms=0,
                session_timeout_ms=session_timeout_ms,
            )
        )
    world.coordinator.resign(PARTITION)
    world.coordinator = world.make_coordinator()
    world.coordinator.take_over(PARTITION, world.log.loaded())
    world.pass_ms(60_000)
    group = world.group()
    assert group is not None
    assert [each.group_instance_id for each in group.members.values()] == ["A"]


def test_a_group_with_records_in_two_partitions_is_that_of_its_own(world: GroupWorld) -> None:
    """Found: the second load ended the broker."""
    world.stable()
    loaded = world.log.loaded()
    world.coordinator.resign(PARTITION)
    for partitions in ((PARTITION, PARTITION + 1), (PARTITION + 1, PARTITION)):
        world.coordinator = world.make_coordinator()
        for partition in partitions:
            world.coordinator.take_over(partition, loaded)
        (group,) = world.coordinator.groups()
        assert group.offsets_partition == PARTITION


@pytest.mark.parametrize("name", ["x" * 32_767, "é" * 16_383])
def test_a_long_name_is_cut_in_a_member_id(world: GroupWorld, name: str) -> None:
    (first,) = world.wait(world.join(client_id=name))
    assert len(first.member_id.encode()) <= 32_767
    (joined,) = world.wait(world.join(first.member_id, client_id=name))
    assert (joined.error, joined.generation) == (E.NONE, 1)


def test_a_group_id_that_no_record_can_keep_is_refused(world: GroupWorld) -> None:
    """Found: such a group could be neither stored nor deleted."""
    (refused,) = world.wait(world.join(group_id="x" * 32_768))
    assert refused.error is E.INVALID_GROUP_ID
    assert world.coordinator.groups() == ()
    (taken,) = world.wait(world.join(group_id="x" * 32_767))
    assert taken.error is E.MEMBER_ID_REQUIRED
