"""The machine on which the numbers were measured."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Machine:
    """load_average_start and _end: of the last minute, when measuring began and ended."""

    processor: str
    cores: int
    memory_gib: float
    kernel: str
    engine: str
    python: str
    client: str
    load_average_start: float
    load_average_end: float


def describe_machine(
    engine_version: str, client_version: str, load_average_start: float
) -> Machine:
    """Return this machine, at the end of the measuring."""
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Machine(
        processor=_processor(),
        cores=len(os.sched_getaffinity(0)),
        memory_gib=round(memory_bytes / 1024**3, 1),
        kernel=platform.release(),
        engine=engine_version,
        python=platform.python_version(),
        client=client_version,
        load_average_start=round(load_average_start, 2),
        load_average_end=round(load_average(), 2),
    )


def load_average() -> float:
    """Return the run queue's average length over the last minute."""
    return os.getloadavg()[0]


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor()
    for line in text.splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
