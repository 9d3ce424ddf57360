"""Extreme but well-formed requests: each is answered, and every answer can be sent."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from highwater_core import messages as control
from highwater_core.admin_messages import ReassignmentItem, TopicResult
from highwater_core.assignments import find_assignment_fault
from highwater_core.config_layers import EVERY_BROKER_KEYS
from highwater_core.errors import ErrorCode
from highwater_core.ids import LeaderEpoch, NodeId, Offset, TopicPartition
from highwater_core.ports import CallFailed
from highwater_core.topic_configs import BadTopicConfig, parse_topic_config
from highwater_wire.kafka import codec
from highwater_wire.kafka.admin_messages import (
    AlterPartitionReassignmentsRequest,
    CreatePartitionsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
    PartitionsToCreate,
)
from highwater_wire.kafka.codec import VERSION_PROFILE
from highwater_wire.kafka.config_messages import (
    AlterConfigsRequest,
    AlteredResource,
    ConfigAlteration,
    ConfigResource,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
    ReplacedConfig,
)
from highwater_wire.kafka.messages import (
    CONSUMER,
    ApiVersionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    EpochPartition,
    FetchPartition,
    FetchRequest,
    FindCoordinatorRequest,
    ListOffsetsPartition,
    ListOffsetsRequest,
    MetadataRequest,
    OffsetForLeaderEpochRequest,
    TopicToCreate,
)
from highwater_wire.kafka.producer_messages import InitProducerIdRequest
from tests.support.hosted import values_of

LONGEST = {
    "letters": "x" * 32_767,
    "control characters": "\x01" * 32_767,
    "two bytes each": "é" * 16_383,
    "four bytes each": "\U0001f600" * 8_191,
    "backslashes": "\\'\"" * 10_000,
}
names = pytest.mark.parametrize("name", LONGEST.values(), ids=LONGEST)


def joined(pieces: Any) -> bytes:
    return b"".join(bytes(piece) for piece in pieces)


def answers(world: Any, request: Any, listener: str = "CLIENT") -> list[Any]:
    """Ask in every served version, through the codec; return the answers as a client reads them."""
    key = codec.api_key_of(request)
    read: list[Any] = []
    for version in VERSION_PROFILE.served_versions(key):
        frame = joined(codec.encode_request(request, version, 7, None))[4:]
        decoded = codec.decode_request(frame, profile=VERSION_PROFILE).request
        response = world.ask(decoded, listener)
        sent = joined(codec.encode_response(response, version, 7))[4:]
        read.append(codec.decode_response(sent, request, version)[1])
    return read


def as_a_controller(request: Any) -> Any:
    """Answer as a controller that quotes the request's values, however long they are."""
    results = []
    for topic in request.topics:
        fault = find_assignment_fault(topic.assignment, frozenset({NodeId(0)}))
        try:
            parse_topic_config(dict(topic.config))
        except BadTopicConfig as error:
            fault = str(error)
        results.append(TopicResult(topic.name, ErrorCode.INVALID_CONFIG, fault or "?"))
    return control.CreateTopicsResponse(ErrorCode.NONE, tuple(results))


# ---------------------------------------------------------------- long names and values


@names
@pytest.mark.parametrize("resource_type", [2, 4, 0])
def test_configurations_of_a_long_name_are_refused_in_few_words(
    world: Any, name: str, resource_type: int
) -> None:
    request = DescribeConfigsRequest((ConfigResource(resource_type, name, (name,)),))
    for answer in answers(world, request):
        (refused,) = answer.resources
        assert refused.error is not ErrorCode.NONE
        assert refused.resource_name == name
        assert 0 < len(refused.message.encode()) <= 1_000


@names
def test_a_controllers_long_complaint_is_shortened(world: Any, name: str) -> None:
    configs = (("segment.ms", name), (name, name))
    request = CreateTopicsRequest((TopicToCreate("t", 1, 1, configs=configs),), 1_000)
    world.controller.on_call = lambda: setattr(
        world.controller, "answer", as_a_controller(world.controller.requests[-1])
    )
    for answer in answers(world, request):
        (refused,) = answer.topics
        assert refused.error is ErrorCode.INVALID_CONFIG
        assert 0 < len(refused.message.encode()) <= 1_000


def test_nine_thousand_unknown_brokers_make_one_short_message(world: Any) -> None:
    brokers = tuple(NodeId(1_000 + n) for n in range(9_000))
    request = CreateTopicsRequest((TopicToCreate("t", -1, -1, ((0, brokers),)),), 1_000)
    world.controller.on_call = lambda: setattr(
        world.controller, "answer", as_a_controller(world.controller.requests[-1])
    )
    for answer in answers(world, request):
        assert len(answer.topics[0].message.encode()) <= 1_000


@pytest.mark.parametrize("sent", [True, False])
def test_a_long_reason_for_no_answer_is_shortened(world: Any, sent: bool) -> None:
    world.controller.answer = CallFailed("y" * 100_000, sent=sent)
    for answer in answers(world, CreateTopicsRequest((TopicToCreate("t", 1, 1),), 1_000)):
        assert len(answer.topics[0].message.encode()) <= 1_000


@names
def test_every_api_answers_about_a_long_name(world: Any, name: str) -> None:
    world.cluster()
    world.controller.answer = CallFailed("nobody", sent=False)
    for request in (
        MetadataRequest((name,)),
        DeleteTopicsRequest((name,), 10),
        CreateTopicsRequest((TopicToCreate(name, 1, 1),), 10),
        FetchRequest(CONSUMER, 0, 1, 1, (FetchPartition(name, 0, Offset(0), 1),)),
        ListOffsetsRequest(CONSUMER, (ListOffsetsPartition(name, 0, -1),)),
        OffsetForLeaderEpochRequest(CONSUMER, (EpochPartition(name, 0, LeaderEpoch(0)),)),
        FindCoordinatorRequest((name,)),
        CreatePartitionsRequest((PartitionsToCreate(name, 2),), 10),
        ElectLeadersRequest(0, (TopicPartition(name, 0),), 10),
        AlterPartitionReassignmentsRequest((ReassignmentItem(TopicPartition(name, 0), None),), 10),
        ListPartitionReassignmentsRequest((TopicPartition(name, 0),), 10),
    ):
        assert answers(world, request)


# ---------------------------------------------------------------- repeats


def test_a_partition_that_a_fetch_names_again_is_read_once(world: Any) -> None:
    partition = world.host("t")
    partition.fill(b"a", b"b")
    items = [FetchPartition("t", 0, Offset(0), 100)] * 999 + [
        FetchPartition("t", 0, Offset(1), 100)
    ]
    answer = world.ask(FetchRequest(CONSUMER, 0, 1, 100, tuple(items)))
    assert [values_of(result.records) for result in answer.partitions] == [[b"b"]]
    assert partition.reads == 1


def test_a_repeated_epoch_is_answered_once(world: Any) -> None:
    world.host("t")
    items = (EpochPartition("t", 0, LeaderEpoch(1)),) * 5 + (
        EpochPartition("t", 0, LeaderEpoch(3)),
    )
    answer = world.ask(OffsetForLeaderEpochRequest(CONSUMER, items))
    assert [item.leader_epoch for item in answer.partitions] == [3]


def test_a_repeated_broker_is_described_once_with_all_its_keys(world: Any) -> None:
    resources = (
        ConfigResource(4, "0", ("broker.id",)),
        ConfigResource(2, "0", ()),
        ConfigResource(4, "0", ("num.partitions",)),
    )
    described = world.ask(DescribeConfigsRequest(resources)).resources
    assert [(one.resource_type, [entry.name for entry in one.entries]) for one in described] == [
        (4, ["broker.id", "num.partitions"]),
        (2, []),
    ]


def test_a_repeated_broker_has_all_settings_if_one_entry_asks_for_all(
    world: Any,
) -> None:
    names: tuple[tuple[str, ...] | None, ...] = (("broker.id",), None, ("broker.id",))
    resources = tuple(ConfigResource(4, "0", wanted) for wanted in names)
    (described,) = world.ask(DescribeConfigsRequest(resources)).resources
    assert len(described.entries) == 2 + len(EVERY_BROKER_KEYS)


def test_a_topic_is_answered_once_however_often_it_is_named(world: Any) -> None:
    world.cluster({"t": [0]})
    assert len(world.ask(MetadataRequest(("t",) * 5_000)).topics) == 1
    world.controller.answer = CallFailed("nobody", sent=False)
    assert len(world.ask(DeleteTopicsRequest(("t",) * 5_000, 10)).topics) == 1
    assert world.controller.requests[-1].names == ("t",)
    created = world.ask(CreateTopicsRequest((TopicToCreate("u", 1, 1),) * 5_000, 10))
    assert [topic.error.name for topic in created.topics] == ["INVALID_REQUEST"]


# ---------------------------------------------------------------- any values


@pytest.fixture
def kept_world(world: Any) -> Any:
    """A world with something in it; a hypothesis test asks it again and again."""
    world.host("orders").fill(b"a" * 100, b"b" * 100)
    world.cluster({"orders": [0], "other": [1]})
    world.controller.answer = CallFailed("nobody", sent=False)
    return world


int8s, int16s, int32s, int64s = (
    st.integers(-(2**n), 2**n - 1) | st.sampled_from([-(2**n), -2, -1, 0, 1, 2, 3, 2**n - 1])
    for n in (7, 15, 31, 63)
)
topics = st.sampled_from(
    ["orders", "orders", "other", "", ".", "..", "a" * 249, "a" * 250, "../../x", "a b", "%s{}"]
) | st.sampled_from([*LONGEST.values()])
partitions = st.just(0) | int32s
topic_partitions = st.builds(TopicPartition, topics, partitions)
timeouts = st.sampled_from([-(2**31), -1, 0, 5, 2**31 - 1])

resource_types = st.sampled_from([2, 4]) | int8s
config_names = topics | st.sampled_from(["segment.ms", "cleanup.policy"])
set_values = st.tuples(config_names, st.none() | topics)
alterations = st.builds(ConfigAlteration, config_names, int8s, st.none() | topics)


def some(items: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(items, max_size=3).map(tuple)


requests = st.one_of(
    st.builds(
        FetchRequest,
        st.just(CONSUMER) | int32s,
        timeouts,
        int32s,
        int32s,
        some(st.builds(FetchPartition, topics, partitions, int64s, int32s, int32s, int64s)),
    ),
    st.builds(
        ListOffsetsRequest,
        int32s,
        some(st.builds(ListOffsetsPartition, topics, partitions, int64s, int32s)),
    ),
    st.builds(MetadataRequest, st.none() | some(topics)),
    st.builds(
        OffsetForLeaderEpochRequest,
        int32s,
        some(st.builds(EpochPartition, topics, partitions, int32s, int32s)),
    ),
    st.builds(
        DescribeConfigsRequest,
        some(
            st.builds(
                ConfigResource,
                resource_types,
                topics | st.just("0"),
                st.none() | some(topics),
            )
        ),
    ),
    st.builds(
        AlterConfigsRequest,
        some(st.builds(ReplacedConfig, resource_types, topics | st.just("0"), some(set_values))),
        st.booleans(),
    ),
    st.builds(
        IncrementalAlterConfigsRequest,
        some(st.builds(AlteredResource, resource_types, topics | st.just("0"), some(alterations))),
        st.booleans(),
    ),
    st.builds(FindCoordinatorRequest, st.lists(topics, min_size=1, max_size=3).map(tuple), int8s),
    st.builds(InitProducerIdRequest, st.none() | topics, int32s, int64s, int16s),
    st.builds(ApiVersionsRequest, topics, topics),
    st.builds(DeleteTopicsRequest, some(topics), timeouts),
    st.builds(
        CreateTopicsRequest,
        some(
            st.builds(
                TopicToCreate,
                topics | st.sampled_from(["n1", "n2"]),
                int32s,
                int16s,
                some(st.tuples(int32s, some(int32s))),
                some(st.tuples(topics, st.none() | topics)),
            )
        ),
        timeouts,
        st.booleans(),
    ),
    st.builds(
        CreatePartitionsRequest,
        some(st.builds(PartitionsToCreate, topics, int32s, st.none() | some(some(int32s)))),
        timeouts,
        st.booleans(),
    ),
    st.builds(
        ElectLeadersRequest,
        st.sampled_from([0, 1]) | int8s,
        st.none() | some(topic_partitions),
        timeouts,
    ),
    st.builds(
        AlterPartitionReassignmentsRequest,
        some(st.builds(ReassignmentItem, topic_partitions, st.none() | some(int32s))),
        timeouts,
    ),
    st.builds(ListPartitionReassignmentsRequest, st.none() | some(topic_partitions), timeouts),
)


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(requests, st.sampled_from(["CLIENT", "EXTERNAL", "REPLICATION"]))
def test_any_request_is_answered_in_a_bounded_time(
    kept_world: Any, request: Any, listener: str
) -> None:
    began_ms = kept_world.runtime.now_ms()
    count = len(answers(kept_world, request, listener))
    waited_ms = kept_world.runtime.now_ms() - began_ms
    assert waited_ms <= count * kept_world.settings.request_wait_max_ms
