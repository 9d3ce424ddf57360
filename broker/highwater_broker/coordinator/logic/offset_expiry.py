"""Decides which offsets of a group have expired. Pure; times are ms of wall clock time.

Source: KIP-211; KAFKA-8069 (a commit without its own expiry time expires by the retention).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from highwater_broker.coordinator.logic.group_states import GroupState
from highwater_broker.coordinator.logic.protocols import CONSUMER_PROTOCOL_TYPE
from highwater_broker.coordinator.stored import OffsetCommitted
from highwater_core.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class ExpiryFacts:
    """The facts of a group that its offsets' expiry depends on.

    protocol_type: None for consumers that assign their own partitions.
    state_since_ms: -1 where it is not known.
    subscribed_topics: None where they are not known.
    """

    state: GroupState
    protocol_type: str | None
    state_since_ms: int
    subscribed_topics: frozenset[str] | None
    offsets: Mapping[TopicPartition, OffsetCommitted]


def expired_offsets(
    facts: ExpiryFacts, now_ms: int, retention_ms: int
) -> tuple[TopicPartition, ...]:
    """Return the partitions whose offsets have expired, in order.

    An offset's retention begins:
    - with its commit, if no member ever joined the group;
    - with the last member's leaving, if the group is Empty;
    - with its commit, if the group is Stable and no member subscribes to its topic.
    While the group rebalances, nothing expires.
    """
    if facts.protocol_type is None:
        since_ms, kept = -1, frozenset[str]()
    elif facts.state is GroupState.EMPTY:
        since_ms, kept = facts.state_since_ms, frozenset[str]()
    elif (
        facts.state is GroupState.STABLE
        and facts.protocol_type == CONSUMER_PROTOCOL_TYPE
        and facts.subscribed_topics is not None
    ):
        since_ms, kept = -1, facts.subscribed_topics
    else:
        return ()
    return tuple(
        partition
        for partition, committed in sorted(facts.offsets.items())
        if partition.topic not in kept and _is_over(committed, since_ms, now_ms, retention_ms)
    )


def _is_over(committed: OffsetCommitted, since_ms: int, now_ms: int, retention_ms: int) -> bool:
    if committed.expire_timestamp_ms is not None:
        return now_ms >= committed.expire_timestamp_ms
    begun_ms = committed.commit_timestamp_ms if since_ms < 0 else since_ms
    return now_ms - begun_ms >= retention_ms
