"""Runs with violations of I21 and I22, and runs that look so and are sound."""

from __future__ import annotations

from dataclasses import replace

from tests.pipeline.frames import Damaged, Run
from tests.pipeline.member_histories import (
    FAIL,
    INFO,
    LOGS,
    SENT,
    Part,
    assigned,
    at_once,
    commit,
    group_gone,
    in_turn,
    read,
    reset,
    run_of,
)
from tests.pipeline.record_histories import Found, Planted, batch, log, send, with_two_lives


def members(*parts: Part) -> Run:
    """Return a run of members alone: there are no records to ask for."""
    return Run("", in_turn(*parts))


def missed(*offsets: int) -> Found:
    return {"deliveries": [("I22", each, -1) for each in offsets]}


OWNERS: Found = {"generations": [("I21", -1, -1)]}
AGAIN = missed(3)
STARTED_AGAIN = (assigned("m0", 1, 0, instance="a"), assigned("m1", 1, 0, instance="a"))
TAKEN_OVER = (assigned("m0", 1, 0), assigned("m1", 2, 0))
OUTDATED = members(*TAKEN_OVER, commit("m0"))
FIRST = assigned("m0", 1, 0)
ALL = (FIRST, read("m0", 0, 1, 2, 3))
ALL_BUT_ONE = (FIRST, read("m0", 0, 2, 3))
UNREAD = run_of(FIRST, commit("m0", 4))

GENERATIONS = [
    Planted("nobody is a member", members(commit("c0", 4), commit("c0", 1)), {}),
    Planted("owners beside", members(assigned("m0", 1, 0, 1), assigned("m1", 1, 2)), {}),
    Planted("two owners", members(FIRST, assigned("m1", 1, 1, 0)), OWNERS),
    Planted("the same owner joined again", members(FIRST, FIRST), {}),
    Planted(
        "another owner between",
        members(FIRST, assigned("m1", 1, 0), FIRST),
        {"generations": [("I21", -1, -1)] * 2},
    ),
    Planted("two groups", members(FIRST, assigned("m1", 1, 0, group="h")), {}),
    Planted("both were assigned nothing", members(assigned("m0", 1), assigned("m1", 1)), {}),
    Planted(
        "an older generation is told of later",
        members(assigned("m0", 2, 0), assigned("m1", 1, 0), FIRST),
        OWNERS,
    ),
    Planted("an instance is started again", members(*STARTED_AGAIN), {}),
    Planted(
        "two instances",
        members(assigned("m0", 1, 0, instance="a"), assigned("m1", 1, 0, instance="b")),
        OWNERS,
    ),
    Planted("an instance and none", members(STARTED_AGAIN[0], assigned("m1", 1, 0)), OWNERS),
    Planted("a commit of the newest generation", members(*TAKEN_OVER, commit("m1")), {}),
    Planted("a commit of an older generation", OUTDATED, OWNERS),
    Planted("it was refused", members(*TAKEN_OVER, commit("m0", outcome=FAIL)), {}),
    Planted("nobody knows of it", members(*TAKEN_OVER, commit("m0", outcome=INFO)), {}),
    Planted("it never ended", members(*TAKEN_OVER, commit("m0", outcome=None)), {}),
    Planted(
        "it began before",
        members(FIRST, commit("m0")[:1], assigned("m1", 2, 0), commit("m0")[1:]),
        {},
    ),
    Planted(
        "nobody has its partition in the newer generation",
        members(FIRST, assigned("m1", 3), commit("m0")),
        OWNERS,
    ),
    Planted(
        "the newer generation is of another group",
        members(FIRST, assigned("m1", 2, 0, group="h"), commit("m0")),
        {},
    ),
    Planted(
        "it commits in the newer one", members(*TAKEN_OVER, assigned("m0", 2), commit("m0")), {}
    ),
    Planted("who commits is no member", members(*TAKEN_OVER, commit("c0")), {}),
    Planted("none of this group", members(*TAKEN_OVER, commit("m0", value="h")), {}),
    Planted(
        "it is a member later",
        members(TAKEN_OVER[1], commit("m0"), FIRST),
        {},
    ),
    Planted("a commit of the successor", members(*STARTED_AGAIN, commit("m1")), {}),
    Planted("a commit of who was replaced", members(*STARTED_AGAIN, commit("m0")), OWNERS),
    Planted("that is refused", members(*STARTED_AGAIN, commit("m0", outcome=FAIL)), {}),
    Planted(
        "its successor has another partition",
        members(assigned("m0", 1, 0, 1, instance="a"), STARTED_AGAIN[1], commit("m0", partition=1)),
        {},
    ),
    Planted(
        "its successor is of the generation before",
        members(*STARTED_AGAIN, assigned("m0", 2, 0, instance="a"), commit("m0")),
        {},
    ),
    Planted(
        "refused first, acknowledged then",
        members(*TAKEN_OVER, commit("m0", outcome=FAIL), commit("m0")[1:]),
        {},
    ),
    Planted(
        "another commit is acknowledged",
        members(*TAKEN_OVER, commit("m0", outcome=None), commit("m0", operation_id=8)[1:]),
        {},
    ),
    Planted(
        "another member's commit is acknowledged",
        members(*TAKEN_OVER, commit("m1")[:1], commit("m0")[:1], commit("m1")[1:]),
        {},
    ),
    Planted(
        "a commit beside another instance",
        members(STARTED_AGAIN[0], assigned("m1", 1, 0, instance="b"), commit("m0")),
        OWNERS,
    ),
    Planted("the group was deleted", replace(OUTDATED, events=group_gone("g")), {}),
    Planted("another was deleted", replace(OUTDATED, events=group_gone("h")), OWNERS),
    Planted("its coordinator moved", replace(OUTDATED, events=group_gone("g", "moved")), OWNERS),
    Planted(
        "at one time, a file that comes later",
        Run("", at_once(assigned("m1", 2, 0), FIRST, commit("m0"))),
        {},
    ),
    Planted(
        "at one time, a file that comes before",
        Run("", at_once(FIRST, assigned("m0.2", 2, 0), commit("m0"))),
        OWNERS,
    ),
]
DELIVERIES = [
    Planted("all is read", run_of(*ALL, commit("m0", 4)), {}),
    Planted("a record is left out", run_of(*ALL_BUT_ONE, commit("m0", 4)), missed(1)),
    Planted("it is read later", run_of(FIRST, commit("m0", 1), read("m0", 0)), missed(0)),
    Planted(
        "each record is asked for once",
        run_of(FIRST, commit("m0", 2), commit("m0", 1), commit("m0", 3)),
        missed(0, 1, 2),
    ),
    Planted(
        "once, at the first commit",
        run_of(
            FIRST,
            commit("m0", 2, operation_id=7),
            read("m0", 0, 1, 2),
            commit("m0", 3, operation_id=8),
        ),
        missed(0, 1),
    ),
    Planted(
        "what is read again was read",
        run_of(*ALL, commit("m0", 4), assigned("m1", 2, 0), read("m1", 0, 1, 2, 3)),
        {},
    ),
    Planted(
        "a commit that fails asks too",
        run_of(*ALL_BUT_ONE, commit("m0", 4, FAIL)),
        missed(1),
    ),
    Planted("an outcome alone asks for nothing", run_of(FIRST, commit("m0", 4)[1:]), {}),
    Planted(
        "what lies at the offset is not asked for",
        run_of(FIRST, read("m0", 0, 1, 2), commit("m0", 3)),
        {},
    ),
    Planted(
        "two members together",
        run_of(
            FIRST,
            read("m0", 0, 1),
            assigned("m1", 2, 0, offset=2),
            read("m1", 2, 3),
            commit("m1", 4),
        ),
        {},
    ),
    Planted(
        "nobody had what lies between",
        run_of(
            FIRST,
            read("m0", 0),
            assigned("m1", 2, 0, offset=2),
            read("m1", 2, 3),
            commit("m1", 3),
        ),
        missed(1),
    ),
    Planted(
        "another group had it",
        run_of(
            *ALL,
            commit("m0", 4, operation_id=7),
            assigned("m1", 1, 0, group="h"),
            commit("m1", 2, value="h"),
        ),
        missed(0, 1),
    ),
    Planted(
        "it had it as another group's member",
        run_of(
            FIRST,
            read("m0", 0),
            assigned("m0", 1, 0, number=5, group="h"),
            commit("m0", 1, value="h"),
        ),
        missed(0),
    ),
    Planted(
        "another partition's records",
        run_of(FIRST, read("m0", 0, 1, partition=1), commit("m0", 2)),
        missed(0, 1),
    ),
    Planted("read again", run_of(*ALL, read("m0", 3)), AGAIN),
    Planted("below its begin", run_of(assigned("m0", 1, 0, offset=4), read("m0", 3)), AGAIN),
    Planted(
        "below a later begin",
        run_of(*ALL, assigned("m0", 2, 0, offset=4), read("m0", 3)),
        AGAIN,
    ),
    Planted(
        "again from its begin: that was not committed",
        run_of(*ALL, assigned("m0", 2, 0, offset=2), read("m0", 2, 3), commit("m0", 4)),
        {},
    ),
    Planted("by another member", run_of(*ALL, assigned("m1", 2, 0), read("m1", 0, 1, 2, 3)), {}),
    Planted(
        "of a partition that it gave up", run_of(*ALL, assigned("m0", 2, 1), read("m0", 3)), {}
    ),
    Planted(
        "one operation assigns two partitions",
        run_of(*ALL, assigned("m0", 1, 1), read("m0", 3)),
        AGAIN,
    ),
    Planted(
        "an operation comes again after another",
        run_of(*ALL, assigned("m0", 2, 0, offset=3), FIRST, read("m0", 0)),
        {},
    ),
    Planted("reset", run_of(*ALL, reset("m0", 3), read("m0", 3)), {}),
    Planted("reset to what lies above", run_of(FIRST, reset("m0", 4), read("m0", 3)), AGAIN),
    Planted("a poll that met an error", run_of(*ALL, read("m0", 3, kind=FAIL)), {}),
    Planted("a commit is no begin", run_of(*ALL, commit("m0", 1), read("m0", 3)), AGAIN),
    Planted("before it was a member", run_of(read("m0", 3, 3), FIRST), {}),
    Planted("so were its commits", run_of(commit("m0", 4), FIRST, commit("m0", 1)), missed(0)),
    Planted("of no member", run_of(FIRST, commit("c0", 4), read("c0", 3, 3)), {}),
    Planted(
        "who is no member commits for the group",
        run_of(FIRST, commit("c0", 2), read("m0", 3), commit("m0", 4)),
        {},
    ),
    Planted(
        "or for another one, and in another partition",
        run_of(
            *ALL_BUT_ONE,
            commit("c0", 2, value="h"),
            commit("c0", 2, partition=1),
            commit("m0", 4),
        ),
        missed(1),
    ),
    Planted(
        "at one time, its file's lines in order",
        run_of(history=[*SENT, *at_once(FIRST, commit("m0", 1), read("m0", 0))]),
        missed(0),
    ),
    Planted(
        "at one time, read by who comes before",
        run_of(
            history=[
                *SENT,
                *at_once(FIRST, commit("m0", 1), assigned("m0.2", 1, 1), read("m0.2", 0)),
            ]
        ),
        {},
    ),
    Planted(
        "what nobody acknowledged", replace(UNREAD, history=in_turn(FIRST, commit("m0", 4))), {}
    ),
    Planted("a producer of acks=1", replace(UNREAD, acks={"p0": 1}), {}),
    Planted(
        "a send that failed",
        replace(UNREAD, history=[*send("p0", 0, "a", 0, FAIL), *in_turn(FIRST, commit("m0", 4))]),
        {},
    ),
    Planted("one of which nothing is known", replace(UNREAD, acks={}), missed(0, 1, 2, 3)),
    Planted(
        "an acknowledgement without its send",
        replace(UNREAD, history=[*SENT[1:], *in_turn(FIRST, commit("m0", 4))]),
        missed(1, 2, 3),
    ),
    Planted(
        "records that are in no log",
        replace(UNREAD, replicas=[log(0, batch(0, "a", "x"), high_watermark=4)]),
        missed(0),
    ),
    Planted(
        "another broker has it",
        replace(UNREAD, replicas=[log(0, batch(0, "x"), high_watermark=4), LOGS[1]]),
        missed(0, 1, 2, 3),
    ),
    Planted(
        "the last one has another record",
        replace(UNREAD, replicas=[LOGS[0], log(1, batch(0, "x"), high_watermark=4)]),
        missed(1, 2, 3),
    ),
    Planted("logs that are not asked", replace(UNREAD, replicas=(), cut_off=LOGS), {}),
    Planted(
        "a log that does not decode",
        replace(UNREAD, replicas=LOGS[:1], damaged=[Damaged("t", 0, 1, "a wrong CRC")]),
        missed(0, 1, 2, 3),
    ),
    Planted("a topic that was made again", with_two_lives(*in_turn(FIRST, commit("m0", 3))), {}),
    Planted(
        "acknowledged twice",
        run_of(
            FIRST,
            commit("m0", 4),
            history=[*SENT, *send("p0", 9, "b", 1), *in_turn(FIRST, commit("m0", 4))],
        ),
        missed(0, 1, 2, 3),
    ),
    Planted(
        "without a value",
        replace(
            UNREAD,
            history=[*send("p0", 0, "", 0), *in_turn(FIRST, commit("m0", 4))],
            replicas=[log(0, batch(0, None), high_watermark=1)],
        ),
        missed(0),
    ),
]
PLANTED = [*GENERATIONS, *DELIVERIES]
