"""The settings of one partition's log."""

from __future__ import annotations

from dataclasses import dataclass

from highwater_core.check import check

UNLIMITED = -1
MAX_SEGMENT_BYTES = 2**31 - 1
"""Index entries hold positions and relative offsets in 31 bits."""


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Kafka's topic settings of the same names; retention UNLIMITED keeps everything."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 3600 * 1000
    retention_ms: int = 7 * 24 * 3600 * 1000
    retention_bytes: int = UNLIMITED
    index_interval_bytes: int = 4096
    max_message_bytes: int = (1 << 20) + 12

    def __post_init__(self) -> None:
        check(0 < self.segment_bytes <= MAX_SEGMENT_BYTES, "segment_bytes out of range")
        check(self.segment_ms > 0, "segment_ms must be positive")
        check(self.index_interval_bytes >= 0, "index_interval_bytes must not be negative")
        check(self.max_message_bytes > 0, "max_message_bytes must be positive")
