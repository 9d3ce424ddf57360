"""Planted: configurations that are changed while the cluster runs are taken wrongly."""

from __future__ import annotations

from highwater_broker.config_reader import ConfigReader
from highwater_controller import partition_state_machine
from highwater_controller.term import Term
from highwater_core.ports import CoordinationEvent, CoordinationEventKind
from highwater_planted.bug import FaultFamily, PlantedBug, Replacement

_take_note = ConfigReader.on_event


def _hear_of_sessions_only(self: ConfigReader, event: CoordinationEvent) -> None:
    if event.kind is not CoordinationEventKind.CHILDREN_CHANGED:
        _take_note(self, event)


async def _allow_where_nobody_asked(term: Term, topic: str) -> bool:
    return True


BUGS = (
    PlantedBug(
        name="config_changes_unread",
        summary="brokers go by a changed configuration only from their next session on",
        source="own; KIP-226",
        breaks=("I17",),
        shows_under=(FaultFamily.PROCESS, FaultFamily.NETWORK),
        replacements=(Replacement(ConfigReader, "on_event", _hear_of_sessions_only),),
    ),
    PlantedBug(
        name="unclean_election_unasked",
        summary="a topic that sets nothing may be led by a replica that is not in sync",
        source="own; KIP-106, KIP-226",
        breaks=("I12", "I4", "I1"),
        shows_under=(FaultFamily.PROCESS, FaultFamily.NETWORK),
        replacements=(
            Replacement(
                partition_state_machine, "allows_unclean_election", _allow_where_nobody_asked
            ),
        ),
    ),
)
