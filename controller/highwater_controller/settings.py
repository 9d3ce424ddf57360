"""A controller node's settings: HIGHWATER_* variables, each with its unit."""

from __future__ import annotations

from dataclasses import dataclass, field

from highwater_core.config import Overrides, Preset, resolve_toggles
from highwater_core.ids import NodeId
from highwater_core.networks import (
    NO_METRICS,
    check_announced,
    check_metrics_port,
    parse_networks,
)
from highwater_core.topic_plans import MAX_PARTITIONS


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """One controller's settings; node_id counts from 1000."""

    node_id: NodeId
    preset: Preset = Preset.FENCED
    toggles: Overrides = field(default_factory=dict)
    """A JSON object that replaces some of the preset's toggles."""
    incarnation: int = 0
    """Grows with each start of this node; shown in snapshots."""
    build: str = ""
    """The tag of the image that the node runs from; empty where there is none."""
    zookeeper: str = "zookeeper:2181"
    session_timeout_ms: int = 6_000
    event_loop_stall_max_ms: int = 10_000
    """A controller whose event loop does not turn for so long, or for the session timeout if that
    is longer, ends with exit code 75."""
    data_folder: str = "/var/lib/highwater"
    trace_path: str = ""
    trace_part_bytes: int = 0
    """The trace goes on in a new file when its file has so many bytes; 0: it is one file."""
    control_host: str = "localhost"
    """The address of this controller's gRPC server for other nodes; published in ZooKeeper."""
    control_port: int = 9095
    metrics_port: int = NO_METRICS
    """Where GET /metrics is answered for Prometheus, beside the control port; -1: nowhere."""
    listen_host: str = ""
    """The address on which the control port and the one for metrics listen; empty: control_host."""
    control_allowed_networks: str = ""
    """Networks that may call the control port and get metrics, as in
    "10.1.0.0/16,192.168.7.1/32"; empty: the machine's own networks."""
    command_timeout_ms: int = 10_000
    """A command not answered for this long raises an alert (V3, discussion)."""
    command_retry_ms: int = 100
    """How long to wait before a command is sent again, and before a lost ZooKeeper call is."""
    zookeeper_give_up_ms: int = 20_000
    """How long one ZooKeeper operation may lose its connection again and again, ten times at least,
    before the controller closes its session and stops being active."""
    max_partitions: int = MAX_PARTITIONS
    """Of all topics together: a topic beyond this is refused (KIP-578)."""
    default_partition_count: int = 1
    default_replication_factor: int = 1
    default_min_insync_replicas: int = 1
    """For topics that do not set it; at most the brokers' min_insync_replicas."""

    auto_leader_rebalance_enable: bool = False
    """Whether the controller makes preferred replicas leaders again from time to time."""
    leader_imbalance_per_broker_percentage: int = 10
    """Share of the partitions with the same preferred broker that other brokers may lead."""
    leader_imbalance_check_interval_ms: int = 300_000

    def __post_init__(self) -> None:
        resolve_toggles(self.preset, self.toggles)
        check_metrics_port(self.metrics_port)
        check_announced("control", self.control_host, self.control_port)
        parse_networks(self.control_allowed_networks)
        for name in (
            "session_timeout_ms",
            "event_loop_stall_max_ms",
            "command_timeout_ms",
            "command_retry_ms",
            "zookeeper_give_up_ms",
            "max_partitions",
            "leader_imbalance_check_interval_ms",
        ):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be positive")
