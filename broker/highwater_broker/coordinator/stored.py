"""The records that a group coordinator keeps in `__consumer_offsets`; records.py has their format.

Source: Kafka's OffsetCommitKey and -Value, GroupMetadataKey and -Value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from highwater_core.ids import NO_EPOCH, LeaderEpoch, Offset, TopicPartition


@dataclass(frozen=True, slots=True)
class OffsetCommitted:
    """A group's offset in a partition. Times are milliseconds of wall clock time.

    expire_timestamp_ms: from the commit's own retention time (OffsetCommit up to version 4); None:
    the broker's retention decides.
    """

    group_id: str
    topic: str
    partition: int
    offset: Offset
    leader_epoch: LeaderEpoch = NO_EPOCH
    metadata: str = ""
    commit_timestamp_ms: int = 0
    expire_timestamp_ms: int | None = None

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class OffsetForgotten:
    """The tombstone of a group's offset in a partition."""

    group_id: str
    topic: str
    partition: int

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class MemberStored:
    """One member of a stored group, with its subscription and its assignment."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class GroupStored:
    """A group after its last completed rebalance; without members it is Empty.

    current_state_timestamp_ms: the time of that rebalance, -1 where it is not known.
    """

    group_id: str
    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    members: tuple[MemberStored, ...] = ()
    current_state_timestamp_ms: int = -1


@dataclass(frozen=True, slots=True)
class GroupForgotten:
    """The tombstone of a group."""

    group_id: str


GroupRecord = OffsetCommitted | OffsetForgotten | GroupStored | GroupForgotten


@dataclass(frozen=True, slots=True)
class LoadedGroup:
    """All records of one group in the log. stored: None where there are offsets only."""

    stored: GroupStored | None = None
    offsets: Mapping[TopicPartition, OffsetCommitted] = field(default_factory=dict)
