"""`highwater segments diff`: where the logs of one partition's replicas differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from highwater.commands.segments.dump import read_log
from highwater.output import RESULTS, print_json, printable
from highwater.report.segments_text import table_of_ranges, text_of_bytes
from highwater_checker.run_folder.files import text_of
from highwater_checker.segment_diff import DifferingRange, HeldRecord, LogsCompared, compare_logs
from highwater_checker.segment_dump import Dumped

DIFFER_EXIT_CODE = 1
MOST_ROWS = 40


def register(app: typer.Typer) -> None:
    app.command("diff")(diff)


def diff(
    logs: Annotated[
        list[Path],
        typer.Argument(exists=True, help="Two or more: runs/latest/segments/*/t-0."),
    ],
    most: Annotated[
        int, typer.Option(min=1, help="Rows of differing offsets that are printed.")
    ] = MOST_ROWS,
    as_json: Annotated[bool, typer.Option("--json", help="Print all of it as JSON.")] = False,
) -> None:
    """Compare the logs of a partition's replicas, record by record with the leader epochs.

    A log is a partition's folder, or one segment. Exit code 0: they are equal byte by byte; 1: they
    differ, in their ends alone too, or one is damaged.
    """
    if len(logs) < 2:
        raise typer.BadParameter("give two logs at least")
    names = _names(logs)
    dumped = [read_log(log) for log in logs]
    compared = compare_logs([[batch for _, batch in each.batches] for each in dumped])
    if any(each.damage for each in dumped):  # what follows the damage is not compared
        compared = replace(compared, are_equal=False)
    damage = [f"{name}: {each.damage}" for name, each in zip(names, dumped, strict=True)]
    damage = [text for text, each in zip(damage, dumped, strict=True) if each.damage]
    if as_json:
        print_json(_fields(names, compared, damage))
    else:
        RESULTS.print(_ends(names, dumped))
        _print(names, compared, most)
        for line in damage:
            RESULTS.print(Text(printable(line), style="bold red"), soft_wrap=True)
    if damage or not compared.are_equal:
        raise typer.Exit(DIFFER_EXIT_CODE)


def _names(logs: Sequence[Path]) -> list[str]:
    """Return the logs' paths without the folders at the start and end that all have."""
    parts = [path.absolute().parts for path in logs]
    start = _common(parts)
    end = _common([each[start:][::-1] for each in parts])
    names = ["/".join(each[start : len(each) - end]) for each in parts]
    if all(names) and len(set(names)) == len(names):
        return list(map(text_of, names))
    return list(map(text_of, logs))


def _common(paths: Sequence[tuple[str, ...]]) -> int:
    """Return how many parts all paths begin with."""
    return sum(1 for _ in takewhile(lambda each: len({*each}) == 1, zip(*paths, strict=False)))


def _ends(names: Sequence[str], logs: Sequence[Dumped]) -> Table:
    table = Table(box=None)
    table.add_column("log")
    for name in ("first offset", "last offset", "batches"):
        table.add_column(name, justify="right")
    for name, log in zip(names, logs, strict=True):
        facts = [each for each, _ in log.batches]
        ends = (str(facts[0].base_offset), str(facts[-1].last_offset)) if facts else ("–", "–")
        table.add_row(Text(printable(name)), *ends, str(len(facts)))
    return table


def _print(names: Sequence[str], compared: LogsCompared, most: int) -> None:
    if compared.are_equal:
        RESULTS.print(Text("equal, byte by byte", style="bold green"))
        return
    if not compared.ranges:
        words = "no record differs; the batches' bytes, or what follows a damage, may"
        RESULTS.print(Text(words, style="bold yellow"), soft_wrap=True)
        return
    RESULTS.print(table_of_ranges(names, compared.ranges[:most]))
    if len(compared.ranges) > most:
        RESULTS.print(f"... and {len(compared.ranges) - most} more: --most or --json has them")
    unlike = [each for each in compared.ranges if not each.is_of_presence_alone]
    offsets = sum(each.end_offset - each.start_offset for each in compared.ranges)
    first = compared.ranges[0].start_offset
    words = f"number of offsets at which they differ: {offsets}, from {first} on"
    if unlike:
        words += f"; other records, or leader epochs, from {unlike[0].start_offset} on"
    else:
        words += "; at none of them do two logs have different records"
    RESULTS.print(Text(words, style="bold red"), soft_wrap=True)


def _fields(
    names: Sequence[str], compared: LogsCompared, damage: Sequence[str]
) -> dict[str, object]:
    return {
        "logs": names,
        "are_equal": compared.are_equal,
        "ranges": [_range(names, each) for each in compared.ranges],
        "damage": damage,
    }


def _range(names: Sequence[str], found: DifferingRange) -> dict[str, object]:
    return {
        "start_offset": found.start_offset,
        "end_offset": found.end_offset,
        "is_of_presence_alone": found.is_of_presence_alone,
        "held": {name: _held(each) for name, each in zip(names, found.held, strict=True)},
    }


def _held(held: HeldRecord | None) -> dict[str, object] | None:
    if held is None:
        return None
    return {
        "leader_epoch": held.leader_epoch,
        "timestamp_ms": held.record.timestamp_ms,
        "key": text_of_bytes(held.record.key),
        "value": text_of_bytes(held.record.value),
        "unreadable": held.unreadable,
    }
