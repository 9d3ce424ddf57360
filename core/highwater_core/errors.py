"""The one registry of protocol errors: Kafka's codes, with their meaning for a caller.

`definite` says that the operation certainly did not happen; a client that sees an indefinite
error records *unknown*, never *failed*. docs/reference/errors.md is generated from this table.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class ErrorCode(IntEnum):
    """Kafka's error codes that Highwater answers with."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    INVALID_FETCH_SIZE = 4
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_TOO_LARGE = 10
    STALE_CONTROLLER_EPOCH = 11
    OFFSET_METADATA_TOO_LARGE = 12
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_COMMIT_OFFSET_SIZE = 28
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    INVALID_PRODUCER_EPOCH = 47
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    KAFKA_STORAGE_ERROR = 56
    REASSIGNMENT_IN_PROGRESS = 60
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    STALE_BROKER_EPOCH = 77
    OFFSET_NOT_AVAILABLE = 78
    MEMBER_ID_REQUIRED = 79
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
    ELECTION_NOT_NEEDED = 84
    NO_REASSIGNMENT_IN_PROGRESS = 85
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    INVALID_RECORD = 87
    THROTTLING_QUOTA_EXCEEDED = 89
    INVALID_UPDATE_VERSION = 95
    UNKNOWN_TOPIC_ID = 100
    INCONSISTENT_TOPIC_ID = 103
    NEW_LEADER_ELECTED = 106
    INELIGIBLE_REPLICA = 107


@dataclass(frozen=True, slots=True)
class ErrorMeaning:
    """The meaning of a protocol error for its receiver.

    retriable: the same request may succeed later, perhaps elsewhere.
    definite: the request certainly had no effect.
    """

    code: ErrorCode
    retriable: bool
    definite: bool
    meaning: str


_e = ErrorCode
_ROWS: tuple[tuple[ErrorCode, bool, bool, str], ...] = (
    (_e.UNKNOWN_SERVER_ERROR, False, False, "The node met an error that it has no code for."),
    (_e.NONE, False, False, "Success."),
    (_e.OFFSET_OUT_OF_RANGE, False, True, "The offset is below the log's start or beyond its end."),
    (_e.CORRUPT_MESSAGE, True, True, "A batch's CRC or its framing is wrong."),
    (_e.UNKNOWN_TOPIC_OR_PARTITION, True, True, "This broker does not host the partition."),
    (_e.INVALID_FETCH_SIZE, False, True, "The fetch's size limits make no sense."),
    (_e.LEADER_NOT_AVAILABLE, True, True, "The partition has no leader at present."),
    (_e.NOT_LEADER_OR_FOLLOWER, True, False, "The broker does not lead the partition, or lost it while the request waited (KAFKA-13574)."),
    (_e.REQUEST_TIMED_OUT, True, False, "The request waited as long as it asked to."),
    (_e.BROKER_NOT_AVAILABLE, False, True, "The broker is not registered."),
    (_e.REPLICA_NOT_AVAILABLE, True, True, "A replica is not available."),
    (_e.MESSAGE_TOO_LARGE, False, True, "A batch is larger than max.message.bytes."),
    (_e.STALE_CONTROLLER_EPOCH, False, True, "A newer controller has been elected."),
    (_e.OFFSET_METADATA_TOO_LARGE, False, True, "The text that goes with a committed offset is too long."),
    (_e.COORDINATOR_LOAD_IN_PROGRESS, True, True, "The coordinator, or the source of producer ids, cannot answer yet."),
    (_e.COORDINATOR_NOT_AVAILABLE, True, False, "No group coordinator is available, or it could not commit in time."),
    (_e.NOT_COORDINATOR, True, False, "This broker does not coordinate the group, or lost it while the request waited."),
    (_e.INVALID_TOPIC_EXCEPTION, False, True, "The topic's name is not allowed."),
    (_e.RECORD_LIST_TOO_LARGE, False, True, "The batch is larger than a segment."),
    (_e.NOT_ENOUGH_REPLICAS, True, True, "Fewer than min.insync.replicas in sync; nothing was appended."),
    (_e.NOT_ENOUGH_REPLICAS_AFTER_APPEND, True, False, "Appended, but the ISR fell below min.insync.replicas."),
    (_e.INVALID_REQUIRED_ACKS, False, True, "acks is none of -1, 0, 1."),
    (_e.ILLEGAL_GENERATION, False, True, "The group is in another generation."),
    (_e.INCONSISTENT_GROUP_PROTOCOL, False, True, "The member knows no protocol that all members know, or names another type."),
    (_e.INVALID_GROUP_ID, False, True, "No group may have that id."),
    (_e.UNKNOWN_MEMBER_ID, False, True, "The coordinator knows no such member: it is to join anew."),
    (_e.INVALID_SESSION_TIMEOUT, False, True, "The session timeout is outside of what the broker allows."),
    (_e.REBALANCE_IN_PROGRESS, False, True, "The group begins another generation: its members are to join it."),
    (_e.INVALID_COMMIT_OFFSET_SIZE, False, True, "The offsets of one commit are too many for a batch."),
    (_e.INVALID_TIMESTAMP, False, True, "A timestamp is out of the allowed range."),
    (_e.UNSUPPORTED_VERSION, False, True, "The API or its version is not served."),
    (_e.TOPIC_ALREADY_EXISTS, False, True, "The topic exists."),
    (_e.INVALID_PARTITIONS, False, True, "The number of partitions is not positive, or not more than there are."),
    (_e.INVALID_REPLICATION_FACTOR, False, True, "There are fewer live brokers than replicas asked for."),
    (_e.INVALID_REPLICA_ASSIGNMENT, False, True, "The replica assignment names unknown or repeated brokers."),
    (_e.INVALID_CONFIG, False, True, "A topic configuration is unknown or malformed."),
    (_e.NOT_CONTROLLER, True, True, "The node is not the active controller."),
    (_e.INVALID_REQUEST, False, True, "The request contradicts itself."),
    (_e.UNSUPPORTED_FOR_MESSAGE_FORMAT, False, True, "Only v2 record batches are stored."),
    (_e.POLICY_VIOLATION, False, True, "The request asks for more than the cluster allows."),
    (_e.OUT_OF_ORDER_SEQUENCE_NUMBER, False, True, "A producer's batch does not follow the last one of its that the log has (KIP-98)."),
    (_e.INVALID_PRODUCER_EPOCH, False, True, "The log has a batch of the producer with a newer producer epoch (KIP-98)."),
    (_e.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, False, True, "Nobody may use transactions here: there are none."),
    (_e.KAFKA_STORAGE_ERROR, True, False, "The disk refused a read or a write."),
    (_e.REASSIGNMENT_IN_PROGRESS, False, True, "Replicas of the partition are being moved."),
    (_e.NON_EMPTY_GROUP, False, True, "The group has members."),
    (_e.GROUP_ID_NOT_FOUND, False, True, "There is no such group."),
    (_e.FENCED_LEADER_EPOCH, True, True, "The caller's leader epoch is older than the leader's."),
    (_e.UNKNOWN_LEADER_EPOCH, True, True, "The caller's leader epoch is newer than the broker's."),
    (_e.UNSUPPORTED_COMPRESSION_TYPE, False, True, "The compression type is not known."),
    (_e.STALE_BROKER_EPOCH, False, True, "The broker epoch is of an earlier registration."),
    (_e.OFFSET_NOT_AVAILABLE, True, True, "The new leader's high watermark is below its epoch's start."),
    (_e.MEMBER_ID_REQUIRED, False, True, "The member is to ask again with the id that this answer gives it (KIP-394)."),
    (_e.PREFERRED_LEADER_NOT_AVAILABLE, True, True, "The preferred replica is not live and in sync."),
    (_e.GROUP_MAX_SIZE_REACHED, False, True, "The group has as many members as it may have."),
    (_e.FENCED_INSTANCE_ID, False, True, "Another member has joined with the same instance id."),
    (_e.ELIGIBLE_LEADERS_NOT_AVAILABLE, True, True, "No replica may lead the partition."),
    (_e.ELECTION_NOT_NEEDED, True, True, "The partition has the leader that was asked for."),
    (_e.NO_REASSIGNMENT_IN_PROGRESS, False, True, "No replica of the partition is being moved."),
    (_e.GROUP_SUBSCRIBED_TO_TOPIC, False, True, "Members of the group read the topic."),
    (_e.INVALID_RECORD, False, True, "A record breaks the topic's rules."),
    (_e.THROTTLING_QUOTA_EXCEEDED, True, True, "Too many requests about topics wait at the controller (KIP-599)."),
    (_e.INVALID_UPDATE_VERSION, False, True, "The conditional write met another version."),
    (_e.UNKNOWN_TOPIC_ID, True, True, "No topic has this id."),
    (_e.INCONSISTENT_TOPIC_ID, True, True, "The topic exists with another id."),
    (_e.NEW_LEADER_ELECTED, False, True, "A new leader was elected while the request was handled."),
    (_e.INELIGIBLE_REPLICA, False, True, "A proposed ISR member is not live or shutting down."),
)  # fmt: skip

MEANINGS: dict[ErrorCode, ErrorMeaning] = {row[0]: ErrorMeaning(*row) for row in _ROWS}
