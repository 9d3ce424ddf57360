"""The broker's parts for a partition, and the results of its appends and reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
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


@dataclass(slots=True)
class IsrChanges:
    """How many ISRs became smaller, and larger, by their leader's doing on this broker."""

    shrinks: int = 0
    expands: int = 0

    def count(self, before: tuple[NodeId, ...], after: tuple[NodeId, ...]) -> None:
        self.shrinks += len(after) < len(before)
        self.expands += len(after) > len(before)


class ProposingPartition(Protocol):
    """The ISR writer's interface to a partition."""

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
    """The broker's parts that all its partitions share."""

    broker_id: NodeId
    toggles: Toggles
    runtime: Runtime
    trace: Trace
    replica_lag_time_max_ms: int
    quotas: ReplicationQuotas
    wake: Callable[[TopicPartition], None]
    """Purgatory.check: a state has changed for which requests may wait."""
    propose_isr: Callable[[ProposingPartition], None]
    """Gives the ISR writer a partition with a new proposal."""
    disk_refused: Callable[[TopicPartition], None]
    """Probes the disk that refused an operation on the partition."""
    registered_epoch: Callable[[NodeId], BrokerEpoch | None]
    """The broker epoch of a live broker, None for one that is not known to live."""
    role_changed: Callable[[TopicPartition], None] = lambda _: None
    """Reports a changed role or epoch to parts with state for a partition's leader."""
    isr_changes: IsrChanges = field(default_factory=IsrChanges)
    leaders_begin_open: bool = True
    """Whether a new leader serves clients at once, before it has taken over."""
    leaders_drop_the_dead: bool = False
    """Whether a leader takes members of the ISR out that are not registered; a controller does."""


@dataclass(frozen=True, slots=True)
class AppendOutcome:
    """The offsets of an append, [base_offset, end_offset), or an error without an append."""

    error: ErrorCode
    base_offset: Offset = NO_OFFSET
    end_offset: Offset = NO_OFFSET
    log_start_offset: Offset = NO_OFFSET


@dataclass(frozen=True, slots=True)
class ReadOutcome:
    """The result of a fetch. With an error, records are empty."""

    error: ErrorCode
    high_watermark: Offset
    log_start_offset: Offset
    records: Records = b""
