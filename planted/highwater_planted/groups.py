"""Planted: who is a member of a group, of which generation, and what it is told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from highwater_broker.coordinator import committing, rebalancing
from highwater_broker.coordinator.answers import assignment_answer
from highwater_broker.coordinator.group import Group, Member
from highwater_broker.coordinator.logic.group_states import GroupState
from highwater_broker.coordinator.logic.identity import commit_error
from highwater_broker.coordinator.logic.loaded_records import LoadedRecords
from highwater_broker.coordinator.rebalancing import Rebalancing
from highwater_broker.coordinator.stored import LoadedGroup
from highwater_core.errors import ErrorCode
from highwater_planted.bug import FaultFamily, PlantedBug, Replacement

_NONE = ErrorCode.NONE

_complete = Rebalancing._complete
_heartbeat = Rebalancing.heartbeat
_groups = LoadedRecords.groups


def _leaders_assignment(group: Group, member: Member) -> Any:
    return assignment_answer(group, group.members.get(str(group.leader), member))


def _complete_the_same_generation(self: Rebalancing, group: Group) -> None:
    before = group.generation
    group.generation = max(before - 1, 0)
    _complete(self, group)
    group.generation = max(before, group.generation)


def _commit_of_any_generation(
    state: GroupState,
    group_generation: int,
    generation: int,
    *,
    is_anonymous: bool,
    identity: ErrorCode,
) -> ErrorCode:
    error = commit_error(
        state, group_generation, generation, is_anonymous=is_anonymous, identity=identity
    )
    outdated = (ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID)
    return _NONE if generation >= 0 and error in outdated else error


def _commit_of_a_replaced_member(
    state: GroupState,
    group_generation: int,
    generation: int,
    *,
    is_anonymous: bool,
    identity: ErrorCode,
) -> ErrorCode:
    taken = _NONE if identity is ErrorCode.FENCED_INSTANCE_ID else identity
    return commit_error(
        state, group_generation, generation, is_anonymous=is_anonymous, identity=taken
    )


def _heartbeat_of_anybody(self: Rebalancing, group: Group, request: Any) -> ErrorCode:
    error = _heartbeat(self, group, request)
    return _NONE if error is ErrorCode.UNKNOWN_MEMBER_ID else error


def _load_offsets_alone(self: LoadedRecords) -> dict[str, LoadedGroup]:
    found = _groups(self)
    return {name: replace(each, stored=None) for name, each in found.items() if each.offsets}


BUGS = (
    PlantedBug(
        name="leaders_assignment_for_all",
        summary="every member of a group is told the assignment of its leader",
        source="own",
        breaks=("I21",),
        shows_under=(FaultFamily.NONE,),
        replacements=(Replacement(rebalancing, "assignment_answer", _leaders_assignment),),
    ),
    PlantedBug(
        name="generation_not_advanced",
        summary="a rebalance that is over begins no new generation",
        source="own",
        breaks=("I21",),
        shows_under=(FaultFamily.NONE,),
        replacements=(Replacement(Rebalancing, "_complete", _complete_the_same_generation),),
    ),
    PlantedBug(
        name="commit_of_any_generation",
        summary="a commit is accepted whatever generation and member it names",
        source="own; KIP-62",
        breaks=("I21",),
        shows_under=(FaultFamily.PROCESS, FaultFamily.NETWORK),
        replacements=(Replacement(committing, "commit_error", _commit_of_any_generation),),
        is_rare=True,
    ),
    PlantedBug(
        name="replaced_member_commits",
        summary="a static member that was started again does not fence its former process",
        source="KIP-345",
        breaks=("I21",),
        shows_under=(FaultFamily.PROCESS, FaultFamily.NETWORK),
        replacements=(Replacement(committing, "commit_error", _commit_of_a_replaced_member),),
        is_rare=True,
    ),
    PlantedBug(
        name="heartbeat_of_anybody",
        summary="who was removed from its group is told that all is well",
        source="own",
        breaks=("I21",),
        shows_under=(FaultFamily.PROCESS, FaultFamily.NETWORK),
        replacements=(Replacement(Rebalancing, "heartbeat", _heartbeat_of_anybody),),
    ),
    PlantedBug(
        name="groups_not_loaded",
        summary="a new coordinator loads offsets and forgets the generations of groups",
        source="own",
        breaks=("I21",),
        shows_under=(FaultFamily.PROCESS,),
        replacements=(Replacement(LoadedRecords, "groups", _load_offsets_alone),),
    ),
)
