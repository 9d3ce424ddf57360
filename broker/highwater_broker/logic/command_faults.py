"""Decides which partitions of a command have impossible content, and are refused. Pure.

A topic's name becomes a folder, a path in ZooKeeper and a line of a checkpoint; ids and epochs
become fields of fixed size. A bad one must cost that partition's part of the command, and not the
broker, nor the command's other partitions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from highwater_core.errors import ErrorCode
from highwater_core.ids import (
    DELETION_EPOCH,
    NO_LEADER,
    NO_TOPIC_ID,
    NodeId,
    TopicPartition,
)
from highwater_core.messages import (
    BrokerCommand,
    LeaderAndIsrPartition,
    PartitionMetadata,
    StopReplicaPartition,
)
from highwater_core.topic_names import find_name_fault

_MAX_INT32 = 2**31 - 1
_TOPIC_ID = re.compile("[0-9a-f]{32}")


def find_faults(request: BrokerCommand) -> dict[TopicPartition, ErrorCode]:
    """Return the partitions of the command that are refused, and why.

    A partition that is named twice is refused, since it is unknown which entry is meant.
    """
    faults: dict[TopicPartition, ErrorCode] = {}
    named: dict[TopicPartition, None] = {}
    for each in request.partitions:
        key = each.topic_partition
        fault = find_fault(each) if key not in named else ErrorCode.INVALID_REQUEST
        named[key] = None
        if fault is not ErrorCode.NONE:
            faults[key] = fault
    return faults


def find_fault(
    command: LeaderAndIsrPartition | StopReplicaPartition | PartitionMetadata,
) -> ErrorCode:
    """Return the fault of a command for one partition, or NONE."""
    if find_name_fault(command.topic_partition.topic):
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    is_id = command.topic_id == NO_TOPIC_ID or _TOPIC_ID.fullmatch(command.topic_id)
    if not is_id or not 0 <= command.topic_partition.partition <= _MAX_INT32:
        return ErrorCode.INVALID_REQUEST
    if isinstance(command, LeaderAndIsrPartition):
        return _fault_of_leadership(command)
    if not DELETION_EPOCH <= command.leader_epoch <= _MAX_INT32:
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


def _fault_of_leadership(command: LeaderAndIsrPartition) -> ErrorCode:
    """An ISR member outside the assignment is no fault: it will lag and be removed.

    Nor is an eligible replica that is in the ISR: the leader waits for the next command.
    """
    isr = command.isr
    if not _are_distinct_ids(command.assigned_replicas):
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT
    is_sound = (
        0 <= command.leader_epoch <= _MAX_INT32
        and 0 <= command.partition_epoch <= _MAX_INT32
        and _are_distinct_ids(isr)
        and _are_distinct_ids(command.elr)
        and (command.leader == NO_LEADER or command.leader in isr)
    )
    return ErrorCode.NONE if is_sound else ErrorCode.INVALID_REQUEST


def _are_distinct_ids(brokers: tuple[NodeId, ...]) -> bool:
    return len(set(brokers)) == len(brokers) and all(0 <= each <= _MAX_INT32 for each in brokers)


def without(request: BrokerCommand, faults: Mapping[TopicPartition, ErrorCode]) -> BrokerCommand:
    """Return the command without the refused partitions."""
    kept: Any = tuple(each for each in request.partitions if each.topic_partition not in faults)
    return replace(request, partitions=kept)
