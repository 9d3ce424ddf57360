"""Planted: controllers elect, write and give way wrongly."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace

from highwater_controller import broker_changes, election, partition_state_machine
from highwater_controller.leadership_updates import Decide, LeadershipUpdate, update_leaderships
from highwater_controller.logic.leader_selectors import Elected, Election, NoLeader
from highwater_controller.logic.leadership_change import Brokers, LeadershipChange
from highwater_controller.node import ControllerNode
from highwater_controller.settings import ControllerSettings
from highwater_controller.state_reader import read_brokers
from highwater_controller.term import Term
from highwater_core.counting_trace import CountingTrace
from highwater_core.ids import NodeId, TopicPartition
from highwater_core.messages import BrokerEndpoints
from highwater_core.ports import Ports
from highwater_core.znodes import PartitionLeadership
from highwater_planted.bug import FaultFamily, PlantedBug, Replacement
from highwater_planted.reopening import ReopeningFactory

BACKOFF_MS = 100

_init = ControllerNode.__init__
_stand = election.Election.stand


def _take_the_first_live(
    assigned: Brokers, isr: Brokers, live: Set[NodeId], unclean: bool, adding: Brokers = ()
) -> Election:
    for broker in assigned:
        if broker in live:
            others = tuple(member for member in isr if member in live and member != broker)
            return Elected(broker, (broker, *others))
    return NoLeader("no replica is live")


async def _elect_in_same_epoch(
    term: Term, decisions: Mapping[TopicPartition, Decide]
) -> dict[TopicPartition, LeadershipUpdate | None]:
    def in_the_same_epoch(decide: Decide) -> Decide:
        def decided(before: PartitionLeadership | None) -> LeadershipChange | None:
            change = decide(before)
            return change if change is None or before is None else replace(change, keeps_epoch=True)

        return decided

    return await update_leaderships(
        term, {partition: in_the_same_epoch(decide) for partition, decide in decisions.items()}
    )


async def _see_ids_only(term: Term) -> dict[NodeId, BrokerEndpoints]:
    found = await read_brokers(term)
    known = term.context.live_brokers
    return {broker_id: known.get(broker_id, broker) for broker_id, broker in found.items()}


async def _stand_twice(self: election.Election) -> election.Won | election.Lost:
    """Stand for the new session, and again since the znode of the one before is deleted.

    The second time the own znode counts as one of a session that is over: it must be gone soon.
    """
    outcome = await _stand(self)
    if not isinstance(outcome, election.Won) or not _was_elected_before(self):
        return outcome
    while await self.is_still_won():
        await self._runtime.sleep(BACKOFF_MS)
    return await _stand(self)


def _was_elected_before(self: election.Election) -> bool:
    """Return whether this process was the active controller in an earlier session."""
    trace = self._trace
    return isinstance(trace, CountingTrace) and dict(trace.counters()).get("elections_won", 0) > 0


def _never_hear_of_expiry(self: ControllerNode, settings: ControllerSettings, ports: Ports) -> None:
    reopening = ReopeningFactory(ports.coordination, ports.runtime)
    _init(self, settings, replace(ports, coordination=reopening))


BUGS = (
    PlantedBug(
        name="election_outside_isr",
        summary="the first live replica leads, in the ISR or not, though unclean election is off",
        source="own; KIP-106, KAFKA-4623",
        breaks=("I12", "I4", "I1"),
        shows_under=(FaultFamily.PROCESS, FaultFamily.NETWORK),
        replacements=(Replacement(partition_state_machine, "elect_offline", _take_the_first_live),),
    ),
    PlantedBug(
        name="leader_epoch_reused",
        summary="an election writes the leader epoch that was",
        source="own; V3 design, section A",
        breaks=("I7", "L2", "L3"),
        shows_under=(FaultFamily.PROCESS,),
        replacements=(
            Replacement(partition_state_machine, "update_leaderships", _elect_in_same_epoch),
        ),
    ),
    PlantedBug(
        name="bounce_unseen",
        summary="the controller compares broker ids only: a quick restart gets no commands",
        source="KAFKA-7235, KIP-380",
        breaks=("L8", "L3"),
        shows_under=(FaultFamily.PROCESS,),
        replacements=(Replacement(broker_changes, "read_brokers", _see_ids_only),),
    ),
    PlantedBug(
        name="controller_acts_after_expiry",
        summary="a controller whose session expired goes on in the next one, its writes unfenced",
        source="KAFKA-3083, KAFKA-5028, KAFKA-6082",
        breaks=("I8", "L1", "L3"),
        shows_under=(FaultFamily.PROCESS, FaultFamily.NETWORK),
        toggles={"controller_epoch_in_multi": False},
        replacements=(Replacement(ControllerNode, "__init__", _never_hear_of_expiry),),
    ),
    PlantedBug(
        name="controller_waits_for_itself",
        summary="elected after an expiry, a controller stands once more, and waits for its own "
        "znode to go",
        source="KAFKA-1451",
        breaks=("L1", "L10"),
        shows_under=(FaultFamily.PROCESS, FaultFamily.NETWORK),
        replacements=(Replacement(election.Election, "stand", _stand_twice),),
    ),
)
