"""Each row of the catalogue is named by its trigger, and not without one of its parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from highwater_checker.catalogue.explain import explain
from highwater_checker.catalogue.rows import CATALOGUE
from highwater_checker.catalogue.story import EPOCH_UNKNOWN
from highwater_core.config import INVARIANTS, PROMISES, MayBreak, Preset
from highwater_core.events import EventKind as Kind
from highwater_core.events import TraceEvent
from highwater_core.internal_topics import OFFSETS_TOPIC

CONTROLLER = 1000
TO_HW = "to the high watermark"
ALL_ROWS = {
    name: MayBreak(tuple(row.number for row in CATALOGUE if name in row.breaks))
    for name in INVARIANTS
}
"""The promises of a preset without any fix."""


def event(
    kind: Kind,
    node: int,
    epoch: int | None = None,
    offset: int | None = None,
    *,
    topic: str | None = "t",
    controller_epoch: int | None = None,
    incarnation: int = 1,
    **detail: Any,
) -> TraceEvent:
    return TraceEvent(
        ts_ns=0,
        node=node,
        incarnation=incarnation,
        seq=0,
        kind=kind,
        topic=topic,
        partition=None if topic is None else 0,
        leader_epoch=epoch,
        controller_epoch=controller_epoch,
        offset=offset,
        detail=detail,
    )


def leads(node: int, epoch: int, end: int, high_watermark: int = 0) -> TraceEvent:
    return event(Kind.BECAME_LEADER, node, epoch, end, isr=(), high_watermark=high_watermark)


def follows(node: int, leader: int, epoch: int, end: int) -> TraceEvent:
    return event(Kind.BECAME_FOLLOWER, node, epoch, end, leader=leader, high_watermark=0)


def commits(leader: int, epoch: int, offset: int, *isr: int) -> TraceEvent:
    return event(Kind.HIGH_WATERMARK_ADVANCED, leader, epoch, offset, isr=(leader, *isr))


def cuts(node: int, epoch: int, end: int, reason: str = TO_HW) -> TraceEvent:
    return event(Kind.LOG_TRUNCATED, node, epoch, end, from_offset=99, reason=reason)


def appends(leader: int, epoch: int, end: int) -> TraceEvent:
    return event(Kind.LOG_APPENDED, leader, epoch, end - 1, end_offset=end)


def recovers(node: int, end: int, incarnation: int = 2) -> TraceEvent:
    return event(Kind.LOG_RECOVERED, node, None, end, incarnation=incarnation)


def starts(node: int, incarnation: int = 2) -> TraceEvent:
    return event(Kind.NODE_STARTED, node, topic=None, incarnation=incarnation)


def decides(leader: int, epoch: int, *, unclean: bool, controller_epoch: int = 1) -> TraceEvent:
    return event(
        Kind.LEADERSHIP_DECIDED,
        CONTROLLER,
        epoch,
        controller_epoch=controller_epoch,
        leader=leader,
        isr=[leader],
        unclean=unclean,
    )


def awaits(epoch: int, *isr: int) -> TraceEvent:
    return event(
        Kind.LEADERSHIP_DECIDED,
        CONTROLLER,
        epoch,
        controller_epoch=1,
        leader=-1,
        isr=list(isr),
        unclean=False,
    )


def proposes(leader: int, epoch: int, *isr: int) -> TraceEvent:
    return event(Kind.ISR_CHANGE_PROPOSED, leader, epoch, isr=(leader, *isr), reason="caught up")


def adopts(leader: int, epoch: int, *isr: int) -> TraceEvent:
    return event(Kind.ISR_CHANGED, leader, epoch, isr=(leader, *isr), partition_epoch=9)


def registers(node: int, incarnation: int) -> TraceEvent:
    return event(
        Kind.BROKER_REGISTERED, node, topic=None, incarnation=incarnation, broker_epoch=incarnation
    )


def fetches(node: int, leader: int, epoch: int, end: int) -> TraceEvent:
    return event(Kind.FETCHER_STARTED, node, epoch, end, leader=leader)


def takes_over(controller: int, *brokers: int) -> TraceEvent:
    return event(Kind.FAILOVER_COMPLETED, controller, topic=None, brokers=list(brokers))


def sees(*, new: tuple[int, ...] = (), dead: tuple[int, ...] = ()) -> TraceEvent:
    return event(
        Kind.BROKERS_CHANGED, CONTROLLER, topic=None, new=list(new), dead=list(dead), bounced=[]
    )


def shuts_down(broker: int, broker_epoch: int) -> TraceEvent:
    return event(
        Kind.SHUTDOWN_BEGUN, CONTROLLER, topic=None, broker=broker, broker_epoch=broker_epoch
    )


def controls(controller: int, controller_epoch: int) -> TraceEvent:
    return event(Kind.CONTROLLER_ELECTED, controller, topic=None, controller_epoch=controller_epoch)


def command(kind: Kind, node: int, request: str, number: int, **detail: Any) -> TraceEvent:
    incarnation = detail.pop("incarnation", 1)
    return event(
        kind,
        node,
        topic=None,
        controller_epoch=1,
        incarnation=incarnation,
        request=request,
        correlation_id=number,
        **detail,
    )


def sends(broker: int, request: str, number: int) -> TraceEvent:
    return command(Kind.COMMAND_SENT, CONTROLLER, f"{request}Request", number, broker=broker)


def handles(broker: int, request: str, number: int, incarnation: int = 1) -> TraceEvent:
    return command(Kind.REQUEST_HANDLED, broker, request, number, incarnation=incarnation)


def stops(node: int, *, deleted: bool = False) -> TraceEvent:
    return event(Kind.REPLICA_STOPPED, node, 1, 0, deleted=deleted)


def creates() -> TraceEvent:
    return event(Kind.TOPIC_CREATED, CONTROLLER, topic="t", assignment=[[1, 2]])


def gives_up(node: int, leader: int) -> TraceEvent:
    error = "LEADER_NOT_AVAILABLE"
    return event(
        Kind.REQUEST_REFUSED, node, -1, 8, request="LeaderAndIsr", error=error, leader=leader
    )


def writes(node: int, file: str) -> TraceEvent:
    return event(Kind.CHECKPOINT_WRITTEN, node, topic=None, file=file, entries=1)


def refuses(node: int, error: str) -> TraceEvent:
    refused = {"t-0": error}
    return event(Kind.REQUEST_HANDLED, node, topic=None, request="StopReplica", refused=refused)


def moves(*, adding: Sequence[int] = (), removing: Sequence[int] = ()) -> TraceEvent:
    detail = {"replicas": [1, 2, 3], "adding": list(adding), "removing": list(removing)}
    return event(Kind.REASSIGNMENT_BEGUN, CONTROLLER, **detail)


def elects(leader: int, epoch: int, *isr: int) -> TraceEvent:
    return event(
        Kind.LEADER_ELECTED, CONTROLLER, epoch, leader=leader, isr=list(isr), unclean=False
    )


@dataclass(frozen=True)
class Story:
    """A trace that names the row; without one of `needs`, or with one of `unless`, it does not."""

    row: int
    invariant: str
    offset: int
    steps: dict[str, TraceEvent]
    needs: tuple[str, ...]
    unless: dict[str, tuple[str, TraceEvent]] = field(default_factory=dict)
    """By its description: the step after which it comes, and the event."""
    beyond: int | None = None
    """An offset that the trigger does not reach."""


STORIES = (
    Story(
        1,
        "I4",
        8,
        {
            "committed": commits(3, 0, 10, 1, 2),
            "cut": cuts(1, 1, 8),
            "led": leads(1, 2, 8),
        },
        needs=("committed", "cut"),
        unless={
            "it had fetched it back": ("cut", follows(1, 2, 1, 10)),
            "it was counted again": ("cut", commits(2, 1, 10, 1)),
        },
        beyond=7,
    ),
    Story(
        1,
        "I11",
        8,
        {"committed": commits(3, 0, 10, 1, 2), "cut": cuts(1, 1, 8)},
        needs=("committed", "cut"),
    ),
    Story(
        1,
        "I11",
        8,
        {
            "committed": commits(3, 0, 10, 1, 2),
            "nobody is left to lead": decides(-1, 4, unclean=False),
            "cut by a late command": cuts(1, 2, 8),
        },
        needs=("committed", "cut by a late command"),
        unless={"a later epoch came and went": ("cut by a late command", leads(2, 6, 10))},
        beyond=7,
    ),
    Story(
        1,
        "I2",
        8,
        {"cut": cuts(1, 1, 8), "committed by the deposed leader": commits(3, 0, 10, 1)},
        needs=("cut", "committed by the deposed leader"),
    ),
    Story(
        1,
        "I2",
        16,
        {
            "led": leads(2, 1, 17),
            "fetching": fetches(1, 2, 1, 16),
            "cut": cuts(1, 2, 16),
            "led on": leads(2, 2, 17),
            "counted as before": commits(2, 2, 17, 1),
        },
        needs=("fetching", "cut", "counted as before"),
        unless={
            "the leader had followed meanwhile": ("fetching", follows(2, 3, 1, 17)),
            "the leader was restarted": ("fetching", event(Kind.REPLICA_STARTED, 2, -1, 17)),
            "the leader missed an epoch": ("led on", leads(2, 4, 17)),
            "it was counted beyond the cut": ("counted as before", commits(2, 2, 100, 1)),
            "it had fetched it back": ("counted as before", follows(1, 2, 3, 17)),
        },
        beyond=15,
    ),
    Story(
        2,
        "I4",
        8,
        {
            "committed": commits(3, 0, 10, 2),
            "added": adopts(3, 0, 2, 1),
            "recovered": recovers(1, 8),
            "led": leads(1, 1, 8),
        },
        needs=("committed", "added", "recovered", "led"),
        unless={
            "it was a member as it was": ("committed", commits(3, 0, 7, 2, 1)),
            "it was cut while it was a member": ("added", cuts(1, 0, 8)),
        },
        beyond=7,
    ),
    Story(
        2,
        "I2",
        5,
        {
            "held": commits(1, 0, 8, 2),
            "lost": recovers(1, 5),
            "led again": leads(1, 1, 5),
            "kept its log": follows(2, 1, 1, 8),
        },
        needs=("held", "lost", "led again"),
        beyond=4,
    ),
    Story(
        2,
        "I3",
        5,
        {
            "held": appends(1, 0, 8),
            "crash": starts(1),
            "lost": recovers(1, 5),
            "led": leads(1, 1, 5),
        },
        needs=("held", "lost", "led"),
        unless={"it had fetched it back": ("lost", follows(1, 2, 1, 8))},
        beyond=4,
    ),
    Story(
        2,
        "I4",
        5,
        {
            "held": commits(1, 1, 8, 2),
            "lost": recovers(1, 5),
            "a deposed leader counts as before": commits(2, 0, 8, 1),
            "led again": leads(1, 1, 5),
        },
        needs=("held", "lost", "led again"),
        unless={"it had fetched from that": ("lost", fetches(1, 2, 0, 5))},
        beyond=4,
    ),
    Story(
        2,
        "I11",
        5,
        {
            "held": commits(1, 0, 8, 2),
            "crash": starts(1),
            "lost": recovers(1, 5),
            "led on": leads(1, 0, 5),
        },
        needs=("held", "lost", "led on"),
        unless={"it had fetched it back": ("lost", follows(1, 2, 1, 8))},
        beyond=4,
    ),
    Story(
        2,
        "I1",
        5,
        {
            "held": commits(1, 0, 8, 2),
            "crash": starts(1),
            "lost": recovers(1, 5),
            "is awaited": awaits(3, 1),
        },
        needs=("held", "lost", "is awaited"),
        unless={
            "another may lead": ("is awaited", awaits(4, 1, 2)),
            "another does": ("is awaited", decides(2, 4, unclean=False)),
        },
        beyond=4,
    ),
    Story(
        3,
        "I3",
        8,
        {
            "fetched from a leader": follows(1, 2, 0, 8),
            "which wrote": appends(2, 0, 9),
            "was told of the next, from there on": follows(1, 3, 1, 9),
            "which had written others": appends(3, 1, 9),
            "led": leads(1, 2, 9),
            "followed": follows(3, 1, 2, 9),
        },
        needs=("fetched from a leader", "which wrote", "which had written others", "followed"),
        unless={
            "it cut its log and fetched them": (
                "was told of the next, from there on",
                cuts(1, 1, 8, "to the end of epoch 0"),
            ),
        },
        beyond=7,
    ),
    Story(
        3,
        "I3",
        8,
        {
            "wrote in epoch 1": appends(2, 1, 8),
            "wrote on": appends(2, 1, 9),
            "the other wrote in epoch 2": appends(1, 2, 8),
            "and on": appends(1, 2, 9),
            "the other wrote more": appends(1, 2, 10),
            "led again": leads(2, 3, 9),
            "wrote in epoch 3": appends(2, 3, 10),
            "led the last": leads(1, 4, 10),
            "followed": follows(2, 1, 4, 10),
        },
        needs=("followed",),
        unless={
            "it was cut": ("followed", cuts(2, 4, 7, "to the end of epoch 3")),
            "it lost its end": ("wrote in epoch 3", recovers(2, 7)),
            "the leader lost its end": ("led the last", recovers(1, 7)),
            "the leader has the epoch": ("led the last", appends(1, 3, 11)),
        },
        beyond=6,
    ),
    Story(
        3,
        "I3",
        8,
        {
            "fetched from a leader": follows(3, 2, 1, 7),
            "which wrote": appends(2, 1, 9),
            "the other wrote in epoch 2": appends(1, 2, 9),
            "followed": follows(3, 1, 2, 9),
        },
        needs=("fetched from a leader", "which wrote", "followed"),
        unless={"it led meanwhile": ("fetched from a leader", leads(3, 1, 7))},
        beyond=7,
    ),
    Story(
        4,
        "I10",
        -1,
        {"led": leads(1, 3, 8)},
        needs=("led",),
        unless={
            "it wrote": ("led", appends(1, 3, 9)),
            "it follows": ("led", follows(1, 2, 4, 8)),
        },
        beyond=0,
    ),
    Story(
        4,
        "I11",
        5,
        {
            "wrote": appends(3, 1, 9),
            "committed": commits(2, 1, 8, 3),
            "led": leads(1, 2, 8),
            "followed": follows(3, 1, 2, 9),
            "asked": fetches(3, 1, 2, 9),
            "the leader wrote then": appends(1, 2, 9),
            "cut": cuts(3, 2, 5, f"{EPOCH_UNKNOWN} 1"),
        },
        needs=("wrote", "committed", "led", "cut"),
        unless={
            "the leader had written": ("led", appends(1, 2, 9)),
            "the leader had the epoch": ("wrote", appends(1, 1, 8)),
            "it fetched them again": ("cut", fetches(3, 1, 2, 8)),
        },
        beyond=4,
    ),
    Story(
        4,
        "I10",
        -1,
        {
            "wrote": appends(1, 0, 1),
            "crash": starts(1),
            "came back empty": recovers(1, 0),
            "led again": leads(1, 0, 0),
        },
        needs=("came back empty", "led again"),
        unless={"it wrote again": ("led again", appends(1, 0, 1))},
        beyond=0,
    ),
    Story(
        5,
        "I3",
        2,
        {
            "first": leads(1, 0, 0),
            "told": follows(3, 1, 0, 0),
            "had cut its own before": cuts(3, 0, 0),
            "other": leads(2, 1, 2),
            "cut": cuts(1, 1, 2),
            "again": leads(1, 2, 2),
            "told again": follows(3, 1, 2, 5),
        },
        needs=("first", "told", "cut", "again", "told again"),
        unless={
            "it was told of the epoch between": ("cut", follows(3, 2, 1, 5)),
            "it truncated": ("told again", cuts(3, 2, 2)),
            "it had truncated since": ("cut", cuts(3, 0, 2)),
            "it was restarted": ("again", event(Kind.REPLICA_STARTED, 3, -1, 5)),
        },
        beyond=1,
    ),
    Story(
        6,
        "I3",
        40,
        {
            "first": leads(1, 0, 0),
            "told": follows(2, 1, 0, 0),
            "cut": cuts(1, 1, 40),
            "again": leads(1, 2, 60),
        },
        needs=("first", "told", "cut", "again"),
        unless={
            "it was told of the epoch between": ("cut", follows(2, 3, 1, 50)),
            "it was restarted": ("cut", starts(2)),
        },
        beyond=39,
    ),
    Story(
        6,
        "I2",
        18,
        {
            "first": leads(2, 0, 0),
            "told": follows(1, 2, 0, 0),
            "held": commits(2, 0, 18, 1),
            "crash": starts(2),
            "lost": recovers(2, 10),
            "again": leads(2, 2, 51),
        },
        needs=("first", "told", "held", "lost", "again"),
        unless={
            "it was told of the epoch between": ("lost", follows(1, 0, 1, 22)),
            "it was restarted": ("lost", starts(1)),
            "the epoch is the same": ("lost", leads(2, 0, 10)),
        },
        beyond=9,
    ),
    Story(
        6,
        "I10",
        20,
        {
            "told": follows(3, 2, 0, 0),
            "written": appends(2, 2, 21),
            "led": leads(3, 1, 23),
        },
        needs=("told", "written", "led"),
        unless={
            "it was told of that epoch": ("told", follows(3, 2, 2, 18)),
            "it was stopped": ("told", stops(3)),
            "it was restarted": ("told", starts(3)),
            "its log ended below": ("written", leads(3, 1, 20)),
        },
        beyond=19,
    ),
    Story(
        6,
        "I11",
        0,
        {
            "counted": adopts(1, 4, 2, 3),
            "deleted": stops(3, deleted=True),
        },
        needs=("counted", "deleted"),
        unless={"it has left the ISR": ("counted", adopts(1, 4, 2))},
    ),
    Story(
        7,
        "I2",
        5,
        {
            "committed": commits(1, 0, 10, 2),
            "led": leads(2, 1, 10, high_watermark=5),
            "proposed": proposes(2, 1, 1, 3),
        },
        needs=("committed", "led", "proposed"),
        unless={"its high watermark had risen": ("led", commits(2, 1, 10, 1))},
        beyond=4,
    ),
    Story(
        8,
        "I2",
        4,
        {
            "led": leads(1, 0, 0),
            "fetching": fetches(2, 1, 0, 0),
            "proposed": proposes(1, 0, 2),
            "restart": starts(2),
            "came back": recovers(2, 4),
        },
        needs=("proposed", "restart"),
        unless={"it was written before": ("proposed", adopts(1, 0, 2))},
        beyond=3,
    ),
    Story(
        9,
        "I1",
        6,
        {
            "alone": commits(3, 0, 9),
            "crash": starts(3),
            "lost": recovers(3, 6),
            "led": leads(3, 1, 6),
        },
        needs=("alone", "lost", "led"),
        unless={"others were in sync": ("alone", commits(3, 0, 10, 1))},
        beyond=5,
    ),
    Story(
        9,
        "I1",
        -1,
        {"committed": commits(3, 0, 9, 1), "the last one died": awaits(2, 3)},
        needs=("committed", "the last one died"),
        unless={"the other has nothing": ("committed", stops(1, deleted=True))},
    ),
    Story(
        9,
        "I1",
        6,
        {"committed": commits(3, 0, 9, 1), "the last one died": awaits(2, 3)},
        needs=("committed", "the last one died"),
        unless={
            "the other has cut it": ("committed", cuts(1, 0, 2, "to the end of epoch 0")),
            "the other has deleted it": ("committed", stops(1, deleted=True)),
            "it is back": ("the last one died", starts(3)),
            "it leads": ("the last one died", decides(3, 3, unclean=False)),
            "two are awaited": ("the last one died", awaits(3, 1, 3)),
        },
        beyond=9,
    ),
    Story(
        10,
        "I4",
        7,
        {
            "together": commits(1, 0, 7, 2),
            "alone": commits(1, 0, 9),
            "elected": decides(2, 1, unclean=True),
        },
        needs=("elected",),
        unless={"it was in the ISR": ("alone", commits(1, 0, 9, 2))},
        beyond=6,
    ),
    Story(
        10,
        "I12",
        -1,
        {"elected": decides(2, 1, unclean=True)},
        needs=("elected",),
    ),
    Story(
        11,
        "I15",
        -1,
        {"gave up": gives_up(1, -1), "wrote": writes(1, "replication-offset-checkpoint")},
        needs=("gave up", "wrote"),
        unless={
            "it was given a role": ("gave up", follows(1, 2, 3, 8)),
            "it is given a role": ("wrote", follows(1, 2, 3, 8)),
        },
    ),
    Story(
        12,
        "I11",
        8,
        {"cut": cuts(1, 1, 2, "warning: out of the leader's range")},
        needs=("cut",),
        beyond=1,
    ),
    Story(
        13,
        "I8",
        -1,
        {
            "first": controls(1000, 1),
            "second": controls(1001, 2),
            "decided": decides(2, 1, unclean=False, controller_epoch=1),
        },
        needs=("second", "decided"),
    ),
    Story(
        14,
        "L4",
        -1,
        {"led": leads(1, 1, 8), "conflict": event(Kind.WRITE_CONFLICTED, 1, 1, 8, path="p")},
        needs=("led", "conflict"),
        unless={
            "another wrote": ("led", elects(1, 2)),
            "it adopted the write": ("conflict", adopts(1, 1, 2)),
            "another leads": ("led", leads(2, 2, 8)),
        },
    ),
    Story(
        15,
        "L6",
        -1,
        {
            "registered": registers(2, 1),
            "known": sees(new=(2,)),
            "restart": starts(2),
            "registered anew": registers(2, 2),
        },
        needs=("registered", "registered anew"),
        unless={"it was given a role": ("registered anew", follows(2, 1, 0, 5))},
    ),
    Story(
        15,
        "L8",
        -1,
        {
            "registered": registers(2, 1),
            "known": sees(new=(2,)),
            "restart": starts(2),
            "registered anew": registers(2, 2),
        },
        needs=("registered", "registered anew"),
        unless={
            "the controller saw it go": ("registered anew", sees(dead=(2,))),
            "a new controller took over": ("registered anew", controls(1001, 2)),
            "it was given a role": ("registered anew", follows(2, 1, 0, 5)),
        },
    ),
    Story(
        15,
        "L8",
        -1,
        {
            "sent": sends(2, "StopReplica", 4),
            "restart": starts(2),
            "stopped": stops(2),
            "handled": handles(2, "StopReplica", 4, incarnation=2),
        },
        needs=("sent", "restart", "stopped", "handled"),
        unless={
            "it was sent to the new one": ("restart", sends(2, "StopReplica", 4)),
            "it was given a role since": ("handled", follows(2, 1, 0, 5)),
        },
    ),
    Story(
        15,
        "I5",
        -1,
        {
            "added": adopts(2, 1, 1),
            "sent": sends(2, "LeaderAndIsr", 4),
            "restart": starts(2),
            "led": replace(leads(2, 1, 7), detail={"isr": [2], "high_watermark": 0}),
            "handled": handles(2, "LeaderAndIsr", 4, incarnation=2),
        },
        needs=("added", "sent", "restart", "led", "handled"),
        unless={
            "the ISR is not over": ("added", adopts(2, 1)),
            "it died at once": ("led", starts(2, 3)),
            "it was sent to the new one": ("restart", sends(2, "LeaderAndIsr", 4)),
            "another had it lead": ("led", handles(2, "LeaderAndIsr", 5, incarnation=2)),
        },
    ),
    Story(
        15,
        "L4",
        -1,
        {
            "registered": registers(2, 1),
            "registered anew": registers(2, 2),
            "known": sees(new=(2,)),
            "late": shuts_down(2, 1),
        },
        needs=("registered anew", "late"),
        unless={"it was seen to come": ("late", sees(new=(2,)))},
    ),
    Story(
        15,
        "L4",
        -1,
        {
            "registered": registers(2, 1),
            "known": sees(new=(2,)),
            "in time": shuts_down(2, 1),
            "registered anew": registers(2, 2),
            "given a role": follows(2, 1, 0, 5),
        },
        needs=("in time", "registered anew"),
        unless={
            "it was seen to go": ("in time", sees(dead=(2,))),
            "another controller was elected": ("registered anew", controls(CONTROLLER + 1, 2)),
        },
    ),
    Story(
        8,
        "L4",
        -1,
        {
            "elected": controls(CONTROLLER, 2),
            "led": leads(1, 1, 0),
            "proposed": proposes(1, 1, 2),
            "adopted": adopts(1, 1, 2),
            "took over without it": takes_over(CONTROLLER, 1, 3),
        },
        needs=("elected", "proposed", "took over without it"),
        unless={
            "it was elected later": ("adopted", controls(CONTROLLER, 2)),
            "it came later": ("took over without it", sees(new=(2,))),
        },
    ),
    Story(
        8,
        "L4",
        -1,
        {
            "led": leads(1, 0, 0),
            "gone": sees(dead=(2,)),
            "proposed": proposes(1, 0, 2),
            "adopted": adopts(1, 0, 2),
        },
        needs=("gone", "proposed"),
        unless={
            "it is back": ("gone", sees(new=(2,))),
            "it came back": ("adopted", sees(new=(2,))),
            "another controller took over": ("gone", controls(1001, 2)),
        },
    ),
    Story(
        8,
        "L4",
        -1,
        {
            "led": leads(1, 0, 0),
            "proposed": proposes(1, 0, 2),
            "gone": sees(dead=(2,)),
            "adopted": adopts(1, 0, 2),
        },
        needs=("gone", "proposed"),
        unless={
            "it is back": ("gone", sees(new=(2,))),
            "it came back": ("adopted", sees(new=(2,))),
        },
    ),
    Story(
        8,
        "L4",
        -1,
        {
            "led": leads(1, 0, 0),
            "gone": sees(dead=(2,)),
            "another controller": controls(1001, 2),
            "it took over": takes_over(1001, 1),
            "proposed": proposes(1, 0, 2),
            "adopted": adopts(1, 0, 2),
        },
        needs=("it took over", "proposed"),
        unless={
            "it is back": ("it took over", sees(new=(2,))),
            "it came back": ("adopted", sees(new=(2,))),
            "it was found by the next": ("adopted", takes_over(1000, 1, 2)),
            "the next took it out": ("adopted", takes_over(1000, 1)),
        },
    ),
    Story(
        16,
        "L8",
        -1,
        {
            "first copy": handles(2, "StopReplica", 4),
            "started": handles(2, "LeaderAndIsr", 5),
            "stopped": stops(2),
            "second copy": handles(2, "StopReplica", 4),
        },
        needs=("first copy", "started", "stopped", "second copy"),
        unless={"it was started later again": ("stopped", handles(2, "LeaderAndIsr", 6))},
    ),
    Story(
        17,
        "I13",
        -1,
        {"moves": moves(adding=[3]), "refused": refuses(3, "FENCED_LEADER_EPOCH")},
        needs=("moves", "refused"),
        unless={"it was told again": ("refused", follows(3, 1, 2, 0))},
    ),
    Story(
        18,
        "L8",
        -1,
        {"gave up": gives_up(1, 2)},
        needs=("gave up",),
        unless={"it was told again": ("gave up", follows(1, 2, 0, 8))},
    ),
    Story(
        19,
        "I6",
        -1,
        {
            "moves": moves(removing=[3]),
            "removed": elects(1, 2, 1, 2),
            "taken back": proposes(1, 2, 2, 3),
        },
        needs=("moves", "removed", "taken back"),
        unless={"it is moved back": ("removed", moves(adding=[3]))},
    ),
    Story(
        21,
        "L5",
        -1,
        {
            "led": leads(1, 1, 8, high_watermark=8),
            "committed": commits(1, 1, 9, 2),
            "appended": appends(1, 1, 10),
            "smaller": adopts(1, 1),
        },
        needs=("committed", "appended", "smaller"),
        unless={"it rose": ("smaller", commits(1, 1, 10))},
    ),
    Story(
        23,
        "I9",
        9,
        {"committed": commits(1, 0, 10, 2), "led": leads(2, 1, 10, high_watermark=8)},
        needs=("committed", "led"),
        beyond=10,
    ),
    Story(
        24,
        "I13",
        -1,
        {
            "created": creates(),
            "written": follows(3, 1, 0, 0),
            "created anew": creates(),
            "taken up": follows(3, 1, 0, 7),
        },
        needs=("created", "taken up"),
        unless={"its log was empty": ("created anew", follows(3, 1, 0, 0))},
    ),
    Story(
        24,
        "I13",
        -1,
        {
            "written": follows(3, 1, 0, 0),
            "taken away": event(
                Kind.TOPICS_CHANGED, CONTROLLER, topic=None, created=[], deleted=["t"]
            ),
            "taken up": follows(3, 1, 0, 7),
        },
        needs=("taken away", "taken up"),
    ),
)


def rows_of(story: Story, trace: list[TraceEvent], offset: int) -> set[int]:
    return {each.row for each in explain(story.invariant, "t", 0, offset, trace, ALL_ROWS)}


def variants() -> Iterator[Any]:
    for number, story in enumerate(STORIES):
        name = f"{story.row}-{number}"
        for missing in story.needs:
            steps = [each for label, each in story.steps.items() if label != missing]
            yield pytest.param(story, steps, story.offset, id=f"{name} without {missing}")
        for what, (after, extra) in story.unless.items():
            steps = []
            for label, each in story.steps.items():
                steps.extend((each, extra) if label == after else (each,))
            yield pytest.param(story, steps, story.offset, id=f"{name} but {what}")
        if story.beyond is not None:
            steps = list(story.steps.values())
            yield pytest.param(story, steps, story.beyond, id=f"{name} at {story.beyond}")


@pytest.mark.parametrize("story", STORIES, ids=lambda story: f"row {story.row} {story.invariant}")
def test_a_trigger_in_the_trace_names_its_row(story: Story) -> None:
    assert story.row in rows_of(story, list(story.steps.values()), story.offset)


@pytest.mark.parametrize(("story", "trace", "offset"), list(variants()))
def test_a_trace_that_lacks_an_ingredient_does_not_name_the_row(
    story: Story, trace: list[TraceEvent], offset: int
) -> None:
    assert story.row not in rows_of(story, trace, offset)


def test_a_member_that_stays_shows_nothing_new_of_its_log() -> None:
    added, cut, stays = adopts(3, 0, 2, 1), cuts(1, 0, 8, "as its leader has it"), adopts(3, 0, 1)
    trace = [commits(3, 0, 10, 2), added, cut, stays, recovers(1, 8), leads(1, 1, 8)]
    assert 2 not in {found.row for found in explain("I4", "t", 0, 8, trace)}


def test_every_row_with_a_trigger_has_its_stories() -> None:
    """Rows that are only planted have theirs in test_coordinator_trigger.py and
    test_waiting_controller_trigger.py, and the first design's in test_first_design_trigger.py."""
    historical = {
        row.number
        for row in CATALOGUE
        if row.trigger and not row.planted and not row.is_of_first_design
    }
    assert {story.row for story in STORIES} == historical


@pytest.mark.parametrize("story", STORIES, ids=lambda story: f"row {story.row} {story.invariant}")
def test_events_of_another_partition_name_no_row(story: Story) -> None:
    if story.row == 15 and "registered" in story.steps:
        return  # a broker's registration concerns every partition
    trace = list(story.steps.values())
    assert explain(story.invariant, "t", 1, story.offset, trace, ALL_ROWS) == ()
    assert explain(story.invariant, "u", 0, story.offset, trace, ALL_ROWS) == ()


LOSES_RECORDS = [story for story in STORIES if story.row in PROMISES[Preset.V3]["I1"].rows]


@pytest.mark.parametrize("story", LOSES_RECORDS, ids=lambda story: f"row {story.row}")
def test_a_lost_record_of_the_offsets_topic_explains_lost_commits(story: Story) -> None:
    """Found: under v3 a lost commit (I14) had no row."""
    trace = [
        replace(each, topic=OFFSETS_TOPIC) if each.topic == "t" else each
        for each in story.steps.values()
    ]
    assert story.row in {each.row for each in explain("I14", "orders", 0, -1, trace)}
    assert explain("I14", OFFSETS_TOPIC, 0, -1, trace) == ()
    assert explain("I14", "orders", 0, -1, list(story.steps.values())) == ()
