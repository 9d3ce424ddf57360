"""Decides which of the controller's commands are older than the known state, and refused. Pure.

Source: docs/explanation/replication.md, "Commands"; KIP-380 and KAFKA-9839 (broker epoch), KIP-570
and KAFKA-13972 (StopReplica's leader epoch), KIP-516 (topic id), KAFKA-1097 (assignment).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from highwater_core.config import Toggles
from highwater_core.errors import ErrorCode
from highwater_core.ids import (
    DELETION_EPOCH,
    NO_BROKER_EPOCH,
    NO_CONTROLLER_EPOCH,
    NO_EPOCH,
    NO_TOPIC_ID,
    BrokerEpoch,
    ControllerEpoch,
    LeaderEpoch,
    NodeId,
    TopicId,
)
from highwater_core.messages import (
    BrokerCommand,
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    StopReplicaPartition,
)


@dataclass(frozen=True, slots=True)
class KnownReplica:
    """The state of a hosted replica when a command for it comes."""

    leader_epoch: LeaderEpoch
    topic_id: TopicId
    is_stopped: bool = False


class CommandNumber(NamedTuple):
    """A command's place among all commands to this broker, over all controllers; it sorts.

    A controller numbers its commands in the order of its decisions, and sends a broker the next one
    only after the answer to the one before.
    """

    controller_epoch: ControllerEpoch
    correlation_id: int


NO_COMMAND = CommandNumber(NO_CONTROLLER_EPOCH, 0)


def number_of(request: BrokerCommand) -> CommandNumber:
    """Return the request's place among all commands to this broker."""
    return CommandNumber(request.controller_epoch, request.correlation_id)


class Verdict(Enum):
    """The decision on one partition of a LeaderAndIsr."""

    APPLY = "apply"
    REPLACE = "replace"
    """The replica here is of an earlier topic of that name: set it aside for an empty one."""
    ALREADY_APPLIED = "already applied"
    REFUSE = "refuse"


def fence_request(
    *,
    controller_epoch: ControllerEpoch,
    known_controller_epoch: ControllerEpoch,
    broker_epoch: BrokerEpoch,
    own_broker_epoch: BrokerEpoch,
    toggles: Toggles,
) -> ErrorCode:
    """Return why a whole command is refused, or NONE.

    A newer broker epoch than our own is accepted: the controller may have seen our registration
    before we have its answer (KAFKA-9839).
    """
    if toggles.broker_epoch and broker_epoch != NO_BROKER_EPOCH and broker_epoch < own_broker_epoch:
        return ErrorCode.STALE_BROKER_EPOCH
    if toggles.check_controller_epoch and controller_epoch < known_controller_epoch:
        return ErrorCode.STALE_CONTROLLER_EPOCH
    return ErrorCode.NONE


def came_late(command: CommandNumber, last: CommandNumber) -> bool:
    """Return whether the command was sent before the last one that was carried out.

    It is then a copy whose retry was answered, or for an earlier registration. For a broker that
    has just started no command is late: there the broker epoch fences.
    """
    return command <= last


class InitCommands:
    """The last init command that was carried out: its controller epoch and broker epoch."""

    def __init__(self) -> None:
        self._last = NO_CONTROLLER_EPOCH, NO_BROKER_EPOCH

    def is_first(
        self, request: LeaderAndIsrRequest, own_broker_epoch: BrokerEpoch, toggles: Toggles
    ) -> bool:
        """Return whether it is an init command, and no copy of an earlier one.

        There is one for each (controller epoch, broker epoch). A late copy lacks partitions that
        this broker got since.
        """
        if not request.is_init:
            return False
        is_fenced = toggles.broker_epoch and request.broker_epoch != NO_BROKER_EPOCH
        init = request.controller_epoch, request.broker_epoch if is_fenced else own_broker_epoch
        is_first = init != self._last
        self._last = init
        return is_first


def judge_leader_and_isr(
    command: LeaderAndIsrPartition,
    known: KnownReplica | None,
    broker_id: NodeId,
    toggles: Toggles,
    *,
    is_late: bool = False,
) -> tuple[Verdict, ErrorCode]:
    """Return the decision on the command for one partition, and the answer.

    A repeat at an equal leader epoch was carried out already. After a StopReplica it is a new
    command and is carried out again, unless it is late: then the stop, or the deletion, came after
    it. Another topic id is that of a topic which was created after ours was deleted, unless the
    command is late: then ours is the later one.
    """
    if broker_id not in command.assigned_replicas:
        return Verdict.REFUSE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if known is None:
        if is_late:
            return Verdict.REFUSE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return Verdict.APPLY, ErrorCode.NONE
    if is_other_topic(command.topic_id, known.topic_id, toggles):
        if is_late:
            return Verdict.REFUSE, ErrorCode.INCONSISTENT_TOPIC_ID
        return Verdict.REPLACE, ErrorCode.NONE
    if command.leader_epoch < known.leader_epoch:
        return Verdict.REFUSE, ErrorCode.FENCED_LEADER_EPOCH
    if command.leader_epoch == known.leader_epoch and (is_late or not known.is_stopped):
        return Verdict.ALREADY_APPLIED, ErrorCode.NONE
    return Verdict.APPLY, ErrorCode.NONE


def judge_stop_replica(
    command: StopReplicaPartition, known: KnownReplica, toggles: Toggles
) -> ErrorCode:
    """Return why a StopReplica for one replica is refused, or NONE.

    An equal leader epoch is accepted with the fix of KAFKA-13972: not every stop raises it.
    """
    if is_other_topic(command.topic_id, known.topic_id, toggles):
        return ErrorCode.INCONSISTENT_TOPIC_ID
    if not toggles.stop_replica_leader_epoch or command.leader_epoch in (NO_EPOCH, DELETION_EPOCH):
        return ErrorCode.NONE
    if command.leader_epoch < known.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if command.leader_epoch == known.leader_epoch and not toggles.stop_at_equal_leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    return ErrorCode.NONE


def is_other_topic(topic_id: TopicId, known_id: TopicId, toggles: Toggles) -> bool:
    """Return whether both ids exist and differ: two topics of one name (KIP-516)."""
    return toggles.topic_id and NO_TOPIC_ID not in (topic_id, known_id) and topic_id != known_id
