"""Ways to tamper with a sound run's folder, each with the verdict that both must give it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from highwater_checker.finding import CheckResult, Finding
from highwater_checker.history import (
    ASSIGNED,
    COMMIT,
    FETCH_COMMITTED,
    POLL,
    HistoryEvent,
    OperationType,
    encode,
)
from highwater_checker.looks import Look, encode_look
from highwater_checker.run_folder import names
from highwater_checker.run_folder.documents import (
    ACKS_ALL,
    EXCUSED,
    FILES,
    FINAL_LOOK,
    PROMISES,
    REQUIREMENTS,
    WATCHED,
    Excused,
    PromisedGroup,
    PromisedProducer,
    PromisedTopic,
    Promises,
)
from highwater_checker.run_folder.evidence_files import written_files
from highwater_checker.verdict import Requirement
from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import NodeId, Offset, TopicPartition
from highwater_core.internal_topics import OFFSETS_TOPIC
from highwater_core.traces import encode_event
from highwater_wire.kafka.compacted_batch import empty_batch
from highwater_wire.kafka.record_batch import build_batch
from tests.support.batches import without_records
from tests.support.made_again import write_made_again
from tests.support.run_on_disk import READ, SENT, broker, group_line, history_line, segment, write

BROKERS = {node: broker(node) for node in (0, 1)}
PASS, FAIL, UNKNOWN = "pass", "fail", "unknown"


def promises(folder: Path) -> Promises:
    found = PROMISES.read(folder)
    assert found is not None
    return found


def promise(folder: Path, **changed: Any) -> None:
    write(folder / PROMISES.name, PROMISES.encode(replace(promises(folder), **changed)))


def looked(folder: Path, *looks: Look) -> None:
    write(folder / names.LOOKS, b"".join(encode_look(each) + b"\n" for each in looks))
    write(folder / FINAL_LOOK.name, FINAL_LOOK.encode(looks[-1]))


def look_with(**changed: Any) -> Look:
    """Return a look at both brokers, whose replicas differ so from the sound run's."""
    nodes = {
        node: replace(each, replicas=(replace(each.replicas[0], **changed),))
        for node, each in BROKERS.items()
    }
    return Look(99, nodes)


def _ending(*looks: Look, **changed: Any) -> Callable[[Path], None]:
    """These are the run's looks, and its final look shows replicas that differ so."""

    def tamper(folder: Path) -> None:
        write(folder / names.LOOKS, b"".join(encode_look(each) + b"\n" for each in looks))
        if not looks:
            (folder / names.LOOKS).unlink()
        write(folder / FINAL_LOOK.name, FINAL_LOOK.encode(look_with(**changed)))

    return tamper


def _gone(*files: str) -> Callable[[Path], None]:
    def tamper(folder: Path) -> None:
        for name in files:
            (folder / name).unlink()

    return tamper


def _no_logs(folder: Path) -> None:
    """No broker's logs were copied."""
    shutil.rmtree(folder / names.SEGMENTS)


def _with(name: str, content: bytes) -> Callable[[Path], None]:
    return lambda folder: write(folder / name, content)


def _promising(**changed: Any) -> Callable[[Path], None]:
    return lambda folder: promise(folder, **changed)


def _requiring(name: str, met: bool) -> Callable[[Path], None]:
    required = (Requirement(name, met, "that was seen"),)
    return _with(REQUIREMENTS.name, REQUIREMENTS.encode(required))


def _watched(examined: int, *findings: Finding) -> Callable[[Path], None]:
    return _with(WATCHED.name, WATCHED.encode(CheckResult("it was watched", examined, findings)))


def _losing(start_offset: int | None) -> Callable[[Path], None]:
    """Replicas have another record at its offset; disks lost records from start_offset on."""

    def tamper(folder: Path) -> None:
        for node in BROKERS:
            segment(folder, node).write_bytes(build_batch([(None, b"other", 1_000)], 0, 0))
        if start_offset is not None:
            loss = (Excused("t", 0, start_offset),)
            write(folder / EXCUSED.name, EXCUSED.encode(loss))

    return tamper


def _looking(**changed: Any) -> Callable[[Path], None]:
    return lambda folder: looked(folder, look_with(**changed))


def _undecodable(folder: Path) -> None:
    """The follower's batch has a right CRC, and no records."""
    batch = build_batch([(None, b"v0", 1_000)], 0, 0)
    segment(folder, 1).write_bytes(without_records(batch))


def _without_a_clock(folder: Path) -> None:
    write_made_again(folder, with_clock=False)
    looked(folder, Look(99, BROKERS))


def _traced(name: str, *events: TraceEvent) -> Callable[[Path], None]:
    """A node that is in no look traced these events, which it numbered from 0."""
    numbered = (replace(each, seq=seq) for seq, each in enumerate(events))
    return _with(f"trace/{name}.jsonl", b"".join(encode_event(each) + b"\n" for each in numbered))


def _changed(kind: EventKind, **detail: str) -> Callable[[Path], None]:
    event = TraceEvent(5, 1000, 1, 0, kind, "t", partition=0, detail=detail)
    return _traced("controller-1000-1", event)


def _coordinating(*events: tuple[EventKind, dict[str, object]]) -> Callable[[Path], None]:
    """A broker, which is gone by the first look, led a partition of offsets."""
    made = (
        TraceEvent(5, 2, 1, 0, kind, OFFSETS_TOPIC, partition=0, leader_epoch=1, detail=detail)
        for kind, detail in ((EventKind.BECAME_LEADER, {"isr": [2], "high_watermark": 0}), *events)
    )
    return _traced("broker-2-1", *made)


def _committing(*lines: bytes) -> Callable[[Path], None]:
    """A group's offset was committed as 1, then as 2; and then lines."""
    return _with("history/g1.jsonl", b"".join((*COMMITTED, *lines)))


def _fetched(offset: int) -> tuple[bytes, bytes]:
    begun = group_line(30, OperationType.INVOKE, 2, FETCH_COMMITTED)
    return begun, group_line(31, OperationType.OK, 2, FETCH_COMMITTED, offset)


def _of_members(*lines: bytes, second: bytes = b"") -> Callable[[Path], None]:
    """m0 and m1 of the group g record these lines."""

    def tamper(folder: Path) -> None:
        write(folder / "history" / "m0.jsonl", b"".join(lines))
        write(folder / "history" / "m1.jsonl", second)

    return tamper


def _member(
    at_ns: int,
    function: str,
    offset: int,
    kind: OperationType = OperationType.OK,
    *,
    process: str = "m0",
    generation: int = -1,
) -> bytes:
    value = "v0" if function == POLL else "g"
    event = HistoryEvent(
        at_ns, kind, at_ns // 10, process, function, "t", 0, value, offset, generation=generation
    )
    return encode(event) + b"\n"


def _group_changed(**detail: str) -> Callable[[Path], None]:
    event = TraceEvent(5, 2, 1, 0, EventKind.GROUP_STATE_CHANGED, detail=detail)
    return _traced("broker-2-1", event)


def _both(*tamper: Callable[[Path], None]) -> Callable[[Path], None]:
    def all_of_them(folder: Path) -> None:
        for each in tamper:
            each(folder)

    return all_of_them


def _up_again(incarnation: int) -> Callable[[Path], None]:
    """Broker 1 traced that start too, and nothing in it that is judged."""
    event = TraceEvent(8, 1, incarnation, 0, EventKind.NODE_STARTED)
    return _traced(f"broker-1-{incarnation}", event)


def _edited(folder: Path) -> None:
    """A failed requirement was edited to a fulfilled one, after the run had listed its files."""
    requirement = _requiring("a step was done", False)
    requirement(folder)
    write(folder / FILES.name, FILES.encode(written_files(folder)))
    path = folder / REQUIREMENTS.name
    write(path, path.read_bytes().replace(b'"met": false', b'"met": true '))


def _listed(folder: Path) -> None:
    write(folder / FILES.name, FILES.encode(written_files(folder)))


def _silent_at_the_end(folder: Path) -> None:
    """A controller was asked, and did not answer."""
    looked(folder, Look(99, {**BROKERS, 1000: None}))


def _offsets(*logs: bytes) -> Callable[[Path], None]:
    """Brokers 0 and 1 host a partition of committed offsets, which no plan promises, so."""

    def tamper(folder: Path) -> None:
        looked(folder, look_with_offsets())
        for node, content in enumerate(logs):
            name = f"segments/broker-{node}/{OFFSETS_TOPIC}-0/00000000000000000000.log"
            write(folder / name, content)

    return tamper


def look_with_offsets() -> Look:
    """Return a look at both brokers, which also have two committed records of offsets."""
    at = TopicPartition(OFFSETS_TOPIC, 0)
    two = {"topic_partition": at, "high_watermark": Offset(2), "log_end_offset": Offset(2)}
    nodes = {
        node: replace(each, replicas=(*each.replicas, replace(each.replicas[0], **two)))
        for node, each in BROKERS.items()
    }
    return Look(99, nodes)


def _committed(offset: int, value: bytes | None) -> bytes:
    return build_batch([(b"g\x80", value, 1_000)], offset, 0)


THIRD = _committed(2, b"\xc9")
GONE_0, GONE_1 = empty_batch(0, 0, 0), empty_batch(1, 1, 0)
"""The empty batches that compaction leaves at these offsets."""
FIRST, SECOND, OTHER_SECOND, FORGOTTEN = (
    _committed(0, b"\xc8"), _committed(1, b"\xc9"), _committed(1, b"\xca"), _committed(1, None),
)  # fmt: skip
"""Records of one key, whose bytes are no UTF-8."""


def _unsent(value: str) -> Callable[[Path], None]:
    """There is a second committed record, which the run's consumer read, and nobody sent."""

    def tamper(folder: Path) -> None:
        looked(folder, look_with(high_watermark=Offset(2), log_end_offset=Offset(2)))
        for node in BROKERS:
            with segment(folder, node).open("ab") as log:
                log.write(build_batch([(None, value.encode(), 1_000)], 1, 0))
        second = history_line(OperationType.OK, 1, function="poll", process="c0")
        second = second.replace(b'"v1"', b'"%s"' % value.encode())
        write(folder / "history" / "c0.jsonl", READ + second)

    return tamper


def _two_records(folder: Path) -> None:
    """There is a second record, which was sent, committed and read."""
    _unsent("v1")(folder)
    sent = history_line(OperationType.INVOKE, 1) + history_line(OperationType.OK, 1)
    write(folder / "history" / "p0.jsonl", SENT + sent)


def _acknowledging(offset: int, acks: int = ACKS_ALL) -> Callable[[Path], None]:
    """A second producer's record was acknowledged at the offset, and no log has it."""
    begun, done = (
        history_line(kind, 1, process="p1") for kind in (OperationType.INVOKE, OperationType.OK)
    )
    lines = begun + done.replace(b'"offset":1', b'"offset":%d' % offset)
    return _both(
        _with("history/p1.jsonl", lines),
        _promising(producers=(PromisedProducer("p0"), PromisedProducer("p1", acks=acks))),
    )


def _started_above(folder: Path) -> None:
    """Retention let go of the only record, said a broker, whose replicas had not committed it."""
    moved = TraceEvent(8, 2, 1, 0, EventKind.LOG_START_MOVED, "t", partition=0, offset=Offset(1))
    _traced("broker-2-1", moved)(folder)
    looked(folder, look_with(log_start_offset=Offset(1), high_watermark=Offset(0)))


KNOWN_WRITERS = _promising(writers_are_known=True)
GROUP = (PromisedGroup("g", "t", ("m0", "m1")),)
STARTED_AGAIN = b'{"at_ns":7,"number":0,"phase":"starting","node":1}\n'
ASSIGNED_TO_M0 = _member(10, ASSIGNED, -1, generation=1)
READ_BY_M0 = _member(20, POLL, 0)
COMMITTED_BY_M0 = (
    _member(30, COMMIT, 1, OperationType.INVOKE)
    + _member(31, COMMIT, 1)
    + _member(40, FETCH_COMMITTED, -1, OperationType.INVOKE)
    + _member(41, FETCH_COMMITTED, 1)
)
ALL_OF_M0 = (ASSIGNED_TO_M0, READ_BY_M0, COMMITTED_BY_M0)
TO_M1 = _member(11, ASSIGNED, -1, process="m1", generation=1)
TO_M1_LATER = _member(25, ASSIGNED, -1, process="m1", generation=2)
COMMITTED = (
    group_line(10, OperationType.INVOKE, 0, COMMIT, 1),
    group_line(11, OperationType.OK, 0, COMMIT, 1),
    group_line(20, OperationType.INVOKE, 1, COMMIT, 2),
    group_line(21, OperationType.OK, 1, COMMIT, 2),
)
BEGUN: tuple[EventKind, dict[str, object]] = (EventKind.GROUP_LOAD_BEGUN, {"epoch_start_offset": 5})
LOADED = EventKind.GROUP_LOAD_ENDED
MADE, REFUSED = EventKind.PARTITION_STATE_CHANGED, EventKind.TRANSITION_REFUSED
ONLINE = {"from_state": "NewPartition", "to_state": "OnlinePartition"}
UNMADE = {"from_state": "NonExistentPartition", "to_state": "OnlinePartition"}
STRANGER = Finding("I5", "the simulator saw it", "t", 0)
OUTCOME = history_line(OperationType.OK)
OTHER = (PromisedTopic("t", 1, 2), PromisedTopic("u", 1, 1))
EVERYONE = (NodeId(0), NodeId(1), NodeId(2))

TAMPERED: dict[str, tuple[Callable[[Path], None], str]] = {
    "no-promises": (_gone(PROMISES.name), UNKNOWN),
    "promises-of-a-later-format": (_promising(format_version=99), UNKNOWN),
    "promises-cut-off": (_with(PROMISES.name, b"{"), UNKNOWN),
    "no-requirements": (_gone(REQUIREMENTS.name), UNKNOWN),
    "requirement-met": (_requiring("a step was done", True), PASS),
    "requirement-not-met": (_requiring("a step was done", False), UNKNOWN),
    "requirements-cut-off": (_with(REQUIREMENTS.name, b"["), UNKNOWN),
    "no-final-look": (_gone(FINAL_LOOK.name), UNKNOWN),
    "watched": (_watched(5), PASS),
    "watched-and-found": (_watched(5, STRANGER), FAIL),
    "watched-nothing": (_watched(0), UNKNOWN),
    "watched-cut-off": (_with(WATCHED.name, b"{"), UNKNOWN),
    "kept-and-gone": (_promising(kept=("probes.jsonl",)), UNKNOWN),
    "lost-by-a-disk": (_losing(0), PASS),
    "lost-below-what-a-disk-lost": (_losing(1), FAIL),
    "lost-without-an-excuse": (_losing(None), FAIL),
    "excused-cut-off": (_with(EXCUSED.name, b"["), UNKNOWN),
    "node-without-a-trace": (_gone("trace/broker-1-1.jsonl"), UNKNOWN),
    "producer-without-a-history": (_gone("history/p0.jsonl"), UNKNOWN),
    "start-without-a-history": (_with("history/p0.3.jsonl", b""), UNKNOWN),
    "history-of-no-process": (_with("history/a.b.c.jsonl", b""), UNKNOWN),
    "history-cut-off": (_with("history/p0.jsonl", SENT + SENT[:30]), UNKNOWN),
    "outcome-without-a-send": (
        _with("history/p0.jsonl", SENT + history_line(OperationType.OK, 7)),
        UNKNOWN,
    ),
    "outcome-twice": (_with("history/p0.jsonl", SENT + OUTCOME), UNKNOWN),
    "acknowledged-and-lost": (_acknowledging(1), FAIL),
    "acknowledged-without-an-offset": (_acknowledging(-1), UNKNOWN),
    "acknowledged-without-an-offset-as-asked": (_acknowledging(-1, acks=0), PASS),
    "reader-that-was-not-promised": (_promising(consumers=()), UNKNOWN),
    "log-that-starts-above-its-high-watermark": (_started_above, FAIL),
    "commit-without-a-beginning": (
        _with("history/p0.jsonl", SENT + OUTCOME.replace(b'"send"', b'"commit"')),
        UNKNOWN,
    ),
    "lines-of-another-process": (
        _with("history/p0.jsonl", SENT + SENT.replace(b'"p0"', b'"p9"')),
        UNKNOWN,
    ),
    "too-few-acknowledged": (_promising(least_acknowledged=2), UNKNOWN),
    "topic-without-a-leader": (_promising(topics=OTHER), UNKNOWN),
    "replica-that-nobody-told-of": (_looking(assigned_replicas=EVERYONE), UNKNOWN),
    "log-that-starts-late": (_looking(log_start_offset=Offset(1)), UNKNOWN),
    "records-that-do-not-decode": (_undecodable, UNKNOWN),
    "deleted-without-a-clock": (_without_a_clock, UNKNOWN),
    "states-changed": (_changed(MADE, **ONLINE), PASS),
    "states-changed-as-no-table-has": (_changed(MADE, **UNMADE), FAIL),
    "states-nearly-changed": (_changed(REFUSED, **UNMADE), FAIL),
    "states-changed-nobody-knows-how": (_changed(MADE, to_state="OnlinePartition"), UNKNOWN),
    "groups-loaded": (_coordinating(BEGUN, (LOADED, {"read_up_to": 5})), PASS),
    "groups-loaded-in-part": (_coordinating(BEGUN, (LOADED, {"read_up_to": 4})), FAIL),
    "groups-never-loaded": (_coordinating(BEGUN), UNKNOWN),
    "groups-loaded-nobody-knows-how-far": (_coordinating(BEGUN, (LOADED, {})), UNKNOWN),
    "committed-offset-told": (_committing(*_fetched(2)), PASS),
    "committed-offset-lost": (_committing(*_fetched(1)), FAIL),
    "committed-offset-asked-by-nobody": (_committing(), UNKNOWN),
    "members": (_of_members(*ALL_OF_M0), PASS),
    "two-owners-in-a-generation": (_of_members(*ALL_OF_M0, second=TO_M1), FAIL),
    "commit-of-an-older-generation": (_of_members(*ALL_OF_M0, second=TO_M1_LATER), FAIL),
    "committed-before-it-was-read": (_of_members(ASSIGNED_TO_M0, COMMITTED_BY_M0), FAIL),
    "read-again": (_of_members(*ALL_OF_M0[:2], READ_BY_M0, COMMITTED_BY_M0), FAIL),
    "two-records": (_both(_two_records, KNOWN_WRITERS), PASS),
    "unsent": (_both(_unsent("x"), KNOWN_WRITERS), UNKNOWN),
    "unsent-where-others-may-write": (_unsent("x"), PASS),
    "unsent-by-a-process-that-was-not-killed": (_both(_unsent("p0-9"), KNOWN_WRITERS), UNKNOWN),
    "unsent-by-a-process-that-was-killed": (
        _both(_unsent("p0-9"), KNOWN_WRITERS, _with("history/p0.2.jsonl", b"")),
        PASS,
    ),
    "unsent-by-the-process-after-it": (
        _both(_unsent("p0.2-9"), KNOWN_WRITERS, _with("history/p0.2.jsonl", b"")),
        UNKNOWN,
    ),
    "group-read-all": (_both(_of_members(*ALL_OF_M0), _promising(groups=GROUP)), PASS),
    "group-read-all-by-another-start": (
        _both(
            _of_members(*ALL_OF_M0[::2]),
            _with("history/m1.jsonl", b""),
            _with("history/m1.2.jsonl", _member(22, POLL, 0, process="m1.2")),
            _promising(groups=GROUP),
        ),
        FAIL,  # m0 commits it unread (I22)
    ),
    "group-left-a-record": (_both(_of_members(ASSIGNED_TO_M0), _promising(groups=GROUP)), FAIL),
    "group-left-one-of-two-records": (
        _both(_two_records, _of_members(*ALL_OF_M0), _promising(groups=GROUP)),
        FAIL,
    ),
    "group-left-one-without-the-time": (
        _both(
            _two_records,
            _of_members(*ALL_OF_M0),
            _promising(groups=(replace(GROUP[0], to_the_end=False),)),
        ),
        PASS,
    ),
    "group-read-nothing-without-the-time": (
        _both(
            _of_members(ASSIGNED_TO_M0),
            _promising(groups=(replace(GROUP[0], to_the_end=False),)),
        ),
        UNKNOWN,
    ),
    "one-group-of-two-read-nothing": (
        _both(
            _of_members(*ALL_OF_M0),
            _promising(groups=(GROUP[0], PromisedGroup("h", "t", (), to_the_end=False))),
        ),
        UNKNOWN,
    ),
    "group-moved": (
        _both(_of_members(*ALL_OF_M0), _group_changed(group="g", reason="moved")),
        PASS,
    ),
    "group-deleted": (
        _both(_of_members(*ALL_OF_M0), _group_changed(group="g", reason="GROUP_ID_NOT_FOUND")),
        UNKNOWN,
    ),
    "nobody-knows-which-group-moved": (
        _both(_of_members(*ALL_OF_M0), _group_changed(reason="moved")),
        UNKNOWN,
    ),
    "nobody-knows-why-a-group-changed": (
        _both(_of_members(*ALL_OF_M0), _group_changed(group="g")),
        UNKNOWN,
    ),
    "no-logs": (_no_logs, FAIL),
    "no-logs-where-nodes-may-stay-down": (_both(_no_logs, _promising(only_in_sync=True)), UNKNOWN),
    "offsets-alike": (_offsets(FIRST + SECOND, FIRST + SECOND), PASS),
    "offsets-differ": (_offsets(FIRST + SECOND, FIRST + OTHER_SECOND), FAIL),
    "offsets-cut-short": (_offsets(FIRST + SECOND, FIRST), FAIL),
    "offsets-compacted": (_offsets(FIRST + SECOND, GONE_0 + SECOND), PASS),
    "offsets-compacted-away": (_offsets(FIRST + GONE_1, FIRST + SECOND), FAIL),
    "offsets-forgotten": (_offsets(FIRST + FORGOTTEN, GONE_0 + GONE_1), PASS),
    "offsets-with-a-gap": (_offsets(FIRST + GONE_1 + THIRD, FIRST + THIRD), FAIL),
    "offsets-not-copied": (_offsets(FIRST + SECOND), UNKNOWN),
    "no-looks": (_gone(names.LOOKS), PASS),
    "no-looks-and-a-log-behind": (_ending(high_watermark=Offset(2)), FAIL),
    "the-end-is-worse-than-the-last-look": (
        _ending(Look(90, BROKERS), high_watermark=Offset(2)),
        FAIL,
    ),
    "the-last-look-is-worse-than-the-end": (_ending(look_with(high_watermark=Offset(2))), PASS),
    "intents-cut-off": (_with(names.INTENTS, b"{]\n{}\n"), UNKNOWN),
    "intents-torn": (_with(names.INTENTS, STARTED_AGAIN + b"{"), PASS),
    "started-again": (_both(_up_again(2), _with(names.INTENTS, STARTED_AGAIN)), PASS),
    "started-again-by-somebody": (_up_again(2), UNKNOWN),
    "started-again-once-by-somebody": (
        _both(_up_again(3), _with(names.INTENTS, STARTED_AGAIN)),
        UNKNOWN,
    ),
    "another-node-started-again": (
        _both(_up_again(2), _with(names.INTENTS, STARTED_AGAIN.replace(b"1}", b"0}"))),
        UNKNOWN,
    ),
    "started-again-in-an-earlier-format": (_both(_up_again(2), _promising(format_version=1)), PASS),
    "files-listed": (_listed, PASS),
    "edited-after-the-run": (_edited, UNKNOWN),
    "segment-added-after-the-run": (
        _both(_listed, _with("segments/broker-1/t-0/00000000000000000099.log", b"")),
        UNKNOWN,
    ),
    "silent-at-the-end": (_silent_at_the_end, UNKNOWN),
    "silent-where-nodes-may-stay-down": (
        _both(_silent_at_the_end, _promising(only_in_sync=True)),
        PASS,
    ),
    "plan-cut-off": (_with("plan.json", b"{"), PASS),
    "topology-cut-off": (_with("topology.json", b"{"), PASS),
    "clock-cut-off": (_with("clock.json", b"{"), PASS),
    "recorded-verdict-cut-off": (_with("verdict.json", b"{"), PASS),
    "strange-folder": (_with("segments/broker-0/lost+found/0.log", b"?"), PASS),
}
