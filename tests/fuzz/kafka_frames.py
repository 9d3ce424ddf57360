"""Kafka requests for every served API and version, well-formed and hostile, as frames."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

from highwater_core.admin_messages import ReassignmentItem
from highwater_core.ids import (
    BrokerEpoch,
    LeaderEpoch,
    NodeId,
    Offset,
    ProducerId,
    TopicId,
    TopicPartition,
)
from highwater_wire.kafka.admin_messages import (
    AlterPartitionReassignmentsRequest,
    CreatePartitionsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
    PartitionsToCreate,
)
from highwater_wire.kafka.codec import MalformedRequest, Piece, decode_request, encode_request
from highwater_wire.kafka.committed_messages import (
    GroupToFetch,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    OffsetToCommit,
)
from highwater_wire.kafka.config_messages import (
    AlterConfigsRequest,
    AlteredResource,
    ConfigAlteration,
    ConfigResource,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
    ReplacedConfig,
)
from highwater_wire.kafka.group_messages import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    GroupProtocol,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeavingMember,
    ListGroupsRequest,
    MemberAssignment,
    SyncGroupRequest,
)
from highwater_wire.kafka.log_dir_messages import DescribeLogDirsRequest
from highwater_wire.kafka.messages import (
    ApiVersionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    EpochPartition,
    FetchPartition,
    FetchRequest,
    FindCoordinatorRequest,
    KafkaRequest,
    ListOffsetsPartition,
    ListOffsetsRequest,
    MetadataRequest,
    OffsetForLeaderEpochRequest,
    ProducePartition,
    ProduceRequest,
    TopicToCreate,
    UnsupportedRequest,
)
from highwater_wire.kafka.producer_messages import InitProducerIdRequest
from highwater_wire.kafka.versions import (
    REPLICATION_PROFILE,
    VERSION_PROFILE,
    VersionProfile,
    api_key_of,
)
from tests.fuzz.draws import Draws

PROFILES = {
    "CLIENT": VERSION_PROFILE,
    "EXTERNAL": VERSION_PROFILE,
    "REPLICATION": REPLICATION_PROFILE,
}
CONFIG_NAMES = (
    "segment.bytes", "retention.ms", "retention.bytes", "min.insync.replicas", "segment.ms",
    "max.message.bytes", "index.interval.bytes", "cleanup.policy",
    "unclean.leader.election.enable", "bogus", "",
)  # fmt: skip
CONFIG_VALUES = (
    None, "", "0", "1", "-1", "14", "true", "delete", "x", " 7 ", "2147483647", "2147483648",
    "9" * 40, "9" * 5_000, "x" * 32_000,
)  # fmt: skip
FRAME_BYTES_MAX = 1 << 20
MANY = 3_000
"""How often one request names something, now and then."""


def _partitions(draws: Draws, make: Callable[[], Any]) -> tuple[Any, ...]:
    """Return some entries; now and then one of them very often."""
    entries = tuple(make() for _ in range(draws.count(3)))
    if entries and draws.chance(2):
        entries += (entries[0],) * draws.between(100, MANY)
    return entries


def _partition(draws: Draws) -> int:
    return draws.mostly(0, draws.int32(), 70)


def _replica(draws: Draws) -> NodeId:
    return NodeId(draws.mostly(draws.one_of((-1, 0, 1, 2)), draws.int32(), 80))


def _epoch(draws: Draws) -> LeaderEpoch:
    return LeaderEpoch(draws.mostly(draws.one_of((-1, 0, 1)), draws.int32()))


def produce(draws: Draws) -> KafkaRequest:
    def entry() -> ProducePartition:
        return ProducePartition(draws.name(85), _partition(draws), draws.records())

    return ProduceRequest(
        draws.mostly(draws.one_of((-1, 0, 1)), draws.int16(), 90),
        draws.one_of((-1, 0, 1, 50, 2**31 - 1)),
        _partitions(draws, entry),
        draws.one_of((None, None, None, None, None, None, "tx", "")),
    )


def fetch(draws: Draws) -> KafkaRequest:
    def entry() -> FetchPartition:
        return FetchPartition(
            draws.name(80),
            _partition(draws),
            Offset(draws.mostly(draws.between(0, 30), draws.int64(), 50)),
            draws.one_of((-1, 0, 1, 1_000, 1 << 20, 2**31 - 1)),
            _epoch(draws),
            Offset(draws.int64()),
            TopicId(draws.one_of(("", "0" * 32, "f" * 32, "1" * 32))),
        )

    return FetchRequest(
        _replica(draws),
        draws.one_of((-1, 0, 5, 500, 2**31 - 1)),
        draws.int32(),
        draws.one_of((-1, 0, 1, 100, 1 << 20, 2**31 - 1)),
        _partitions(draws, entry),
        BrokerEpoch(draws.one_of((-1, 0, 5, 2**63 - 1))),
    )


def list_offsets(draws: Draws) -> KafkaRequest:
    def entry() -> ListOffsetsPartition:
        return ListOffsetsPartition(draws.name(80), _partition(draws), draws.int64(), _epoch(draws))

    return ListOffsetsRequest(_replica(draws), _partitions(draws, entry))


def metadata(draws: Draws) -> KafkaRequest:
    topics = None if draws.chance(20) else tuple(draws.name(40) for _ in range(draws.count(4)))
    return MetadataRequest(topics, draws.chance(50))


def epochs(draws: Draws) -> KafkaRequest:
    def entry() -> EpochPartition:
        return EpochPartition(draws.name(80), _partition(draws), _epoch(draws), _epoch(draws))

    return OffsetForLeaderEpochRequest(_replica(draws), _partitions(draws, entry))


def describe_configs(draws: Draws) -> KafkaRequest:
    def entry() -> ConfigResource:
        names = draws.one_of((None, (), ("retention.ms", "bogus"), (draws.name(0),) * 3))
        resource_type = draws.mostly(draws.one_of((2, 4)), draws.one_of((-128, 0, 127)), 85)
        name = draws.one_of(("orders", "0", "1", draws.name(0)))
        return ConfigResource(resource_type, name, names)

    return DescribeConfigsRequest(_partitions(draws, entry), draws.chance(50))


def _resource(draws: Draws) -> tuple[int, str]:
    resource_type = draws.mostly(draws.one_of((2, 4)), draws.one_of((-128, 0, 127)), 85)
    return resource_type, draws.one_of(("orders", "0", "1", "", draws.name(0)))


def alter_configs(draws: Draws) -> KafkaRequest:
    def entry() -> ReplacedConfig:
        items = ((draws.one_of(CONFIG_NAMES), draws.one_of((*CONFIG_VALUES, None))),)
        return ReplacedConfig(*_resource(draws), items * draws.count(2))

    return AlterConfigsRequest(_partitions(draws, entry), draws.chance(50))


def incremental_alter_configs(draws: Draws) -> KafkaRequest:
    def alteration() -> ConfigAlteration:
        operation = draws.mostly(draws.below(4), draws.one_of((-128, 127)), 90)
        name, value = draws.one_of(CONFIG_NAMES), draws.one_of((*CONFIG_VALUES, None))
        return ConfigAlteration(name, operation, value)

    def entry() -> AlteredResource:
        return AlteredResource(*_resource(draws), (alteration(),) * draws.count(2))

    return IncrementalAlterConfigsRequest(_partitions(draws, entry), draws.chance(50))


def find_coordinator(draws: Draws) -> KafkaRequest:
    return FindCoordinatorRequest((draws.name(10),), draws.one_of((0, 1, 127, -128)))


def init_producer_id(draws: Draws) -> KafkaRequest:
    known = ProducerId(draws.one_of((-(2**63), -2, -1, 0, 5, 2**63 - 1)))
    epoch = draws.one_of((-(2**15), -1, 0, 2**15 - 1))
    name = draws.mostly(None, draws.name(10), 90)
    return InitProducerIdRequest(name, draws.one_of((-(2**31), 0, 2**31 - 1)), known, epoch)


def api_versions(draws: Draws) -> KafkaRequest:
    return ApiVersionsRequest()


def _new_name(draws: Draws) -> str:
    return f"n{draws.below(30)}" if draws.chance(70) else draws.name(20)


def create_topics(draws: Draws) -> KafkaRequest:
    def entry() -> TopicToCreate:
        assignments = ()
        if draws.chance(20):
            replicas = tuple(NodeId(draws.int32()) for _ in range(draws.count(3, 9_000)))
            assignments = tuple(
                (draws.mostly(at, draws.int32(), 80), replicas) for at in range(draws.count(3))
            )
        return TopicToCreate(
            _new_name(draws),
            draws.mostly(draws.one_of((-1, 1, 3)), draws.int32(), 90),
            draws.mostly(draws.one_of((-1, 1, 3)), draws.int16(), 90),
            assignments,
            tuple(
                (draws.one_of(CONFIG_NAMES), draws.one_of(CONFIG_VALUES))
                for _ in range(draws.count(2))
            ),
        )

    count = draws.count(2)
    topics = tuple(entry() for _ in range(count))
    return CreateTopicsRequest(topics, draws.one_of((-1, 0, 100)), draws.chance(40))


def delete_topics(draws: Draws) -> KafkaRequest:
    names = tuple(_new_name(draws) for _ in range(draws.count(3)))
    names = tuple(name for name in names if name != "orders")
    return DeleteTopicsRequest(names, draws.one_of((-1, 0, 100)))


def _topic_partition(draws: Draws) -> TopicPartition:
    return TopicPartition(draws.name(60), _partition(draws))


def _some_or_all(draws: Draws) -> tuple[TopicPartition, ...] | None:
    return None if draws.chance(20) else _partitions(draws, lambda: _topic_partition(draws))


def _replicas(draws: Draws) -> tuple[NodeId, ...]:
    return tuple(_replica(draws) for _ in range(draws.count(3, 9_000)))


def _admin_timeout(draws: Draws) -> int:
    return draws.one_of((-1, 0, 100))


def create_partitions(draws: Draws) -> KafkaRequest:
    """Return one that leaves the witness topic as it is."""

    def entry() -> PartitionsToCreate:
        assigned = tuple(_replicas(draws) for _ in range(draws.count(2)))
        count = draws.mostly(draws.between(1, 4), draws.int32(), 90)
        return PartitionsToCreate(_new_name(draws), count, draws.one_of((None, None, assigned)))

    topics = tuple(each for each in _partitions(draws, entry) if each.topic != "orders")
    return CreatePartitionsRequest(topics, _admin_timeout(draws), draws.chance(30))


def elect_leaders(draws: Draws) -> KafkaRequest:
    """Return one that loses no records of the witness topic: it asks for unclean ones of others."""
    election_type = draws.mostly(0, draws.one_of((-128, -1, 1, 2, 127)), 80)
    partitions = _some_or_all(draws)
    if election_type == 1:
        partitions = tuple(each for each in partitions or () if each.topic != "orders")
    return ElectLeadersRequest(election_type, partitions, _admin_timeout(draws))


def alter_reassignments(draws: Draws) -> KafkaRequest:
    """Return one that leaves the witness topic as it is."""

    def entry() -> ReassignmentItem:
        replicas = None if draws.chance(30) else _replicas(draws)
        return ReassignmentItem(_topic_partition(draws), replicas)

    items = tuple(
        each for each in _partitions(draws, entry) if each.topic_partition.topic != "orders"
    )
    return AlterPartitionReassignmentsRequest(items, _admin_timeout(draws))


def list_reassignments(draws: Draws) -> KafkaRequest:
    return ListPartitionReassignmentsRequest(_some_or_all(draws), _admin_timeout(draws))


def _group_id(draws: Draws) -> str:
    return draws.mostly(draws.one_of(("g0", "g1", "g2")), draws.name(20), 85)


def _member_id(draws: Draws) -> str:
    return draws.mostly("", draws.name(20), 60)


def _instance(draws: Draws) -> str | None:
    return draws.one_of((None, None, None, "i0", "i1", ""))


def _generation(draws: Draws) -> int:
    return draws.mostly(draws.one_of((-1, 0, 1, 2)), draws.int32(), 90)


def join_group(draws: Draws) -> KafkaRequest:
    def entry() -> GroupProtocol:
        return GroupProtocol(draws.one_of(("range", "sticky", "", draws.name(0))), draws.records())

    return JoinGroupRequest(
        group_id=_group_id(draws),
        session_timeout_ms=draws.mostly(6_000, draws.one_of((-1, 0, 5_999, 2**31 - 1)), 85),
        rebalance_timeout_ms=draws.mostly(100, draws.one_of((-1, 0, 60_000)), 85),
        member_id=_member_id(draws),
        protocol_type=draws.mostly("consumer", draws.one_of(("connect", "")), 90),
        protocols=_partitions(draws, entry),
        group_instance_id=_instance(draws),
        reason=draws.one_of((None, "", "why")),
    )


def sync_group(draws: Draws) -> KafkaRequest:
    def entry() -> MemberAssignment:
        return MemberAssignment(draws.name(20), draws.records())

    ids = (_group_id(draws), _generation(draws), _member_id(draws))
    return SyncGroupRequest(*ids, _partitions(draws, entry), _instance(draws))


def heartbeat(draws: Draws) -> KafkaRequest:
    ids = (_group_id(draws), _generation(draws), _member_id(draws))
    return HeartbeatRequest(*ids, _instance(draws))


def leave_group(draws: Draws) -> KafkaRequest:
    def entry() -> LeavingMember:
        return LeavingMember(_member_id(draws), _instance(draws))

    return LeaveGroupRequest(_group_id(draws), _partitions(draws, entry))


def offset_commit(draws: Draws) -> KafkaRequest:
    def entry() -> OffsetToCommit:
        text = draws.one_of((None, "", "note", "x" * 4_096, "x" * 5_000, draws.name(0)))
        at = draws.name(85), _partition(draws)
        return OffsetToCommit(*at, Offset(draws.int64()), _epoch(draws), text)

    items = _partitions(draws, entry)
    ids = (_generation(draws), _member_id(draws), _instance(draws))
    retention_ms = draws.one_of((-1, -1, 0, 1_000, 2**40))
    return OffsetCommitRequest(_group_id(draws), items, *ids, retention_ms)


def offset_fetch(draws: Draws) -> KafkaRequest:
    def entry() -> GroupToFetch:
        named = _partitions(draws, lambda: TopicPartition(draws.name(85), _partition(draws)))
        return GroupToFetch(_group_id(draws), None if draws.chance(30) else named)

    return OffsetFetchRequest(_partitions(draws, entry), draws.chance(50))


def offset_delete(draws: Draws) -> KafkaRequest:
    named = _partitions(draws, lambda: TopicPartition(draws.name(85), _partition(draws)))
    return OffsetDeleteRequest(_group_id(draws), named)


def groups_looked_at(draws: Draws) -> KafkaRequest:
    named = _partitions(draws, lambda: _group_id(draws))
    states = draws.one_of(((), ("Stable",), ("empty", "", "x" * 9_000)))
    return draws.one_of(
        (
            DescribeGroupsRequest(named),
            DeleteGroupsRequest(named),
            ListGroupsRequest(states, draws.one_of(((), ("classic",), ("consumer",)))),
        )
    )


def describe_log_dirs(draws: Draws) -> KafkaRequest:
    return DescribeLogDirsRequest(_some_or_all(draws))


MAKERS: tuple[tuple[int, Callable[[Draws], KafkaRequest]], ...] = (
    (27, produce),
    (17, fetch),
    (13, list_offsets),
    (5, metadata),
    (8, epochs),
    (6, describe_configs),
    (6, alter_configs),
    (6, incremental_alter_configs),
    (3, find_coordinator),
    (3, init_producer_id),
    (2, api_versions),
    (6, create_topics),
    (3, delete_topics),
    (2, create_partitions),
    (2, elect_leaders),
    (2, alter_reassignments),
    (2, list_reassignments),
    (6, join_group),
    (3, sync_group),
    (3, heartbeat),
    (2, leave_group),
    (4, offset_commit),
    (3, offset_fetch),
    (2, offset_delete),
    (3, groups_looked_at),
    (2, describe_log_dirs),
)
"""How often each is drawn, next to the others."""
_MAKERS = tuple(make for weight, make in MAKERS for _ in range(weight))


def frame_of(request: KafkaRequest, version: int, correlation_id: int = 1) -> bytes:
    """Return the frame with its size."""
    return b"".join(map(_bytes_of, encode_request(request, version, correlation_id, "fuzz")))


def _bytes_of(piece: Piece) -> bytes:
    return bytes(piece) if isinstance(piece, bytes | bytearray | memoryview) else piece.read()


def draw_frame(draws: Draws, profile: VersionProfile, correlation_id: int = 1) -> bytes:
    """Return a request without its size; some are then damaged, some hold no UTF-8."""
    while True:
        request = draws.one_of(_MAKERS)(draws)
        version = draws.one_of(list(profile.served_versions(api_key_of(request))))
        try:
            frame = frame_of(request, version, correlation_id)[4:]
        except Exception:  # noqa: BLE001, S112 (our own encoder has no form for it)
            continue
        if len(frame) <= FRAME_BYTES_MAX:
            break
    if draws.chance(5):
        return draws.damaged(frame)
    if draws.chance(3):
        return frame.replace(b"orders", b"\xff\xfeders")
    return frame


def simpler_frames(frame: bytes, profile: VersionProfile) -> Iterator[bytes]:
    """Yield frames of simpler requests, where the frame is a request."""
    try:
        decoded = decode_request(frame, profile=profile)
    except MalformedRequest:
        return
    if isinstance(decoded.request, UnsupportedRequest):
        return
    for request in simpler_values(decoded.request):
        try:
            yield frame_of(request, decoded.api_version, decoded.correlation_id)[4:]
        except Exception:  # noqa: BLE001, S112 (our own encoder has no form for it)
            continue


def simpler_values(value: Any) -> Iterator[Any]:
    """Yield simpler values of the same type: shorter, then smaller."""
    match value:
        case bool():
            return
        case tuple():
            yield from _simpler_tuples(value)
        case str() if value:
            yield from ("", value[: len(value) // 2])
        case int() if value not in (0, -1):
            yield type(value)(0)
        case _ if is_dataclass(value) and not isinstance(value, type):
            for field in fields(value):
                for simpler in simpler_values(getattr(value, field.name)):
                    yield replace(value, **{field.name: simpler})


def _simpler_tuples(value: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    if not value:
        return
    half = len(value) // 2
    if half:
        yield value[:half]
        yield value[half:]
    if len(value) <= 8:
        for at in range(len(value)):
            yield value[:at] + value[at + 1 :]
            for simpler in simpler_values(value[at]):
                yield (*value[:at], simpler, *value[at + 1 :])
    else:
        yield value[:-1]
