"""Repeated log lines and trace events are written a few times, then counted, in little memory."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from highwater_adapters import process
from highwater_adapters.repeats import (
    EVENTS_OF_A_KIND,
    INTERVAL_S,
    KINDS_MAX,
    LINES_OF_A_KIND,
    LINES_OF_A_LOGGER,
    BoundedHandler,
    BoundedTrace,
    Repeats,
)
from highwater_core.events import EventKind


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class LinesOfTest(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


class Log:
    def __init__(self) -> None:
        self.clock = Clock()
        self.told = LinesOfTest()
        self.handler = BoundedHandler(self.told, Repeats(clock=self.clock))

    @property
    def lines(self) -> list[str]:
        return self.told.lines

    def log(self, message: str, *arguments: Any, name: str = "n", level: int = 30) -> None:
        self.handler.handle(logging.LogRecord(name, level, "", 0, message, arguments, None))


def test_a_repeated_line_is_logged_a_few_times_and_then_counted() -> None:
    log = Log()
    for number in range(1_000):
        log.log("peer %d is gone", number)
    log.log("something else")
    assert len(log.lines) == LINES_OF_A_KIND + 1
    log.clock.now += INTERVAL_S
    log.log("peer %d is gone", 1_000)
    assert log.lines[-2:] == [
        f"... and {1_000 - LINES_OF_A_KIND} more like it: n: peer %d is gone",
        "peer 1000 is gone",
    ]


def test_held_back_lines_are_logged_though_no_more_lines_come() -> None:
    log = Log()
    for _ in range(LINES_OF_A_KIND + 3):
        log.log("again")
    log.handler.tell_held_back()
    assert len(log.lines) == LINES_OF_A_KIND
    log.clock.now += INTERVAL_S
    log.handler.tell_held_back()
    log.handler.tell_held_back()
    assert log.lines[LINES_OF_A_KIND:] == ["... and 3 more like it: n: again"]
    for _ in range(LINES_OF_A_KIND + 1):
        log.log("and again")
    log.handler.tell_held_back(at_once=True)
    assert log.lines[-1] == "... and 1 more like it: n: and again"


def test_lines_that_differ_each_time_are_bounded_for_each_logger() -> None:
    log = Log()
    for number in range(5_000):
        log.log(f"{number} " + "x" * 10_000)
        log.log("quiet", name="other") if number % 1_000 == 0 else None
    assert len(log.lines) == LINES_OF_A_LOGGER + 5
    assert len(log.handler._repeats._windows) <= KINDS_MAX + 2
    assert all(len(kind) < 300 for kind in log.handler._repeats._windows)


def test_a_line_that_ends_the_process_is_always_logged() -> None:
    log = Log()
    for _ in range(200):
        log.log("bug", level=logging.CRITICAL)
    assert len(log.lines) == 200


def test_bad_input_is_traced_a_few_times_for_each_place_and_then_counted() -> None:
    events: list[tuple[EventKind, dict[str, Any]]] = []

    class TraceOfTest:
        def emit(self, kind: EventKind, **detail: Any) -> None:
            events.append((kind, detail))

    clock = Clock()
    trace = BoundedTrace(TraceOfTest(), Repeats(clock=clock))
    for port in range(500):
        trace.emit(EventKind.BAD_INPUT_MET, where=f"CLIENT 10.0.0.{port % 9}:{port}", what="torn")
        trace.emit(EventKind.LOG_APPENDED, topic="t", partition=0, offset=port)
    trace.emit(EventKind.BAD_INPUT_MET, where="/brokers/ids/1", what="torn")
    kinds = [kind for kind, _ in events]
    assert kinds.count(EventKind.LOG_APPENDED) == 500
    assert kinds.count(EventKind.BAD_INPUT_MET) == EVENTS_OF_A_KIND + 1
    clock.now += INTERVAL_S
    trace.tell_held_back()
    where = "CLIENT #.#.#.#:#"
    what = f"... and {500 - EVENTS_OF_A_KIND} more like it"
    assert events[-1] == (EventKind.BAD_INPUT_MET, {"where": where, "what": what})


def test_refusals_of_one_kind_are_traced_a_few_times_and_then_counted() -> None:
    events: list[tuple[EventKind, dict[str, Any]]] = []

    class TraceOfTest:
        def emit(self, kind: EventKind, **detail: Any) -> None:
            events.append((kind, detail))

    clock = Clock()
    trace = BoundedTrace(TraceOfTest(), Repeats(clock=clock))
    for listener in ("CLIENT", "EXTERNAL") * 500:
        refused = {"request": "Produce", "error": "INVALID_REQUIRED_ACKS", "listener": listener}
        trace.emit(EventKind.REQUEST_REFUSED, **refused)
    trace.emit(EventKind.REQUEST_REFUSED, request="Fetch", error="INVALID_FETCH_SIZE")
    assert len(events) == EVENTS_OF_A_KIND + 1
    trace.tell_held_back(at_once=True)
    where, what = (
        "Produce INVALID_REQUIRED_ACKS",
        f"... and {1_000 - EVENTS_OF_A_KIND} more like it",
    )
    assert events[-1] == (EventKind.BAD_INPUT_MET, {"where": where, "what": what})


@pytest.fixture
def root_logger() -> Iterator[logging.Logger]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield root
    root.handlers[:] = handlers
    root.setLevel(level)


def test_a_process_bounds_all_its_loggers(
    root_logger: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    process.set_up_logging(7)
    for number in range(10_000):
        logging.getLogger("asyncio").warning("socket.send() raised exception.")
        logging.getLogger("highwater.listener").warning("%s: closed", number)
    process._tell_held_back(BoundedTrace(None), at_once=True)  # type: ignore[arg-type]
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert len(lines) == 2 * LINES_OF_A_KIND + 2
    assert lines[-1]["message"].startswith(f"... and {10_000 - LINES_OF_A_KIND} more like it")
    assert lines[-1]["node"] == 7
