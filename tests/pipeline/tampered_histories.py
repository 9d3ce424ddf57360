"""Ways to damage the histories of a sound run's clients: see tampered.py."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from highwater_checker.history import (
    ASSIGNED,
    COMMIT,
    FETCH_COMMITTED,
    POLL,
    OperationType,
)
from highwater_checker.run_folder.documents import PromisedGroup
from tests.pipeline.tampering import (
    FAIL,
    PASS,
    UNKNOWN,
    being,
    committing,
    fetched,
    first_then,
    having,
    lacking,
    listing,
    member,
    of_members,
    promising,
)
from tests.pipeline.tampering_logs import losing
from tests.support.run_on_disk import READ, SENT

GROUP = (PromisedGroup("g", "t", ("m0", "m1")),)
ASSIGNED_TO_M0 = member(10, ASSIGNED, -1, generation=1)
READ_BY_M0 = member(20, POLL, 0)
COMMITTED_BY_M0 = (
    member(30, COMMIT, 1, OperationType.INVOKE)
    + member(31, COMMIT, 1)
    + member(40, FETCH_COMMITTED, -1, OperationType.INVOKE)
    + member(41, FETCH_COMMITTED, 1)
)
ALL_OF_M0 = (ASSIGNED_TO_M0, READ_BY_M0, COMMITTED_BY_M0)
TO_M1 = member(11, ASSIGNED, -1, process="m1", generation=1)
TO_M1_LATER = member(25, ASSIGNED, -1, process="m1", generation=2)
DAMAGED = b"{]\n"
C0, M0 = "history/c0.jsonl", "history/m0.jsonl"
OF_ANOTHER = READ.replace(b'"c0"', b'"c9"')
UNREAD_BY_M0 = of_members(ASSIGNED_TO_M0, COMMITTED_BY_M0)
REFUSED = READ.replace(b'"ok"', b'"fail"').replace(b'"error":""', b'"error":"OFFSET_OUT_OF_RANGE"')
REFUSED_BEYOND = REFUSED.replace(b'"offset":0', b'"offset":9')

TAMPERED_HISTORIES: dict[str, tuple[Callable[[Path], None], str]] = {
    "send-with-the-number-of-another": (
        having("history/p0.jsonl", SENT + SENT.replace(b'"v0"', b'"v1"')),
        UNKNOWN,
    ),
    "consumer-with-a-damaged-line": (having(C0, DAMAGED), UNKNOWN),
    "consumer-with-a-damaged-line-too-many": (having(C0, READ + DAMAGED), UNKNOWN),
    "read-of-a-partition-without-a-log": (
        having(C0, READ + READ.replace(b'"partition":0', b'"partition":7')),
        UNKNOWN,
    ),
    "read-of-a-topic-without-a-log": (
        having(C0, READ + READ.replace(b'"topic":"t"', b'"topic":"u"')),
        UNKNOWN,
    ),
    "consumer-cut-off": (having(C0, READ[:30]), UNKNOWN),
    "consumer-with-a-line-of-another": (having(C0, OF_ANOTHER), UNKNOWN),
    "pipe-for-a-consumers-history": (being(C0, os.mkfifo), UNKNOWN),
    "consumer-cut-short-after-the-run": (first_then(listing, having(C0, b"")), UNKNOWN),
    "consumer-added-after-the-run": (
        first_then(listing, having("history/c0.2.jsonl", b"")),
        UNKNOWN,
    ),
    "consumer-that-read-nothing": (having(C0, b""), FAIL),
    "consumer-refused-an-offset-in-the-log": (having(C0, REFUSED + READ), FAIL),
    "consumer-refused-an-offset-above-its-leaders-log": (having(C0, READ + REFUSED_BEYOND), PASS),
    "consumer-that-read-nothing-at-its-second-start": (having("history/c0.2.jsonl", b""), FAIL),
    "second-start-of-a-consumer-gone": (
        first_then(
            having(C0, b""),
            having("history/c0.2.jsonl", READ.replace(b'"c0"', b'"c0.2"')),
            listing,
            lacking("history/c0.2.jsonl"),
        ),
        UNKNOWN,
    ),
    "first-start-of-a-consumer-damaged": (
        first_then(having(C0, DAMAGED), having("history/c0.2.jsonl", b"")),
        FAIL,
    ),
    "consumer-that-read-nothing-beside-damage": (
        first_then(having(C0, b""), having("history/p0.jsonl", SENT + DAMAGED)),
        FAIL,
    ),
    "record-that-is-gone-beside-damage": (
        first_then(losing(None), having(C0, READ + DAMAGED)),
        FAIL,
    ),
    "member-with-a-damaged-line": (
        of_members(ASSIGNED_TO_M0, DAMAGED, COMMITTED_BY_M0),
        UNKNOWN,
    ),
    "another-member-with-a-damaged-line": (
        first_then(UNREAD_BY_M0, having("history/m1.jsonl", DAMAGED)),
        UNKNOWN,
    ),
    "member-of-a-group-with-a-damaged-line": (
        first_then(
            of_members(ASSIGNED_TO_M0, DAMAGED, COMMITTED_BY_M0),
            promising(groups=GROUP),
        ),
        UNKNOWN,
    ),
    "member-of-another-group-with-a-damaged-line": (
        first_then(
            UNREAD_BY_M0,
            having("history/m2.jsonl", DAMAGED),
            promising(groups=(*GROUP, PromisedGroup("h", "t", ("m2",)))),
        ),
        FAIL,
    ),
    "member-without-a-history": (
        first_then(UNREAD_BY_M0, promising(groups=GROUP), lacking("history/m1.jsonl")),
        UNKNOWN,
    ),
    "member-unread-beside-a-damaged-consumer": (
        first_then(UNREAD_BY_M0, having(C0, READ + DAMAGED)),
        FAIL,
    ),
    "member-unread-beside-a-damaged-producer": (
        first_then(UNREAD_BY_M0, having("history/p0.jsonl", SENT + DAMAGED)),
        FAIL,
    ),
    "read-again-beside-damage": (
        of_members(*ALL_OF_M0[:2], DAMAGED, READ_BY_M0, COMMITTED_BY_M0),
        UNKNOWN,
    ),
    "commit-of-an-older-generation-beside-damage": (
        of_members(*ALL_OF_M0[:2], DAMAGED, COMMITTED_BY_M0, second=TO_M1_LATER),
        UNKNOWN,
    ),
    "two-owners-beside-damage": (of_members(*ALL_OF_M0, DAMAGED, second=TO_M1), FAIL),
    "committed-offset-lost-beside-damage": (committing(DAMAGED, *fetched(1)), UNKNOWN),
    "committed-offset-told-again": (committing(*fetched(2)), PASS),
}
