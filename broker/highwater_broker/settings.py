"""A broker's settings: identity, listeners, timing, log limits.

Each field is read from HIGHWATER_<FIELD> by highwater_core.settings.read_settings.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields

from highwater_core.config import Overrides, Preset, resolve_toggles
from highwater_core.config_layers import EVERY_BROKER_KEYS, REPLICA_FETCHERS
from highwater_core.ids import Endpoint, NodeId
from highwater_core.networks import (
    NO_METRICS,
    check_announced,
    check_metrics_port,
    parse_networks,
)
from highwater_core.topic_configs import (
    BROKER_DEFAULTS,
    BadTopicConfig,
    ConfigType,
    parse_config,
    parse_topic_config,
)

MEBIBYTE = 1024 * 1024
NO_LIMIT = -1
_FOLDER_NAME = re.compile(r"[A-Za-z0-9_]{1,64}")
"""No partition's folder has such a name."""


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """One broker's settings; hosts are those that peers and clients are told to connect to.

    Units: as each name's ending says; -1 means no limit where a limit is optional.
    """

    node_id: int
    preset: Preset = Preset.FENCED
    toggles: Overrides = field(default_factory=dict)
    """A JSON object that replaces some of the preset's toggles."""
    incarnation: int = 0
    """The number of this node's start, for traces."""
    build: str = ""
    """The tag of the image that the node runs from; empty where there is none."""
    cluster_id: str = "highwater"
    zookeeper: str = "zookeeper:2181"
    session_timeout_ms: int = 6_000
    event_loop_stall_max_ms: int = 10_000
    """A broker whose event loop does not turn for so long, or for the session timeout if that is
    longer, ends with exit code 75."""
    data_folder: str = "/var/lib/highwater"
    log_folders: str = ""
    """Folders in data_folder that have the logs, each perhaps another disk, as in "d0,d1"; empty:
    data_folder itself. One of them may fail; a broker all of whose named folders failed stops."""
    trace_path: str = ""
    trace_part_bytes: int = 0
    """The trace goes on in a new file when its file has so many bytes; 0: it is one file."""

    client_host: str = "localhost"
    client_port: int = 9092
    external_host: str = "localhost"
    external_port: int = 9094
    """The external listener's port for clients outside the containers' network."""
    external_bind_port: int = 9094
    replication_host: str = "localhost"
    replication_port: int = 9093
    control_host: str = "localhost"
    control_port: int = 9095
    metrics_port: int = NO_METRICS
    """Where GET /metrics is answered for Prometheus, beside the control port; -1: nowhere."""
    listen_host: str = ""
    """The address on which CLIENT, REPLICATION, the control port and the one for metrics listen;
    empty: each on its announced host, metrics beside control. EXTERNAL listens on every address."""
    control_allowed_networks: str = ""
    """Networks that may call the control port and get metrics, as in
    "10.1.0.0/16,192.168.7.1/32"; empty: the machine's own networks."""

    socket_request_max_bytes: int = 100 * MEBIBYTE
    """One batch in a request has 100 MiB at most, also where this is more."""
    queued_max_request_bytes: int = 256 * MEBIBYTE
    """Most memory of all clients' requests and unread answers together, and the same for followers,
    beyond 64 KiB for every connection. While it is reached, large requests wait; if one waits for
    more than two seconds, connections with the most memory are closed."""
    connections_max_idle_ms: int = 600_000
    """A connection on which no byte moves for so long is closed."""
    max_connections: int = -1
    """Of each listener for clients. A quarter of the descriptors that the process may open bounds
    every listener."""
    max_connections_per_ip: int = -1
    """Of one address on each listener for clients."""

    replica_lag_time_max_ms: int = 10_000
    num_replica_fetchers: int = 1
    """For each leader; partitions are spread over them. Where one has 10,000 partitions, further
    ones have another beside it."""
    replica_fetch_wait_max_ms: int = 500
    replica_fetch_min_bytes: int = 1
    replica_fetch_max_bytes: int = MEBIBYTE
    """Per partition and fetch."""
    replica_fetch_response_max_bytes: int = 2 * MEBIBYTE
    """Kafka's default is 10 MiB; smaller ones stay in the processor's cache and in buffers that
    are kept."""
    replica_fetch_timeout_ms: int = 10_000
    replica_fetch_backoff_ms: int = 50
    """First pause after an error; it doubles up to the next setting."""
    replica_fetch_backoff_max_ms: int = 1_000
    isr_change_check_interval_ms: int = 2_500
    isr_change_quiet_ms: int = 5_000
    isr_change_propagation_max_ms: int = 60_000
    alter_partition_timeout_ms: int = 10_000
    controller_retry_ms: int = 50
    keep_in_sync_time_ms: int = 2_000
    """Without a controller: how long a new leader waits at most for the other live replicas to
    catch up, before it serves clients."""
    state_change_queue_max_requests: int = 1_000
    """Without a controller: how many requests a broker's queue takes."""

    auto_create_topics_enable: bool = False
    """Whether a client's Metadata request creates the topics that it names, if it allows that. On
    in Kafka: a typo, or a question after a deletion, makes a topic there."""
    request_wait_max_ms: int = 300_000
    """The longest wait of a client's request, for any timeout or max.wait. Not in Kafka."""

    log_folder_probe_attempts: int = 3
    """How many probes in a row a disk must refuse, after a refused operation, for its folder to
    count as failed."""
    log_folder_probe_interval_ms: int = 500
    log_folder_sync_timeout_ms: int = 30_000
    """A log folder has failed, without a probe, when a sync in it does not return for so long. Time
    in which the broker's process stands still does not count. Not in Kafka."""
    high_watermark_checkpoint_interval_ms: int = 5_000
    log_flush_interval_ms: int = 10_000
    log_retention_check_interval_ms: int = 30_000
    producer_id_expiration_ms: int = 24 * 3_600_000
    """An idempotent producer that has not appended to a partition for so long may be forgotten
    there, and is after twice as long. In Kafka: producer.id.expiration.ms."""
    controlled_shutdown_attempts: int = 3
    controlled_shutdown_timeout_ms: int = 2_000
    """For one attempt."""
    controlled_shutdown_retry_ms: int = 300

    log_cleaner_backoff_ms: int = 15_000
    """How long the log cleaner rests when no log is dirty enough."""
    log_cleaner_keys_max: int = 500_000
    """How many keys one pass over a log tells apart, about 150 bytes of memory each; the records
    of further ones wait for the next pass."""
    log_cleaner_io_max_bytes_per_s: int = 16 * MEBIBYTE
    """What the log cleaner reads and writes, at most."""

    cleanup_policy: str = "delete"
    delete_retention_ms: int = 24 * 3_600_000
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    segment_bytes: int = 1024 * MEBIBYTE
    segment_ms: int = 7 * 24 * 3_600_000
    retention_ms: int = 7 * 24 * 3_600_000
    retention_bytes: int = -1
    index_interval_bytes: int = 4_096
    max_message_bytes: int = MEBIBYTE + 12
    """The largest batch that a client may produce; no batch may have more than 100 MiB."""
    message_timestamp_before_max_ms: int = 2**63 - 1
    """How far a record's timestamp may be behind this broker's clock."""
    message_timestamp_after_max_ms: int = 3_600_000
    """How far a record's timestamp may be ahead of this broker's clock."""
    min_insync_replicas: int = 1
    offsets_topic_partitions: int = 6
    """Of `__consumer_offsets`, once it is made. Kafka's default is 50, for thousands of groups; a
    testbed has few, and every broker is to coordinate some, also among six."""
    offsets_topic_replication_factor: int = 3
    """While fewer brokers live, the topic is not made, and no group finds its coordinator."""
    offsets_topic_min_insync_replicas: int = 0
    """0: as min_insync_replicas says. Not in Kafka."""
    offsets_topic_segment_bytes: int = 100 * MEBIBYTE
    offsets_commit_timeout_ms: int = 5_000
    """How long a commit of offsets waits for the replicas in sync."""
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    """How long offsets are kept once nobody uses them (KIP-211)."""
    offsets_retention_check_interval_ms: int = 600_000
    offset_metadata_max_bytes: int = 4_096
    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3_000
    """How long the first rebalance of an empty group waits for more members."""
    group_max_size: int = 2**31 - 1
    """Members of one group."""
    default_replication_factor: int = 1
    num_partitions: int = 1

    def __post_init__(self) -> None:
        """Refuse values with which no broker could work, each by its name."""
        resolve_toggles(self.preset, self.toggles)
        check_metrics_port(self.metrics_port)
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name in BROKER_DEFAULTS:
                continue  # they have bounds of their own
            if (
                each.name.endswith(("_timeout_ms", "_interval_ms", "_max_ms", "_expiration_ms"))
                and value <= 0
            ):
                raise ValueError(f"{each.name} must be positive, not {value}")
        for name, at in (
            ("client", self.client),
            ("external", self.client_external),
            ("replication", self.replication),
            ("control", self.control),
        ):
            check_announced(name, *at)
        parse_networks(self.control_allowed_networks)
        names = self.log_folder_names
        if len(set(names)) < len(names) or not all(map(_FOLDER_NAME.fullmatch, names)):
            raise ValueError(f"log_folders are to be different names, not {self.log_folders!r}")
        self._check_connections()
        try:
            parse_topic_config(self.topic_settings())
            parse_config(self.own_settings(), EVERY_BROKER_KEYS)
        except BadTopicConfig as error:
            raise ValueError(str(error)) from error

    def _check_connections(self) -> None:
        for name in (
            "socket_request_max_bytes",
            "connections_max_idle_ms",
            "log_folder_probe_attempts",
            "offsets_topic_partitions",
            "offsets_topic_replication_factor",
            "log_cleaner_backoff_ms",
            "log_cleaner_keys_max",
            "log_cleaner_io_max_bytes_per_s",
            "keep_in_sync_time_ms",
            "state_change_queue_max_requests",
        ):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be positive, not {getattr(self, name)}")
        for name in ("queued_max_request_bytes", "max_connections", "max_connections_per_ip"):
            if getattr(self, name) <= 0 and getattr(self, name) != NO_LIMIT:
                raise ValueError(f"{name} must be positive or -1, not {getattr(self, name)}")
        if NO_LIMIT != self.queued_max_request_bytes < self.socket_request_max_bytes:
            raise ValueError("queued_max_request_bytes is below socket_request_max_bytes")

    @property
    def log_folder_names(self) -> tuple[str, ...]:
        """The names of the log folders; none where data_folder itself is the only one."""
        return tuple(self.log_folders.split(",")) if self.log_folders else ()

    @property
    def log_folder_paths(self) -> tuple[str, ...]:
        """The paths of all log folders."""
        names = self.log_folder_names
        return tuple(f"{self.data_folder}/{name}" for name in names) or (self.data_folder,)

    @property
    def broker_id(self) -> NodeId:
        return NodeId(self.node_id)

    @property
    def client(self) -> Endpoint:
        return Endpoint(self.client_host, self.client_port)

    @property
    def client_external(self) -> Endpoint:
        return Endpoint(self.external_host, self.external_port)

    @property
    def replication(self) -> Endpoint:
        return Endpoint(self.replication_host, self.replication_port)

    @property
    def control(self) -> Endpoint:
        return Endpoint(self.control_host, self.control_port)

    def topic_settings(self) -> dict[str, str]:
        """Return the settings that topics have too, by topics' names for them.

        Settings with Kafka's default are left out.
        """
        values = {key: str(getattr(self, name)) for name, key in BROKER_DEFAULTS.items()}
        return {key.name: text for key, text in values.items() if text != key.default}

    def own_settings(self) -> dict[str, str]:
        """Return the settings that change while a broker runs and that topics do not have."""
        text = str(self.num_replica_fetchers)
        return (
            {} if text == EVERY_BROKER_KEYS[REPLICA_FETCHERS].default else {REPLICA_FETCHERS: text}
        )

    def described(self) -> tuple[tuple[str, ConfigType, str], ...]:
        """Return (name, type, text) of the settings that DescribeConfigs lists and only a restart
        changes."""
        return (
            ("broker.id", ConfigType.INT, str(self.node_id)),
            ("connections.max.idle.ms", ConfigType.LONG, str(self.connections_max_idle_ms)),
            ("log.dirs", ConfigType.STRING, ",".join(self.log_folder_paths)),
            ("default.replication.factor", ConfigType.INT, str(self.default_replication_factor)),
            ("max.connections", ConfigType.INT, str(self.max_connections)),
            ("max.connections.per.ip", ConfigType.INT, str(self.max_connections_per_ip)),
            ("num.partitions", ConfigType.INT, str(self.num_partitions)),
            (
                "auto.create.topics.enable",
                ConfigType.BOOLEAN,
                str(self.auto_create_topics_enable).lower(),
            ),
            ("producer.id.expiration.ms", ConfigType.INT, str(self.producer_id_expiration_ms)),
            ("queued.max.request.bytes", ConfigType.LONG, str(self.queued_max_request_bytes)),
            ("replica.lag.time.max.ms", ConfigType.LONG, str(self.replica_lag_time_max_ms)),
            ("socket.request.max.bytes", ConfigType.INT, str(self.socket_request_max_bytes)),
            ("zookeeper.session.timeout.ms", ConfigType.INT, str(self.session_timeout_ms)),
        )
