"""ZooKeeper's paths and the JSON in them: Kafka's own, so that the usual tools read them.

Others may have written a znode: malformed bytes raise MalformedZnode and no other error.
Source: docs/explanation/replication.md, "ZooKeeper's tree".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from highwater_core.ids import (
    NO_BROKER_EPOCH,
    NO_LEADER,
    NO_STORAGE_ID,
    BrokerEpoch,
    ControllerEpoch,
    Endpoint,
    LeaderEpoch,
    NodeId,
    StorageId,
    TopicPartition,
)
from highwater_core.messages import BrokerEndpoints

CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
BROKER_IDS = "/brokers/ids"
TOPICS = "/brokers/topics"
DELETE_TOPICS = "/admin/delete_topics"
REASSIGN_PARTITIONS = "/admin/reassign_partitions"
PREFERRED_REPLICA_ELECTION = "/admin/preferred_replica_election"
ISR_CHANGE_NOTIFICATION = "/isr_change_notification"
ISR_CHANGE_PREFIX = "isr_change_"
LOG_DIR_EVENT_NOTIFICATION = "/log_dir_event_notification"
LOG_DIR_EVENT_PREFIX = "log_dir_event_"
LOG_DIR_FAILED = 1
"""Kafka's only event of log folders: the controller must ask again for the broker's replicas."""
TOPIC_CONFIGS = "/config/topics"
BROKER_CONFIGS = "/config/brokers"
CONFIG_CHANGES = "/config/changes"
LATEST_PRODUCER_ID_BLOCK = "/latest_producer_id_block"
CONTROLLER_ENDPOINTS = "/highwater/controllers"
CLUSTER = "/cluster"
CLUSTER_ID = "/cluster/id"

PERSISTENT_PATHS: tuple[str, ...] = (
    BROKER_IDS,
    TOPICS,
    DELETE_TOPICS,
    ISR_CHANGE_NOTIFICATION,
    LOG_DIR_EVENT_NOTIFICATION,
    TOPIC_CONFIGS,
    BROKER_CONFIGS,
    CONFIG_CHANGES,
    CONTROLLER_ENDPOINTS,
)
"""The znodes that every node creates at its start, if they are missing."""


_INT32_MAX = 2**31 - 1
_PORT_MAX = 2**16 - 1

MAX_REPLICAS = 1_000
"""Most replicas of one partition, so that its state always fits a znode."""
HOST_PATTERN = r"\A([0-9A-Za-z._-]{1,255}|\[[0-9A-Fa-f:.]{2,45}\])\Z"
"""A host's name, an IPv4 address or a bracketed IPv6 one; no scheme, no control character."""

_HOST = re.compile(HOST_PATTERN)

Id = Annotated[int, msgspec.Meta(ge=0, le=_INT32_MAX)]
"""A node's id or a partition's number, as wide as the protocols carry it."""
Epoch = Annotated[int, msgspec.Meta(ge=0, le=_INT32_MAX)]
MAX_LEADER_EPOCH = _INT32_MAX - 1
RaisableEpoch = Annotated[int, msgspec.Meta(ge=0, le=MAX_LEADER_EPOCH)]
"""An epoch that can still be raised by one within the protocols' range."""
Replicas = Annotated[list[Id], msgspec.Meta(max_length=MAX_REPLICAS)]
Leader = Annotated[int, msgspec.Meta(ge=NO_LEADER, le=_INT32_MAX)]
Port = Annotated[int, msgspec.Meta(ge=1, le=_PORT_MAX)]
Host = Annotated[str, msgspec.Meta(pattern=HOST_PATTERN)]
BrokerEpochNumber = Annotated[int, msgspec.Meta(ge=NO_BROKER_EPOCH, le=2**63 - 1)]
TopicIdText = Annotated[str, msgspec.Meta(pattern=r"\A([0-9a-f]{32})?\Z")]
DecimalText = Annotated[str, msgspec.Meta(pattern=r"\A[0-9]{1,19}\Z")]
StorageIdText = Annotated[str, msgspec.Meta(pattern=r"\A[0-9A-Za-z_.-]{0,64}\Z")]


class MalformedZnode(Exception):
    """A znode has other contents than its documented JSON, or a value out of range."""


def broker_path(broker_id: NodeId) -> str:
    return f"{BROKER_IDS}/{broker_id}"


def topic_path(topic: str) -> str:
    return f"{TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    return f"{TOPICS}/{topic}/partitions"


def partition_path(topic_partition: TopicPartition) -> str:
    return f"{TOPICS}/{topic_partition.topic}/partitions/{topic_partition.partition}"


def partition_state_path(topic_partition: TopicPartition) -> str:
    return f"{partition_path(topic_partition)}/state"


def delete_topic_path(topic: str) -> str:
    return f"{DELETE_TOPICS}/{topic}"


def topic_config_path(topic: str) -> str:
    return f"{TOPIC_CONFIGS}/{topic}"


def controller_endpoint_path(controller_id: NodeId) -> str:
    return f"{CONTROLLER_ENDPOINTS}/{controller_id}"


# ---------------------------------------------------------------- contents


def decode_controller_epoch(data: bytes) -> ControllerEpoch:
    """Return the content of /controller_epoch, a plain number.

    Raises:
        MalformedZnode: the content is no number, or one that can no longer be raised.
    """
    if not data.isdigit() or len(data) > 10 or int(data) >= _INT32_MAX:
        raise MalformedZnode(f"{CONTROLLER_EPOCH}: {data[:40]!r} is no epoch")
    return ControllerEpoch(int(data))


@dataclass(frozen=True, slots=True)
class ControllerZnode:
    """/controller: the active controller."""

    brokerid: Id
    timestamp: str
    version: int = 1


@dataclass(frozen=True, slots=True)
class BrokerZnode:
    """/brokers/ids/N; endpoints are LISTENER://host:port."""

    host: str
    port: int
    timestamp: str
    endpoints: list[str]
    listener_security_protocol_map: dict[str, str]
    jmx_port: int = -1
    rack: str | None = None
    storage_id: StorageIdText | UnsetType = UNSET
    """The id of its log contents; Highwater's own key."""
    version: int = 4


@dataclass(frozen=True, slots=True)
class PartitionStateZnode:
    """/brokers/topics/T/partitions/P/state; its ZooKeeper version is the partition epoch.

    The optional keys are Highwater's own: those of PartitionLeadership.
    """

    leader: Leader
    leader_epoch: RaisableEpoch
    controller_epoch: Epoch
    isr: Replicas
    elr: Replicas | UnsetType = UNSET
    leader_broker_epoch: BrokerEpochNumber | UnsetType = UNSET
    storage_ids: dict[str, StorageIdText] | UnsetType = UNSET
    version: int = 1


@dataclass(frozen=True, slots=True)
class PartitionName:
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class PartitionsZnode:
    """/isr_change_notification/isr_change_N and the preferred election's admin znode."""

    partitions: list[PartitionName]
    version: int = 1


@dataclass(frozen=True, slots=True)
class LogDirEventZnode:
    """/log_dir_event_notification/log_dir_event_N: a broker's log folders have changed (KIP-112).

    event: LOG_DIR_FAILED; there is no other.
    """

    broker: Id
    event: int = LOG_DIR_FAILED
    version: int = 1


@dataclass(frozen=True, slots=True)
class ReassignedPartition:
    topic: str
    partition: int
    replicas: list[int]


@dataclass(frozen=True, slots=True)
class ReassignmentsZnode:
    """/admin/reassign_partitions: partitions and their target replicas, preferred first."""

    partitions: list[ReassignedPartition]
    version: int = 1


@dataclass(frozen=True, slots=True)
class TopicConfigZnode:
    """/config/topics/T and /config/brokers/N: the set values, by Kafka's names."""

    config: dict[str, str]
    version: int = 1


@dataclass(frozen=True, slots=True)
class ProducerIdBlockZnode:
    """/latest_producer_id_block: the producer ids that were taken last, and which broker took them.

    The block is [block_start, block_end], both included, as decimal text.
    """

    broker: Id
    block_start: DecimalText
    block_end: DecimalText
    version: int = 1


@dataclass(frozen=True, slots=True)
class ControllerEndpointZnode:
    """/highwater/controllers/N: the endpoint of a controller's gRPC server."""

    host: Host
    port: Port
    version: int = 1


@dataclass(frozen=True, slots=True)
class _ListOfPartitions:
    """Either admin znode, its entries not read yet."""

    partitions: list[msgspec.Raw]
    version: int = 1


_UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

Z = TypeVar("Z")


def encode(znode: Any) -> bytes:
    """Return compact JSON with the fields in the order of their declaration, version first."""
    fields = msgspec.to_builtins(znode)
    ordered = {"version": fields.pop("version"), **fields}
    return msgspec.json.encode(ordered)


def decode(znode_type: type[Z], data: bytes, path: str) -> Z:
    """Return the znode's content.

    Raises:
        MalformedZnode: not the documented JSON; the message names the path.
    """
    try:
        return msgspec.json.decode(data, type=znode_type)
    except _UNDECODABLE as error:
        raise MalformedZnode(f"{path}: {error}") from error


def decode_entries(entry_type: type[Z], data: bytes, path: str) -> tuple[list[Z], str]:
    """Return the well-formed entries of the znode's list `partitions`, in its order.

    The text says how many others there are, and why the first is malformed; "" where none is.

    Raises:
        MalformedZnode: there is no such list.
    """
    entries, malformed, first = [], 0, ""
    decoder = msgspec.json.Decoder(entry_type)
    for raw in decode(_ListOfPartitions, data, path).partitions:
        try:
            entries.append(decoder.decode(raw))
        except _UNDECODABLE as error:  # of a million only the count is kept
            first = first or str(error)
            malformed += 1
    return entries, f"{malformed} malformed, the first: {first}" if malformed else ""


def is_id(name: str) -> bool:
    """Return whether the name equals str() of such a number."""
    return (
        name.isascii()
        and name.isdecimal()
        and name == str(int(name[:11]))
        and (int(name) <= _INT32_MAX)
    )


@dataclass(frozen=True, slots=True)
class PartitionLeadership:
    """A partition state znode's content with the field's types.

    The last three are written with the toggle eligible_leader_replicas only. Invariant: no broker
    is in both isr and elr.
    """

    leader: NodeId
    leader_epoch: LeaderEpoch
    controller_epoch: ControllerEpoch
    isr: tuple[NodeId, ...]
    elr: tuple[NodeId, ...] = ()
    """Eligible leader replicas: they left the ISR, and have all committed records (KIP-966)."""
    leader_broker_epoch: BrokerEpoch = NO_BROKER_EPOCH
    """The registration with which the leader got its leader epoch."""
    storage_ids: tuple[tuple[NodeId, StorageId], ...] = ()
    """The ids of the log contents of isr and elr members, by broker, ascending."""

    def storage_id(self, broker_id: NodeId) -> StorageId:
        """Return the member's storage id, NO_STORAGE_ID where it is not known."""
        return dict(self.storage_ids).get(broker_id, NO_STORAGE_ID)


def encode_partition_state(leadership: PartitionLeadership) -> bytes:
    storage_ids = {str(broker): str(storage_id) for broker, storage_id in leadership.storage_ids}
    broker_epoch = leadership.leader_broker_epoch
    return encode(
        PartitionStateZnode(
            leader=leadership.leader,
            leader_epoch=leadership.leader_epoch,
            controller_epoch=leadership.controller_epoch,
            isr=list(leadership.isr),
            elr=list(leadership.elr) or UNSET,
            leader_broker_epoch=UNSET if broker_epoch == NO_BROKER_EPOCH else broker_epoch,
            storage_ids=storage_ids or UNSET,
        )
    )


def decode_partition_state(data: bytes, path: str) -> PartitionLeadership:
    """Return the partition's leadership.

    Raises:
        MalformedZnode: not the documented JSON, or a leader that is not in the ISR.
    """
    znode = decode(PartitionStateZnode, data, path)
    if len(set(znode.isr)) != len(znode.isr):
        raise MalformedZnode(f"{path}: the ISR {znode.isr} names a broker twice")
    elr = znode.elr or []
    if len({*znode.isr, *elr}) != len(znode.isr) + len(elr):
        raise MalformedZnode(f"{path}: ISR {znode.isr} and ELR {elr} name a broker twice")
    storage_ids = znode.storage_ids or {}
    odd = [name for name in storage_ids if not is_id(name)]
    if odd:
        raise MalformedZnode(f"{path}: {odd[0][:40]!r} has a storage id, and is no broker")
    if znode.leader != NO_LEADER and znode.leader not in znode.isr:
        raise MalformedZnode(f"{path}: leader {znode.leader} is not in the ISR {znode.isr}")
    return PartitionLeadership(
        leader=NodeId(znode.leader),
        leader_epoch=LeaderEpoch(znode.leader_epoch),
        controller_epoch=ControllerEpoch(znode.controller_epoch),
        isr=tuple(NodeId(broker) for broker in znode.isr),
        elr=tuple(NodeId(broker) for broker in elr),
        leader_broker_epoch=BrokerEpoch(
            NO_BROKER_EPOCH if znode.leader_broker_epoch is UNSET else znode.leader_broker_epoch
        ),
        storage_ids=tuple(
            sorted((NodeId(int(name)), StorageId(text)) for name, text in storage_ids.items())
        ),
    )


# ---------------------------------------------------------------- broker registration


def decode_broker_id(name: str) -> NodeId:
    """Return the id of the broker that registered under this name.

    Raises:
        MalformedZnode: the name is no broker's id.
    """
    if not is_id(name):
        raise MalformedZnode(f"{BROKER_IDS}/{name}: a broker id must be a number")
    return NodeId(int(name))


def is_host(text: str) -> bool:
    """Return whether this is a host to connect to: see HOST_PATTERN."""
    return _HOST.match(text) is not None


def _is_port(text: str) -> bool:
    """Return whether this is a port to connect to: 0 is none."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= 5
    return is_number and 1 <= int(text) <= _PORT_MAX


class ClusterIdZnode(msgspec.Struct, frozen=True, kw_only=True):
    version: str = "1"
    id: str


def encode_cluster_id(cluster_id: str) -> bytes:
    return encode(ClusterIdZnode(id=cluster_id))


def decode_cluster_id(data: bytes) -> str:
    """Return the id of /cluster/id.

    Raises:
        MalformedZnode
    """
    return decode(ClusterIdZnode, data, CLUSTER_ID).id


_LISTENERS = ("CLIENT", "EXTERNAL", "REPLICATION", "CONTROL")


def encode_broker(
    endpoints: BrokerEndpoints, timestamp_ms: int, storage_id: StorageId = NO_STORAGE_ID
) -> bytes:
    """Return /brokers/ids/N; EXTERNAL is the client listener as the host reaches it."""
    addresses = (
        endpoints.client,
        endpoints.client_external,
        endpoints.replication,
        endpoints.control,
    )
    return encode(
        BrokerZnode(
            host=endpoints.client.host,
            port=endpoints.client.port,
            timestamp=str(timestamp_ms),
            endpoints=[f"{name}://{at}" for name, at in zip(_LISTENERS, addresses, strict=True)],
            listener_security_protocol_map=dict.fromkeys(_LISTENERS, "PLAINTEXT"),
            storage_id=storage_id or UNSET,
        )
    )


def decode_broker(
    data: bytes, broker_id: NodeId, broker_epoch: BrokerEpoch = NO_BROKER_EPOCH
) -> BrokerEndpoints:
    """Return the endpoints of the broker's listeners.

    Raises:
        MalformedZnode: not the documented JSON, or a listener is missing.
    """
    path = broker_path(broker_id)
    znode = decode(BrokerZnode, data, path)
    found: dict[str, Endpoint] = {}
    for text in znode.endpoints:
        name, _, address = text.partition("://")
        host, _, port = address.rpartition(":")
        if not is_host(host) or not _is_port(port):
            raise MalformedZnode(f"{path}: endpoint {text[:300]!r} is not LISTENER://host:port")
        found[name] = Endpoint(host, int(port))
    missing = [name for name in _LISTENERS if name not in found]
    if missing:
        raise MalformedZnode(f"{path}: no endpoint for {', '.join(missing)}")
    return BrokerEndpoints(
        broker_id=broker_id,
        broker_epoch=broker_epoch,
        client=found["CLIENT"],
        client_external=found["EXTERNAL"],
        replication=found["REPLICATION"],
        control=found["CONTROL"],
    )


def decode_storage_id(data: bytes, broker_id: NodeId) -> StorageId:
    """Return the id of the broker's log contents, NO_STORAGE_ID without one.

    Raises:
        MalformedZnode: not the documented JSON.
    """
    storage_id = decode(BrokerZnode, data, broker_path(broker_id)).storage_id
    return NO_STORAGE_ID if storage_id is UNSET else StorageId(storage_id)
