"""`python -m bench.hostile`: hostile and honest clients and faults on one cluster, and the verdict.

Progress goes to stderr, the tables to stdout, everything as JSON to bench/results/. Exit code 1:
a node ended by itself, memory grew, or an acknowledged record is lost.
"""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from typing import Annotated

import typer

from bench.apache_kafka.jars import KafkaMissing, ensure_jars
from bench.command import result_name, run_command, write_result
from bench.hostile.each import measure_each, print_each
from bench.hostile.greedy import Deed
from bench.hostile.java_clients import java_consumers_that_leave
from bench.hostile.many_partitions import measure_creation, print_creation
from bench.hostile.together import judge, print_together, run_together
from bench.hostile.troop import DEEDS
from bench.systems import require_reachable_containers
from highwater.cluster.engine import connect_engine
from highwater.cluster.images import ensure_images
from highwater.errors import HarnessError
from highwater.output import RESULTS, say


def hostile(
    minutes: Annotated[float, typer.Option(help="How long all deeds are done together.")] = 60.0,
    seed: Annotated[int, typer.Option(help="What is drawn, and when.")] = 1,
    each: Annotated[
        bool,
        typer.Option("--each", help="Instead: each deed alone, and how long others wait for it."),
    ] = False,
    each_s: Annotated[float, typer.Option(help="Seconds for each deed alone.")] = 10.0,
    only: Annotated[
        str, typer.Option(help=f"These deeds, with commas between: {', '.join(DEEDS)}.")
    ] = "",
    partitions: Annotated[
        int, typer.Option(help="Instead: one topic of as many is created, with 1 and 3 replicas.")
    ] = 0,
    megabytes_per_s: Annotated[
        float, typer.Option(help="What honest producers send together at most; 0: no bound.")
    ] = 10.0,
) -> None:
    """Let clients harm a cluster, and measure the effect on others."""
    known = _known_deeds()
    names = only.split(",") if only else list(known)
    if unknown := [name for name in names if name not in known]:
        raise HarnessError(f"no such deeds: {', '.join(unknown)}")
    deeds = {name: known[name] for name in names}
    engine = connect_engine()
    require_reachable_containers(engine)
    ensure_images(engine, say)
    date, began_s = datetime.now(UTC), time.monotonic()
    if partitions:
        created = measure_creation(partitions, (1, 3), say)
        print_creation(RESULTS, created)
        say(f"all: {write_result(created, f'hostile-partitions-{result_name(date)}')}")
        return
    if each:
        measured = measure_each(deeds, seed, each_s, say)
        print_each(RESULTS, measured)
        say(f"all samples: {write_result(measured, f'hostile-each-{result_name(date)}')}")
        return
    result = run_together(
        deeds,
        seed,
        minutes,
        megabytes_per_s,
        lambda text: say(f"{time.monotonic() - began_s:7.1f} s  {text}"),
    )
    print_together(RESULTS, result)
    say(f"everything: {write_result(result, f'hostile-{result_name(date)}')}")
    wrong = judge(result)
    for line in wrong:
        say(f"FAIL: {line}")
    if wrong:
        sys.exit(1)


def _known_deeds() -> dict[str, Deed]:
    """Return the deeds that this machine can do: the Java clients need Maven."""
    try:
        ensure_jars()
    except KafkaMissing as missing:
        say(f"no Java clients: {missing}")
        return dict(DEEDS)
    return {**DEEDS, java_consumers_that_leave.__name__: java_consumers_that_leave}


if __name__ == "__main__":
    run_command("bench.hostile", hostile)
