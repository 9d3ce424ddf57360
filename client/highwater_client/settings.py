"""Settings of producers and consumers: librdkafka's by longer names. No behaviour."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from highwater_core.check import check

ACKS_NONE = 0
ACKS_LEADER = 1
ACKS_ALL = -1
MAX_IN_FLIGHT = 5
BACKOFF_MAX_FACTOR = 8


def backoff_after(failures: int, backoff_ms: int) -> int:
    """Return the pause after so many failures in a row, which doubles each time (KIP-580).

    Deviation: no jitter, which would cost a random stream.
    """
    return backoff_ms * min(BACKOFF_MAX_FACTOR, 1 << min(max(0, failures - 1), 16))


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """A producer and the load that it writes.

    rate_per_s: of records.
    linger_ms: from a batch's first record to its sending; a full batch is sent at once.
    batch_max_records: the number of records in a full batch.
    max_in_flight: the most requests without an answer on one broker's connection.
    retry_backoff_ms: the first pause (see backoff_after).
    delivery_timeout_ms: from send to the beginning of a record's last try. That try may take
        request_timeout_ms and ANSWER_MARGIN_MS more.
    """

    topic: str
    partition_count: int = 1
    rate_per_s: int = 20
    acks: int = ACKS_ALL
    linger_ms: int = 0
    batch_max_records: int = 1
    max_in_flight: int = 1
    retries: bool = True
    retry_backoff_ms: int = 50
    request_timeout_ms: int = 2_000
    delivery_timeout_ms: int = 5_000
    metadata_max_age_ms: int = 300_000
    value_bytes: int = 0
    """Values are padded to this size."""
    key_count: int = 0
    """Number of different keys of the records; 0: records have no key."""
    is_idempotent: bool = False
    """Whether each record is written once, however often it is sent (KIP-98)."""

    def __post_init__(self) -> None:
        check(self.acks in (ACKS_NONE, ACKS_LEADER, ACKS_ALL), f"acks {self.acks}")
        check(1 <= self.max_in_flight <= MAX_IN_FLIGHT, f"max_in_flight {self.max_in_flight}")
        check(
            not self.is_idempotent or (self.acks == ACKS_ALL and self.retries),
            "an idempotent producer has acks=all and retries",
        )
        check(self.partition_count > 0, f"partition_count {self.partition_count}")
        check(self.rate_per_s > 0, f"rate_per_s {self.rate_per_s}")
        check(self.batch_max_records > 0, f"batch_max_records {self.batch_max_records}")
        check(self.retry_backoff_ms > 0, f"retry_backoff_ms {self.retry_backoff_ms}")

    @property
    def most_tries(self) -> int:
        """Return the most tries of a record, 0 without a bound."""
        return 0 if self.retries else 1


class OffsetReset(StrEnum):
    """The policy for a consumer's offset that is out of range."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"
    """Read the partition no further."""


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """A consumer with the partitions that it is assigned.

    record_high_watermarks: also record a new high watermark of a fetch without records.
    latest_every_ms: how often to request each partition's latest offset; 0: never.
    """

    topic: str
    partitions: tuple[int, ...] = (0,)
    offset_reset: OffsetReset = OffsetReset.EARLIEST
    max_wait_ms: int = 500
    partition_max_bytes: int = 1 << 20
    max_bytes: int = 50 << 20
    retry_backoff_ms: int = 50
    request_timeout_ms: int = 2_000
    metadata_max_age_ms: int = 300_000
    record_high_watermarks: bool = False
    latest_every_ms: int = 0
