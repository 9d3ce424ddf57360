"""What a partition is given of its broker, and what its appends and reads come to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from highwater_broker.replication_quotas import ReplicationQuotas
from highwater_broker.roles import IsrProposal
from highwater_core.config import Toggles
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.ids import (
    NO_OFFSET,
    BrokerEpoch,
    ControllerEpoch,
    NodeId,
    Offset,
    PartitionEpoch,
    TopicId,
    TopicPartition,
)
from highwater_core.ports import Trace
from highwater_core.runtime import Runtime
from highwater_wire.kafka.messages import Records


class ProposingPartition(Protocol):
    """A partition as whoever gets its ISR written sees it."""

    @property
    def topic_partition(self) -> TopicPartition: ...

    @property
    def topic_id(self) -> TopicId: ...

    @property
    def controller_epoch(self) -> ControllerEpoch: ...

    def proposal(self) -> IsrProposal | None: ...

    def adopt_isr(
        self,
        proposal: IsrProposal,
        isr: tuple[NodeId, ...],
        partition_epoch: PartitionEpoch,
        elr: tuple[NodeId, ...],
    ) -> bool: ...

    def withdraw_proposal(self, proposal: IsrProposal, *, ineligible: bool = False) -> None: ...

    def trace(self, kind: EventKind, **detail: object) -> None: ...


@dataclass(frozen=True, slots=True)
class PartitionContext:
    """What every partition of a broker is given of it."""

    broker_id: NodeId
    toggles: Toggles
    runtime: Runtime
    trace: Trace
    replica_lag_time_max_ms: int
    quotas: ReplicationQuotas
    wake: Callable[[TopicPartition], None]
    """Purgatory.check: something that requests may wait for has changed."""
    propose_isr: Callable[[ProposingPartition], None]
    """Hands a partition that holds a new proposal to the ISR writer."""
    disk_refused: Callable[[TopicPartition], None]
    """Has the disk looked at that refused something of the partition."""
    registered_epoch: Callable[[NodeId], BrokerEpoch | None]
    """The broker epoch of a live broker, None for one that is not known to live."""
    role_changed: Callable[[TopicPartition], None] = lambda _: None
    """Tells who keeps something for a partition's leader that its role, or epoch, is another."""


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
