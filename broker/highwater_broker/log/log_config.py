"""The settings of one partition's log."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from highwater_core.check import check
from highwater_core.topic_configs import BROKER_DEFAULTS

UNLIMITED = -1


COMPACT, DELETE = "compact", "delete"


def _default(name: str) -> Any:
    key = BROKER_DEFAULTS[name]
    return key.parse(key.default)


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Kafka's topic settings of the same names; retention UNLIMITED keeps all segments.

    Invariant: each is within the bounds of its topic configuration.
    """

    cleanup_policy: str = _default("cleanup_policy")
    delete_retention_ms: int = _default("delete_retention_ms")
    min_cleanable_dirty_ratio: float = _default("min_cleanable_dirty_ratio")
    min_compaction_lag_ms: int = _default("min_compaction_lag_ms")
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
            value = getattr(self, name)
            if not key.choices:
                check(key.minimum <= value <= key.maximum, f"{name} out of range: {value}")

    @property
    def is_compacted(self) -> bool:
        """Whether old segments are compacted to the newest record of each key."""
        return COMPACT in self.cleanup_policy

    @property
    def deletes_old_segments(self) -> bool:
        return DELETE in self.cleanup_policy


LOG_CONFIG_KEYS = {field.name: BROKER_DEFAULTS[field.name] for field in fields(LogConfig)}
"""The topic configuration behind each field."""
