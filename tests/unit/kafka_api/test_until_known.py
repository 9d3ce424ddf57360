"""Requests to a broker that has started and knows nothing of the cluster yet."""

from __future__ import annotations

from typing import Any

import pytest

from highwater_broker.kafka_api.until_known import WAIT_TO_KNOW_MS
from highwater_core.errors import ErrorCode
from highwater_core.ids import LeaderEpoch, NodeId, Offset
from highwater_wire.kafka.committed_messages import (
    GroupToFetch,
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetToCommit,
)
from highwater_wire.kafka.config_messages import (
    ConfigResource,
    ConfigResourceType,
    DescribeConfigsRequest,
)
from highwater_wire.kafka.group_messages import HeartbeatRequest, ListGroupsRequest
from highwater_wire.kafka.log_dir_messages import DescribeLogDirsRequest
from highwater_wire.kafka.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    EpochPartition,
    FetchPartition,
    FetchRequest,
    HangUp,
    ListOffsetsPartition,
    ListOffsetsRequest,
    MetadataRequest,
    OffsetForLeaderEpochRequest,
    ProducePartition,
    ProduceRequest,
)
from tests.support.hosted import batch

from .conftest import ApiWorld

CONSUMER = NodeId(-1)
COMMIT = OffsetCommitRequest("g", (OffsetToCommit("t", 0, Offset(1)),), 1, "m")
CONFIGS = ConfigResource(ConfigResourceType.TOPIC, "t", None)
HELD_BACK = (
    MetadataRequest(("t",)),
    MetadataRequest(None),
    ListOffsetsRequest(CONSUMER, (ListOffsetsPartition("t", 0, -1),), 5),
    OffsetForLeaderEpochRequest(CONSUMER, (EpochPartition("t", 0, LeaderEpoch(1)),)),
    ListGroupsRequest(),
    DescribeConfigsRequest((CONFIGS,)),
    DescribeLogDirsRequest(None),
)
NOT_HERE = ErrorCode.NOT_COORDINATOR


@pytest.fixture
def started() -> ApiWorld:
    return ApiWorld(knows_the_cluster=False)


@pytest.mark.parametrize("request_", HELD_BACK, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("listener", ["CLIENT", "EXTERNAL"])
def test_a_broker_that_goes_on_knowing_nothing_hangs_up(
    started: ApiWorld, request_: Any, listener: str
) -> None:
    asked = started.start(request_, listener)
    started.kernel.run_for(WAIT_TO_KNOW_MS - 1)
    assert not asked.is_done
    started.kernel.run_for(1)
    assert isinstance(asked.answer, HangUp)


def test_a_request_is_answered_as_soon_as_the_broker_knows_the_cluster(started: ApiWorld) -> None:
    metadata = started.start(MetadataRequest(("t",)))
    offsets = started.start(ListOffsetsRequest(CONSUMER, (ListOffsetsPartition("t", 0, -1),), 5))
    started.kernel.run_for(WAIT_TO_KNOW_MS - 1)
    started.host("t").fill(b"a")
    started.cluster({"t": [0]})
    started.kernel.run_for(0)
    assert [topic.error.name for topic in metadata.answer.topics] == ["NONE"]
    assert len(metadata.answer.brokers) == 3
    assert [each.offset for each in offsets.answer.partitions] == [1]


def test_a_cluster_without_topics_is_known_too(started: ApiWorld) -> None:
    started.cluster()
    assert started.ask(MetadataRequest(None)).topics == ()


def test_records_are_refused_at_once_and_for_certain(started: ApiWorld) -> None:
    """The end of a connection would leave open whether they are in a log."""
    asked = started.start(ProduceRequest(-1, 1_000, (ProducePartition("t", 0, batch(b"a")),)))
    assert asked.answer.partitions[0].error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_consumer_is_told_at_once_that_its_partition_is_not_here(started: ApiWorld) -> None:
    fetch = FetchRequest(CONSUMER, 0, 1, 100, (FetchPartition("t", 0, Offset(0), 100),))
    asked = started.start(fetch)
    assert asked.answer.partitions[0].error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_members_of_groups_are_told_at_once_to_look_for_the_coordinator(started: ApiWorld) -> None:
    started.groups_log.refusals = {"g": NOT_HERE}  # as before the broker's first leadership
    assert started.start(HeartbeatRequest("g", 1, "m")).answer.error is NOT_HERE
    assert started.start(COMMIT).answer.partitions[0].error is NOT_HERE
    fetched = started.start(OffsetFetchRequest((GroupToFetch("g", None),))).answer
    assert fetched.groups[0].error is NOT_HERE


def test_api_versions_are_told_at_once(started: ApiWorld) -> None:
    assert isinstance(started.start(ApiVersionsRequest()).answer, ApiVersionsResponse)


def test_followers_are_answered_while_a_cluster_starts(started: ApiWorld) -> None:
    started.host("t").fill(b"a")
    fetch = FetchRequest(NodeId(1), 0, 1, 100, (FetchPartition("t", 0, Offset(0), 100),))
    asked = started.start(fetch, "REPLICATION")
    assert asked.answer.partitions[0].records


def test_a_commit_of_a_group_of_another_broker_says_so_also_of_unknown_topics(world: Any) -> None:
    """A client looks for the coordinator upon no other error."""
    world.groups_log.refusals = {"g": NOT_HERE}
    committed = world.ask(COMMIT).partitions
    assert [each.error.name for each in committed] == ["NOT_COORDINATOR"]
    world.groups_log.refusals = {}
    committed = world.ask(COMMIT).partitions
    assert [each.error.name for each in committed] == ["UNKNOWN_TOPIC_OR_PARTITION"]
