"""Each deed alone: how long another client of the same brokers waits meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from bench.hostile.greedy import Deed
from bench.hostile.scene import TOPIC, brought_up
from bench.hostile.troop import Troop
from bench.hostile.watching import Prober
from bench.summary import format_number

NOTHING = "(nothing)"
_REST_S = 2.0


@dataclass(frozen=True, slots=True)
class Alone:
    """One deed alone. p50_ms to longest_ms: another client's latencies, of single records."""

    deed: str
    done: int
    failed: Mapping[str, int]
    asked: int
    unanswered: int
    p50_ms: float
    p99_ms: float
    longest_ms: float
    resident_mib: Sequence[float | None]
    wrong: Sequence[str]
    """Brokers that ended or no longer answer; they are restarted."""


def measure_each(
    deeds: Mapping[str, Deed], seed: int, lasts_s: float, say: Callable[[str], None]
) -> list[Alone]:
    """Return the effect of each deed on other clients, without a deed first; one thread does it."""
    measured: list[Alone] = []
    with brought_up(say) as scene:
        for name in (NOTHING, *deeds):
            chosen = {name: deeds[name]} if name in deeds else {}
            probers = [
                Prober(endpoint, TOPIC, partition)
                for partition, endpoint in scene.led_partitions().items()
            ]
            troop = Troop(scene.target, chosen, seed, threads=len(chosen), pause_s=0.01)
            for prober in probers:
                prober.start()
            troop.start()
            time.sleep(lasts_s)
            troop.stop()
            waits = [prober.stop() for prober in probers]
            all_ms = [ms for each in waits for ms in each.ms]
            worst = max(waits, key=lambda each: each.at(99))
            measured.append(
                Alone(
                    name,
                    sum(troop.done.values()),
                    {key: n for of in troop.failed.values() for key, n in of.items()},
                    len(all_ms),
                    sum(each.failures for each in waits),
                    worst.at(50),
                    worst.at(99),
                    max(all_ms, default=0.0),
                    scene.resident_mib(),
                    wrong := scene.mend(),
                )
            )
            say(f"{name}: p99 {worst.at(99):.1f} ms, {', '.join(wrong) or 'all brokers live'}")
            time.sleep(_REST_S)
    return measured


def print_each(console: Console, measured: Sequence[Alone]) -> None:
    table = Table(title="another client's produce of one record, at the worst broker, in ms")
    table.add_column("meanwhile", no_wrap=True)
    for column in ("done", "asked", "p50", "p99", "longest", "MiB"):
        table.add_column(column, justify="right")
    table.add_column("wrong")
    for each in measured:
        unanswered = [f"{each.unanswered} unanswered"] if each.unanswered else []
        table.add_row(
            each.deed.replace("_", " "),
            str(each.done),
            str(each.asked),
            *map(format_number, (each.p50_ms, each.p99_ms, each.longest_ms)),
            f"{max(mib or 0.0 for mib in each.resident_mib):.0f}",
            ", ".join([*each.wrong, *unanswered]),
        )
    console.print(table)
