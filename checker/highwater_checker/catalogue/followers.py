"""Triggers of the rows about followers that give up, or begin anew.

Rows 11 (KAFKA-1647), 12 (KAFKA-2143), 17 (KAFKA-13972), 18 (KAFKA-4443).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from highwater_checker.catalogue.story import PartitionStory, Seen, reaches
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind, TraceEvent

OUT_OF_RANGE = "warning: out of the leader's range"
_HIGH_WATERMARKS = "replication-offset-checkpoint"
_ROLES = (EventKind.BECAME_LEADER, EventKind.BECAME_FOLLOWER)


def checkpoint_lacks_a_replica_without_role(
    trace: Sequence[TraceEvent], topic: str, partition: int, offset: int
) -> str | None:
    """Row 11: a broker gave up on a command, and then wrote a checkpoint without that replica."""
    for given_up in _given_up(PartitionStory(trace, topic, partition)):
        for event in trace[given_up.place :]:
            if event.node == given_up.node and _is_of_high_watermarks(event):
                return (
                    f"broker {given_up.node} gave up on a LeaderAndIsr, as leader "
                    f"{given_up.leader} was not known to live, and wrote its high watermarks"
                )
    return None


def _is_of_high_watermarks(event: TraceEvent) -> bool:
    is_checkpoint = event.kind is EventKind.CHECKPOINT_WRITTEN
    return is_checkpoint and str(event.detail["file"]) == _HIGH_WATERMARKS


def gave_up_on_an_unknown_leader(
    trace: Sequence[TraceEvent], topic: str, partition: int, offset: int
) -> str | None:
    """Row 18: a follower gave up on the last LeaderAndIsr, before it knew that its leader lives."""
    for given_up in _given_up(PartitionStory(trace, topic, partition)):
        if given_up.leader >= 0:
            return (
                f"broker {given_up.node} gave up on a LeaderAndIsr: leader {given_up.leader} was "
                f"not known to live; it was given no role since"
            )
    return None


def _given_up(story: PartitionStory) -> list[Seen]:
    """Return each broker's command on which it gave up, unless it was given a role since."""
    found: dict[int, Seen] = {}
    for seen in story.of(EventKind.REQUEST_REFUSED, *_ROLES):
        if seen.kind in _ROLES:
            found.pop(seen.node, None)
        elif seen.event.detail["error"] == ErrorCode.LEADER_NOT_AVAILABLE.name:
            found[seen.node] = seen
    return list(found.values())


def dropped_a_log_that_was_in_range(
    trace: Sequence[TraceEvent], topic: str, partition: int, offset: int
) -> str | None:
    """Row 12: a follower that was out of range went back to its leader's start, below its end."""
    story = PartitionStory(trace, topic, partition)
    for cut in story.of(EventKind.LOG_TRUNCATED):
        is_dropped = cut.event.detail.get("reason") == OUT_OF_RANGE
        if is_dropped and reaches(offset, cut.offset):
            return (
                f"broker {cut.node}, out of its leader's range, cut its log from "
                f"{cut.event.detail.get('from_offset')} to the leader's start {cut.offset}"
            )
    return None


def outlived_a_reassignment(
    trace: Sequence[TraceEvent], topic: str, partition: int, offset: int
) -> str | None:
    """Row 17: a replica that a reassignment had added refused to be stopped for good."""
    added: set[int] = set()
    refused: dict[int, TraceEvent] = {}
    for event in trace:
        if event.kind is EventKind.REQUEST_HANDLED and event.node in added:
            if _refuses_to_stop(event, f"{topic}-{partition}"):
                refused[event.node] = event
        elif (event.topic, event.partition) == (topic, partition):
            if event.kind is EventKind.REASSIGNMENT_BEGUN:
                added.update(event.detail["adding"])
            elif event.kind in _ROLES:
                refused.pop(event.node, None)
    for broker in refused:
        return (
            f"a reassignment had added broker {broker}; it refused a later StopReplica for its "
            f"leader epoch, and was given no role since"
        )
    return None


def _refuses_to_stop(event: TraceEvent, topic_partition: str) -> bool:
    refused: Mapping[str, str] = event.detail.get("refused", {})
    is_fenced = refused.get(topic_partition) == ErrorCode.FENCED_LEADER_EPOCH.name
    return is_fenced and str(event.detail["request"]) == "StopReplica"
