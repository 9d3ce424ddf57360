"""A broker: its parts connected, its start, its clean stop.

It uses the ports alone for I/O, so the same code runs in containers and in the simulator.
Source: ARCHITECTURE.md; docs/explanation/replication.md, "The broker".
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from highwater_broker.broker_counters import broker_counters
from highwater_broker.checkpointer import Checkpointer
from highwater_broker.commander import Commander, CommanderParts
from highwater_broker.controller_commands import ControllerCommands
from highwater_broker.coordinator.service import GroupService
from highwater_broker.current_session import CurrentSession
from highwater_broker.fetcher import FetcherContext
from highwater_broker.fetcher_registry import FetcherRegistry
from highwater_broker.first_design.broker_commands import BrokerCommands
from highwater_broker.kafka_api.api_settings import KafkaApiSettings, OffsetsTopicSettings
from highwater_broker.kafka_api.dispatcher import KafkaApi
from highwater_broker.log.storage_identity import StorageIdentity
from highwater_broker.log.subfolder import Subfolder
from highwater_broker.log_cleaner import LogCleaner
from highwater_broker.log_folder_health import LogFolderHealth
from highwater_broker.log_folders import LogFolders
from highwater_broker.metadata_cache import MetadataCache
from highwater_broker.partition_context import IsrChanges, PartitionContext
from highwater_broker.producer_ids import ProducerIds
from highwater_broker.purgatory import Purgatory
from highwater_broker.registration import Registration
from highwater_broker.replica_logs import ReplicaLogs
from highwater_broker.replica_manager import ReplicaManager
from highwater_broker.replication_quotas import ReplicationQuotas
from highwater_broker.settings import BrokerSettings
from highwater_broker.topic_settings import TopicSettings
from highwater_core.config import CommandedBy, resolve_toggles
from highwater_core.config_layers import (
    FOLLOWER_THROTTLED_RATE,
    LEADER_THROTTLED_RATE,
    REPLICA_FETCHERS,
)
from highwater_core.events import EventKind
from highwater_core.fail_points import BROKER_FAIL_POINTS, FailPoints
from highwater_core.ids import BrokerEpoch, Endpoint, NodeId
from highwater_core.messages import NodeSnapshot, TaskSnapshot
from highwater_core.ports import CannotStart, CoordinationEvent, FileSystem, Ports
from highwater_wire.kafka.messages import KafkaAnswer, KafkaRequest
from highwater_wire.kafka.versions import VERSION_PROFILE


class BrokerNode:
    """One broker process: run() lasts from its start to its stop."""

    def __init__(self, settings: BrokerSettings, ports: Ports) -> None:
        self._settings = settings
        self._ports = ports
        self._toggles = resolve_toggles(settings.preset, settings.toggles)
        runtime, trace = ports.runtime, ports.trace
        points = FailPoints(runtime, trace, ports.exit_now, BROKER_FAIL_POINTS)
        self.fail_points, self._stop_requested = points, runtime.event()
        self._scope = runtime.scope("broker")

        self._session = CurrentSession()
        self._metadata = MetadataCache()
        self._quotas, self._isr_changes = ReplicationQuotas(runtime), IsrChanges()
        self._purgatory = Purgatory(runtime, max_timeout_ms=settings.request_wait_max_ms)
        self._topics = TopicSettings(settings, runtime, trace, self._session, self._apply_settings)
        storage = self._storage_identity()
        self._registration = Registration(
            settings,
            self._toggles,
            ports,
            self._session,
            self._on_event,
            points,
            storage,
            on_refusal=self._stop_requested.set,
        )
        self._folder_healths: list[LogFolderHealth] = []
        self._logs = self._log_folders(storage)
        self._fetchers = FetcherRegistry(self._fetcher_context(), self._scope)
        self._replicas = ReplicaManager(
            self._partition_context(),
            ports,
            self._logs,
            self._topics,
            self._metadata,
            self._fetchers,
            lambda: self._registration.broker_epoch,
            self._write_recovery_points,
            self._announce_folders,
        )
        self._checkpointer = Checkpointer(
            settings, self._toggles, runtime, trace, self._logs, self._replicas, points
        )
        self._cleaner = LogCleaner(settings, runtime, trace, self._logs, self._replicas)
        self._groups = GroupService(
            settings,
            ports,
            self._replicas,
            self._purgatory,
            self._metadata,
            self._session,
            points,
        )
        commands = BrokerCommands if self._commands_itself else ControllerCommands
        self._commander: Commander = commands(self._commander_parts())
        self._kafka = KafkaApi(
            self._kafka_settings(),
            ports,
            self._replicas,
            self._metadata,
            self._purgatory,
            self._commander,
            self._topics,
            ProducerIds(self._session, runtime, self._scope, trace, settings.broker_id),
            self._groups.topic_size,
            self._groups.coordinator,
            self._logs,
        )

    # ------------------------------------------------------------ wiring

    @property
    def _commands_itself(self) -> bool:
        return self._toggles.commanded_by is CommandedBy.STATE_CHANGE_QUEUE

    def _storage_identity(self) -> StorageIdentity | None:
        if not self._toggles.eligible_leader_replicas:
            return None
        ports = self._ports
        return StorageIdentity(ports.files, ports.rng.stream("storage id"), ports.boot_id)

    def _log_folders(self, storage: StorageIdentity | None) -> LogFolders:
        files, names = self._ports.files, self._settings.log_folder_names
        if names:  # the disk of data_folder is another one, with no replicas on it
            files.bound_syncs("", self._settings.log_folder_sync_timeout_ms, lambda: None)
        folders = [self._replica_logs(Subfolder(files, name), name, storage) for name in names]
        return LogFolders(folders or [self._replica_logs(files, "", storage)], storage)

    def _replica_logs(
        self, files: FileSystem, name: str, storage: StorageIdentity | None
    ) -> ReplicaLogs:
        runtime, trace = self._ports.runtime, self._ports.trace
        health = LogFolderHealth(self._settings, runtime, trace, files, name, self._folder_failed)
        self._folder_healths.append(health)
        return ReplicaLogs(
            files,
            trace,
            self._settings.broker_id,
            self._settings.cluster_id,
            self._topics.log_config,
            self.fail_points,
            storage,
            self._registration.names,
            health.suspect,
            name,
        )

    def _commander_parts(self) -> CommanderParts:
        return CommanderParts(
            settings=self._settings,
            toggles=self._toggles,
            ports=self._ports,
            scope=self._scope,
            session=self._session,
            registration=self._registration,
            replicas=self._replicas,
            metadata=self._metadata,
            fail_points=self.fail_points,
            snapshot=self.snapshot,
        )

    def _partition_context(self) -> PartitionContext:
        return PartitionContext(
            broker_id=self._settings.broker_id,
            toggles=self._toggles,
            runtime=self._ports.runtime,
            trace=self._ports.trace,
            replica_lag_time_max_ms=self._settings.replica_lag_time_max_ms,
            quotas=self._quotas,
            isr_changes=self._isr_changes,
            wake=self._purgatory.check,
            propose_isr=lambda partition: self._commander.isr_writer.submit(partition),
            disk_refused=self._logs.suspect,
            registered_epoch=self._registered_epoch,
            role_changed=lambda key: self._groups.role_changed(key),
            leaders_begin_open=not self._commands_itself,
            leaders_drop_the_dead=self._commands_itself,
        )

    def _fetcher_context(self) -> FetcherContext:
        return FetcherContext(
            settings=self._settings,
            toggles=self._toggles,
            ports=self._ports,
            endpoint_of=self._replication_endpoint,
            broker_epoch=lambda: self._registration.broker_epoch,
            write_recovery_points=self._write_recovery_points,
            fail_points=self.fail_points,
        )

    def _kafka_settings(self) -> KafkaApiSettings:
        settings = self._settings
        return KafkaApiSettings(
            node_id=settings.broker_id,
            cluster_id=settings.cluster_id,
            api_versions=VERSION_PROFILE.api_version_ranges(),
            default_partition_count=settings.num_partitions,
            default_replication_factor=settings.default_replication_factor,
            auto_create_topics=settings.auto_create_topics_enable,
            request_wait_max_ms=settings.request_wait_max_ms,
            data_folder=settings.data_folder,
            broker_configs=settings.described(),
            offsets_topic=OffsetsTopicSettings(
                settings.offsets_topic_partitions,
                settings.offsets_topic_replication_factor,
                settings.offsets_topic_min_insync_replicas,
                settings.offsets_topic_segment_bytes,
            ),
        )

    def _replication_endpoint(self, broker_id: NodeId) -> Endpoint | None:
        endpoints = self._metadata.endpoints(broker_id)
        return endpoints.replication if endpoints else None

    def _registered_epoch(self, broker_id: NodeId) -> BrokerEpoch | None:
        endpoints = self._metadata.endpoints(broker_id)
        return endpoints.broker_epoch if endpoints else None

    async def _write_recovery_points(self) -> None:
        await self._checkpointer.write_recovery_points()

    def _folder_failed(self, name: str) -> None:
        self._commander.folder_failed(name)

    def _on_event(self, event: CoordinationEvent) -> None:
        self._topics.on_event(event)
        self._commander.on_event(event)

    def _announce_folders(self) -> None:
        """Announce the change to the commander; stop once no named folder is left.

        Deviation: in Kafka a broker without a sound folder halts, also one that has a single one.
        """
        self._commander.folders_changed()
        if self._settings.log_folder_names and not self._logs.sound():
            self._stop_requested.set()

    def _apply_settings(self, topic: str | None) -> None:
        if topic is None:
            quotas, of_brokers = self._quotas, self._topics.of_brokers
            quotas.leader.limit_bytes_per_s = of_brokers(LEADER_THROTTLED_RATE)
            quotas.follower.limit_bytes_per_s = of_brokers(FOLLOWER_THROTTLED_RATE)
            self._fetchers.spread_over(of_brokers(REPLICA_FETCHERS))
        self._replicas.apply_settings(topic)

    # ------------------------------------------------------------ life

    async def run(self) -> None:
        """Serve until a stop is requested; return when all logs are flushed and closed.

        Raises:
            CannotStart: the folder is another broker's or another cluster's, or the disk refused.
        """
        settings = self._settings
        build: dict[str, Any] = {"build": settings.build} if settings.build else {}
        self._ports.trace.emit(
            EventKind.NODE_STARTED, node_kind="broker", preset=settings.preset.value, **build
        )
        self._ports.control.serve(self._commander.handle)
        try:
            await self._replicas.load()
        except OSError as error:
            raise CannotStart(f"the disk refused: {error}") from error
        self._scope.spawn("Registration", self._registration.run())
        self._commander.start()
        self._scope.spawn("TopicSettings", self._topics.run())
        for health in self._folder_healths:
            self._scope.spawn("LogFolderHealth", health.run())
        self._checkpointer.start(self._scope)
        self._scope.spawn("LogCleaner", self._cleaner.run())
        self._groups.start(self._scope)
        await self._stop_requested.wait()
        await self._shut_down()
        if self._registration.refusal:
            raise CannotStart(self._registration.refusal)
        self._ports.trace.emit(EventKind.NODE_STOPPED, reason="requested")

    def request_stop(self) -> None:
        """Make run() stop cleanly and return."""
        self._stop_requested.set()

    async def handle_kafka(self, request: KafkaRequest, listener_name: str) -> KafkaAnswer:
        """Answer a data-plane request that came through the listener of that name."""
        return await self._kafka.handle(request, listener_name)

    async def _shut_down(self) -> None:
        """Hand leadership over, stop fetching, flush and close, end the session."""
        if self._registration.registered.is_set() and not self._registration.refusal:
            await self._commander.hand_over()
        self._fetchers.close()
        self._scope.cancel()
        self._replicas.stop_all()
        await self._checkpointer.finish()
        await self._registration.close()

    # ------------------------------------------------------------ inspection

    @property
    def replicas(self) -> ReplicaManager:
        """This broker's replicas, for callers in the same process (the simulator)."""
        return self._replicas

    @property
    def groups(self) -> GroupService:
        """Whose coordinator this broker is, likewise."""
        return self._groups

    @property
    def metadata(self) -> MetadataCache:
        """This broker's metadata for clients, likewise."""
        return self._metadata

    def snapshot(self) -> NodeSnapshot:
        """Return this broker's state at this moment."""
        tasks = Counter(task.name for task in self._scope.tasks())
        return NodeSnapshot(
            node_id=self._settings.broker_id,
            kind="broker",
            incarnation=self._settings.incarnation,
            preset=self._settings.preset.value,
            controller_epoch=self._replicas.controller_epoch,
            broker_epoch=self._registration.broker_epoch,
            controller_id=self._metadata.controller_id,
            live_brokers=tuple(each.broker_id for each in self._metadata.live_brokers()),
            replicas=tuple(partition.snapshot() for partition in self._replicas.partitions()),
            tasks=tuple(TaskSnapshot(name, tasks[name]) for name in sorted(tasks)),
            counters=broker_counters(
                self._replicas.partitions(),
                self._isr_changes,
                offline_replicas=self._logs.offline_count,
                waiting_requests=self._purgatory.waiting_count,
                waiting_fetches=self._purgatory.watching_count,
            ),
            build=self._settings.build,
        )
