"""`python -m bench.pipeline.watch_latency`: how long from a line on the disk to its alert.

A made run goes on in a folder: producers' and a consumer's histories grow at a steady rate, and
every few seconds one line tells another record than was told before. `highwater pipeline watch`
runs beside it in this process, with its own Spark. Needs the extra.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, BinaryIO

import msgspec
import typer

from bench.command import result_name, run_command, write_result
from bench.machine import Machine, describe_machine, load_average
from bench.report import machine_line, markdown_table
from bench.summary import format_summary, summarize
from highwater.errors import HarnessError
from highwater.output import say
from highwater_checker.history import HistoryEvent, OperationType, encode
from highwater_checker.run_folder.documents import PLAN, PROMISES, TOPOLOGY
from highwater_pipeline.session import spark_session
from highwater_pipeline.watching.stream import Watching
from highwater_pipeline.watching.told import Told, ToldAlert

TICK_S = 0.1
WRONG = "wrong"
ALIKE = 3
"""So many alerts of one partition are told."""
FIRST_FILES = {
    TOPOLOGY.name: {"brokers": 3, "controllers": 1, "session_timeout_ms": 6000},
    PLAN.name: {"title": "a made run", "seed": 1, "steps": []},
    PROMISES.name: {
        "producers": [{"client": "p0"}],
        "consumers": [{"client": "c0", "topic": "t"}],
    },
}


@dataclass(frozen=True, slots=True)
class WatchLatency:
    """The measured times; machine: its state meanwhile."""

    date: str
    lines_per_s: int
    machine: Machine
    seconds: tuple[float, ...]
    missing: int


class _MadeRun:
    """Writes a run's histories; each record is sent, acknowledged and read."""

    def __init__(self, folder: Path, records_per_s: int) -> None:
        for name, document in FIRST_FILES.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(msgspec.json.encode(document))
        (folder / "history").mkdir()
        self._folder = folder
        self._each_tick = max(1, round(records_per_s * TICK_S))
        self._next = 0
        self.planted_s: dict[int, float] = {}
        """By the offset at which another record was told, when its line was on the disk."""

    def go(self, plant_every_s: float, until: threading.Event) -> None:
        begun_s = planted_s = time.monotonic()
        with (
            (self._folder / "history" / "p0.jsonl").open("ab", buffering=0) as sends,
            (self._folder / "history" / "c0.jsonl").open("ab", buffering=0) as reads,
        ):
            while not until.wait(TICK_S):
                now_s = time.monotonic()
                time_ns = round((now_s - begun_s) * 1e9)
                self._write(sends, reads, time_ns)
                if now_s - planted_s >= plant_every_s:
                    planted_s = now_s
                    partition = 1 + len(self.planted_s) // ALIKE
                    told = (
                        _event(time_ns, "poll", OperationType.OK, self._next - 1, value, partition)
                        for value in ("", WRONG)
                    )
                    reads.write(b"".join(encode(each) + b"\n" for each in told))
                    self.planted_s[self._next - 1] = time.monotonic()

    def _write(self, sends: BinaryIO, reads: BinaryIO, time_ns: int) -> None:
        numbers = range(self._next, self._next + self._each_tick)
        self._next = numbers.stop
        sends.write(
            b"".join(
                encode(_event(time_ns + (type_ is OperationType.OK), "send", type_, number)) + b"\n"
                for number in numbers
                for type_ in (OperationType.INVOKE, OperationType.OK)
            )
        )
        read = (_event(time_ns, "poll", OperationType.OK, number) for number in numbers)
        reads.write(b"".join(encode(each) + b"\n" for each in read))


def _event(
    time_ns: int,
    function: str,
    type_: OperationType,
    number: int,
    value: str = "",
    partition: int = 0,
) -> HistoryEvent:
    return HistoryEvent(
        time_ns=time_ns,
        type=type_,
        operation_id=number,
        process="p0" if function == "send" else "c0",
        function=function,
        topic="t",
        partition=partition,
        value=value or f"p0-{number:06}" + "." * 80,
        offset=number if type_ is OperationType.OK else -1,
        tries=1,
    )


@contextmanager
def _writing(run: _MadeRun, plant_every_s: float) -> Iterator[None]:
    until = threading.Event()
    thread = threading.Thread(target=run.go, args=(plant_every_s, until))
    thread.start()
    try:
        yield
    finally:
        until.set()
        thread.join()


def measure_alerts(
    scratch: Path, records_per_s: int, count: int, plant_every_s: float, within_s: float
) -> tuple[list[float], int]:
    """Return the seconds from a line to its alert, and how many alerts did not come.

    The watch is warm: an alert came before. At most 20 alerts are told of one run.
    """
    told_s: dict[int, float] = {}

    def tell(told: Told) -> None:
        if isinstance(told, ToldAlert):
            told_s[told.offset] = time.monotonic()

    run = _MadeRun(scratch / "runs" / "made", records_per_s)
    with spark_session(is_small=True) as spark:
        watch = Watching(spark, scratch / "runs", scratch / "tables", scratch / "watch", tell)
        try:
            until_s = time.monotonic() + within_s
            with _writing(run, plant_every_s):
                while len(told_s) <= count and time.monotonic() < until_s:
                    watch.idle_s()  # a watch that has failed says so
                    time.sleep(TICK_S)
        finally:
            watch.stop()
    if not told_s:
        raise HarnessError(f"no alert came within {within_s:g} s")
    first, last = min(told_s), max(told_s)
    asked = {offset: at_s for offset, at_s in run.planted_s.items() if first < offset <= last}
    warm = [told_s[offset] - at_s for offset, at_s in asked.items() if offset in told_s]
    return warm, len(asked) - len(warm)


def measure(
    records: Annotated[int, typer.Option(min=1, help="Records a second; 3 lines each.")] = 800,
    alerts: Annotated[int, typer.Option(min=1, max=19, help="How many are measured.")] = 15,
    every: Annotated[float, typer.Option(min=0.5, help="Seconds between planted lines.")] = 3.7,
    within: Annotated[float, typer.Option(min=10, help="Seconds for all of it.")] = 600,
) -> None:
    """Measure how long a watch takes from a line on the disk to its alert."""
    load = load_average()
    with tempfile.TemporaryDirectory(prefix="highwater-bench-") as scratch:
        seconds, missing = measure_alerts(Path(scratch), records, alerts, every, within)
    date = datetime.now(UTC)
    result = WatchLatency(
        f"{date:%Y-%m-%d %H:%M} UTC",
        3 * records,
        describe_machine("none", "none", load),
        tuple(seconds),
        missing,
    )
    lines = [
        f"From a line on the disk to its alert, measured {result.date}; min / median / max (n).",
        "",
        machine_line(result.machine),
        "",
        *markdown_table(
            ["lines a second", "s", "alerts that did not come"],
            [[str(result.lines_per_s), format_summary(summarize(seconds)), str(missing)]],
        ),
    ]
    print("\n".join(lines))
    say(str(write_result(result, f"watch-latency-{result_name(date)}")))


if __name__ == "__main__":
    run_command("bench.pipeline.watch_latency", measure)
