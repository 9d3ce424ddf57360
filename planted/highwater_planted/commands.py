"""Planted: brokers carry out commands that are older than the state that they know."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from highwater_broker import replica_manager
from highwater_broker.logic.command_fencing import (
    KnownReplica,
    Verdict,
    fence_request,
    judge_leader_and_isr,
)
from highwater_core.config import Toggles
from highwater_core.errors import ErrorCode
from highwater_core.ids import NodeId
from highwater_core.messages import LeaderAndIsrPartition
from highwater_planted.bug import FaultFamily, PlantedBug, Replacement


def _apply_older_epochs(
    command: LeaderAndIsrPartition,
    known: KnownReplica | None,
    broker_id: NodeId,
    toggles: Toggles,
    *,
    is_late: bool = False,
) -> tuple[Verdict, ErrorCode]:
    verdict, error = judge_leader_and_isr(command, known, broker_id, toggles, is_late=is_late)
    if error is ErrorCode.FENCED_LEADER_EPOCH:
        return Verdict.APPLY, ErrorCode.NONE
    return verdict, error


def _accept_earlier_registrations(*, toggles: Toggles, **epochs: Any) -> ErrorCode:
    return fence_request(toggles=replace(toggles, broker_epoch=False), **epochs)


BUGS = (
    PlantedBug(
        name="stale_controller_accepted",
        summary="brokers carry out the commands of a controller that was replaced",
        source="own; V3 design, section D",
        breaks=("I16", "L3"),
        shows_under=(FaultFamily.PROCESS, FaultFamily.NETWORK),
        toggles={"check_controller_epoch": False},
    ),
    PlantedBug(
        name="older_leader_epoch_accepted",
        summary="a LeaderAndIsr of an older leader epoch, sent twice and late, is carried out",
        source="own; KAFKA-9539, KIP-320",
        breaks=("I16", "I7", "L3"),
        shows_under=(FaultFamily.NETWORK,),
        replacements=(Replacement(replica_manager, "judge_leader_and_isr", _apply_older_epochs),),
        is_rare=True,
    ),
    PlantedBug(
        name="earlier_registration_accepted",
        summary="a command that was meant for a broker's earlier registration is carried out",
        source="KIP-380, KAFKA-7235",
        breaks=("I16", "L8"),
        shows_under=(FaultFamily.PROCESS, FaultFamily.NETWORK),
        replacements=(
            Replacement(replica_manager, "fence_request", _accept_earlier_registrations),
        ),
    ),
)
