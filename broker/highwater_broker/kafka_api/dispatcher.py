"""Routes each request to the handler of its kind.

CLIENT and EXTERNAL alone serve Produce, consumers' Fetch and requests that change the cluster
(topics, partitions, elections, reassignments, configurations). REPLICATION alone serves followers'
Fetch, so that a cut of one plane does not cut the other. All listeners serve the other requests.
What the broker cannot answer before it knows the cluster is held back (until_known).
"""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial

from highwater_broker.coordinator.coordinator import GroupCoordinator
from highwater_broker.kafka_api.alter_configs import AlterConfigsHandler, ConfigForwarding
from highwater_broker.kafka_api.alter_partition_reassignments import (
    AlterPartitionReassignmentsHandler,
)
from highwater_broker.kafka_api.api_settings import KafkaApiSettings
from highwater_broker.kafka_api.api_versions import ApiVersionsHandler
from highwater_broker.kafka_api.create_partitions import CreatePartitionsHandler
from highwater_broker.kafka_api.create_topics import CreateTopicsHandler
from highwater_broker.kafka_api.delete_topics import DeleteTopicsHandler
from highwater_broker.kafka_api.describe_configs import DescribeConfigsHandler
from highwater_broker.kafka_api.describe_log_dirs import DescribeLogDirsHandler
from highwater_broker.kafka_api.elect_leaders import ElectLeadersHandler
from highwater_broker.kafka_api.fetch import FetchHandler, FetchLimits
from highwater_broker.kafka_api.find_coordinator import FindCoordinatorHandler
from highwater_broker.kafka_api.forwarding import ControllerForwarding
from highwater_broker.kafka_api.group_handlers import Handler, group_handlers
from highwater_broker.kafka_api.incremental_alter_configs import (
    IncrementalAlterConfigsHandler,
)
from highwater_broker.kafka_api.init_producer_id import InitProducerIdHandler
from highwater_broker.kafka_api.list_offsets import ListOffsetsHandler
from highwater_broker.kafka_api.list_partition_reassignments import (
    ListPartitionReassignmentsHandler,
)
from highwater_broker.kafka_api.lookup import PartitionLookup
from highwater_broker.kafka_api.metadata import MetadataHandler
from highwater_broker.kafka_api.offset_for_leader_epoch import OffsetForLeaderEpochHandler
from highwater_broker.kafka_api.offsets_topic import OffsetsTopic
from highwater_broker.kafka_api.produce import ProduceHandler
from highwater_broker.kafka_api.rest_of_broker import (
    Configs,
    Controller,
    LogDirs,
    Partitions,
    ProducerIdSource,
    TopicSize,
)
from highwater_broker.kafka_api.topic_waits import Deadline, TopicWaits
from highwater_broker.kafka_api.topics_on_first_use import TopicsOnFirstUse
from highwater_broker.kafka_api.turns import Turns
from highwater_broker.kafka_api.until_known import UntilKnown
from highwater_broker.metadata_cache import MetadataCache
from highwater_broker.purgatory import Purgatory
from highwater_core.check import BugFound
from highwater_core.ports import Ports
from highwater_wire.kafka.admin_messages import (
    AlterPartitionReassignmentsRequest,
    CreatePartitionsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)
from highwater_wire.kafka.config_messages import (
    AlterConfigsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
)
from highwater_wire.kafka.log_dir_messages import DescribeLogDirsRequest
from highwater_wire.kafka.messages import (
    ApiVersionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    FetchRequest,
    FindCoordinatorRequest,
    KafkaAnswer,
    KafkaRequest,
    ListOffsetsRequest,
    MetadataRequest,
    OffsetForLeaderEpochRequest,
    ProduceRequest,
    UnsupportedRequest,
)
from highwater_wire.kafka.producer_messages import InitProducerIdRequest


class KafkaApi:
    """Answers the data plane's requests."""

    def __init__(
        self,
        settings: KafkaApiSettings,
        ports: Ports,
        partitions: Partitions,
        metadata: MetadataCache,
        purgatory: Purgatory,
        controller: Controller,
        configs: Configs,
        producer_ids: ProducerIdSource,
        topic_size: TopicSize,
        groups: GroupCoordinator,
        log_dirs: LogDirs,
    ) -> None:
        runtime, trace = ports.runtime, ports.trace
        lookup = PartitionLookup(partitions, metadata)
        forwarding = ControllerForwarding(controller)
        waits = TopicWaits(metadata, purgatory)
        turns = Turns(runtime)
        deadlines = partial(Deadline, runtime, max_timeout_ms=settings.request_wait_max_ms)
        configs_forwarding = ConfigForwarding(forwarding, deadlines, turns)
        offsets_topic = OffsetsTopic(
            forwarding, waits, topic_size, deadlines, runtime, trace, settings.offsets_topic
        )
        first_use = TopicsOnFirstUse(forwarding, deadlines, runtime, trace, settings)
        versions = ApiVersionsHandler(settings.api_versions)
        self._until_known = UntilKnown(metadata, runtime)
        fetch = FetchHandler(lookup, purgatory, runtime, trace, _fetch_limits(settings), turns)
        metadata.listen(
            lambda topic: None if metadata.has_topic(topic) else fetch.forget_topic(topic)
        )
        self._handlers: dict[type, Handler] = {
            ProduceRequest: ProduceHandler(lookup, purgatory, runtime, trace, turns).handle,
            FetchRequest: fetch.handle,
            ListOffsetsRequest: ListOffsetsHandler(lookup, turns).handle,
            MetadataRequest: MetadataHandler(
                metadata, settings.node_id, settings.cluster_id, first_use, turns
            ).handle,
            FindCoordinatorRequest: FindCoordinatorHandler(metadata, offsets_topic, turns).handle,
            InitProducerIdRequest: InitProducerIdHandler(producer_ids).handle,
            ApiVersionsRequest: versions.handle,
            CreateTopicsRequest: CreateTopicsHandler(
                forwarding, waits, deadlines, settings, turns
            ).handle,
            DeleteTopicsRequest: DeleteTopicsHandler(forwarding, waits, deadlines).handle,
            CreatePartitionsRequest: CreatePartitionsHandler(
                forwarding, waits, deadlines, turns
            ).handle,
            ElectLeadersRequest: ElectLeadersHandler(forwarding, waits, deadlines, turns).handle,
            AlterPartitionReassignmentsRequest: AlterPartitionReassignmentsHandler(
                forwarding, deadlines, turns
            ).handle,
            ListPartitionReassignmentsRequest: ListPartitionReassignmentsHandler(
                forwarding, deadlines, turns
            ).handle,
            OffsetForLeaderEpochRequest: OffsetForLeaderEpochHandler(lookup, turns).handle,
            DescribeConfigsRequest: DescribeConfigsHandler(
                metadata, configs, settings, turns
            ).handle,
            DescribeLogDirsRequest: DescribeLogDirsHandler(
                log_dirs, partitions, settings.data_folder, turns
            ).handle,
            AlterConfigsRequest: AlterConfigsHandler(configs_forwarding).handle,
            IncrementalAlterConfigsRequest: IncrementalAlterConfigsHandler(
                configs_forwarding
            ).handle,
            UnsupportedRequest: versions.handle_unsupported,
            **group_handlers(groups, metadata, turns),
        }

    def handle(self, request: KafkaRequest, listener: str) -> Awaitable[KafkaAnswer]:
        """Return the handler's awaitable; its result is None where there is no response (acks=0).

        listener is the name of the listener that the request came through (listeners.Listener).
        """
        handler = self._handlers.get(type(request))
        if handler is None:
            raise BugFound(f"no handler for {type(request).__name__}")
        if self._until_known.holds(request, listener):
            return self._until_known.answer(handler, request, listener)
        return handler(request, listener)


def _fetch_limits(settings: KafkaApiSettings) -> FetchLimits:
    return FetchLimits(
        settings.fetch_response_max_bytes,
        settings.high_watermark_linger_ms,
        settings.request_wait_max_ms,
    )
