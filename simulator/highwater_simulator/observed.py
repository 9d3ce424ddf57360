"""Finds a plan's nodes and conditions at a moment of a simulation."""

from __future__ import annotations

from highwater_chaos.plan import Observed, When
from highwater_core.ids import TopicPartition
from highwater_simulator.world import World


def find_node(world: World, words: str) -> int | None:
    """Return the id of the node that the words name now, None when there is none."""
    if words == "active controller":
        return world.active_controller()
    for prefix, find in (
        ("leader of ", _leader),
        ("follower of ", _follower),
        ("last follower of ", _last_follower),
    ):
        if words.startswith(prefix):
            return find(world, TopicPartition.named(words.removeprefix(prefix)))
    for node_id in (*world.brokers, *world.controllers):
        if world.handle(node_id).name == words:
            return node_id
    return None


def _leader(world: World, at: TopicPartition) -> int | None:
    leadership = world.partition_state(at)
    return None if leadership is None or leadership.leader < 0 else int(leadership.leader)


def _follower(world: World, at: TopicPartition) -> int | None:
    followers = _followers(world, at)
    return followers[0] if followers else None


def _last_follower(world: World, at: TopicPartition) -> int | None:
    followers = _followers(world, at)
    return followers[-1] if followers else None


def _followers(world: World, at: TopicPartition) -> list[int]:
    """Return the ISR members without the leader, in ascending order."""
    leadership = world.partition_state(at)
    if leadership is None:
        return []
    return sorted(int(broker) for broker in leadership.isr if broker != leadership.leader)


def holds(world: World, when: When) -> bool:
    """Return whether the condition holds now. It must be a condition on a partition's state."""
    at = TopicPartition.named(when.partition)
    leadership = world.partition_state(at)
    if leadership is None or leadership.leader < 0:
        return False
    match when.state:
        case Observed.ISR_IS_LEADER:
            return leadership.isr == (leadership.leader,)
        case Observed.LEADER_EPOCH:
            return leadership.leader_epoch >= when.count
        case Observed.FOLLOWER_BEHIND | Observed.HIGH_WATERMARK_BEHIND:
            return _is_someone_behind(world, when.state, at)
        case Observed.EVENT:
            return False


def _is_someone_behind(world: World, state: Observed, at: TopicPartition) -> bool:
    leadership = world.partition_state(at)
    if leadership is None:
        return False
    leader = world.hosted(int(leadership.leader), at)
    if leader is None:
        return False
    for broker in leadership.isr:
        replica = world.hosted(int(broker), at)
        if replica is None:
            continue
        if state is Observed.FOLLOWER_BEHIND and replica.log_end_offset < leader.log_end_offset:
            return True
        if (
            state is Observed.HIGH_WATERMARK_BEHIND
            and replica.high_watermark < leader.high_watermark
        ):
            return True
    return False
