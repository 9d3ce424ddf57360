"""Runs with a violation that a check of events, looks or probes finds, and runs that look so."""

from __future__ import annotations

from dataclasses import replace

from highwater_checker.probes import NO_ANSWER
from highwater_core.events import EventKind as Kind
from highwater_core.ids import TopicId
from tests.pipeline.event_runs import (
    ABOVE,
    CLEAN,
    CONTROLLER,
    EVENTS,
    HIDDEN,
    LOOKS,
    MS,
    OLD_COMMITTED,
    TOLD,
    appended,
    at,
    committed,
    cut,
    deleted,
    elected,
    followed,
    follower,
    in_a_life,
    isr_changed,
    led,
    log,
    of_topic,
    probe,
    seq_as,
    traced,
    with_events,
    with_isr,
    with_logs,
    with_looks,
    with_member,
    with_probes,
    with_two,
    without_events,
)
from tests.pipeline.frames import Run
from tests.pipeline.record_histories import Planted
from tests.support.evidence_makers import look, replica

OTHER_ID = TopicId("other")
PLANTED = [
    Planted("clean", CLEAN, {}),
    Planted("no evidence at all", Run("nothing"), {}),
    # ------------------------------------------------ C00
    Planted("the first event is lost", seq_as(0, 1, 2), {"completeness": [("C00", -1, -1)]}),
    Planted("an event is lost", seq_as(2, 0, 2), {"completeness": [("C00", -1, -1)]}),
    Planted("two gaps", seq_as(2, 0, 2, 5), {"completeness": [("C00", -1, -1)] * 2}),
    Planted("an event is told twice", seq_as(2, 0, 1, 1, 2), {"completeness": [("C00", -1, -1)]}),
    Planted("every start counts from 0", with_events(followed(1, 2, incarnation=2)), {}),
    # ------------------------------------------------ I7
    Planted("two lead", with_events(led(2, 2, 4, 4)), {"leader_uniqueness": [("I7", -1, 2)]}),
    Planted(
        "another leads than was elected",
        with_events(led(2, 3, 4, 4), elected(1, 3)),
        {"leader_uniqueness": [("I7", -1, 1)]},
    ),
    Planted(
        "an epoch is written twice",
        with_events(elected(1, 2)),
        {"leader_uniqueness": [("I7", -1, -1)]},
    ),
    Planted(
        "the tenth start's leader is read before the second's",
        with_events(
            replace(led(2, 3, 4, 4), node=3, incarnation=2),
            replace(led(2, 3, 4, 4), node=3, incarnation=10),
            led(2, 3, 4, 4),
        ),
        {"leader_uniqueness": [("I7", -1, 3)] * 2},
    ),
    Planted(
        "leaders of no partition, and of another",
        with_events(
            replace(led(2, 2, 4, 4), topic=None),
            replace(led(2, 2, 4, 4), topic="u"),
            replace(led(2, 2, 4, 4), leader_epoch=None, partition=1),
        ),
        {"completeness": [("C00", -1, -1)] * 2},
    ),
    Planted(
        "a topic was made again, and its epochs began anew",
        with_events(elected(1, 2), led(2, 3, 4, 4), elected(1, 3), deleted(by_broker=True)),
        {},
    ),
    Planted(
        "each life of a topic has its epochs",
        with_events(
            *of_topic("a", elected(1, 2), led(1, 2, 4, 4), elected(2, 3), led(2, 3, 4, 4)),
            deleted(by_broker=True),
            *of_topic("b", elected(2, 2), led(2, 2, 0, 0), elected(1, 3), led(1, 3, 0, 0)),
        ),
        {},
    ),
    Planted(
        "two led in the life before the deletion, and an epoch was written twice in that after it",
        with_events(
            *of_topic("a", led(1, 2, 4, 4), led(2, 2, 4, 4)),
            deleted(by_broker=False),
            *of_topic("b", led(2, 2, 0, 0), elected(2, 2), elected(2, 2)),
        ),
        {"leader_uniqueness": [("I7", -1, -1), ("I7", -1, 2)]},
    ),
    Planted(
        "a topic that gets its id late has one life",
        with_events(*of_topic("a", led(2, 2, 4, 4))),
        {"leader_uniqueness": [("I7", -1, 2)]},
    ),
    # ------------------------------------------------ I11
    Planted(
        "a log is cut below its high watermark",
        with_events(cut(0, 2, 1)),
        {"truncations": [("I11", 1, -1)]},
    ),
    Planted(
        "a log of no partition is cut",
        with_events(replace(cut(0, 2, 1), topic=None)),
        {"truncations": [("I11", 1, -1)], "completeness": [("C00", -1, -1)]},
    ),
    Planted(
        "a log is cut to where nobody knows",
        with_events(cut(0, 2, None)),
        {"completeness": [("C00", -1, -1)]},
    ),
    # ------------------------------------------------ I4, I11 by traces
    Planted(
        "a leader begins without committed records",
        with_events(committed(0, 1, 4)),
        {"committed_before": [("I4", 3, 1)]},
    ),
    Planted("a leader begins with it", with_events(committed(0, 1, 3)), {}),
    Planted("of a later epoch nothing is asked of it", with_events(committed(1, 2, 9)), {}),
    Planted(
        "the next but one begins without it",
        with_events(committed(0, 1, 3), committed(1, 2, 4), led(2, 3, 3, 3)),
        {"committed_before": [("I4", 3, 2)], "successors": [("I1", 3, 2)]},
    ),
    Planted(
        "of two epochs that committed as much the later is named",
        with_events(committed(0, 1, 4), committed(1, 2, 4), led(2, 3, 3, 3)),
        {"committed_before": [("I4", 3, 1), ("I4", 3, 2)], "successors": [("I1", 3, 2)]},
    ),
    Planted(
        "nobody can say what was committed, of what, and when",
        with_events(
            committed(0, 1, None),
            replace(committed(0, 1, 4), topic="u"),
            replace(committed(0, 1, 4), partition=None),
            replace(committed(0, 1, 4), leader_epoch=None),
        ),
        {"completeness": [("C00", -1, -1)] * 3},
    ),
    Planted(
        "what was committed is of a topic that was deleted",
        with_events(committed(0, 1, 4), cut(0, 2, 1, 1), deleted(by_broker=True)),
        {},
    ),
    Planted(
        "in the life before the deletion a leader lacks what was committed",
        with_events(
            *of_topic("a", committed(0, 3, 4), led(1, 4, 3, 3)),
            *of_topic("b", led(2, 4, 0, 0), cut(1, 4, 0, 0)),
            deleted(by_broker=True),
        ),
        {"committed_before": [("I4", 3, 1)]},
    ),
    Planted(
        "a member cuts off what was committed",
        with_events(committed(0, 1, 3), cut(0, 2, 1, 1)),
        {"committed_before": [("I11", 1, 0)]},
    ),
    Planted(
        "it cuts nothing that it had",
        with_events(committed(0, 1, 3), cut(0, 2, 1, 1, from_offset=1)),
        {},
    ),
    Planted("who is no member may cut", with_events(committed(0, 1, 3), cut(2, 2, 1, 1)), {}),
    Planted(
        "a member cuts what its own epoch committed before",
        with_events(at(10, committed(1, 2, 4)), at(11, cut(0, 2, 3))),
        {"committed_before": [("I11", 3, 0)]},
    ),
    Planted(
        "a member cuts at the time at which that is committed",
        with_events(at(10, committed(1, 2, 4)), at(10, cut(0, 2, 3))),
        {},
    ),
    Planted(
        "who has left the ISR cuts",
        with_events(at(10, committed(1, 2, 4)), at(11, isr_changed(1, 2, 1)), at(12, cut(0, 2, 3))),
        {},
    ),
    Planted(
        "who has left the ISR is back, and cuts",
        with_events(
            committed(1, 2, 4),
            at(11, isr_changed(1, 2, 1)),
            at(12, replace(isr_changed(CONTROLLER, 2, 1, 0), kind=Kind.ISR_WRITTEN)),
            at(13, cut(0, 2, 3)),
        ),
        {"committed_before": [("I11", 3, 0)]},
    ),
    Planted(
        "a member cuts before anything was told of its epoch",
        with_events(committed(0, 1, 3), at(-5, cut(0, 2, 1, 1))),
        {"committed_before": [("I11", 1, 0)]},
    ),
    Planted(
        "a member cuts what is committed by the first event of its epoch, later",
        with_events(at(-5, committed(1, 2, 4)), at(-6, cut(0, 2, 3))),
        {"committed_before": [("I11", 3, 0)]},
    ),
    Planted(
        "of equal times the last by file counts, and it is out",
        with_events(
            at(5, committed(1, 2, 4)),
            at(5, isr_changed(1, 2, 0, 1, incarnation=10)),
            at(5, isr_changed(1, 2, 1, incarnation=2)),
            at(6, cut(0, 2, 3)),
        ),
        {},
    ),
    Planted(
        "of equal times the last by file counts, and it is in",
        with_events(
            at(5, committed(1, 2, 4)),
            at(5, isr_changed(1, 2, 1, incarnation=10)),
            at(5, isr_changed(1, 2, 0, 1, incarnation=2)),
            at(6, cut(0, 2, 3)),
        ),
        {"committed_before": [("I11", 3, 0)]},
    ),
    # ------------------------------------------------ I6
    Planted("an empty ISR", with_isr(), {"isr": [("I6", -1, 0)] * 2}),
    Planted("a stranger in the ISR", with_isr(9, 0), {"isr": [("I6", -1, 0)]}),
    Planted("the leader is not in the ISR", with_isr(1), {"isr": [("I6", -1, 0)]}),
    Planted("one in the ISR twice", with_isr(0, 1, 0), {"isr": [("I6", -1, 0)]}),
    Planted(
        "the same state in two looks, and an older leader beside it",
        with_looks(
            look(10 * MS, replica("leader", 3, 3, isr=(0, 9)), replica("follower", 3, 3)),
            look(20 * MS, replica("leader", 3, 3, isr=(9, 0)), None),
            look(
                30 * MS,
                replica("leader", 3, 3, isr=(0, 8)),
                replica("leader", 3, 3, leader_epoch=2),
            ),
        ),
        {"isr": [("I6", -1, 0)]},
    ),
    # ------------------------------------------------ I9
    Planted(
        "an uncommitted record is given",
        with_probes(probe(2, 2, 12, first_record=2, last_record=2)),
        {"empty_fetches": [("I9", 2, 0)]},
    ),
    Planted(
        "more than is committed is given, nobody knows by whom",
        with_probes(probe(1, 2, 1, first_record=1, last_record=2)),
        {"empty_fetches": [("I9", 1, 0)]},
    ),
    Planted(
        "out of range in the log, and at its end",
        with_probes(
            probe(2, -1, 12, error="OFFSET_OUT_OF_RANGE"),
            probe(3, -1, 12, error="OFFSET_OUT_OF_RANGE"),
            probe(4, -1, 12, error="OFFSET_OUT_OF_RANGE"),
        ),
        {"empty_fetches": [("I9", 2, 0), ("I9", 3, 0)]},
    ),
    Planted(
        "a leader's error",
        with_probes(probe(2, -1, 12, error="NOT_LEADER_OR_FOLLOWER")),
        {"empty_fetches": [("I9", 2, 0)]},
    ),
    Planted(
        "a high watermark that was not",
        with_probes(probe(1, 1, 12), probe(1, 4, 12), probe(1, 3, 12)),
        {"empty_fetches": [("I9", 1, 0)] * 2},
    ),
    Planted(
        "out of range where the new leader's log began to be its own",
        with_probes(TOLD, probe(3, -1, 32, broker=1, error="OFFSET_OUT_OF_RANGE")),
        {"empty_fetches": [("I9", 3, 1)]},
    ),
    Planted(
        "before it led it said so",
        with_probes(probe(3, -1, 32, 1, error="NOT_LEADER_OR_FOLLOWER")),
        {},
    ),
    Planted(
        "nobody answers, or between no looks, or as no leader",
        with_probes(
            probe(2, -1, 12, error=NO_ANSWER),
            probe(2, 1, 9),
            probe(2, 1, 49, 1),
            probe(2, 1, 12, 1),
            probe(2, 9, 22),
        ),
        {},
    ),
    Planted("nobody had told the offset", with_probes(HIDDEN, ABOVE), {}),
    Planted("the offset was told too late", with_probes(HIDDEN, ABOVE, probe(3, 3, 31)), {}),
    Planted("only it had told the offset", with_probes(replace(TOLD, broker=1), ABOVE), {}),
    Planted("the new leader's trace is lost", without_events(Kind.BECAME_LEADER), {}),
    Planted(
        "a look at the time of a question, and of an answer",
        with_probes(probe(2, 9, 10), probe(2, 9, 9), probe(2, 9, 18), probe(2, 9, 19)),
        {"empty_fetches": [("I9", 2, 0)] * 2},
    ),
    Planted(
        "the topic was made anew between",
        replace(
            CLEAN,
            probes=(probe(2, 9, 12),),
            looks=(LOOKS[0], LOOKS[1], look(30 * MS, replace(OLD_COMMITTED, topic_id=OTHER_ID))),
        ),
        {},
    ),
    Planted(
        "its leader began the same epoch in a later life",
        in_a_life("a", *of_topic("b", led(1, 1, 0, 0), led(1, 2, 4, 4))),
        {},
    ),
    Planted(
        "the topic is deleted later, and its leader began with more",
        in_a_life("a", *of_topic("a", led(1, 2, 4, 4))),
        {"empty_fetches": [("I9", 3, 1)]},
    ),
    # ------------------------------------------------ I4
    Planted(
        "a member lacks what is committed, in three looks",
        with_member(2, 2, 1, 2),
        {"high_watermarks": [("I4", 2, 1)]},
    ),
    Planted("a member has it in the next look", with_member(2, 3), {}),
    Planted("who is no member may lack it", with_member(2, 2, isr=(0, 2)), {}),
    Planted(
        "its own name twice in the ISR",
        with_member(2, 2, isr=(0, 1, 1)),
        {"high_watermarks": [("I4", 2, 1)], "isr": [("I6", -1, 0)]},
    ),
    Planted("it cut its log", with_member(2, 2, more=[cut(1, 1, 2)]), {}),
    Planted(
        "it cut its log above that",
        with_member(2, 2, more=[cut(1, 1, 3)]),
        {"high_watermarks": [("I4", 2, 1)]},
    ),
    Planted("it began anew", with_member(2, 2, more=[followed(1, 1, incarnation=2)]), {}),
    Planted(
        "it began twice in one start",
        with_member(2, 2, more=[followed(1, 1)]),
        {"high_watermarks": [("I4", 2, 1)]},
    ),
    Planted("the leader brought that along", with_member(2, 2, more=[led(0, 1, 3, 3)]), {}),
    Planted("the topic was deleted", with_member(2, 2, more=[deleted(by_broker=True)]), {}),
    Planted(
        "a life before the deletion is judged by its own events",
        with_looks(
            look(
                10 * MS,
                *(replace(each, topic_id=OTHER_ID) for each in (OLD_COMMITTED, follower(3))),
            ),
            look(
                20 * MS,
                *(replace(each, topic_id=OTHER_ID) for each in (OLD_COMMITTED, follower(2))),
            ),
            events=[
                *of_topic(OTHER_ID, *EVENTS),
                *of_topic("b", cut(1, 1, 0, 0)),
                deleted(by_broker=True),
            ],
        ),
        {"high_watermarks": [("I4", 2, 1)]},
    ),
    Planted("two topics were deleted", with_member(2, 2, more=[deleted(by_broker=False)]), {}),
    Planted(
        "in another start it lacks that", with_two(follower(2), follower(2), incarnation=2), {}
    ),
    Planted("in another epoch it lacks that", with_two(follower(2), follower(2, 2)), {}),
    Planted(
        "as a leader it lacks that",
        with_two(replica("leader", 2, 2), follower(2)),
        {"leader_uniqueness": [("I7", -1, 1)]},
    ),
    Planted(
        "of another topic of that name it lacks that",
        with_two(follower(2), replace(follower(2), topic_id=OTHER_ID)),
        {},
    ),
    # ------------------------------------------------ I1
    Planted(
        "a successor began without it, and has it again",
        with_logs(log(1, *"abc"), began=2),
        {"successors": [("I1", 2, 1)]},
    ),
    Planted(
        "a successor began without it, and it is lost",
        with_logs(log(1, *"ab"), began=2),
        {"successors": [("I1", 2, 1)]},
    ),
    Planted(
        "another record has its place",
        with_logs(log(1, *"abx", taken_over_at=2), began=2),
        {"successors": [("I1", 2, 1)]},
    ),
    Planted(
        "it is told of the first of two",
        with_logs(log(1, *"abc"), began=2, more=[led(0, 3, 1, 1)]),
        {"successors": [("I1", 1, 0), ("I1", 2, 1)]},
    ),
    Planted(
        "several leaders appended there",
        with_logs(log(1, *"ab"), began=2, more=[appended(1, 2, 2, 3)]),
        {},
    ),
    Planted(
        "an empty log",
        with_logs(log(1), began=0),
        {"successors": [("I1", offset, 1) for offset in range(3)]},
    ),
    Planted("no log", with_logs(began=0), {}),
    Planted("acks=1", replace(with_logs(log(1, *"abc"), began=2), acks={"p0": 1}), {}),
    Planted(
        "its topic was deleted",
        with_logs(log(1, *"abc"), began=2, more=[deleted(by_broker=False)]),
        {},
    ),
]

UNREADABLE = replace(
    CLEAN,
    run_id="unreadable",
    events=traced(
        [
            *EVENTS,
            replace(led(2, 3, 0, 0), detail={"isr": [2]}),
            replace(elected(2, 4), detail={"leader": "two"}),
            replace(cut(2, 4, 0), detail={}),
        ]
    ),
)
"""Three events that lack a detail that checks need: the checker stops at such an event."""

_CUT = at(1, cut(0, 3, 0))
"""At a truncation the checker reads the last ISR that the log's epoch traced."""
STOPPING = {
    f"node {node}, incarnation 1: {what}": replace(run, run_id=f"stopping-{number}")
    for number, (node, what, run) in enumerate(
        (
            (
                2,
                "became_leader at seq 3 has no usable isr",
                with_events(replace(led(2, 3, 3, 3), detail={"high_watermark": 3}), _CUT),
            ),
            (
                2,
                "high_watermark_advanced at seq 3 has no usable isr",
                with_events(replace(committed(2, 3, 3), detail={"isr": None}), _CUT),
            ),
            (
                2,
                "isr_changed at seq 3 has no usable isr",
                with_events(replace(isr_changed(2, 3), detail={"partition_epoch": 1}), _CUT),
            ),
            (
                CONTROLLER,
                "isr_written at seq 2 has no usable isr",
                with_events(
                    replace(isr_changed(CONTROLLER, 3), kind=Kind.ISR_WRITTEN, detail={"isr": 7}),
                    _CUT,
                ),
            ),
            (
                0,
                "log_truncated at seq 3 has no usable from_offset",
                with_events(
                    replace(cut(0, 3, 0), detail={"high_watermark": 0, "reason": "", "from": 4})
                ),
            ),
        )
    )
}
"""Runs at one of whose events the checker stops, by the message of C00 about that event."""

UNSEEN = replace(
    CLEAN,
    run_id="unseen",
    looks=(*LOOKS[:1], look(11 * MS, None, None, None), *LOOKS[1:]),
)
"""A look at which nobody answered, just before the first probe."""

_ANSWERS = look(31 * MS, OLD_COMMITTED, follower(3), incarnation=2)
_TELLS_NOTHING = {1: replace(_ANSWERS.nodes[1], replicas=())}
IDLE = replace(
    CLEAN,
    run_id="idle",
    looks=(*LOOKS[:3], replace(_ANSWERS, nodes=_ANSWERS.nodes | _TELLS_NOTHING), *LOOKS[3:]),
)
"""A look just before the last probe, in which the restarted broker reported no replica."""
