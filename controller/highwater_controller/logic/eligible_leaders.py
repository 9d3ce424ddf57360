"""The replicas outside the ISR that may lead, and both sets after a loss of records. Pure.

Source: KIP-966. While the ISR is smaller than min.insync.replicas no record is committed. So a
replica that leaves it then still has all committed records: it is an eligible leader replica (ELR).
"""

from __future__ import annotations

from collections.abc import Set

from highwater_controller.logic.leader_selectors import Elected, Election, NoLeader
from highwater_controller.logic.leadership_change import Brokers, LeadershipChange
from highwater_core.ids import NO_LEADER, NodeId


def next_eligible(
    isr: Brokers, elr: Brokers, next_isr: Brokers, min_insync_replicas: int
) -> Brokers:
    """Return the ELR for the next ISR; the longest eligible replicas come first."""
    if len(next_isr) >= min_insync_replicas:
        return ()
    return tuple(broker for broker in (*elr, *isr) if broker not in next_isr)


def elect_eligible(assigned: Brokers, elr: Brokers, live: Set[NodeId]) -> Election:
    """Elect where no ISR member is live: the first live eligible replica leads alone, cleanly."""
    for broker in assigned:
        if broker in elr and broker in live:
            return Elected(broker, (broker,))
    return NoLeader("neither an ISR member nor an eligible replica is live")


def without_lost(
    leader: NodeId, isr: Brokers, elr: Brokers, lost: Set[NodeId]
) -> LeadershipChange | None:
    """Return ISR and ELR without the lost ones, None when neither had one of them.

    If the whole ISR has lost records the eligible replicas become the ISR. If none is left the ISR
    stays: its members were the last that had all records, and there is no better choice.
    """
    if not any(broker in lost for broker in (*isr, *elr)):
        return None
    whole_isr = tuple(broker for broker in isr if broker not in lost)
    whole_elr = tuple(broker for broker in elr if broker not in lost)
    if whole_isr:
        return LeadershipChange(NO_LEADER if leader in lost else leader, whole_isr, whole_elr)
    return LeadershipChange(NO_LEADER, whole_elr or isr, ())
