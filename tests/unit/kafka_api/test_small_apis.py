"""ApiVersions, DescribeConfigs, InitProducerId, and APIs that are not served."""

from __future__ import annotations

from typing import Any

import pytest

from highwater_core.check import BugFound
from highwater_core.config_layers import EVERY_BROKER_KEYS, ConfigSource
from highwater_core.errors import ErrorCode
from highwater_core.ids import ProducerId
from highwater_core.topic_configs import TOPIC_CONFIG_KEYS, ConfigType
from highwater_wire.kafka.config_messages import (
    UNKNOWN_TYPE,
    ConfigEntry,
    ConfigResource,
    DescribeConfigsRequest,
)
from highwater_wire.kafka.messages import (
    ApiVersionsRequest,
    UnsupportedRequest,
)
from highwater_wire.kafka.producer_messages import InitProducerIdRequest


def describe(
    resource_type: int, name: str, names: tuple[str, ...] | None = None
) -> DescribeConfigsRequest:
    return DescribeConfigsRequest((ConfigResource(resource_type, name, names),))


def test_api_versions_lists_the_served_apis_by_key(world: Any) -> None:
    response = world.ask(ApiVersionsRequest())
    assert response.error is ErrorCode.NONE
    assert [served.api_key for served in response.api_keys] == [0, 3]


@pytest.mark.parametrize("name", ["librdkafka", "a", "apache-kafka-java", "x.1-y"])
def test_a_client_may_name_its_software(world: Any, name: str) -> None:
    assert world.ask(ApiVersionsRequest(name, "2.6.1")).error is ErrorCode.NONE


@pytest.mark.parametrize("name", ["", "-a", "a.", "a b", "é", "a\n", "x" * 30_000 + "-"])
def test_an_illegal_name_or_version_of_a_client_is_refused(world: Any, name: str) -> None:
    for request in (ApiVersionsRequest(name, "1"), ApiVersionsRequest("a", name)):
        response = world.ask(request)
        assert (response.error.name, response.api_keys) == ("INVALID_REQUEST", ())


def test_an_unserved_request_is_answered_with_the_served_versions(world: Any) -> None:
    response = world.ask(UnsupportedRequest(18, 99))
    assert response.error is ErrorCode.UNSUPPORTED_VERSION
    assert [served.api_key for served in response.api_keys] == [0, 3]


def test_a_value_that_is_no_request_is_a_bug_of_ours(world: Any) -> None:
    with pytest.raises(BugFound):
        world.api.handle("hello", "CLIENT").send(None)


def test_a_producer_gets_an_id_of_its_own_with_epoch_0(world: Any) -> None:
    for expected in (0, 1):
        answer = world.ask(InitProducerIdRequest())
        assert (answer.error, answer.producer_id, answer.producer_epoch) == (0, expected, 0)


def test_a_producer_that_has_an_id_gets_a_new_one_as_well(world: Any) -> None:
    world.producer_ids.next = 8
    answer = world.ask(InitProducerIdRequest(producer_id=ProducerId(7), producer_epoch=3))
    assert (answer.error, answer.producer_id, answer.producer_epoch) == (0, 8, 0)


def test_a_transactional_id_is_refused_for_good(world: Any) -> None:
    answer = world.ask(InitProducerIdRequest("my-transaction"))
    assert answer.error is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert (answer.producer_id, answer.producer_epoch, world.producer_ids.next) == (-1, -1, 0)


@pytest.mark.parametrize("known", [(-1, 0), (5, -1), (-2, 0)])
def test_a_producer_names_its_id_and_epoch_or_neither(world: Any, known: tuple[int, int]) -> None:
    request = InitProducerIdRequest(producer_id=ProducerId(known[0]), producer_epoch=known[1])
    assert world.ask(request).error is ErrorCode.INVALID_REQUEST


def test_a_producer_gets_a_retriable_error_while_there_are_no_ids(world: Any) -> None:
    world.producer_ids.next = None
    assert world.ask(InitProducerIdRequest()).error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_followers_get_no_producer_ids(world: Any) -> None:
    answer = world.ask(InitProducerIdRequest(), "REPLICATION")
    assert answer.error is ErrorCode.INVALID_REQUEST


def test_a_topics_own_configurations_stand_over_the_defaults(world: Any) -> None:
    world.cluster({"t": [1]})
    world.configs.topics = {"t": {"min.insync.replicas": "2"}}
    (described,) = world.ask(describe(2, "t")).resources
    assert described.error is ErrorCode.NONE
    entries = {entry.name: (entry.value, entry.source) for entry in described.entries}
    assert list(entries) == sorted(TOPIC_CONFIG_KEYS)
    assert entries["min.insync.replicas"] == ("2", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    assert entries["retention.bytes"] == ("-1", ConfigSource.DEFAULT_CONFIG)
    assert all(entry.synonyms == () for entry in described.entries)


@pytest.mark.parametrize("resource", [(2, "t"), (4, "0")])
def test_no_names_mean_all_configurations_as_a_missing_list_does(
    world: Any, resource: tuple[int, str]
) -> None:
    world.cluster({"t": [1]})
    (everything,) = world.ask(describe(*resource)).resources
    assert everything.entries
    assert world.ask(describe(*resource, ())).resources == (everything,)
    named, unnamed = (ConfigResource(*resource, names) for names in (("segment.ms",), ()))
    assert world.ask(DescribeConfigsRequest((named, unnamed))).resources == (everything,)


def test_a_value_is_listed_with_its_synonyms(world: Any) -> None:
    world.cluster({"t": [1]})
    world.configs.topics = {"t": {"retention.ms": "1"}}
    world.configs.broker = {"log.retention.ms": "2"}
    world.configs.every_broker = {"log.retention.ms": "3"}
    world.configs.started_with = {"retention.ms": "4"}
    resources = tuple(ConfigResource(*each, None) for each in ((2, "t"), (4, "0"), (4, "")))
    answer = world.ask(DescribeConfigsRequest(resources, include_synonyms=True))
    told = [
        [
            [(each.name, each.value, each.source) for each in entry.synonyms]
            for entry in described.entries
            if entry.name in ("retention.ms", "log.retention.ms")
        ]
        for described in answer.resources
    ]
    name = "log.retention.ms"
    of_broker = [(name, "2", 2), (name, "3", 3), (name, "4", 4), (name, "604800000", 5)]
    assert told == [[[("retention.ms", "1", 1), *of_broker]], [of_broker], [[(name, "3", 3)]]]


def test_only_the_requested_configurations_are_listed(world: Any) -> None:
    world.cluster({"t": [1]})
    (described,) = world.ask(describe(2, "t", ("segment.ms", "no.such"))).resources
    assert [entry.name for entry in described.entries] == ["segment.ms"]


def test_a_broker_lists_its_settings_and_which_may_change(world: Any) -> None:
    world.configs.every_broker = {"log.roll.ms": "5"}
    (described,) = world.ask(describe(4, "0")).resources
    entries = {entry.name: entry for entry in described.entries}
    fixed = [(each.name, each.value) for each in described.entries if each.read_only]
    assert fixed == [("broker.id", "0"), ("num.partitions", "4")]
    assert sorted(entries) == sorted([*EVERY_BROKER_KEYS, "broker.id", "num.partitions"])
    assert (entries["log.roll.ms"].value, entries["log.roll.ms"].source) == ("5", 3)
    assert entries["broker.id"].source == ConfigSource.STATIC_BROKER_CONFIG


def test_the_default_of_every_broker_lists_only_set_values(world: Any) -> None:
    assert world.ask(describe(4, "")).resources[0].entries == ()
    world.configs.every_broker = {"log.roll.ms": "5"}
    (described,) = world.ask(describe(4, "")).resources
    assert described.entries == (ConfigEntry("log.roll.ms", "5", 3, type=ConfigType.LONG.value),)


def test_types_are_listed_and_documentation_on_request(world: Any) -> None:
    world.cluster({"t": [1]})
    resources = tuple(ConfigResource(*each, None) for each in ((2, "t"), (4, "0")))
    plain = world.ask(DescribeConfigsRequest(resources)).resources
    asked = world.ask(DescribeConfigsRequest(resources, include_documentation=True)).resources
    for topic, broker in (plain, asked):
        types = {entry.name: entry.type for entry in (*topic.entries, *broker.entries)}
        assert UNKNOWN_TYPE not in types.values()
        assert (types["retention.bytes"], types["cleanup.policy"]) == (5, 7)
        assert (types["broker.id"], types["unclean.leader.election.enable"]) == (3, 1)
    assert {entry.documentation for each in plain for entry in each.entries} == {None}
    assert all(entry.documentation for entry in asked[0].entries)


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
def test_a_resource_without_configuration_is_refused(
    world: Any, resource_type: int, name: str, error: str
) -> None:
    (described,) = world.ask(describe(resource_type, name)).resources
    assert (described.error.name, described.entries) == (error, ())
    assert described.message
    assert (described.resource_type, described.resource_name) == (resource_type, name)


def test_a_configuration_that_cannot_be_read_now_is_retriable(world: Any) -> None:
    world.cluster({"t": [0]})
    world.configs.topics = None
    for asked in (describe(2, "t"), describe(4, "0")):
        (described,) = world.ask(asked).resources
        assert described.error is ErrorCode.REQUEST_TIMED_OUT
