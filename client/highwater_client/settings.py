"""What a producer and a consumer are told: librdkafka's settings by longer names. No behaviour."""

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
    """Return how long to rest after so many failures in a row: twice as long each time (KIP-580).

    Deviation: no jitter, which would cost a random stream.
    """
    return backoff_ms * min(BACKOFF_MAX_FACTOR, 1 << min(max(0, failures - 1), 16))


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """A producer and the load that it writes.

    Units: rate_per_s is records; a batch is sent when it has batch_max_records, or linger_ms
    after its first record came. max_in_flight counts requests on one broker's connection.
    retry_backoff_ms is the first rest (see backoff_after). delivery_timeout_ms bounds how long
    tries of a record begin after it came; the last one may take request_timeout_ms and
    ANSWER_MARGIN_MS more.
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
    """What values are filled up to."""
    key_count: int = 0
    """How many keys records have; 0: they have none."""

    def __post_init__(self) -> None:
        check(self.acks in (ACKS_NONE, ACKS_LEADER, ACKS_ALL), f"acks {self.acks}")
        check(1 <= self.max_in_flight <= MAX_IN_FLIGHT, f"max_in_flight {self.max_in_flight}")
        check(self.partition_count > 0, f"partition_count {self.partition_count}")
        check(self.rate_per_s > 0, f"rate_per_s {self.rate_per_s}")
        check(self.batch_max_records > 0, f"batch_max_records {self.batch_max_records}")
        check(self.retry_backoff_ms > 0, f"retry_backoff_ms {self.retry_backoff_ms}")

    @property
    def most_tries(self) -> int:
        """Return how often a record is sent at most, 0 without a bound."""
        return 0 if self.retries else 1


class OffsetReset(StrEnum):
    """Where a consumer goes on when its offset is out of range."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"
    """Nowhere: the partition is read no further."""


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """A consumer with the partitions that it is assigned.

    record_high_watermarks: each change that a fetch without records shows goes into the history.
    latest_every_ms: how often each partition's latest offset is asked for; 0 is never.
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
