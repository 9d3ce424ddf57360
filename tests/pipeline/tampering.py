"""Steps that tamper with a sound run's folder."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from highwater_checker.finding import CheckResult, Finding
from highwater_checker.history import (
    COMMIT,
    FETCH_COMMITTED,
    POLL,
    HistoryEvent,
    OperationType,
    encode,
)
from highwater_checker.looks import Look, encode_look
from highwater_checker.probes import NO_ANSWER, Probe, encode_probe
from highwater_checker.run_folder import names
from highwater_checker.run_folder.documents import (
    ACKS_ALL,
    CLOCK,
    FILES,
    FINAL_LOOK,
    PROMISES,
    REQUIREMENTS,
    TOPOLOGY,
    WATCHED,
    PromisedProducer,
    Promises,
    RunStart,
    RunTopology,
)
from highwater_checker.run_folder.evidence_files import written_files
from highwater_checker.run_folder.intents import Intent, Phase, encode_intent
from highwater_checker.verdict import Requirement
from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import NodeId, Offset
from highwater_core.internal_topics import OFFSETS_TOPIC
from highwater_core.traces import encode_event
from highwater_wire.kafka.record_batch import build_batch
from tests.support.made_again import write_made_again
from tests.support.run_on_disk import (
    READ,
    SENT,
    broker,
    group_line,
    history_line,
    segment,
    write,
)

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


def ending_with(*looks: Look, **changed: Any) -> Callable[[Path], None]:
    """These are the run's looks, and its final look shows replicas that differ so."""

    def tamper(folder: Path) -> None:
        write(folder / names.LOOKS, b"".join(encode_look(each) + b"\n" for each in looks))
        if not looks:
            (folder / names.LOOKS).unlink()
        write(folder / FINAL_LOOK.name, FINAL_LOOK.encode(look_with(**changed)))

    return tamper


def lacking(*files: str) -> Callable[[Path], None]:
    def tamper(folder: Path) -> None:
        for name in files:
            (folder / name).unlink()

    return tamper


def no_logs(folder: Path) -> None:
    """No broker's logs were copied."""
    shutil.rmtree(folder / names.SEGMENTS)


def having(name: str, content: bytes) -> Callable[[Path], None]:
    return lambda folder: write(folder / name, content)


def ending_in(name: str, more: bytes) -> Callable[[Path], None]:
    def tamper(folder: Path) -> None:
        path = folder / name
        write(path, path.read_bytes() + more)

    return tamper


def being(name: str, make: Callable[[Path], object]) -> Callable[[Path], None]:
    """Something else is in the file's place."""

    def tamper(folder: Path) -> None:
        path = folder / name
        path.unlink(missing_ok=True)
        make(path)

    return tamper


def linked_to_nothing(path: Path) -> None:
    path.symlink_to("nothing")


def promising(**changed: Any) -> Callable[[Path], None]:
    return lambda folder: promise(folder, **changed)


def promised_twice(folder: Path) -> None:
    """A producer is promised with acks=1, and with acks=all."""
    path = folder / PROMISES.name
    promise(folder, producers=(PromisedProducer("p0", acks=1), PromisedProducer("p1")))
    path.write_bytes(path.read_bytes().replace(b'"p1"', b'"p0"'))


def requiring(name: str, met: bool) -> Callable[[Path], None]:
    required = (Requirement(name, met, "that was seen"),)
    return having(REQUIREMENTS.name, REQUIREMENTS.encode(required))


def watching(examined: int, *findings: Finding) -> Callable[[Path], None]:
    return having(WATCHED.name, WATCHED.encode(CheckResult("it was watched", examined, findings)))


def looking(**changed: Any) -> Callable[[Path], None]:
    return lambda folder: looked(folder, look_with(**changed))


def no_end_but(looks: bytes) -> Callable[[Path], None]:
    """There is no final look, and these are all looks of the run."""

    def tamper(folder: Path) -> None:
        (folder / FINAL_LOOK.name).unlink()
        write(folder / names.LOOKS, looks)

    return tamper


EARLIEST, LATEST = -(2**63), 2**63 - 1


def at_both_ends(folder: Path) -> None:
    """The times of every file are the earliest and the latest that 64 bits hold."""
    begun, done = (history_line(kind) for kind in (OperationType.INVOKE, OperationType.OK))
    times = ((begun, EARLIEST), (done, LATEST))
    lines = (line.replace(b'"time_ns":10', b'"time_ns":%d' % at) for line, at in times)
    write(folder / "history" / "p0.jsonl", b"".join(lines))
    write(folder / CLOCK.name, CLOCK.encode(RunStart(0, EARLIEST)))
    looked(folder, Look(EARLIEST, BROKERS), Look(LATEST, BROKERS))
    probe = Probe(EARLIEST, LATEST, 0, "t", 0, LATEST, high_watermark=LATEST)
    write(folder / names.PROBES, encode_probe(probe) + b"\n")
    intent = Intent[None](at_ns=LATEST, number=1, phase=Phase.ACTING)
    write(folder / names.INTENTS, encode_intent(intent) + b"\n")
    late = {"request": "LeaderAndIsr", "broker": 2}
    events = (
        TraceEvent(at_ns, 1000, 1, 0, EventKind.COMMAND_TIMED_OUT, detail=late)
        for at_ns in (EARLIEST, LATEST)
    )
    also_traced("controller-1000-1", *events)(folder)
    led = {"isr": [2], "high_watermark": LATEST}
    leaders = (
        replace(of_broker_2(EventKind.BECAME_LEADER, Offset(LATEST), **led), topic="u", **at)
        for at in ({"ts_ns": LATEST, "leader_epoch": 1}, {"ts_ns": 0, "leader_epoch": 2})
    )
    also_traced("broker-2-1", *leaders)(folder)


def hidden_from_end_to_end(folder: Path) -> None:
    """The leader's high watermark hides its record, from the earliest time to the latest.

    No probe was answered meanwhile.
    """
    hidden = replace(BROKERS[0].replicas[0], high_watermark=Offset(0))
    nodes = {**BROKERS, 0: replace(BROKERS[0], replicas=(hidden,))}
    times = (EARLIEST, *range(10), LATEST - 1)
    looked(folder, *(Look(at_ns, nodes) for at_ns in times), Look(LATEST, BROKERS))
    probe = Probe(1, 2, 0, "t", 0, 1, NO_ANSWER)
    write(folder / names.PROBES, encode_probe(probe) + b"\n")


def failed_as_another(folder: Path) -> None:
    """A stored record was said never to have been sent; the line has another record's value."""
    begun = history_line(OperationType.INVOKE, 1)
    failed = history_line(OperationType.FAIL, 1).replace(b'"v1"', b'"v7"')
    unsent("v1")(folder)
    write(folder / "history" / "p0.jsonl", SENT + begun + failed)


def reported_by(node: int, times: int = 1) -> Callable[[Path], None]:
    """At the end broker 1's snapshot is of that node, and has its replica that many times."""

    def tamper(folder: Path) -> None:
        odd = replace(BROKERS[1], node_id=NodeId(node), replicas=BROKERS[1].replicas * times)
        text = encode_look(Look(99, BROKERS)).replace(
            msgspec.json.encode(BROKERS[1]), msgspec.json.encode(odd)
        )
        for name in (names.LOOKS, FINAL_LOOK.name):
            write(folder / name, text + b"\n")

    return tamper


def without_its_topology(folder: Path) -> None:
    """A run had a node that its final look lacks, and listed its files; the topology is gone."""
    of_three_nodes(folder)
    listing(folder)
    (folder / TOPOLOGY.name).unlink()


def without_a_clock(folder: Path) -> None:
    write_made_again(folder, with_clock=False)
    looked(folder, Look(99, BROKERS))


def also_traced(name: str, *events: TraceEvent) -> Callable[[Path], None]:
    """A node that is in no look traced these events, which it numbered from 0."""
    return having(f"trace/{name}.jsonl", b"".join(numbered(*events)))


def numbered(*events: TraceEvent) -> list[bytes]:
    """Return the events' lines, numbered from 0."""
    return [encode_event(replace(each, seq=seq)) + b"\n" for seq, each in enumerate(events)]


def with_states(kind: EventKind, **detail: str) -> Callable[[Path], None]:
    event = TraceEvent(5, 1000, 1, 0, kind, "t", partition=0, detail=detail)
    return also_traced("controller-1000-1", event)


def coordinating(*events: tuple[EventKind, dict[str, object]]) -> Callable[[Path], None]:
    """A broker, which is gone by the first look, led a partition of offsets."""
    made = (
        TraceEvent(
            5, 2, 1, 0, kind, OFFSETS_TOPIC, partition=0, leader_epoch=1, offset=0, detail=detail
        )
        for kind, detail in ((EventKind.BECAME_LEADER, {"isr": [2], "high_watermark": 0}), *events)
    )
    return also_traced("broker-2-1", *made)


COMMITTED = (
    group_line(10, OperationType.INVOKE, 0, COMMIT, 1),
    group_line(11, OperationType.OK, 0, COMMIT, 1),
    group_line(20, OperationType.INVOKE, 1, COMMIT, 2),
    group_line(21, OperationType.OK, 1, COMMIT, 2),
)


def committing(*lines: bytes) -> Callable[[Path], None]:
    """A group's offset was committed as 1, then as 2; and then lines."""
    return having("history/g1.jsonl", b"".join((*COMMITTED, *lines)))


def fetched(offset: int) -> tuple[bytes, bytes]:
    begun = group_line(30, OperationType.INVOKE, 2, FETCH_COMMITTED)
    return begun, group_line(31, OperationType.OK, 2, FETCH_COMMITTED, offset)


def of_members(*lines: bytes, second: bytes = b"") -> Callable[[Path], None]:
    """m0 and m1 of the group g record these lines."""

    def tamper(folder: Path) -> None:
        write(folder / "history" / "m0.jsonl", b"".join(lines))
        write(folder / "history" / "m1.jsonl", second)

    return tamper


def member(
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


def group_changed(**detail: str) -> Callable[[Path], None]:
    event = TraceEvent(5, 2, 1, 0, EventKind.GROUP_STATE_CHANGED, detail=detail)
    return also_traced("broker-2-1", event)


def first_then(*tamper: Callable[[Path], None]) -> Callable[[Path], None]:
    def all_of_them(folder: Path) -> None:
        for each in tamper:
            each(folder)

    return all_of_them


def up_again(incarnation: int) -> Callable[[Path], None]:
    """Broker 1 traced that start too, and nothing in it that is judged."""
    event = TraceEvent(8, 1, incarnation, 0, EventKind.NODE_STARTED)
    return also_traced(f"broker-1-{incarnation}", event)


def having_edited(folder: Path) -> None:
    """A failed requirement was edited to a fulfilled one, after the run had listed its files."""
    requirement = requiring("a step was done", False)
    requirement(folder)
    write(folder / FILES.name, FILES.encode(written_files(folder)))
    path = folder / REQUIREMENTS.name
    write(path, path.read_bytes().replace(b'"met": false', b'"met": true '))


def listing(folder: Path) -> None:
    write(folder / FILES.name, FILES.encode(written_files(folder)))


def silent_at_the_end(folder: Path) -> None:
    """A controller was asked, and did not answer."""
    looked(folder, Look(99, {**BROKERS, 1000: None}))


def unsent(value: str) -> Callable[[Path], None]:
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


def two_records(folder: Path) -> None:
    """There is a second record, which was sent, committed and read."""
    unsent("v1")(folder)
    sent = history_line(OperationType.INVOKE, 1) + history_line(OperationType.OK, 1)
    write(folder / "history" / "p0.jsonl", SENT + sent)


def acknowledging(offset: int, acks: int = ACKS_ALL) -> Callable[[Path], None]:
    """A second producer's record was acknowledged at the offset, and no log has it."""
    begun, done = (
        history_line(kind, 1, process="p1") for kind in (OperationType.INVOKE, OperationType.OK)
    )
    lines = begun + done.replace(b'"offset":1', b'"offset":%d' % offset)
    return first_then(
        having("history/p1.jsonl", lines),
        promising(producers=(PromisedProducer("p0"), PromisedProducer("p1", acks=acks))),
    )


def of_broker_2(kind: EventKind, offset: Offset | None, **detail: object) -> TraceEvent:
    """Return an event of a broker that is gone by the first look."""
    return TraceEvent(
        8, 2, 1, 0, kind, "t", partition=0, leader_epoch=0, offset=offset, detail=detail
    )


def followed_below(folder: Path) -> None:
    """At the end the follower has not heard that the acknowledged record is committed."""
    low = replace(BROKERS[1].replicas[0], high_watermark=Offset(0))
    looked(folder, Look(99, {0: BROKERS[0], 1: replace(BROKERS[1], replicas=(low,))}))


def of_three_nodes(folder: Path) -> None:
    """The run had a node that its final look lacks."""
    write(folder / TOPOLOGY.name, TOPOLOGY.encode(RunTopology(brokers=3, controllers=0)))


def acknowledged_as_another(folder: Path) -> None:
    """The acknowledgement has another value than its send."""
    path = folder / "history" / "p0.jsonl"
    sent, acknowledged, *more = path.read_bytes().splitlines(keepends=True)
    write(path, b"".join((sent.replace(b'"v0"', b'"v1"'), acknowledged, *more)))


def acknowledged_elsewhere(folder: Path) -> None:
    """The acknowledgement has another partition than its send."""
    path = folder / "history" / "p0.jsonl"
    sent, acknowledged, *more = path.read_bytes().splitlines(keepends=True)
    elsewhere = acknowledged.replace(b'"partition":0', b'"partition":9')
    assert elsewhere != acknowledged
    write(path, b"".join((sent, elsewhere, *more)))


def with_strange_functions(folder: Path) -> None:
    """A history has operations of no known kind."""
    path = folder / "history" / "p0.jsonl"
    path.write_bytes(path.read_bytes() + SENT.replace(b'"send"', b'"sent"'))


def with_carriage_returns(folder: Path) -> None:
    """A history's lines have carriage returns between their values, which JSON allows."""
    path = folder / "history" / "p0.jsonl"
    path.write_bytes(path.read_bytes().replace(b',"', b',\r"'))
