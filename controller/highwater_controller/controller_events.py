"""The events of the controller's one queue: facts, without the steps that follow.

Watches carry no data: the state is read when the event is handled (KAFKA-5642).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from highwater_controller.topic_requests import TopicOutcome
from highwater_core import znodes
from highwater_core.ids import BrokerEpoch, NodeId, TopicPartition
from highwater_core.messages import (
    CommandResponse,
    ControllerCommand,
    ControlResponse,
    LeaderAndIsrRequest,
    StopReplicaRequest,
)
from highwater_core.ports import CoordinationEvent
from highwater_core.runtime import Future

Outcome = ControlResponse | list[TopicOutcome]
Reply = Future[Outcome]


@dataclass(frozen=True, slots=True)
class ControllerZnodeChanged:
    """Time to look for the active controller; also the first event of a session."""


@dataclass(frozen=True, slots=True)
class BrokersChanged:
    """A broker registered or left in /brokers/ids, or wrote its registration again."""


@dataclass(frozen=True, slots=True)
class BrokerSuspected:
    """A live broker's connection broke, and it does not answer."""

    broker_id: NodeId
    broker_epoch: BrokerEpoch
    why: str


@dataclass(frozen=True, slots=True)
class TopicsChanged:
    """A topic's znode was created in /brokers/topics, or removed."""


@dataclass(frozen=True, slots=True)
class TopicZnodeChanged:
    """A topic's znode was written: /brokers/topics/T."""

    topic: str


@dataclass(frozen=True, slots=True)
class PartitionStateChanged:
    """A state znode was written: /brokers/topics/T/partitions/P/state, watched if malformed."""

    partition: TopicPartition


@dataclass(frozen=True, slots=True)
class DeletionsRequested:
    """A topic was marked for deletion in /admin/delete_topics."""


@dataclass(frozen=True, slots=True)
class ReassignmentsWritten:
    """/admin/reassign_partitions was written."""


@dataclass(frozen=True, slots=True)
class ReassignmentsAdvanced:
    """The ISRs of these partitions have changed; their replicas are being moved."""

    partitions: Sequence[TopicPartition]


@dataclass(frozen=True, slots=True)
class EndedReassignmentsDue:
    """Time to remove completed jobs from /admin/reassign_partitions."""


@dataclass(frozen=True, slots=True)
class PreferredElectionsWritten:
    """/admin/preferred_replica_election was written."""


@dataclass(frozen=True, slots=True)
class ConfigsChanged:
    """A change was announced in /config/changes, or announcements must be removed there."""


@dataclass(frozen=True, slots=True)
class RebalanceDue:
    """Time to check whether brokers lead the partitions for which they are preferred."""


@dataclass(frozen=True, slots=True)
class RefusedDeletionsDue:
    """Time to retry the deletions that brokers could not carry out."""


@dataclass(frozen=True, slots=True)
class IsrChangesNotified:
    """A leader wrote ISRs itself (preset v3) and announced it in /isr_change_notification."""


@dataclass(frozen=True, slots=True)
class LogFolderEventsNotified:
    """Brokers have announced that log folders failed, or work again."""


@dataclass(frozen=True, slots=True)
class LeaderAndIsrAnswered:
    """A LeaderAndIsr answer of a broker whose disk refuses replicas, or no longer does."""

    broker_id: NodeId
    request: LeaderAndIsrRequest
    response: CommandResponse


@dataclass(frozen=True, slots=True)
class StopReplicaAnswered:
    """A broker answered a StopReplica that deletes replicas."""

    broker_id: NodeId
    request: StopReplicaRequest
    response: CommandResponse


@dataclass(frozen=True, slots=True)
class JobsDue:
    """Time for a step of clients' and operators' jobs; one such event waits at a time."""


@dataclass(frozen=True, slots=True)
class RequestReceived:
    """A broker's request; `reply` is set when it has been handled or the controller resigns."""

    request: ControllerCommand
    reply: Reply


ControllerEvent = (
    ControllerZnodeChanged
    | BrokersChanged
    | BrokerSuspected
    | TopicsChanged
    | TopicZnodeChanged
    | PartitionStateChanged
    | DeletionsRequested
    | ReassignmentsWritten
    | ReassignmentsAdvanced
    | EndedReassignmentsDue
    | PreferredElectionsWritten
    | ConfigsChanged
    | RebalanceDue
    | RefusedDeletionsDue
    | IsrChangesNotified
    | LogFolderEventsNotified
    | LeaderAndIsrAnswered
    | StopReplicaAnswered
    | JobsDue
    | RequestReceived
)


_BY_PATH: dict[str, ControllerEvent] = {
    znodes.CONTROLLER: ControllerZnodeChanged(),
    znodes.CONTROLLER_EPOCH: ControllerZnodeChanged(),
    znodes.BROKER_IDS: BrokersChanged(),
    znodes.TOPICS: TopicsChanged(),
    znodes.DELETE_TOPICS: DeletionsRequested(),
    znodes.REASSIGN_PARTITIONS: ReassignmentsWritten(),
    znodes.PREFERRED_REPLICA_ELECTION: PreferredElectionsWritten(),
    znodes.CONFIG_CHANGES: ConfigsChanged(),
    znodes.ISR_CHANGE_NOTIFICATION: IsrChangesNotified(),
    znodes.LOG_DIR_EVENT_NOTIFICATION: LogFolderEventsNotified(),
}


def to_controller_event(fired: CoordinationEvent) -> ControllerEvent | None:
    """Return the controller's event for a fired watch; None for one without meaning."""
    known = _BY_PATH.get(fired.path)
    if known is not None:
        return known
    match fired.path.strip("/").split("/"):
        case ["brokers", "ids", _]:
            return BrokersChanged()
        case ["brokers", "topics", topic]:
            return TopicZnodeChanged(topic)
        case ["brokers", "topics", topic, "partitions", number, "state"] if number.isdecimal():
            return PartitionStateChanged(TopicPartition(topic, int(number)))
    return None
