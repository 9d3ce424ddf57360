"""The settings of one partition's log."""

from __future__ import annotations

from dataclasses import dataclass, fields

from highwater_core.check import check
from highwater_core.topic_configs import BROKER_DEFAULTS

UNLIMITED = -1


def _default(name: str) -> int:
    return int(BROKER_DEFAULTS[name].default)


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Kafka's topic settings of the same names; retention UNLIMITED keeps everything.

    Invariant: each is within the bounds of its topic configuration, and knows no others.
    """

    segment_bytes: int = _default("segment_bytes")
    segment_ms: int = _default("segment_ms")
    retention_ms: int = _default("retention_ms")
    retention_bytes: int = _default("retention_bytes")
    index_interval_bytes: int = _default("index_interval_bytes")
    max_message_bytes: int = _default("max_message_bytes")
    message_timestamp_before_max_ms: int = _default("message_timestamp_before_max_ms")
    message_timestamp_after_max_ms: int = _default("message_timestamp_after_max_ms")

    def __post_init__(self) -> None:
        for name, key in LOG_CONFIG_KEYS.items():
            value: int = getattr(self, name)
            check(key.minimum <= value <= key.maximum, f"{name} out of range: {value}")


LOG_CONFIG_KEYS = {field.name: BROKER_DEFAULTS[field.name] for field in fields(LogConfig)}
"""The topic configuration behind each field."""
