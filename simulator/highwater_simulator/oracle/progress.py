"""I16, for followers: a leader records as fetched only what is on the follower's disk.

A fetch of an older leader epoch, or of an earlier registration of the broker, must change nothing.
Otherwise the leader records progress that the follower's log does not have, or progress of the
earlier registration. Source: KIP-320, KAFKA-6880, KIP-903.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from highwater_broker.logic.isr import FollowerProgress
from highwater_broker.partition import Partition
from highwater_broker.roles import Following, Leading
from highwater_core.ids import NO_BROKER_EPOCH, NO_OFFSET, NodeId, TopicPartition
from highwater_simulator.oracle.shadow import ReplicaShadow

if TYPE_CHECKING:
    from highwater_simulator.world import World

Report = Callable[[TopicPartition | None, str, str, int], None]


class _Known:
    """A leadership, and its leader's last known records of each follower's progress."""

    __slots__ = ("progress", "registrations", "role")

    def __init__(self, role: Leading) -> None:
        self.role = role
        self.progress: dict[NodeId, FollowerProgress] = {}
        self.registrations: dict[NodeId, int] = {}


class ProgressChecks:
    """Follows the leaders' records of their followers' progress.

    It checks progress with the follower's present registration, while both are in one leader epoch.
    A restarted follower's disk may have lost records, until its leader hears of its new
    registration. A fetch without a registration (presets before KIP-903) cannot be attributed.
    """

    def __init__(self, world: World, registration: Callable[[int], int], report: Report) -> None:
        self._world = world
        self._registration = registration
        self._report = report
        self._known: dict[tuple[int, TopicPartition], _Known] = {}

    def check(self, broker: int, replica: Partition, shadows: Mapping[int, ReplicaShadow]) -> None:
        """Check a replica that has changed against its leader's record of it."""
        role, at = replica.role, replica.topic_partition
        if isinstance(role, Leading):
            self._check_records(broker, replica, role, shadows)
        elif isinstance(role, Following):
            leader = self._world.hosted(int(role.leader), at) if role.leader >= 0 else None
            if leader is not None and isinstance(leader.role, Leading):
                progress = leader.role.followers.get(NodeId(broker))
                if progress is not None:
                    self._check_agreement(leader, int(role.leader), broker, progress, shadows)

    def _check_records(
        self, broker: int, leader: Partition, role: Leading, shadows: Mapping[int, ReplicaShadow]
    ) -> None:
        """Check changed records; the others are checked when their follower changes."""
        at = leader.topic_partition
        known = self._known.get((broker, at))
        if known is None or known.role is not role:
            known = self._known[broker, at] = _Known(role)
        for follower, progress in role.followers.items():
            if known.progress.get(follower) is progress:
                continue
            known.progress[follower] = progress
            before = known.registrations.get(follower, NO_BROKER_EPOCH)
            if progress.broker_epoch < before:
                self._report(
                    at,
                    "I16",
                    f"leader {broker} counts a fetch by registration {progress.broker_epoch} of "
                    f"broker {follower} after one by {before}",
                    progress.log_end_offset,
                )
            known.registrations[follower] = progress.broker_epoch
            self._check_agreement(leader, broker, int(follower), progress, shadows)

    def _check_agreement(
        self,
        leader: Partition,
        leader_id: int,
        follower_id: int,
        progress: FollowerProgress,
        shadows: Mapping[int, ReplicaShadow],
    ) -> None:
        counted, registration = progress.log_end_offset, progress.broker_epoch
        if counted == NO_OFFSET or registration == NO_BROKER_EPOCH:
            return
        at = leader.topic_partition
        follower = self._world.hosted(follower_id, at)
        if (
            follower is None
            or not isinstance(follower.role, Following)
            or follower.role.leader != leader_id
            or follower.leader_epoch != leader.leader_epoch
            or follower.topic_id != leader.topic_id
            or registration != self._registration(follower_id)
        ):
            return
        mine, theirs = shadows[leader_id], shadows[follower_id]
        if counted <= min(leader.log_start_offset, theirs.chain.end_offset):
            return  # the leader has dropped it, and perhaps the follower too since
        if not theirs.holds(mine.chain, counted):
            differ_at = theirs.chain.first_difference(mine.chain, counted)
            self._report(
                at,
                "I16",
                f"leader {leader_id} counts {counted} as copied by broker {follower_id}, whose log "
                f"ends at {follower.log_end_offset} and differs from {differ_at} on",
                differ_at,
            )
