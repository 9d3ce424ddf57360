"""Strategies (hypothesis) for every request and response of Kafka's protocol, with any values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from highwater_core import admin_messages as core
from highwater_core.errors import ErrorCode
from highwater_core.ids import TopicId, TopicPartition
from highwater_wire.kafka import admin_messages as admin
from highwater_wire.kafka import config_messages as configs
from highwater_wire.kafka import log_dir_messages as log_dirs
from highwater_wire.kafka import messages, producer_messages
from highwater_wire.kafka.messages import ApiKey
from tests.support.group_values import GROUP_REQUESTS, GROUP_RESPONSES
from tests.support.kafka_strategies import (
    durations_ms,
    errors,
    grouped,
    int8s,
    int16s,
    int32s,
    int64s,
    node_lists,
    optional_texts,
    record_bytes,
    since,
    texts,
    topic_names,
    tuples_of,
)


def topic_id_of(topic: str) -> TopicId:
    return TopicId(topic.encode().hex()[:32].rjust(32, "1"))


# ---------------------------------------------------------------- strategies by API


def produce_requests(_version: int) -> st.SearchStrategy[Any]:
    partition = st.builds(messages.ProducePartition, topic_names, int32s, st.none() | record_bytes)
    return st.builds(
        messages.ProduceRequest,
        acks=int16s,
        timeout_ms=durations_ms,
        partitions=grouped(partition),
        transactional_id=optional_texts,
    )


def produce_responses(version: int) -> st.SearchStrategy[Any]:
    result = st.builds(
        messages.ProducePartitionResult,
        topic=topic_names,
        partition=int32s,
        error=errors,
        base_offset=int64s,
        log_start_offset=since(version, 5, int64s, -1),
    )
    return st.builds(messages.ProduceResponse, grouped(result))


def _with_topic_id(row: Any, version: int) -> Any:
    values = {name: getattr(row, name) for name in row.__dataclass_fields__}
    values["topic_id"] = topic_id_of(row.topic) if version >= 13 else ""
    return type(row)(**values)


def fetch_requests(version: int) -> st.SearchStrategy[Any]:
    partition = st.builds(
        messages.FetchPartition,
        topic=topic_names,
        partition=int32s,
        fetch_offset=int64s,
        max_bytes=int32s,
        current_leader_epoch=since(version, 9, int32s, -1),
        log_start_offset=since(version, 5, int64s, -1),
    ).map(lambda row: _with_topic_id(row, version))
    return st.builds(
        messages.FetchRequest,
        replica_id=int32s,
        max_wait_ms=durations_ms,
        min_bytes=int32s,
        max_bytes=int32s,
        partitions=grouped(partition),
        replica_epoch=int64s if version == 12 else since(version, 15, int64s, -1),
    )


def fetch_responses(version: int) -> st.SearchStrategy[Any]:
    result = st.builds(
        messages.FetchPartitionResult,
        topic=topic_names,
        partition=int32s,
        error=errors,
        high_watermark=int64s,
        log_start_offset=since(version, 5, int64s, -1),
        records=record_bytes,
    ).map(lambda row: _with_topic_id(row, version))
    return st.builds(
        messages.FetchResponse,
        grouped(result),
        since(version, 7, errors, ErrorCode.NONE),
    )


def list_offsets_requests(version: int) -> st.SearchStrategy[Any]:
    partition = st.builds(
        messages.ListOffsetsPartition,
        topic=topic_names,
        partition=int32s,
        timestamp=int64s,
        current_leader_epoch=since(version, 4, int32s, -1),
    )
    return st.builds(
        messages.ListOffsetsRequest, int32s, grouped(partition), request_version=st.just(version)
    )


def list_offsets_responses(version: int) -> st.SearchStrategy[Any]:
    result = st.builds(
        messages.ListOffsetsResult,
        topic=topic_names,
        partition=int32s,
        error=errors,
        timestamp=int64s,
        offset=int64s,
        leader_epoch=since(version, 4, int32s, -1),
    )
    return st.builds(messages.ListOffsetsResponse, grouped(result))


def metadata_requests(version: int) -> st.SearchStrategy[Any]:
    names = tuples_of(topic_names).filter(lambda topics: version > 0 or topics)
    return st.builds(
        messages.MetadataRequest,
        st.none() | names,
        since(version, 4, st.booleans(), True),
    )


def metadata_responses(version: int) -> st.SearchStrategy[Any]:
    partition = st.builds(
        messages.MetadataPartition,
        error=errors,
        partition=int32s,
        leader=int32s,
        leader_epoch=since(version, 7, int32s, -1),
        replicas=node_lists,
        isr=node_lists,
        offline_replicas=since(version, 5, node_lists, ()),
    )
    topic = st.builds(
        messages.MetadataTopic,
        error=errors,
        name=topic_names,
        partitions=tuples_of(partition),
        is_internal=since(version, 1, st.booleans(), False),
    )
    return st.builds(
        messages.MetadataResponse,
        brokers=tuples_of(st.builds(messages.MetadataBroker, int32s, texts, int32s)),
        cluster_id=since(version, 2, optional_texts, None),
        controller_id=since(version, 1, int32s, -1),
        topics=tuples_of(topic),
    )


def find_coordinator_requests(version: int) -> st.SearchStrategy[Any]:
    keys = tuples_of(texts) if version >= 4 else st.tuples(texts)
    return st.builds(messages.FindCoordinatorRequest, keys, since(version, 1, int8s, 0))


def find_coordinator_responses(version: int) -> st.SearchStrategy[Any]:
    found = st.builds(
        messages.FoundCoordinator,
        key=texts if version >= 4 else st.just("g"),
        error=errors,
        message=since(version, 1, optional_texts, None),
        node_id=int32s,
        host=texts,
        port=int32s,
    )
    several = tuples_of(found) if version >= 4 else st.tuples(found)
    return st.builds(messages.FindCoordinatorResponse, several)


def init_producer_id_requests(version: int) -> st.SearchStrategy[Any]:
    return st.builds(
        producer_messages.InitProducerIdRequest,
        transactional_id=optional_texts,
        transaction_timeout_ms=int32s,
        producer_id=since(version, 3, int64s, -1),
        producer_epoch=since(version, 3, int16s, -1),
    )


def init_producer_id_responses(version: int) -> st.SearchStrategy[Any]:
    return st.builds(producer_messages.InitProducerIdResponse, errors, int64s, int16s)


def api_versions_requests(version: int) -> st.SearchStrategy[Any]:
    name = since(version, 3, texts, None)
    return st.builds(messages.ApiVersionsRequest, name, name)


def api_versions_responses(_version: int) -> st.SearchStrategy[Any]:
    api = st.builds(messages.ApiVersionRange, int16s, int16s, int16s)
    return st.builds(messages.ApiVersionsResponse, errors, tuples_of(api))


def create_topics_requests(_version: int) -> st.SearchStrategy[Any]:
    topic = st.builds(
        messages.TopicToCreate,
        name=topic_names,
        partition_count=int32s,
        replication_factor=int16s,
        assignments=tuples_of(st.tuples(int32s, node_lists)),
        configs=tuples_of(st.tuples(texts, optional_texts)),
    )
    return st.builds(messages.CreateTopicsRequest, tuples_of(topic), durations_ms, st.booleans())


def create_topics_responses(_version: int) -> st.SearchStrategy[Any]:
    topic = st.builds(messages.CreatedTopic, topic_names, errors, optional_texts)
    return st.builds(messages.CreateTopicsResponse, tuples_of(topic))


def delete_topics_requests(_version: int) -> st.SearchStrategy[Any]:
    return st.builds(messages.DeleteTopicsRequest, tuples_of(topic_names), durations_ms)


def delete_topics_responses(_version: int) -> st.SearchStrategy[Any]:
    topic = st.builds(messages.DeletedTopic, topic_names, errors)
    return st.builds(messages.DeleteTopicsResponse, tuples_of(topic))


def epoch_requests(version: int) -> st.SearchStrategy[Any]:
    partition = st.builds(messages.EpochPartition, topic_names, int32s, int32s, int32s)
    return st.builds(
        messages.OffsetForLeaderEpochRequest,
        since(version, 3, int32s, messages.CONSUMER),
        grouped(partition),
    )


def epoch_responses(_version: int) -> st.SearchStrategy[Any]:
    result = st.builds(messages.EpochEndOffset, topic_names, int32s, errors, int32s, int64s)
    return st.builds(messages.OffsetForLeaderEpochResponse, grouped(result))


def describe_configs_requests(version: int) -> st.SearchStrategy[Any]:
    resource = st.builds(configs.ConfigResource, int8s, texts, st.none() | tuples_of(texts))
    return st.builds(
        configs.DescribeConfigsRequest,
        tuples_of(resource),
        st.booleans(),
        since(version, 3, st.booleans(), False),
    )


def describe_configs_responses(version: int) -> st.SearchStrategy[Any]:
    synonym = st.builds(configs.ConfigSynonym, texts, optional_texts, int8s)
    entry = st.builds(
        configs.ConfigEntry,
        texts,
        optional_texts,
        int8s,
        st.booleans(),
        tuples_of(synonym),
        since(version, 3, int8s, configs.UNKNOWN_TYPE),
        since(version, 3, optional_texts, None),
    )
    resource = st.builds(
        configs.DescribedConfig, errors, optional_texts, int8s, texts, tuples_of(entry)
    )
    return st.builds(configs.DescribeConfigsResponse, tuples_of(resource))


def alter_configs_requests(_version: int) -> st.SearchStrategy[Any]:
    resource = st.builds(
        configs.ReplacedConfig, int8s, texts, tuples_of(st.tuples(texts, optional_texts))
    )
    return st.builds(configs.AlterConfigsRequest, tuples_of(resource), st.booleans())


def incremental_alter_configs_requests(_version: int) -> st.SearchStrategy[Any]:
    alteration = st.builds(configs.ConfigAlteration, texts, int8s, optional_texts)
    resource = st.builds(configs.AlteredResource, int8s, texts, tuples_of(alteration))
    return st.builds(configs.IncrementalAlterConfigsRequest, tuples_of(resource), st.booleans())


def altered_configs() -> st.SearchStrategy[Any]:
    return tuples_of(st.builds(configs.AlteredConfigResult, errors, optional_texts, int8s, texts))


def alter_configs_responses(_version: int) -> st.SearchStrategy[Any]:
    return st.builds(configs.AlterConfigsResponse, altered_configs())


def incremental_alter_configs_responses(_version: int) -> st.SearchStrategy[Any]:
    return st.builds(configs.IncrementalAlterConfigsResponse, altered_configs())


topic_partitions = st.builds(TopicPartition, topic_names, int32s)
partition_results = grouped(st.builds(core.PartitionResult, topic_partitions, errors, texts))


def create_partitions_requests(_version: int) -> st.SearchStrategy[Any]:
    assignments = st.none() | tuples_of(node_lists)
    topic = st.builds(admin.PartitionsToCreate, topic_names, int32s, assignments)
    return st.builds(admin.CreatePartitionsRequest, tuples_of(topic), durations_ms, st.booleans())


def create_partitions_responses(_version: int) -> st.SearchStrategy[Any]:
    topic = st.builds(core.TopicResult, topic_names, errors, texts)
    return st.builds(admin.CreatePartitionsResponse, tuples_of(topic))


def elect_leaders_requests(version: int) -> st.SearchStrategy[Any]:
    election_type = since(version, 1, int8s, 0)
    named = st.none() | grouped(topic_partitions)
    return st.builds(admin.ElectLeadersRequest, election_type, named, durations_ms)


def elect_leaders_responses(version: int) -> st.SearchStrategy[Any]:
    error = since(version, 1, errors, ErrorCode.NONE)
    return st.builds(admin.ElectLeadersResponse, error, partition_results)


def alter_reassignments_requests(_version: int) -> st.SearchStrategy[Any]:
    item = st.builds(core.ReassignmentItem, topic_partitions, st.none() | node_lists)
    return st.builds(admin.AlterPartitionReassignmentsRequest, grouped(item), durations_ms)


def alter_reassignments_responses(_version: int) -> st.SearchStrategy[Any]:
    return st.builds(
        admin.AlterPartitionReassignmentsResponse, errors, optional_texts, partition_results
    )


def list_reassignments_requests(_version: int) -> st.SearchStrategy[Any]:
    named = st.none() | grouped(topic_partitions)
    return st.builds(admin.ListPartitionReassignmentsRequest, named, durations_ms)


def list_reassignments_responses(_version: int) -> st.SearchStrategy[Any]:
    many_nodes = node_lists | st.just(tuple(range(200)))
    ongoing = st.builds(core.OngoingReassignment, topic_partitions, *(many_nodes,) * 3)
    return st.builds(
        admin.ListPartitionReassignmentsResponse, errors, optional_texts, grouped(ongoing)
    )


def describe_log_dirs_requests(_version: int) -> st.SearchStrategy[Any]:
    return st.builds(log_dirs.DescribeLogDirsRequest, st.none() | grouped(topic_partitions))


def describe_log_dirs_responses(version: int) -> st.SearchStrategy[Any]:
    replica = st.builds(log_dirs.DescribedReplica, topic_partitions, int64s, int64s, st.booleans())
    sizes = since(version, 4, int64s, log_dirs.UNKNOWN_BYTES)
    folder = st.builds(log_dirs.DescribedLogDir, errors, texts, grouped(replica), sizes, sizes)
    error = since(version, 3, errors, ErrorCode.NONE)
    return st.builds(log_dirs.DescribeLogDirsResponse, error, tuples_of(folder))


Strategies = dict[ApiKey, Callable[[int], st.SearchStrategy[Any]]]

REQUESTS: Strategies = {
    ApiKey.PRODUCE: produce_requests,
    ApiKey.FETCH: fetch_requests,
    ApiKey.LIST_OFFSETS: list_offsets_requests,
    ApiKey.METADATA: metadata_requests,
    ApiKey.FIND_COORDINATOR: find_coordinator_requests,
    ApiKey.INIT_PRODUCER_ID: init_producer_id_requests,
    ApiKey.API_VERSIONS: api_versions_requests,
    ApiKey.CREATE_TOPICS: create_topics_requests,
    ApiKey.DELETE_TOPICS: delete_topics_requests,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: epoch_requests,
    ApiKey.DESCRIBE_CONFIGS: describe_configs_requests,
    ApiKey.ALTER_CONFIGS: alter_configs_requests,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: incremental_alter_configs_requests,
    ApiKey.DESCRIBE_LOG_DIRS: describe_log_dirs_requests,
    ApiKey.CREATE_PARTITIONS: create_partitions_requests,
    ApiKey.ELECT_LEADERS: elect_leaders_requests,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: alter_reassignments_requests,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: list_reassignments_requests,
    **GROUP_REQUESTS,
}
RESPONSES: Strategies = {
    ApiKey.PRODUCE: produce_responses,
    ApiKey.FETCH: fetch_responses,
    ApiKey.LIST_OFFSETS: list_offsets_responses,
    ApiKey.METADATA: metadata_responses,
    ApiKey.FIND_COORDINATOR: find_coordinator_responses,
    ApiKey.INIT_PRODUCER_ID: init_producer_id_responses,
    ApiKey.API_VERSIONS: api_versions_responses,
    ApiKey.CREATE_TOPICS: create_topics_responses,
    ApiKey.DELETE_TOPICS: delete_topics_responses,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: epoch_responses,
    ApiKey.DESCRIBE_CONFIGS: describe_configs_responses,
    ApiKey.ALTER_CONFIGS: alter_configs_responses,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: incremental_alter_configs_responses,
    ApiKey.DESCRIBE_LOG_DIRS: describe_log_dirs_responses,
    ApiKey.CREATE_PARTITIONS: create_partitions_responses,
    ApiKey.ELECT_LEADERS: elect_leaders_responses,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: alter_reassignments_responses,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: list_reassignments_responses,
    **GROUP_RESPONSES,
}
