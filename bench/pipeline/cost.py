"""The cost of one check in one engine: seconds, its findings, and the process's most memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import msgspec

Answer = tuple[int, int]
"""The numbers of findings and of examined items."""


class EngineName(StrEnum):
    SPARK = "Spark"
    DUCKDB = "DuckDB"
    POLARS = "polars"


class Job(msgspec.Struct, frozen=True):
    """The work of one engine in a process of its own.

    is_small: whether Spark plans as for small run folders.
    partitions: of Spark's shuffles; None: the pipeline's own number.
    within_s: the time limit of each check.
    """

    engine: EngineName
    store: str
    is_small: bool
    partitions: int | None
    within_s: float
    checks: tuple[str, ...]


class Cost(msgspec.Struct, frozen=True):
    """The cost of one check.

    seconds: until its answer, or until it failed.
    peak_bytes: the most memory of the engine's process during the check. For Spark this is the
        JVM's, whose heap does not shrink between checks.
    failure: why it has no answer; "" if it has one.
    """

    check: str
    seconds: float
    findings: int = 0
    examined: int = 0
    peak_bytes: int = 0
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine that has opened the tables.

    pid: of the working process.
    stop: ends the running check, from another thread.
    failures: the exceptions of a stopped check, or of one without enough memory.
    """

    pid: int
    checks: Mapping[str, Callable[[], Answer]]
    stop: Callable[[], object]
    failures: tuple[type[Exception], ...]


def cost_of(check: str, engine: Engine, within_s: float) -> Cost:
    """Run one check, and stop it after within_s."""
    was_stopped = threading.Event()

    def stop() -> None:
        was_stopped.set()
        engine.stop()

    forget_peak(engine.pid)
    timer = threading.Timer(within_s, stop)
    timer.start()
    began = time.perf_counter()
    answer, failure = (0, 0), ""
    try:
        answer = engine.checks[check]()
    except engine.failures as error:
        failure = f"stopped after {within_s:g} s" if was_stopped.is_set() else _first_line(error)
    seconds = time.perf_counter() - began
    timer.cancel()
    timer.join()
    return Cost(check, seconds, *answer, peak_bytes(engine.pid), failure)


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"


# ---------------------------------------------------------------- a process's memory, by Linux


def forget_peak(pid: int) -> None:
    """Let the peak of the process's memory begin anew."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def peak_bytes(pid: int) -> int:
    """Return the most memory that the process had since forget_peak; 0 when it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    peaks = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(peaks[0]) * 1024 if peaks else 0
