"""The settings of brokers and controllers that a plan may have, with their bounds. A table.

The names are those of the nodes' own settings; a test compares them, since no node is imported
here. Settings that depend on the world, as addresses, are not in a plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from highwater_chaos.bounds import Bounds, out_of
from highwater_core.topic_configs import BROKER_DEFAULTS

_BROKER_SETTINGS: Mapping[str, Bounds] = {
    "session_timeout_ms": (1, None),
    "replica_lag_time_max_ms": (1, None),
    "replica_fetch_wait_max_ms": (1, None),
    "replica_fetch_min_bytes": (0, None),
    "num_replica_fetchers": (1, 64),
    "replica_fetch_max_bytes": (1, None),
    "replica_fetch_response_max_bytes": (1, None),
    "replica_fetch_timeout_ms": (1, None),
    "replica_fetch_backoff_ms": (1, None),
    "replica_fetch_backoff_max_ms": (1, None),
    "isr_change_check_interval_ms": (1, None),
    "isr_change_quiet_ms": (0, None),
    "isr_change_propagation_max_ms": (1, None),
    "alter_partition_timeout_ms": (1, None),
    "controller_retry_ms": (1, None),
    "keep_in_sync_time_ms": (1, None),
    "state_change_queue_max_requests": (1, None),
    "request_wait_max_ms": (1, None),
    "event_loop_stall_max_ms": (1, None),
    "trace_part_bytes": (0, None),
    "socket_request_max_bytes": (1, 100 << 20),
    "connections_max_idle_ms": (1, None),
    "queued_max_request_bytes": (100 << 20, None),
    "max_connections": (1, None),
    "max_connections_per_ip": (1, None),
    "high_watermark_checkpoint_interval_ms": (1, None),
    "log_flush_interval_ms": (1, None),
    "log_folder_probe_attempts": (1, None),
    "log_folder_probe_interval_ms": (1, None),
    "log_folder_sync_timeout_ms": (1, None),
    "log_retention_check_interval_ms": (1, None),
    "producer_id_expiration_ms": (1, None),
    "log_cleaner_backoff_ms": (1, None),
    "log_cleaner_keys_max": (1, None),
    "log_cleaner_io_max_bytes_per_s": (1, None),
    "controlled_shutdown_attempts": (1, None),
    "controlled_shutdown_timeout_ms": (1, None),
    "controlled_shutdown_retry_ms": (1, None),
    "offsets_topic_partitions": (1, None),
    "offsets_topic_replication_factor": (1, None),
    "offsets_topic_min_insync_replicas": (0, None),
    "offsets_topic_segment_bytes": (14, 2**31 - 1),
    "offsets_commit_timeout_ms": (1, None),
    "offsets_retention_ms": (0, None),
    "offsets_retention_check_interval_ms": (1, None),
    "offset_metadata_max_bytes": (0, None),
    "group_min_session_timeout_ms": (1, None),
    "group_max_session_timeout_ms": (1, None),
    "group_initial_rebalance_delay_ms": (0, None),
    "group_max_size": (1, 2**31 - 1),
    "default_replication_factor": (1, None),
    "num_partitions": (1, None),
    **{
        name: (key.minimum, key.maximum) for name, key in BROKER_DEFAULTS.items() if not key.choices
    },
}
_CONTROLLER_SETTINGS: Mapping[str, Bounds] = {
    "session_timeout_ms": (1, None),
    "event_loop_stall_max_ms": (1, None),
    "trace_part_bytes": (0, None),
    "command_timeout_ms": (1, None),
    "command_retry_ms": (1, None),
    "leader_imbalance_per_broker_percentage": (0, None),
    "leader_imbalance_check_interval_ms": (1, None),
    "zookeeper_give_up_ms": (1, None),
    "max_partitions": (1, None),
    "default_partition_count": (1, None),
    "default_replication_factor": (1, None),
    "default_min_insync_replicas": (1, None),
}
NODE_SETTINGS: Mapping[str, Mapping[str, Bounds]] = {
    "broker": _BROKER_SETTINGS,
    "controller": _CONTROLLER_SETTINGS,
}


def problems_of_settings(kind: str, settings: Mapping[str, int]) -> Iterator[str]:
    """Yield the settings that nodes of the kind do not have, or with which they cannot work."""
    for name, value in settings.items():
        bounds = NODE_SETTINGS[kind].get(name)
        if bounds is None:
            yield f"{name!r} is not a {kind} setting that a plan may make"
        elif words := out_of(value, bounds):
            yield f"{kind} setting {name}: {words}"
