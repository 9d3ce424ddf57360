"""What a partition is given of its broker, and what its appends and reads come to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from highwater_core.config import Toggles
from highwater_core.errors import ErrorCode
from highwater_core.ids import NO_OFFSET, BrokerEpoch, NodeId, Offset, TopicPartition
from highwater_core.ports import Trace
from highwater_core.runtime import Runtime
from highwater_wire.kafka.messages import Records

if TYPE_CHECKING:
    from highwater_broker.partition import Partition


@dataclass(frozen=True, slots=True)
class PartitionContext:
    """What every partition of a broker is given of it."""

    broker_id: NodeId
    toggles: Toggles
    runtime: Runtime
    trace: Trace
    replica_lag_time_max_ms: int
    wake: Callable[[TopicPartition], None]
    """Purgatory.check: something that requests may wait for has changed."""
    propose_isr: Callable[[Partition], None]
    """Hands a partition that holds a new proposal to the ISR writer."""
    registered_epoch: Callable[[NodeId], BrokerEpoch | None]
    """The broker epoch of a live broker, None for one that is not known to live."""


@dataclass(frozen=True, slots=True)
class AppendOutcome:
    """Where an append went: [base_offset, end_offset), or an error and nothing appended."""

    error: ErrorCode
    base_offset: Offset = NO_OFFSET
    end_offset: Offset = NO_OFFSET
    log_start_offset: Offset = NO_OFFSET


@dataclass(frozen=True, slots=True)
class ReadOutcome:
    """What a fetch may see. With an error, records are empty."""

    error: ErrorCode
    high_watermark: Offset
    log_start_offset: Offset
    records: Records = b""
