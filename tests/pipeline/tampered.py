"""Ways to tamper with a sound run's folder, each with the verdict that both must give it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from highwater_checker.finding import Finding
from highwater_checker.history import (
    COMMIT,
    POLL,
    OperationType,
)
from highwater_checker.looks import Look
from highwater_checker.run_folder import names
from highwater_checker.run_folder.documents import (
    EXCUSED,
    FINAL_LOOK,
    PROMISES,
    REQUIREMENTS,
    WATCHED,
    PromisedGroup,
    PromisedProducer,
    PromisedTopic,
)
from highwater_core.events import EventKind
from highwater_core.ids import NodeId, Offset
from highwater_core.internal_topics import OFFSETS_TOPIC
from highwater_core.traces import READ_DETAILS
from tests.pipeline.tampered_copies import TAMPERED_COPIES
from tests.pipeline.tampered_histories import (
    ALL_OF_M0,
    ASSIGNED_TO_M0,
    COMMITTED_BY_M0,
    GROUP,
    READ_BY_M0,
    TAMPERED_HISTORIES,
    TO_M1,
    TO_M1_LATER,
)
from tests.pipeline.tampered_slices import TAMPERED_SLICES
from tests.pipeline.tampering import (
    BROKERS,
    FAIL,
    PASS,
    UNKNOWN,
    acknowledged_as_another,
    acknowledged_elsewhere,
    acknowledging,
    also_traced,
    at_both_ends,
    being,
    committing,
    coordinating,
    ending_in,
    ending_with,
    failed_as_another,
    fetched,
    first_then,
    followed_below,
    group_changed,
    having,
    having_edited,
    hidden_from_end_to_end,
    lacking,
    linked_to_nothing,
    listing,
    look_with,
    looking,
    member,
    no_end_but,
    no_logs,
    numbered,
    of_broker_2,
    of_members,
    of_three_nodes,
    promised_twice,
    promising,
    reported_by,
    requiring,
    silent_at_the_end,
    two_records,
    unsent,
    up_again,
    watching,
    with_carriage_returns,
    with_states,
    with_strange_functions,
    without_a_clock,
    without_its_topology,
)
from tests.pipeline.tampering_leaders import (
    acknowledged_too_early,
    asked_of_no_node,
    hosted_by_nobody,
    hosted_by_none_of_those_asked,
    hosted_by_the_silent,
    led_by_both,
    led_by_both_in_a_second_life,
    named_beyond_all_offsets,
)
from tests.pipeline.tampering_logs import (
    FIRST,
    FORGOTTEN,
    GONE_0,
    GONE_1,
    MORE_OFFSETS,
    OTHER_SECOND,
    SECOND,
    THIRD,
    TWO_AT_ONE_OFFSET,
    beginning_at,
    holding,
    holding_offsets,
    left_over,
    losing,
    moved_as_its_leader_did,
    named,
    started_above,
    started_high,
    undecodable,
    with_a_segment_within,
    with_an_empty_segment,
)
from tests.support.run_on_disk import SENT, history_line

KNOWN_WRITERS = promising(writers_are_known=True)
STARTED_AGAIN = b'{"at_ns":7,"number":0,"phase":"starting","node":1}\n'
BEGUN: tuple[EventKind, dict[str, object]] = (EventKind.GROUP_LOAD_BEGUN, {"epoch_start_offset": 5})
LOADED = EventKind.GROUP_LOAD_ENDED
MADE, REFUSED = EventKind.PARTITION_STATE_CHANGED, EventKind.TRANSITION_REFUSED
ONLINE = {"from_state": "NewPartition", "to_state": "OnlinePartition"}
UNMADE = {"from_state": "NonExistentPartition", "to_state": "OnlinePartition"}
CUT = EventKind.LOG_TRUNCATED
ZERO = Offset(0)
FOLLOWED = EventKind.BECAME_FOLLOWER
TRACED = numbered(
    of_broker_2(FOLLOWED, Offset(0), leader=0, high_watermark=0),
    of_broker_2(EventKind.NODE_STOPPED, None),
)
OF_CUT = {"from_offset": 2, "high_watermark": 1, "reason": "leader epoch"}
STRANGER = Finding("I5", "the simulator saw it", "t", 0)
OUTCOME = history_line(OperationType.OK)
OTHER = (PromisedTopic("t", 1, 2), PromisedTopic("u", 1, 1))
LAST_SEGMENT = "segments/broker-0/t-0/00000000000000000009"
EVERYONE = (NodeId(0), NodeId(1), NodeId(2))

TAMPERED: dict[str, tuple[Callable[[Path], None], str]] = {
    "no-promises": (lacking(PROMISES.name), UNKNOWN),
    "promises-of-a-later-format": (promising(format_version=99), UNKNOWN),
    "producer-promised-twice": (promised_twice, UNKNOWN),
    "promises-cut-off": (having(PROMISES.name, b"{"), UNKNOWN),
    "no-requirements": (lacking(REQUIREMENTS.name), UNKNOWN),
    "requirement-met": (requiring("a step was done", True), PASS),
    "requirement-not-met": (requiring("a step was done", False), UNKNOWN),
    "requirements-cut-off": (having(REQUIREMENTS.name, b"["), UNKNOWN),
    "no-final-look": (lacking(FINAL_LOOK.name), UNKNOWN),
    "high-watermark-below-an-acknowledged-record": (ending_with(high_watermark=Offset(0)), UNKNOWN),
    "followers-high-watermark-below-it": (followed_below, UNKNOWN),
    "log-start-moved-by-no-retention": (moved_as_its_leader_did, UNKNOWN),
    "log-start-above-a-loss": (started_high(excused_from=0), UNKNOWN),
    "log-start-below-a-loss": (started_high(excused_from=100), UNKNOWN),
    "carriage-returns": (with_carriage_returns, PASS),
    "copy-of-a-trace-that-was-not-finished": (having("trace/.tmp-broker-0-1.jsonl", b"{"), PASS),
    "acknowledged-as-another-record": (acknowledged_as_another, UNKNOWN),
    "acknowledged-elsewhere": (acknowledged_elsewhere, UNKNOWN),
    "operations-of-no-kind": (with_strange_functions, UNKNOWN),
    "node-that-the-final-look-lacks": (of_three_nodes, UNKNOWN),
    "cut-below-its-high-watermark": (
        also_traced("broker-2-1", of_broker_2(CUT, Offset(0), **OF_CUT)),
        FAIL,
    ),
    "cut-nobody-knows-where": (
        also_traced("broker-2-1", of_broker_2(CUT, None, **OF_CUT)),
        UNKNOWN,
    ),
    "isr-written-nobody-knows-which": (
        also_traced("broker-2-1", of_broker_2(EventKind.ISR_WRITTEN, None, leader=0)),
        UNKNOWN,
    ),
    "watched": (watching(5), PASS),
    "watched-and-found": (watching(5, STRANGER), FAIL),
    "watched-nothing": (watching(0), UNKNOWN),
    "watched-cut-off": (having(WATCHED.name, b"{"), UNKNOWN),
    "kept-and-gone": (promising(kept=("probes.jsonl",)), UNKNOWN),
    "lost-by-a-disk": (losing(0), PASS),
    "lost-below-what-a-disk-lost": (losing(1), FAIL),
    "lost-without-an-excuse": (losing(None), FAIL),
    "left-over-from-a-move": (
        first_then(
            left_over(assigned=(0,), isr=(0,)), promising(topics=(PromisedTopic("t", 1, 1),))
        ),
        PASS,
    ),
    "in-the-isr-and-not-assigned": (left_over(assigned=(0,), isr=(0, 1)), FAIL),
    "assigned-and-not-in-the-isr": (left_over(assigned=(0, 1), isr=(0,)), UNKNOWN),
    "excused-cut-off": (having(EXCUSED.name, b"["), UNKNOWN),
    "trace-torn-of-a-node-that-lives": (ending_in("trace/broker-1-1.jsonl", b'{"ts_ns":'), UNKNOWN),
    "trace-torn-of-a-node-that-was-killed": (having("trace/broker-2-1.jsonl", b'{"ts_ns":'), PASS),
    "traces-end-in-zeros": (ending_in("trace/broker-1-1.jsonl", bytes(9)), UNKNOWN),
    "two-leaders-in-a-look": (led_by_both, FAIL),
    "acknowledged-and-nobody-has-it": (hosted_by_nobody, FAIL),
    "acknowledged-and-a-silent-node-may-have-it": (hosted_by_the_silent, UNKNOWN),
    "acknowledged-and-not-every-node-was-asked": (hosted_by_none_of_those_asked, UNKNOWN),
    "acknowledged-and-no-node-was-asked": (asked_of_no_node, UNKNOWN),
    "segment-of-an-offset-beyond-all": (named_beyond_all_offsets, FAIL),
    "two-leaders-in-a-look-of-a-second-life": (led_by_both_in_a_second_life, FAIL),
    "acknowledged-before-it-was-sent": (acknowledged_too_early, UNKNOWN),
    "node-without-a-trace": (lacking("trace/broker-1-1.jsonl"), UNKNOWN),
    "producer-without-a-history": (lacking("history/p0.jsonl"), UNKNOWN),
    "start-without-a-history": (having("history/p0.3.jsonl", b""), UNKNOWN),
    "history-of-no-process": (having("history/a.b.c.jsonl", b""), UNKNOWN),
    "history-cut-off": (having("history/p0.jsonl", SENT + SENT[:30]), UNKNOWN),
    "outcome-without-a-send": (
        having("history/p0.jsonl", SENT + history_line(OperationType.OK, 7)),
        UNKNOWN,
    ),
    "outcome-twice": (having("history/p0.jsonl", SENT + OUTCOME), UNKNOWN),
    "acknowledged-and-lost": (acknowledging(1), FAIL),
    "acknowledged-without-an-offset": (acknowledging(-1), UNKNOWN),
    "acknowledged-without-an-offset-as-asked": (acknowledging(-1, acks=0), PASS),
    "reader-that-was-not-promised": (promising(consumers=()), UNKNOWN),
    "log-that-starts-above-its-high-watermark": (started_above, FAIL),
    "commit-without-a-beginning": (
        having("history/p0.jsonl", SENT + OUTCOME.replace(b'"send"', b'"commit"')),
        UNKNOWN,
    ),
    "lines-of-another-process": (
        having("history/p0.jsonl", SENT + SENT.replace(b'"p0"', b'"p9"')),
        UNKNOWN,
    ),
    "too-few-acknowledged": (promising(least_acknowledged=2), UNKNOWN),
    "topic-without-a-leader": (promising(topics=OTHER), UNKNOWN),
    "replica-that-nobody-told-of": (looking(assigned_replicas=EVERYONE), UNKNOWN),
    "log-that-starts-late": (looking(log_start_offset=Offset(1)), UNKNOWN),
    "records-that-do-not-decode": (undecodable, UNKNOWN),
    "two-records-at-one-offset": (holding(TWO_AT_ONE_OFFSET), UNKNOWN),
    "fewer-records-than-offsets": (holding(MORE_OFFSETS), UNKNOWN),
    "segment-within-another": (with_a_segment_within, FAIL),
    "failed-as-another-record": (failed_as_another, UNKNOWN),
    "snapshot-of-another-node": (reported_by(7), UNKNOWN),
    "replica-twice-in-a-snapshot": (reported_by(1, times=2), UNKNOWN),
    "snapshot-of-its-node": (reported_by(1), PASS),
    "no-topology": (without_its_topology, UNKNOWN),
    "leads-beyond-64-bits": (
        also_traced(
            "broker-2-1", of_broker_2(EventKind.BECAME_LEADER, ZERO, isr=[2], high_watermark=2**63)
        ),
        UNKNOWN,
    ),
    "deleted-without-a-clock": (without_a_clock, UNKNOWN),
    "states-changed": (with_states(MADE, **ONLINE), PASS),
    "states-changed-as-no-table-has": (with_states(MADE, **UNMADE), FAIL),
    "states-nearly-changed": (with_states(REFUSED, **UNMADE), FAIL),
    "states-changed-nobody-knows-how": (with_states(MADE, to_state="OnlinePartition"), UNKNOWN),
    "groups-loaded": (coordinating(BEGUN, (LOADED, {"read_up_to": 5})), PASS),
    "groups-loaded-in-part": (coordinating(BEGUN, (LOADED, {"read_up_to": 4})), FAIL),
    "groups-never-loaded": (coordinating(BEGUN), UNKNOWN),
    "groups-loaded-nobody-knows-how-far": (coordinating(BEGUN, (LOADED, {})), UNKNOWN),
    "committed-offset-told": (committing(*fetched(2)), PASS),
    "committed-offset-lost": (committing(*fetched(1)), FAIL),
    "committed-offset-asked-by-nobody": (committing(), UNKNOWN),
    "members": (of_members(*ALL_OF_M0), PASS),
    "two-owners-in-a-generation": (of_members(*ALL_OF_M0, second=TO_M1), FAIL),
    "commit-of-an-older-generation": (of_members(*ALL_OF_M0, second=TO_M1_LATER), FAIL),
    "committed-before-it-was-read": (of_members(ASSIGNED_TO_M0, COMMITTED_BY_M0), FAIL),
    "read-again": (of_members(*ALL_OF_M0[:2], READ_BY_M0, COMMITTED_BY_M0), FAIL),
    "two-records": (first_then(two_records, KNOWN_WRITERS), PASS),
    "unsent": (first_then(unsent("x"), KNOWN_WRITERS), UNKNOWN),
    "unsent-where-others-may-write": (unsent("x"), PASS),
    "unsent-by-a-process-that-was-not-killed": (first_then(unsent("p0-9"), KNOWN_WRITERS), UNKNOWN),
    "unsent-by-a-process-that-was-killed": (
        first_then(unsent("p0-9"), KNOWN_WRITERS, having("history/p0.2.jsonl", b"")),
        PASS,
    ),
    "unsent-by-the-process-after-it": (
        first_then(unsent("p0.2-9"), KNOWN_WRITERS, having("history/p0.2.jsonl", b"")),
        UNKNOWN,
    ),
    "group-read-all": (first_then(of_members(*ALL_OF_M0), promising(groups=GROUP)), PASS),
    "group-read-all-by-another-start": (
        first_then(
            of_members(*ALL_OF_M0[::2]),
            having("history/m1.jsonl", b""),
            having("history/m1.2.jsonl", member(22, POLL, 0, process="m1.2")),
            promising(groups=GROUP),
        ),
        FAIL,  # m0 commits it unread (I22)
    ),
    "group-left-a-record": (first_then(of_members(ASSIGNED_TO_M0), promising(groups=GROUP)), FAIL),
    "group-left-one-of-two-records": (
        first_then(two_records, of_members(*ALL_OF_M0), promising(groups=GROUP)),
        FAIL,
    ),
    "group-left-one-without-the-time": (
        first_then(
            two_records,
            of_members(*ALL_OF_M0),
            promising(groups=(replace(GROUP[0], to_the_end=False),)),
        ),
        PASS,
    ),
    "group-read-nothing-without-the-time": (
        first_then(
            of_members(ASSIGNED_TO_M0),
            promising(groups=(replace(GROUP[0], to_the_end=False),)),
        ),
        UNKNOWN,
    ),
    "one-group-of-two-read-nothing": (
        first_then(
            of_members(*ALL_OF_M0),
            promising(groups=(GROUP[0], PromisedGroup("h", "t", (), to_the_end=False))),
        ),
        UNKNOWN,
    ),
    "group-moved": (
        first_then(of_members(*ALL_OF_M0), group_changed(group="g", reason="moved")),
        PASS,
    ),
    "group-deleted": (
        first_then(of_members(*ALL_OF_M0), group_changed(group="g", reason="GROUP_ID_NOT_FOUND")),
        UNKNOWN,
    ),
    "nobody-knows-which-group-moved": (
        first_then(of_members(*ALL_OF_M0), group_changed(reason="moved")),
        UNKNOWN,
    ),
    "nobody-knows-why-a-group-changed": (
        first_then(of_members(*ALL_OF_M0), group_changed(group="g")),
        UNKNOWN,
    ),
    "no-logs": (no_logs, UNKNOWN),
    "no-logs-where-nodes-may-stay-down": (
        first_then(no_logs, promising(only_in_sync=True)),
        UNKNOWN,
    ),
    "segment-named-above-its-first-offset": (named(1), FAIL),
    "segment-named-below-its-first-offset": (
        first_then(beginning_at(1), named(0)),
        FAIL,
    ),
    "empty-segment-at-the-end": (with_an_empty_segment(1), PASS),
    "offsets-named-above-their-first": (
        first_then(holding_offsets(FIRST + SECOND, FIRST + SECOND), named(1, OFFSETS_TOPIC)),
        FAIL,
    ),
    "offsets-alike": (holding_offsets(FIRST + SECOND, FIRST + SECOND), PASS),
    "offsets-differ": (holding_offsets(FIRST + SECOND, FIRST + OTHER_SECOND), FAIL),
    "offsets-cut-short": (holding_offsets(FIRST + SECOND, FIRST), FAIL),
    "offsets-compacted": (holding_offsets(FIRST + SECOND, GONE_0 + SECOND), PASS),
    "offsets-compacted-away": (holding_offsets(FIRST + GONE_1, FIRST + SECOND), FAIL),
    "offsets-forgotten": (holding_offsets(FIRST + FORGOTTEN, GONE_0 + GONE_1), PASS),
    "offsets-with-a-gap": (holding_offsets(FIRST + GONE_1 + THIRD, FIRST + THIRD), FAIL),
    "offsets-not-copied": (holding_offsets(FIRST + SECOND), UNKNOWN),
    "no-looks": (lacking(names.LOOKS), PASS),
    "no-looks-and-a-log-behind": (ending_with(high_watermark=Offset(2)), FAIL),
    "the-end-is-worse-than-the-last-look": (
        ending_with(Look(90, BROKERS), high_watermark=Offset(2)),
        FAIL,
    ),
    "the-last-look-is-worse-than-the-end": (ending_with(look_with(high_watermark=Offset(2))), PASS),
    "intents-cut-off": (having(names.INTENTS, b"{]\n{}\n"), UNKNOWN),
    "intents-torn": (having(names.INTENTS, STARTED_AGAIN + b"{"), PASS),
    "started-again": (first_then(up_again(2), having(names.INTENTS, STARTED_AGAIN)), PASS),
    "started-again-by-somebody": (up_again(2), UNKNOWN),
    "started-again-once-by-somebody": (
        first_then(up_again(3), having(names.INTENTS, STARTED_AGAIN)),
        UNKNOWN,
    ),
    "another-node-started-again": (
        first_then(up_again(2), having(names.INTENTS, STARTED_AGAIN.replace(b"1}", b"0}"))),
        UNKNOWN,
    ),
    "started-again-in-an-earlier-format": (
        first_then(up_again(2), promising(format_version=1)),
        PASS,
    ),
    "files-listed": (listing, PASS),
    "edited-after-the-run": (having_edited, UNKNOWN),
    "segment-added-after-the-run": (
        first_then(listing, having("segments/broker-1/t-0/00000000000000000099.log", b"")),
        UNKNOWN,
    ),
    "silent-at-the-end": (silent_at_the_end, UNKNOWN),
    "silent-where-nodes-may-stay-down": (
        first_then(silent_at_the_end, promising(only_in_sync=True)),
        PASS,
    ),
    "node-that-nobody-asked-where-nodes-may-stay-down": (
        first_then(of_three_nodes, promising(only_in_sync=True)),
        UNKNOWN,
    ),
    "plan-cut-off": (having("plan.json", b"{"), PASS),
    "topology-cut-off": (having("topology.json", b"{"), UNKNOWN),
    "clock-cut-off": (having("clock.json", b"{"), PASS),
    "recorded-verdict-cut-off": (having("verdict.json", b"{"), PASS),
    "strange-folder": (having("segments/broker-0/lost+found/0.log", b"?"), PASS),
    "replication-factor-too-large": (promising(topics=(PromisedTopic("t", 1, 2**31),)), UNKNOWN),
    "least-acknowledged-too-large": (promising(least_acknowledged=2**63), UNKNOWN),
    "format-too-small": (promising(format_version=-(2**31) - 1), UNKNOWN),
    "acks-too-large": (promising(producers=(PromisedProducer("p0", acks=2**31),)), UNKNOWN),
    "in-flight-too-many": (
        promising(producers=(PromisedProducer("p0", max_in_flight=2**31),)),
        UNKNOWN,
    ),
    "excused-from-too-large-an-offset": (losing(2**63), FAIL),
    "excused-in-too-large-a-partition": (
        having(EXCUSED.name, b'[{"topic":"t","partition":2147483648,"start_offset":3}]'),
        UNKNOWN,
    ),
    "watched-too-many": (watching(2**63), UNKNOWN),
    "watched-less-than-nothing": (watching(-1), UNKNOWN),
    "batch-at-the-largest-offset": (beginning_at(2**63 - 1), FAIL),
    "batch-below-all-offsets": (beginning_at(-1), FAIL),
    "record-above-all-offsets": (beginning_at(2**63 - 2, 2), FAIL),
    "folder-for-a-trace": (being("trace/broker-9-1.jsonl", Path.mkdir), UNKNOWN),
    "pipe-for-a-trace": (being("trace/broker-9-1.jsonl", os.mkfifo), UNKNOWN),
    "link-to-no-trace": (being("trace/broker-9-1.jsonl", linked_to_nothing), UNKNOWN),
    "pipe-for-a-history": (being("history/p9.jsonl", os.mkfifo), UNKNOWN),
    "link-to-no-history": (being("history/p9.jsonl", linked_to_nothing), UNKNOWN),
    "folder-for-looks": (being(names.LOOKS, Path.mkdir), UNKNOWN),
    "link-to-no-looks": (being(names.LOOKS, linked_to_nothing), UNKNOWN),
    "pipe-for-probes": (being(names.PROBES, os.mkfifo), UNKNOWN),
    "link-to-no-probes": (being(names.PROBES, linked_to_nothing), UNKNOWN),
    "folder-for-intents": (being(names.INTENTS, Path.mkdir), UNKNOWN),
    "link-to-no-intents": (being(names.INTENTS, linked_to_nothing), UNKNOWN),
    "link-to-nothing-watched": (being(WATCHED.name, linked_to_nothing), UNKNOWN),
    "pipe-for-a-segment": (being(f"{LAST_SEGMENT}.log", os.mkfifo), UNKNOWN),
    "folder-for-a-segment": (being(f"{LAST_SEGMENT}.log", Path.mkdir), UNKNOWN),
    "link-to-no-segment": (being(f"{LAST_SEGMENT}.log", linked_to_nothing), UNKNOWN),
    **{
        f"{kind.replace('_', '-')}-without-details": (
            also_traced("broker-2-1", of_broker_2(kind, Offset(0))),
            UNKNOWN,
        )
        for kind in READ_DETAILS
    },
    "leader-that-is-no-whole-number": (
        also_traced("broker-2-1", of_broker_2(FOLLOWED, Offset(0), leader=0.0, high_watermark=0)),
        UNKNOWN,
    ),
    "leader-that-is-too-large": (
        also_traced("broker-2-1", of_broker_2(FOLLOWED, Offset(0), leader=2**31, high_watermark=0)),
        UNKNOWN,
    ),
    "events-in-their-order": (having("trace/broker-2-1.jsonl", b"".join(TRACED)), PASS),
    "events-in-another-order": (having("trace/broker-2-1.jsonl", b"".join(TRACED[::-1])), UNKNOWN),
    "events-in-two-files": (
        first_then(having("trace/a.jsonl", TRACED[0]), having("trace/b.jsonl", TRACED[1])),
        UNKNOWN,
    ),
    "events-in-two-files-the-later-first": (
        first_then(having("trace/a.jsonl", TRACED[1]), having("trace/b.jsonl", TRACED[0])),
        UNKNOWN,
    ),
    "events-in-two-files-all": (
        first_then(*(having(f"trace/{name}.jsonl", b"".join(TRACED)) for name in "ab")),
        UNKNOWN,
    ),
    "no-final-look-and-an-empty-one": (no_end_but(b"\n"), UNKNOWN),
    "no-final-look-and-a-torn-one": (no_end_but(b'{"time_ns":1,"no'), UNKNOWN),
    "no-final-look-and-a-damaged-one": (no_end_but(b"{}\n"), UNKNOWN),
    "times-at-both-ends": (at_both_ends, PASS),
    "hidden-from-end-to-end": (hidden_from_end_to_end, UNKNOWN),
    "starts-at-both-ends": (
        first_then(up_again(2**31 - 1), up_again(-(2**31))),
        UNKNOWN,
    ),
    "event-at-the-least-number": (
        having("trace/broker-2-1.jsonl", TRACED[0].replace(b'"seq":0', b'"seq":%d' % -(2**63))),
        UNKNOWN,
    ),
    "member-read-at-the-largest-offset": (
        of_members(ASSIGNED_TO_M0, member(20, POLL, 2**63 - 1), member(21, POLL, 0)),
        FAIL,
    ),
    "member-committed-the-least-offset": (
        of_members(
            *ALL_OF_M0[:2],
            member(30, COMMIT, -(2**63), OperationType.INVOKE),
            member(31, COMMIT, -(2**63)),
        ),
        UNKNOWN,
    ),
    **TAMPERED_HISTORIES,
    **TAMPERED_SLICES,
    **TAMPERED_COPIES,
}
