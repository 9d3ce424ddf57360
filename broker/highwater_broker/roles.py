"""The roles a replica can have on its broker: what each one knows, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field

from highwater_broker.logic.isr import FollowerProgress
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


@dataclass(slots=True)
class Leading:
    """This broker leads.

    Invariant: followers has exactly the assigned replicas other than this broker.
    """

    first_epoch: LeaderEpoch
    """The epoch from which on it has led without another role in between; an append of any of
    these epochs is still where it was."""
    epoch_start_offset: Offset
    isr: tuple[NodeId, ...]
    """As last known to be written."""
    elr: tuple[NodeId, ...] = ()
    """Eligible leader replicas outside the ISR, as written with it: whoever of them leads next
    leads with the log that it has. While there are any nothing is committed (KIP-966)."""
    followers: dict[NodeId, FollowerProgress] = field(default_factory=dict)
    proposal: IsrProposal | None = None

    def is_in_maximal_isr(self, broker_id: NodeId) -> bool:
        """Return whether the broker is in the ISR or in the one that is proposed (KIP-497)."""
        if broker_id in self.isr:
            return True
        return self.proposal is not None and broker_id in self.proposal.isr


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
