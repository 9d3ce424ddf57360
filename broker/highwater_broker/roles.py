"""The roles a replica can have on its broker: what each one knows, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field

from highwater_broker.logic.isr import FollowerProgress
from highwater_core.check import check
from highwater_core.ids import LeaderEpoch, NodeId, Offset, PartitionEpoch
from highwater_core.messages import IsrMember


@dataclass(frozen=True, slots=True)
class IsrProposal:
    """An ISR that the leader wants written and does not yet know to be written.

    Identity matters: an answer counts only for the proposal object that the leader still holds.
    """

    members: tuple[IsrMember, ...]
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    reason: str

    @property
    def isr(self) -> tuple[NodeId, ...]:
        return tuple(member.broker_id for member in self.members)


@dataclass(frozen=True, slots=True)
class CommittedIsr:
    """The ISR as last known to be written; no change of it is proposed.

    elr: eligible leader replicas outside the ISR, as written with it. Whoever of them leads next
    leads with the log that it has. While there are any nothing is committed (KIP-966).
    """

    members: tuple[NodeId, ...]
    elr: tuple[NodeId, ...] = ()

    def may_include(self, broker_id: NodeId) -> bool:
        return broker_id in self.members


@dataclass(frozen=True, slots=True)
class PendingIsr:
    """An ISR of which a change is proposed: either may be the written one until more is known."""

    committed: CommittedIsr
    proposal: IsrProposal

    def may_include(self, broker_id: NodeId) -> bool:
        return self.committed.may_include(broker_id) or broker_id in self.proposal.isr


@dataclass(slots=True)
class Leading:
    """This broker leads.

    Invariant: followers has exactly the assigned replicas other than this broker.
    """

    first_epoch: LeaderEpoch
    """The epoch from which on it has led without another role in between; an append of any of
    these epochs is still where it was."""
    epoch_start_offset: Offset
    in_sync: CommittedIsr | PendingIsr
    followers: dict[NodeId, FollowerProgress] = field(default_factory=dict)

    @property
    def committed(self) -> CommittedIsr:
        in_sync = self.in_sync
        return in_sync.committed if isinstance(in_sync, PendingIsr) else in_sync

    @property
    def isr(self) -> tuple[NodeId, ...]:
        """The ISR as last known to be written."""
        return self.committed.members

    @property
    def elr(self) -> tuple[NodeId, ...]:
        return self.committed.elr

    @property
    def proposal(self) -> IsrProposal | None:
        return self.in_sync.proposal if isinstance(self.in_sync, PendingIsr) else None

    def is_in_maximal_isr(self, broker_id: NodeId) -> bool:
        """Return whether the broker is in the ISR or in the one that is proposed (KIP-497)."""
        return self.in_sync.may_include(broker_id)

    def propose(self, proposal: IsrProposal) -> None:
        """Have the change pending; there is none so far."""
        check(isinstance(self.in_sync, CommittedIsr), "one ISR change is proposed at a time")
        self.in_sync = PendingIsr(self.committed, proposal)

    def settle(self, written: CommittedIsr) -> None:
        """Have no change pending: this is known to be the written ISR."""
        self.in_sync = written


@dataclass(frozen=True, slots=True)
class Following:
    """This broker follows `leader`, which is NO_LEADER while there is none."""

    leader: NodeId


@dataclass(frozen=True, slots=True)
class Offline:
    """The log is open, but no command since this broker's start has given it a role."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """A StopReplica took the role away and left the log."""


Role = Leading | Following | Offline | Stopped

ROLE_NAMES: dict[type, str] = {
    Leading: "leader",
    Following: "follower",
    Offline: "offline",
    Stopped: "stopped",
}
