"""Partitions, elections and reassignments by stock clients, and bad requests for each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import kafka
import pytest
from confluent_kafka import ElectionType, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from kafka.admin import KafkaAdminClient
from kafka.errors import InvalidReplicationAssignmentError, NoReassignmentInProgressError

from highwater.cluster.cluster import Cluster
from highwater.cluster.settling import await_replicated
from highwater.cluster.wire_client import WireClient, record_batch
from highwater.waiting import eventually
from highwater_core import ids
from highwater_core.admin_messages import ReassignmentItem
from highwater_core.errors import ErrorCode
from highwater_core.ids import NodeId
from highwater_wire.kafka.admin_messages import (
    AlterPartitionReassignmentsRequest,
    CreatePartitionsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
    PartitionsToCreate,
)
from tests.support.clusters import await_led_by

pytestmark = pytest.mark.docker

WITHIN_S = 60.0
TIMEOUT_MS = 20_000
E = ErrorCode


@pytest.fixture
def librdkafka(steady: Cluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": steady.bootstrap})


@pytest.fixture
def kafka_python(steady: Cluster) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=steady.bootstrap.split(","))
    yield client
    client.close()


def partitions_of(librdkafka: AdminClient, topic: str) -> dict[int, tuple[int, list[int]]]:
    """Return each partition's leader and replicas, preferred first."""
    found = librdkafka.list_topics(topic, timeout=WITHIN_S).topics[topic].partitions
    return {number: (each.leader, each.replicas) for number, each in found.items()}


def await_partitions(
    librdkafka: AdminClient, topic: str, expected: dict[int, tuple[int, list[int]]]
) -> None:
    """Wait until any broker returns these: at first only the broker that did the work must."""
    eventually(
        lambda: partitions_of(librdkafka, topic) == expected,
        within=WITHIN_S,
        what=f"{topic} as {expected}",
        state=lambda: partitions_of(librdkafka, topic),
    )


def produce(cluster: Cluster, topic: str, partition: int, leader: int) -> int:
    """Have the leader append a record once it leads; return the record's offset.

    The controller tells the other brokers of a leader at the same time, so metadata may be early.
    """
    at = ids.TopicPartition(topic, partition)
    await_led_by(cluster, at, leader)
    with WireClient(cluster.external_endpoint(leader)) as client:
        answer = client.produce(topic, partition, record_batch([b"x"]))
    assert answer.error is E.NONE
    return int(answer.base_offset)


# ---------------------------------------------------------------- stock clients


def test_librdkafka_adds_partitions_that_take_records(
    steady: Cluster, new_topic: Callable[..., str], librdkafka: AdminClient
) -> None:
    topic = new_topic(steady)
    wanted = NewPartitions(topic, 3, [[1, 2, 0], [2, 0, 1]])
    (added,) = librdkafka.create_partitions([wanted], operation_timeout=WITHIN_S).values()
    added.result(WITHIN_S)
    await_partitions(librdkafka, topic, {0: (0, [0, 1, 2]), 1: (1, [1, 2, 0]), 2: (2, [2, 0, 1])})
    assert [produce(steady, topic, number, number) for number in range(3)] == [0, 0, 0]
    (again,) = librdkafka.create_partitions([NewPartitions(topic, 3)]).values()
    with pytest.raises(KafkaException) as refused:
        again.result(WITHIN_S)
    assert refused.value.args[0].code() == KafkaError.INVALID_PARTITIONS


def test_kafka_python_adds_partitions_whose_replicas_the_controller_chooses(
    steady: Cluster,
    new_topic: Callable[..., str],
    kafka_python: KafkaAdminClient,
    librdkafka: AdminClient,
) -> None:
    topic = new_topic(steady, replicas=[(1, 2)])
    kafka_python.create_partitions({topic: 2}, timeout_ms=TIMEOUT_MS, validate_only=True)
    await_partitions(librdkafka, topic, {0: (1, [1, 2])})
    kafka_python.create_partitions({topic: 3}, timeout_ms=TIMEOUT_MS)
    await_partitions(librdkafka, topic, {0: (1, [1, 2]), 1: (2, [2, 1]), 2: (0, [0, 2])})


def test_replicas_move_by_kafka_python_and_librdkafka_elects_the_preferred_one(
    steady: Cluster,
    new_topic: Callable[..., str],
    kafka_python: KafkaAdminClient,
    librdkafka: AdminClient,
) -> None:
    topic = new_topic(steady, replicas=[(0, 1)])
    partition = kafka.TopicPartition(topic, 0)
    assert produce(steady, topic, 0, leader=0) == 0

    moved = kafka_python.alter_partition_reassignments({partition: [2, 0]}, TIMEOUT_MS)
    assert moved == {partition: None}
    eventually(
        lambda: not kafka_python.list_partition_reassignments({topic: [0]}, TIMEOUT_MS),
        within=WITHIN_S,
        what="the end of the reassignment",
    )
    await_partitions(librdkafka, topic, {0: (0, [2, 0])})

    def elect() -> KafkaError | None:
        asked = [TopicPartition(topic, 0)]  # confluent-kafka 2.16 fails if a timeout is set
        results = librdkafka.elect_leaders(ElectionType.PREFERRED, asked).result(WITHIN_S)
        (result,) = results.values()
        return result

    assert elect() is None
    await_partitions(librdkafka, topic, {0: (2, [2, 0])})
    assert produce(steady, topic, 0, leader=2) == 1
    again = elect()
    assert again is not None
    assert again.code() == KafkaError.ELECTION_NOT_NEEDED
    kafka_python.elect_leaders(0, {topic: [0]}, timeout_ms=TIMEOUT_MS)


def test_a_stock_client_is_told_why_replicas_do_not_move(
    steady: Cluster, new_topic: Callable[..., str], kafka_python: KafkaAdminClient
) -> None:
    partition = kafka.TopicPartition(new_topic(steady), 0)
    for replicas, error in (
        ([0, 9], InvalidReplicationAssignmentError),
        (None, NoReassignmentInProgressError),
    ):
        outcome = kafka_python.alter_partition_reassignments({partition: replicas}, TIMEOUT_MS)
        assert outcome == {partition: error}


# ---------------------------------------------------------------- bad requests


def test_each_topic_that_cannot_be_expanded_is_told_why_and_the_others_are(
    steady: Cluster,
    new_topic: Callable[..., str],
    nobody_restarts: Callable[[Cluster], AbstractContextManager[None]],
) -> None:
    topic, other = new_topic(steady), new_topic(steady)
    bad: dict[PartitionsToCreate, ErrorCode] = {
        PartitionsToCreate("no-such-topic", 3): E.UNKNOWN_TOPIC_OR_PARTITION,
        PartitionsToCreate("", 3): E.UNKNOWN_TOPIC_OR_PARTITION,
        PartitionsToCreate("../x", 3): E.UNKNOWN_TOPIC_OR_PARTITION,
        **{PartitionsToCreate(topic, n): E.INVALID_PARTITIONS for n in (-1, 0, 1, 10_001)},
        PartitionsToCreate(topic, 2**31 - 1): E.INVALID_PARTITIONS,
        **{
            PartitionsToCreate(topic, 2, given): E.INVALID_REPLICA_ASSIGNMENT
            for given in (
                (),
                ((),),
                ((NodeId(0), NodeId(0), NodeId(1)),),
                ((NodeId(0), NodeId(1), NodeId(9)),),
                ((NodeId(0), NodeId(1), NodeId(-1)),),
                ((NodeId(0),),),
                ((NodeId(0), NodeId(1), NodeId(2)),) * 2,
            )
        },
    }
    with nobody_restarts(steady), WireClient(steady.external_endpoint(1)) as client:
        for wanted, error in bad.items():
            for version in (0, 1):
                request = CreatePartitionsRequest((wanted,), TIMEOUT_MS)
                (result,) = client.call(request, version).topics
                assert (result.name, result.error) == (wanted.topic, error), wanted
        several = tuple(
            PartitionsToCreate(each, 3) for each in ("no-such-topic", other, topic, topic)
        )
        answer = client.call(CreatePartitionsRequest(several, TIMEOUT_MS)).topics
        assert {each.name: each.error for each in answer} == {
            "no-such-topic": E.UNKNOWN_TOPIC_OR_PARTITION,
            other: E.NONE,
            topic: E.INVALID_REQUEST,
        }
        assert client.call(CreatePartitionsRequest((), TIMEOUT_MS)).topics == ()
        in_no_time = CreatePartitionsRequest((PartitionsToCreate(topic, 2),), 0)
        late = client.call(in_no_time).topics[0].error
        assert late in (E.REQUEST_TIMED_OUT, E.NOT_CONTROLLER)
    await_replicated(steady, other, 3)


def test_bad_elections_and_reassignments_are_refused_partition_by_partition(
    steady: Cluster,
    new_topic: Callable[..., str],
    nobody_restarts: Callable[[Cluster], AbstractContextManager[None]],
) -> None:
    topic = new_topic(steady)
    at = ids.TopicPartition(topic, 0)
    unknown = tuple(
        ids.TopicPartition(*each)
        for each in (("no-such-topic", 0), ("", 0), (topic, 7), (topic, -1))
    )
    with nobody_restarts(steady), WireClient(steady.external_endpoint(2)) as client:
        for election_type in (-1, 2, 127):
            answer = client.call(ElectLeadersRequest(election_type, (at,), TIMEOUT_MS))
            assert answer.error is E.INVALID_REQUEST
        for election_type in (0, 1):
            answer = client.call(ElectLeadersRequest(election_type, (*unknown, at), TIMEOUT_MS))
            assert answer.error is E.NONE
            assert {each.topic_partition: each.error for each in answer.partitions} == {
                **dict.fromkeys(unknown, E.UNKNOWN_TOPIC_OR_PARTITION),
                at: E.ELECTION_NOT_NEEDED,
            }
        targets = {
            (): E.INVALID_REPLICA_ASSIGNMENT,
            (0, 0): E.INVALID_REPLICA_ASSIGNMENT,
            (0, 9): E.INVALID_REPLICA_ASSIGNMENT,
            (0, -1): E.INVALID_REPLICA_ASSIGNMENT,
            None: E.NO_REASSIGNMENT_IN_PROGRESS,
        }
        for target, error in targets.items():
            replicas = None if target is None else tuple(map(NodeId, target))
            items = (
                *(ReassignmentItem(each, (NodeId(0),)) for each in unknown),
                ReassignmentItem(at, replicas),
            )
            answer = client.call(AlterPartitionReassignmentsRequest(items, TIMEOUT_MS))
            assert answer.error is E.NONE
            assert {each.topic_partition: each.error for each in answer.partitions} == {
                **dict.fromkeys(unknown, E.UNKNOWN_TOPIC_OR_PARTITION),
                at: error,
            }
        twice = (ReassignmentItem(at, (NodeId(0),)),) * 2
        answer = client.call(AlterPartitionReassignmentsRequest(twice, TIMEOUT_MS))
        assert [each.error for each in answer.partitions] == [E.INVALID_REQUEST]
        listed = client.call(ListPartitionReassignmentsRequest((*unknown, at), TIMEOUT_MS))
        assert (listed.error, listed.partitions) == (E.NONE, ())
    await_replicated(steady, topic)
