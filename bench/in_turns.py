"""Measures two systems in turns, each time on a fresh cluster, and prints and stores the result."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import confluent_kafka

from bench.command import result_name, write_result
from bench.machine import describe_machine, load_average
from bench.quietness import Watch
from bench.report import Result, print_result, replace_between
from bench.systems import System, require_reachable_containers
from bench.targets import Measure
from highwater.cluster.engine import connect_engine
from highwater.cluster.images import ensure_images
from highwater.output import RESULTS, say

Samples = Mapping[str, Sequence[float]]
"""By a measure's key, in its unit."""


def measured(
    systems: Sequence[System],
    date: datetime,
    measure: Callable[[], Mapping[str, Mapping[str, Sequence[float]]]],
    *,
    quick: bool = False,
    notes: Sequence[str] = (),
) -> Result:
    """Return the samples that measure returns, with the machine and its load meanwhile.

    The images are built before.

    date: of the measuring's begin.
    measure: returns each system's samples by its name.

    Raises:
        HarnessError: no engine answers, or it does not let hosts reach containers.
    """
    engine = connect_engine()
    require_reachable_containers(engine)
    ensure_images(engine, say)
    load_average_start, watch = load_average(), Watch()
    began_s = time.monotonic()
    samples = measure()
    duration_s = time.monotonic() - began_s
    return Result(
        date=date.strftime("%Y-%m-%d %H:%M UTC"),
        duration_s=duration_s,
        quick=quick,
        machine=describe_machine(
            str(engine.version()["Version"]), confluent_kafka.libversion()[0], load_average_start
        ),
        systems=[system.name for system in systems],
        samples=samples,
        notes=notes,
        quietness=watch.end(),
    )


def measure_in_turns(
    name: str,
    systems: Sequence[System],
    repeat: int,
    measure: Callable[[System], Samples],
    measures: Sequence[Measure],
) -> Result:
    """Measure each system so many times, and return all samples, which are printed and stored.

    name: of the result's file.
    measure: brings the system's cluster up, and removes it.
    """

    def in_turns() -> dict[str, dict[str, list[float]]]:
        samples: dict[str, dict[str, list[float]]] = {system.name: {} for system in systems}
        for _ in range(repeat):
            for system in systems:
                for key, values in measure(system).items():
                    samples[system.name].setdefault(key, []).extend(values)
        return samples

    date = datetime.now(UTC)
    result = measured(systems, date, in_turns)
    say(f"all samples: {write_result(result, f'{name}-{result_name(date)}')}")
    print_result(RESULTS, result, measures, ())
    return result


def write_between(path: Path, marks: tuple[str, str], content: str) -> None:
    """Replace the text between the file's two marks."""
    text = path.read_text(encoding="utf-8")
    path.write_text(replace_between(text, *marks, content), encoding="utf-8")
