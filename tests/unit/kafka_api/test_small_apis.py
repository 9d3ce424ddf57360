"""ApiVersions, DescribeConfigs, FindCoordinator, and requests that are not served."""

from __future__ import annotations

from typing import Any

import pytest

from highwater_core.check import BugFound
from highwater_core.errors import ErrorCode
from highwater_core.topic_configs import TOPIC_CONFIG_KEYS
from highwater_wire.kafka.messages import (
    ApiVersionsRequest,
    ConfigResource,
    DescribeConfigsRequest,
    FindCoordinatorRequest,
    MetadataRequest,
    UnsupportedRequest,
)


def describe(
    resource_type: int, name: str, names: tuple[str, ...] | None = None
) -> DescribeConfigsRequest:
    return DescribeConfigsRequest((ConfigResource(resource_type, name, names),))


def test_api_versions_lists_what_is_served_by_key(world: Any) -> None:
    response = world.ask(ApiVersionsRequest())
    assert response.error is ErrorCode.NONE
    assert [served.api_key for served in response.api_keys] == [0, 3]


@pytest.mark.parametrize("name", ["librdkafka", "a", "apache-kafka-java", "x.1-y"])
def test_a_client_may_say_what_it_is(world: Any, name: str) -> None:
    assert world.ask(ApiVersionsRequest(name, "2.6.1")).error is ErrorCode.NONE


@pytest.mark.parametrize("name", ["", "-a", "a.", "a b", "é", "a\n", "x" * 30_000 + "-"])
def test_an_illegal_name_or_version_of_a_client_is_refused(world: Any, name: str) -> None:
    for request in (ApiVersionsRequest(name, "1"), ApiVersionsRequest("a", name)):
        response = world.ask(request)
        assert (response.error.name, response.api_keys) == ("INVALID_REQUEST", ())


def test_an_unserved_request_is_told_what_is_served(world: Any) -> None:
    response = world.ask(UnsupportedRequest(18, 99))
    assert response.error is ErrorCode.UNSUPPORTED_VERSION
    assert [served.api_key for served in response.api_keys] == [0, 3]


def test_a_value_that_is_no_request_is_a_bug_of_ours(world: Any) -> None:
    with pytest.raises(BugFound):
        world.api.handle("hello", "CLIENT").send(None)


def test_a_transaction_has_no_coordinator_for_good(world: Any) -> None:
    response = world.ask(FindCoordinatorRequest("my-transaction", 1))
    assert response.error is ErrorCode.UNSUPPORTED_VERSION
    assert (response.node_id, response.host, response.port) == (-1, "", -1)


def test_a_groups_coordinator_is_who_is_asked_once_it_is_known_to_live(world: Any) -> None:
    """It offers no JoinGroup: a member fails at once, and who only names a group goes on."""
    asked = FindCoordinatorRequest("my-group", 0)
    assert world.ask(asked).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.cluster({"t": [1]})
    (own,) = [each for each in world.ask(MetadataRequest(None)).brokers if each.broker_id == 0]
    response = world.ask(asked)
    assert response.error is ErrorCode.NONE
    assert (response.node_id, response.host, response.port) == (0, own.host, own.port)


def test_a_topics_own_configurations_stand_over_the_defaults(world: Any) -> None:
    world.cluster({"t": [1]})
    world.configs.overrides = {"t": {"min.insync.replicas": "2"}}
    (described,) = world.ask(describe(2, "t")).resources
    assert described.error is ErrorCode.NONE
    entries = {entry.name: (entry.value, entry.is_default) for entry in described.entries}
    assert list(entries) == sorted(TOPIC_CONFIG_KEYS)
    assert entries["min.insync.replicas"] == ("2", False)
    assert entries["retention.bytes"] == ("-1", True)


def test_only_the_configurations_that_are_asked_for_are_told(world: Any) -> None:
    world.cluster({"t": [1]})
    (described,) = world.ask(describe(2, "t", ("segment.ms", "no.such"))).resources
    assert [entry.name for entry in described.entries] == ["segment.ms"]


@pytest.mark.parametrize("name", ["0", ""])
def test_a_broker_tells_its_own_settings(world: Any, name: str) -> None:
    (described,) = world.ask(describe(4, name)).resources
    assert [(entry.name, entry.value) for entry in described.entries] == [
        ("broker.id", "0"),
        ("num.partitions", "4"),
    ]
    assert all(entry.read_only for entry in described.entries)


@pytest.mark.parametrize(
    ("resource_type", "name", "error"),
    [
        (2, "unknown", "UNKNOWN_TOPIC_OR_PARTITION"),
        (4, "7", "INVALID_REQUEST"),
        (4, "zero", "INVALID_REQUEST"),
        (8, "0", "INVALID_REQUEST"),
        (0, "", "INVALID_REQUEST"),
    ],
)
def test_what_has_no_configuration_is_refused(
    world: Any, resource_type: int, name: str, error: str
) -> None:
    (described,) = world.ask(describe(resource_type, name)).resources
    assert (described.error.name, described.entries) == (error, ())
    assert described.message
    assert (described.resource_type, described.resource_name) == (resource_type, name)


def test_a_configuration_that_cannot_be_read_now_is_retriable(world: Any) -> None:
    world.cluster({"t": [0]})
    world.configs.overrides = None
    (described,) = world.ask(describe(2, "t")).resources
    assert described.error is ErrorCode.REQUEST_TIMED_OUT
