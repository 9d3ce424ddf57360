"""The roles of a replica on its broker, with the state of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from highwater_broker.logic.isr import FollowerProgress
from highwater_core.check import check
from highwater_core.ids import LeaderEpoch, NodeId, Offset, PartitionEpoch
from highwater_core.messages import IsrMember


@dataclass(frozen=True, slots=True)
class IsrProposal:
    """An ISR that the leader has proposed and does not yet know to be written.

    Identity matters: an answer counts only for the proposal object that is still pending.
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

    elr: eligible leader replicas outside the ISR, as written with it. Each of them may be elected
    with its present log. While there are any no record is committed (KIP-966).
    """

    members: tuple[NodeId, ...]
    elr: tuple[NodeId, ...] = ()

    def may_include(self, broker_id: NodeId) -> bool:
        return broker_id in self.members


@dataclass(frozen=True, slots=True)
class PendingIsr:
    """An ISR with a proposed change: either may be the written one until the outcome is known."""

    committed: CommittedIsr
    proposal: IsrProposal

    def may_include(self, broker_id: NodeId) -> bool:
        return self.committed.may_include(broker_id) or broker_id in self.proposal.isr


@dataclass(slots=True)
class Leading:
    """This broker leads.

    Invariant: followers has the other assigned replicas, and members of the ISR that were assigned.
    """

    first_epoch: LeaderEpoch
    """The first epoch since which it has led without another role in between: appends of all these
    epochs are still in the log."""
    epoch_start_offset: Offset
    in_sync: CommittedIsr | PendingIsr
    followers: dict[NodeId, FollowerProgress] = field(default_factory=dict)
    is_open: bool = True
    """Whether it serves clients. A leader that elected itself serves its followers alone until it
    has taken over (decision 10); no other is ever closed."""

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

    def take_followers(self, others: Sequence[NodeId]) -> None:
        """Have these as followers; another one stays until it is certainly out of the ISR."""
        for broker in [each for each in self.followers if each not in others]:
            if not self.is_in_maximal_isr(broker):
                del self.followers[broker]
        for broker in others:
            self.followers.setdefault(broker, FollowerProgress())

    def propose(self, proposal: IsrProposal) -> None:
        """Make the change pending; there is none so far."""
        check(isinstance(self.in_sync, CommittedIsr), "one ISR change is proposed at a time")
        self.in_sync = PendingIsr(self.committed, proposal)

    def settle(self, written: CommittedIsr) -> None:
        """Clear the pending change: this is known to be the written ISR."""
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

_NAMES: dict[type, str] = {
    Leading: "leader",
    Following: "follower",
    Offline: "offline",
    Stopped: "stopped",
}


def name_of(role: Role) -> str:
    """Return the role's word in snapshots; a leader that refuses clients yet is "taking over"."""
    is_closed = isinstance(role, Leading) and not role.is_open
    return "taking over" if is_closed else _NAMES[type(role)]
