"""Runs of a cluster that lived before them: as slice.json declares their traces, and otherwise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from highwater_checker.run_folder.documents import SLICE
from highwater_checker.slices import TraceBegin
from highwater_core.events import EventKind, TraceEvent
from highwater_core.traces import encode_event
from tests.pipeline.tampering import FAIL, PASS, UNKNOWN, first_then, having, lacking, up_again
from tests.support.run_on_disk import write

BEGIN = 7
OF_BROKER_0 = "trace/broker-0-1.jsonl"
KEPT = EventKind.REPLICA_STOPPED


def kept(seq: int, kind: EventKind = KEPT, *, node: int = 0, incarnation: int = 1) -> bytes:
    """Return the line of an event of a topic that is gone by the run's end."""
    told = TraceEvent(5, node, incarnation, seq, kind, "gone", 0, 1, offset=0)
    return encode_event(told) + b"\n"


def begun(*begins: TraceBegin) -> Callable[[Path], None]:
    return having(SLICE.name, SLICE.encode(begins))


def sliced(
    *begins: TraceBegin, numbers: Sequence[int] = (BEGIN, BEGIN + 1), earlier: bytes = b""
) -> Callable[[Path], None]:
    """Broker 0 numbers its events so, behind the earlier ones; it becomes the leader last."""

    def tamper(folder: Path) -> None:
        (led,) = (folder / OF_BROKER_0).read_bytes().splitlines()
        own = [kept(seq) for seq in numbers[:-1]]
        last = led.replace(b'"seq":0', b'"seq":%d' % numbers[-1])
        write(folder / OF_BROKER_0, b"".join((earlier, *own, last, b"\n")))
        if begins:
            begun(*begins)(folder)

    return tamper


def of_broker_1(*lines: bytes) -> Callable[[Path], None]:
    """Broker 1 kept these events of its start before the run's."""
    return having("trace/broker-1-0.jsonl", b"".join(lines))


def also_led_by_1(folder: Path) -> None:
    """In the run broker 1 led the partition in the leader epoch of broker 0."""
    path = folder / "trace" / "broker-1-1.jsonl"
    led = (folder / OF_BROKER_0).read_bytes().splitlines()[-1]
    lines = path.read_bytes()
    write(
        path, lines + led.replace(b'"node":0', b'"node":1').replace(b'"seq":8', b'"seq":1') + b"\n"
    )


def as_a_second_start(folder: Path) -> None:
    """Broker 1 traced all that it traced after a second start."""
    path = folder / "trace" / "broker-1-1.jsonl"
    lines = path.read_bytes().replace(b'"incarnation":1', b'"incarnation":2')
    write(folder / "trace" / "broker-1-2.jsonl", lines)
    path.unlink()


AT_7 = TraceBegin(0, 1, BEGIN)
TWO_BEFORE = TraceBegin(0, 1, BEGIN, 2)
BEFORE_1 = TraceBegin(1, 0, 40, 1)
KEPT_BY_1 = of_broker_1(kept(3, node=1, incarnation=0))
STARTED_TWICE_BEFORE = first_then(begun(BEFORE_1, TraceBegin(1, 1, 1, 1)), KEPT_BY_1)

TAMPERED_SLICES: dict[str, tuple[Callable[[Path], None], str]] = {
    "slice": (sliced(AT_7), PASS),
    "slice-with-earlier-events": (sliced(TWO_BEFORE, earlier=kept(1) + kept(4)), PASS),
    "slice-and-two-leaders": (first_then(sliced(AT_7), also_led_by_1), FAIL),
    "slice-undeclared": (sliced(), UNKNOWN),
    "slice-declared-too-early": (sliced(TraceBegin(0, 1, BEGIN - 1)), UNKNOWN),
    "slice-declared-too-late": (
        sliced(
            TraceBegin(0, 1, BEGIN + 1, 1), earlier=kept(BEGIN - 1, EventKind.CHECKPOINT_WRITTEN)
        ),
        UNKNOWN,
    ),
    "slice-of-the-run-declared-as-earlier": (
        sliced(
            TraceBegin(0, 1, BEGIN, 1),
            earlier=kept(BEGIN - 1, EventKind.CHECKPOINT_WRITTEN),
        ),
        UNKNOWN,
    ),
    "slice-with-a-gap": (sliced(AT_7, numbers=(BEGIN, BEGIN + 2)), UNKNOWN),
    "slice-told-twice": (sliced(AT_7, numbers=(BEGIN, BEGIN, BEGIN + 1)), UNKNOWN),
    "slice-without-its-earlier-events": (sliced(TraceBegin(0, 1, BEGIN, 1)), UNKNOWN),
    "slice-without-one-of-its-earlier-events": (sliced(TWO_BEFORE, earlier=kept(4)), UNKNOWN),
    "slice-with-undeclared-earlier-events": (sliced(AT_7, earlier=kept(4)), UNKNOWN),
    "slice-with-an-earlier-event-twice": (sliced(TWO_BEFORE, earlier=kept(4) * 2), UNKNOWN),
    "slice-with-earlier-events-out-of-order": (
        sliced(TWO_BEFORE, earlier=kept(4) + kept(1)),
        UNKNOWN,
    ),
    "slice-with-earlier-events-after-it": (
        sliced(TWO_BEFORE, numbers=(BEGIN, 4, 5, BEGIN + 1)),
        UNKNOWN,
    ),
    "slice-declared-twice": (sliced(TraceBegin(0, 1, BEGIN - 2), AT_7), UNKNOWN),
    "slice-from-its-first-event-on": (begun(TraceBegin(0, 1, 0)), UNKNOWN),
    "slice-from-a-number-below-0": (begun(TraceBegin(0, 1, -3)), UNKNOWN),
    "slice-from-the-largest-number-on": (begun(TraceBegin(2, 1, 2**63 - 1)), PASS),
    "slice-without-an-event": (begun(TraceBegin(2, 1, BEGIN)), PASS),
    "slice-of-a-node-that-waits": (begun(TraceBegin(1, 1, 1, 1)), PASS),
    "slice-of-a-node-without-a-trace": (
        first_then(begun(TraceBegin(1, 1, BEGIN)), lacking("trace/broker-1-1.jsonl")),
        UNKNOWN,  # no log was cut: there was none to cut
    ),
    "slice-that-is-torn": (having(SLICE.name, b'[{"node":0,'), UNKNOWN),
    "slice-of-numbers-that-no-column-holds": (
        having(SLICE.name, b'[{"node":0,"incarnation":2147483648,"from_seq":3}]'),
        UNKNOWN,
    ),
    "starts-before-the-run": (STARTED_TWICE_BEFORE, PASS),
    "start-of-somebody-else-after-starts-before-the-run": (
        first_then(STARTED_TWICE_BEFORE, up_again(2)),
        UNKNOWN,
    ),
    "start-of-somebody-else-after-one-without-an-event": (
        first_then(begun(TraceBegin(1, 1, BEGIN)), as_a_second_start),
        UNKNOWN,
    ),
    "start-of-somebody-else-after-one-without-a-trace": (
        first_then(begun(BEFORE_1), KEPT_BY_1),
        UNKNOWN,
    ),
}
