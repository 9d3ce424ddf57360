"""The settings that every node has, for nodes in processes of their own."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """Settings that brokers and controllers share."""

    data_folder: str
    node_id: int = 7
    incarnation: int = 0
    control_host: str = "127.0.0.1"
    control_port: int = 0
    listen_host: str = ""
    metrics_port: int = -1
    control_allowed_networks: str = ""
    zookeeper: str = "127.0.0.1:1"
    trace_path: str = ""
    trace_part_bytes: int = 0
    session_timeout_ms: int = 6_000
    event_loop_stall_max_ms: int = 10_000
