"""`python -m bench`: measures Highwater; with --kafka also Apache Kafka, in the same run.

Progress goes to stderr, the tables to stdout, everything as JSON to bench/results/.
"""

from __future__ import annotations

import signal
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Annotated

import confluent_kafka
import docker
import msgspec
import typer

from bench.apache_kafka.jars import KafkaMissing
from bench.apache_kafka.system import ApacheKafkaSystem
from bench.machine import describe_machine, load_average
from bench.plan import Plan, judge_targets, make_plan, rows
from bench.report import Result, markdown, print_result, replace_between
from bench.rounds import measure_all
from bench.systems import HighwaterSystem, System, require_reachable_containers
from highwater.engine import connect_engine
from highwater.errors import HarnessError
from highwater.images import ensure_images
from highwater.output import RESULTS, say

RESULT_FOLDER = Path(__file__).parent / "results"
BEGIN_MARK = "<!-- bench: begin -->"
END_MARK = "<!-- bench: end -->"


def bench(
    kafka: Annotated[bool, typer.Option("--kafka", help="Apache Kafka too, in turns.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer repetitions.")] = False,
    into: Annotated[
        Path | None,
        typer.Option("--markdown", help="Write the tables between this file's bench marks."),
    ] = None,
) -> None:
    """Measure bring-up, failover, throughput, latency and memory."""
    plan = make_plan(quick=quick)
    engine = connect_engine()
    require_reachable_containers(engine)
    say("making sure of the images")
    ensure_images(engine, say)
    systems, notes = _systems(kafka)
    result = _measure(systems, notes, plan, engine, quick=quick)
    path = _write_json(result)
    outcomes = judge_targets(
        result.summaries(systems[0].name),
        result.summaries(systems[1].name) if len(systems) > 1 else None,
        plan,
    )
    print_result(RESULTS, result, rows(plan), outcomes)
    say(f"all samples: {path}")
    if into is not None:
        _write_markdown(into, markdown(result, rows(plan), outcomes))
        say(f"tables written into {into}")


def _systems(kafka: bool) -> tuple[list[System], list[str]]:
    systems: list[System] = [HighwaterSystem()]
    notes: list[str] = []
    if kafka:
        try:
            systems.append(ApacheKafkaSystem(say))
        except KafkaMissing as missing:
            notes.append(str(missing))
            say(str(missing))
    return systems, notes


def _measure(
    systems: list[System],
    notes: list[str],
    plan: Plan,
    engine: docker.DockerClient,
    *,
    quick: bool,
) -> Result:
    load_average_start = load_average()
    date = datetime.now(UTC)
    started = time.monotonic()
    samples = measure_all(
        systems, plan, lambda text: say(f"{time.monotonic() - started:6.1f} s  {text}")
    )
    return Result(
        date=date.strftime("%Y-%m-%d %H:%M UTC"),
        duration_s=time.monotonic() - started,
        quick=quick,
        machine=describe_machine(
            str(engine.version()["Version"]), confluent_kafka.libversion()[0], load_average_start
        ),
        systems=[system.name for system in systems],
        samples=samples.values,
        notes=notes,
    )


def _write_json(result: Result) -> Path:
    RESULT_FOLDER.mkdir(exist_ok=True)
    name = result.date.replace(" UTC", "").replace(" ", "-").replace(":", "")
    path = RESULT_FOLDER / f"{name}.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(result), indent=2) + b"\n")
    return path


def _write_markdown(path: Path, content: str) -> None:
    """Write between the marks of the file, which is made with nothing else if it is missing."""
    text = path.read_text(encoding="utf-8") if path.exists() else f"{BEGIN_MARK}\n{END_MARK}\n"
    path.write_text(replace_between(text, BEGIN_MARK, END_MARK, content), encoding="utf-8")


def _leave(number: int, frame: FrameType | None) -> None:
    """SIGTERM unwinds the stack, so that what was brought up is removed."""
    sys.exit(128 + number)


def main() -> None:
    signal.signal(signal.SIGTERM, _leave)
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(bench)
    try:
        app(prog_name="bench")
    except HarnessError as error:
        say(f"bench: {error}")
        sys.exit(2)
    except KeyboardInterrupt:
        say("bench: interrupted")
        sys.exit(130)


if __name__ == "__main__":
    main()
