"""The control plane's requests and responses, as values.

Their protobuf forms are in proto/highwater_wire/v1; highwater_wire.control converts both ways.
Source: V3 design, LeaderAndISRRequest and StopReplicaRequest, extended as ARCHITECTURE.md says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from highwater_core.admin_messages import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlterReassignmentsRequest,
    AlterReassignmentsResponse,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListReassignmentsRequest,
    ListReassignmentsResponse,
    TopicResult,
)
from highwater_core.errors import ErrorCode
from highwater_core.ids import (
    NO_BROKER_EPOCH,
    NO_CONTROLLER_EPOCH,
    NO_EPOCH,
    NO_LEADER,
    NO_PARTITION_EPOCH,
    NO_TOPIC_ID,
    BrokerEpoch,
    ControllerEpoch,
    Endpoint,
    LeaderEpoch,
    NodeId,
    Offset,
    PartitionEpoch,
    TopicId,
    TopicPartition,
)

CONTROL_PROTOCOL_VERSION = 1
"""V3's version_id: the version of this code."""


# ---------------------------------------------------------------- controller to broker


@dataclass(frozen=True, slots=True)
class LeaderAndIsrPartition:
    """One partition's leadership as the controller decided it.

    Invariant: isr is a subset of assigned_replicas; leader is in isr or NO_LEADER.
    """

    topic_partition: TopicPartition
    leader: NodeId
    leader_epoch: LeaderEpoch
    isr: tuple[NodeId, ...]
    partition_epoch: PartitionEpoch
    assigned_replicas: tuple[NodeId, ...]
    is_new: bool = False
    topic_id: TopicId = NO_TOPIC_ID
    elr: tuple[NodeId, ...] = ()
    """While there are any, the leader commits no record: they may be elected (KIP-966)."""


@dataclass(frozen=True, slots=True)
class LeaderAndIsrRequest:
    """Commands a broker to lead and follow partitions.

    is_init marks the first command of this controller to this incarnation of the broker; it then
    lists every partition that is assigned to the broker. correlation_id, in each of the commands,
    rises in the order of a controller's decisions; a command that is sent again keeps its own.
    ack_timeout_ms: how long the controller waits for the answer before it sends the command again.
    Deviation: in V3 the broker uses the field; here it is only information. A command that was
    begun is carried out whole, however late: one that was given up half way would leave replicas in
    roles that the controller does not know.
    """

    controller_id: NodeId
    controller_epoch: ControllerEpoch
    broker_epoch: BrokerEpoch
    is_init: bool
    partitions: tuple[LeaderAndIsrPartition, ...]
    live_leaders: tuple[BrokerEndpoints, ...] = ()
    ack_timeout_ms: int = 10_000
    correlation_id: int = 0


@dataclass(frozen=True, slots=True)
class StopReplicaPartition:
    """One replica to stop; leader_epoch NO_EPOCH is unfenced, DELETION_EPOCH newer than any."""

    topic_partition: TopicPartition
    delete_partition: bool
    leader_epoch: LeaderEpoch = NO_EPOCH
    topic_id: TopicId = NO_TOPIC_ID


@dataclass(frozen=True, slots=True)
class StopReplicaRequest:
    """Commands a broker to stop some of its replicas, and to delete the marked ones."""

    controller_id: NodeId
    controller_epoch: ControllerEpoch
    broker_epoch: BrokerEpoch
    partitions: tuple[StopReplicaPartition, ...]
    ack_timeout_ms: int = 10_000
    correlation_id: int = 0


@dataclass(frozen=True, slots=True)
class BrokerEndpoints:
    """A live broker and the endpoints of its listeners."""

    broker_id: NodeId
    broker_epoch: BrokerEpoch
    client: Endpoint
    client_external: Endpoint
    """The client listener as clients outside the containers' network reach it."""
    replication: Endpoint
    control: Endpoint


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """A partition's metadata for clients; leader LEADER_DURING_DELETE removes it."""

    topic_partition: TopicPartition
    leader: NodeId
    leader_epoch: LeaderEpoch
    isr: tuple[NodeId, ...]
    assigned_replicas: tuple[NodeId, ...]
    partition_epoch: PartitionEpoch
    topic_id: TopicId = NO_TOPIC_ID
    failed_replicas: tuple[NodeId, ...] = ()
    """Replicas on live brokers whose disks refuse them (KIP-112)."""


@dataclass(frozen=True, slots=True)
class UpdateMetadataRequest:
    """The controller's view of live brokers (always whole) and of some partitions.

    is_full: it lists all partitions; a broker forgets all others.
    """

    controller_id: NodeId
    controller_epoch: ControllerEpoch
    broker_epoch: BrokerEpoch
    live_brokers: tuple[BrokerEndpoints, ...]
    partitions: tuple[PartitionMetadata, ...]
    correlation_id: int = 0
    is_full: bool = False


@dataclass(frozen=True, slots=True)
class CommandResponse:
    """A broker's answer to any controller command.

    error is about the request as a whole (stale epochs); partition_errors names each partition
    that the request listed, in its order, and is empty when error is not NONE.
    """

    error: ErrorCode
    partition_errors: tuple[tuple[TopicPartition, ErrorCode], ...] = ()


# ---------------------------------------------------------------- broker to controller


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; assignment (partition to replicas, preferred first) overrides counts."""

    name: str
    partition_count: int
    replication_factor: int
    assignment: tuple[tuple[NodeId, ...], ...] = ()
    config: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class CreateTopicsRequest:
    topics: tuple[NewTopic, ...]
    validate_only: bool = False
    timeout_ms: int = 30_000


@dataclass(frozen=True, slots=True)
class CreateTopicsResponse:
    """error NOT_CONTROLLER when the answering node is not active; results in request order."""

    error: ErrorCode
    results: tuple[TopicResult, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteTopicsRequest:
    names: tuple[str, ...]
    timeout_ms: int = 30_000


@dataclass(frozen=True, slots=True)
class DeleteTopicsResponse:
    error: ErrorCode
    results: tuple[TopicResult, ...] = ()


@dataclass(frozen=True, slots=True)
class ControlledShutdownRequest:
    """controller_epoch: as in AlterPartitionRequest."""

    broker_id: NodeId
    broker_epoch: BrokerEpoch
    controller_epoch: ControllerEpoch = NO_CONTROLLER_EPOCH


@dataclass(frozen=True, slots=True)
class ControlledShutdownResponse:
    """remaining: partitions that the broker still leads; it asks again until there are none."""

    error: ErrorCode
    remaining: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class IsrMember:
    """An ISR member as the leader last saw it (KIP-903); NO_BROKER_EPOCH is unfenced."""

    broker_id: NodeId
    broker_epoch: BrokerEpoch = NO_BROKER_EPOCH


@dataclass(frozen=True, slots=True)
class AlterPartitionItem:
    topic_partition: TopicPartition
    leader_epoch: LeaderEpoch
    new_isr: tuple[IsrMember, ...]
    partition_epoch: PartitionEpoch
    topic_id: TopicId = NO_TOPIC_ID


@dataclass(frozen=True, slots=True)
class AlterPartitionRequest:
    """A leader asks the controller to write a new ISR (KIP-497).

    controller_epoch: the highest of the commands that the broker obeys. A controller of an earlier
    one answers NOT_CONTROLLER: it has not learned yet that its term is over.
    """

    broker_id: NodeId
    broker_epoch: BrokerEpoch
    partitions: tuple[AlterPartitionItem, ...]
    controller_epoch: ControllerEpoch = NO_CONTROLLER_EPOCH


@dataclass(frozen=True, slots=True)
class AlterPartitionResult:
    """The partition's state after the write; on error only topic_partition and error count."""

    topic_partition: TopicPartition
    error: ErrorCode
    leader: NodeId = NO_LEADER
    leader_epoch: LeaderEpoch = NO_EPOCH
    isr: tuple[NodeId, ...] = ()
    partition_epoch: PartitionEpoch = NO_PARTITION_EPOCH
    elr: tuple[NodeId, ...] = ()


@dataclass(frozen=True, slots=True)
class AlterPartitionResponse:
    error: ErrorCode
    results: tuple[AlterPartitionResult, ...] = ()


# ---------------------------------------------------------------- inspection, on every node


@dataclass(frozen=True, slots=True)
class InspectRequest:
    """Asks any node for a snapshot of its state."""


@dataclass(frozen=True, slots=True)
class FollowerView:
    """A follower as the leader sees it."""

    broker_id: NodeId
    log_end_offset: Offset
    last_caught_up_ms: int


@dataclass(frozen=True, slots=True)
class ReplicaSnapshot:
    """One replica as its broker holds it."""

    topic_partition: TopicPartition
    role: str
    """"leader", "taking over" (it refuses clients yet), "follower", "offline" or "stopped"."""
    leader: NodeId
    leader_epoch: LeaderEpoch
    controller_epoch: ControllerEpoch
    partition_epoch: PartitionEpoch
    high_watermark: Offset
    log_start_offset: Offset
    log_end_offset: Offset
    isr: tuple[NodeId, ...]
    assigned_replicas: tuple[NodeId, ...]
    followers: tuple[FollowerView, ...] = ()
    epoch_cache: tuple[tuple[LeaderEpoch, Offset], ...] = ()
    topic_id: TopicId = NO_TOPIC_ID


@dataclass(frozen=True, slots=True)
class TaskSnapshot:
    """A running task by its document's name (ReplicaFetcherThread-1, ...)."""

    name: str
    count: int


@dataclass(frozen=True, slots=True)
class UnansweredCommand:
    """A command that a broker has not answered for command_timeout_ms (V3 design, discussion).

    waiting_ms: since it was sent for the first time.
    """

    broker_id: NodeId
    request: str
    waiting_ms: int


@dataclass(frozen=True, slots=True)
class NodeSnapshot:
    """A node's state at one moment; replicas sort by topic and partition."""

    node_id: NodeId
    kind: str
    """"broker" or "controller"."""
    incarnation: int
    preset: str
    controller_epoch: ControllerEpoch
    broker_epoch: BrokerEpoch = NO_BROKER_EPOCH
    active_controller: bool = False
    controller_id: NodeId = NO_LEADER
    live_brokers: tuple[NodeId, ...] = ()
    replicas: tuple[ReplicaSnapshot, ...] = ()
    tasks: tuple[TaskSnapshot, ...] = ()
    resident_bytes: int = 0
    counters: tuple[tuple[str, int], ...] = field(default=())
    unanswered_commands: tuple[UnansweredCommand, ...] = ()
    """Of an active controller, by broker: the alerts for an operator."""
    build: str = ""
    """The tag of the image that the node runs from; "" of older builds, and where there is none."""


@dataclass(frozen=True, slots=True)
class HoldRequest:
    """Is answered after hold_ms: until then the call ends only if the connection or broker does."""

    hold_ms: int


class FailPointAction(StrEnum):
    """The action of a fail-point when it is reached."""

    OFF = "off"
    DELAY = "delay"
    """It waits for delay_ms."""
    EXIT = "exit"
    """The process ends at once, as by SIGKILL."""


@dataclass(frozen=True, slots=True)
class SetFailPointRequest:
    """Arms or disarms a fail-point; after `count` hits it disarms itself, 0 is without end."""

    name: str
    action: FailPointAction
    count: int = 0
    delay_ms: int = 0


@dataclass(frozen=True, slots=True)
class SetFailPointResponse:
    """error INVALID_REQUEST when the node has no fail-point of that name."""

    error: ErrorCode


BrokerCommand = LeaderAndIsrRequest | StopReplicaRequest | UpdateMetadataRequest
ControllerCommand = (
    CreateTopicsRequest
    | DeleteTopicsRequest
    | CreatePartitionsRequest
    | ElectLeadersRequest
    | AlterReassignmentsRequest
    | ListReassignmentsRequest
    | AlterConfigsRequest
    | ControlledShutdownRequest
    | AlterPartitionRequest
)
ControlRequest = (
    BrokerCommand | ControllerCommand | HoldRequest | InspectRequest | SetFailPointRequest
)
ControllerResponse = (
    CreateTopicsResponse
    | DeleteTopicsResponse
    | CreatePartitionsResponse
    | ElectLeadersResponse
    | AlterReassignmentsResponse
    | ListReassignmentsResponse
    | AlterConfigsResponse
    | ControlledShutdownResponse
    | AlterPartitionResponse
)
ControlResponse = CommandResponse | ControllerResponse | NodeSnapshot | SetFailPointResponse

_RESPONSES: Mapping[type[ControllerCommand], Callable[[ErrorCode], ControllerResponse]] = {
    AlterPartitionRequest: AlterPartitionResponse,
    ControlledShutdownRequest: ControlledShutdownResponse,
    CreateTopicsRequest: CreateTopicsResponse,
    DeleteTopicsRequest: DeleteTopicsResponse,
    CreatePartitionsRequest: CreatePartitionsResponse,
    ElectLeadersRequest: ElectLeadersResponse,
    AlterReassignmentsRequest: AlterReassignmentsResponse,
    ListReassignmentsRequest: ListReassignmentsResponse,
    AlterConfigsRequest: AlterConfigsResponse,
}


def refusal(request: ControllerCommand, error: ErrorCode) -> ControllerResponse:
    """Return the answer to the request with this error for the whole request."""
    return _RESPONSES[type(request)](error)
