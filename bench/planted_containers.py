"""`python -m bench.planted_containers`: how often, how fast planted bugs are caught in containers.

Each bug of highwater.runs.chaos.planted_plans gets its plan some times, and so do the plans without
a bug, which must pass. Progress goes to stderr, the table to stdout, all runs as JSON to
bench/results/; with --results a file's runs are kept and added to, so that it can be done in parts.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import confluent_kafka
import msgspec
import typer
from rich.table import Table

from bench.command import RESULT_FOLDER, result_name, run_command
from bench.machine import Machine, describe_machine, load_average
from bench.report import machine_line, markdown_table, replace_between
from bench.summary import format_number, summarize
from highwater.cluster.engine import connect_engine
from highwater.errors import HarnessError
from highwater.output import RESULTS, say
from highwater.report.screen import Screen
from highwater.run_folder import RunFolder, new_run_id
from highwater.runs.chaos.detecting import Detection, detect
from highwater.runs.chaos.planted_plans import CONTROLS, PLANTED_PLANS
from highwater.runs.plans.in_containers import run_in_containers
from highwater.runs.plans.outcome import PlanResult
from highwater_chaos.plan import Plan

BEGIN_MARK = "<!-- bench planted: begin -->"
END_MARK = "<!-- bench planted: end -->"
COLUMNS = ("planted bug", "shown by", "caught", "start to verdict, s", "fault to violation, s")
WITHOUT = "none"


@dataclass(frozen=True, slots=True)
class PlantedResult:
    """Every run, in order, and the machine at the end of the last one."""

    date: str
    machine: Machine
    runs: tuple[Detection, ...]


def bench_planted(
    repeat: Annotated[int, typer.Option(min=1, help="How often each plan is run.")] = 5,
    bug: Annotated[
        list[str] | None, typer.Option(help="Only this bug, or 'none': the runs without one.")
    ] = None,
    results: Annotated[
        Path | None, typer.Option(help="Add to this file's runs. [default: a new file]")
    ] = None,
    into: Annotated[
        Path | None,
        typer.Option("--markdown", help="Write the table between this file's marks for it."),
    ] = None,
) -> None:
    """Measure how often, and how fast, planted bugs are caught in containers."""
    plans = wanted_plans(bug or [])
    load_average_start = load_average()
    engine = connect_engine()
    date = datetime.now(UTC)
    path = results or RESULT_FOLDER / f"planted-{result_name(date)}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    runs = list(read_runs(path)) if path.exists() else []

    versions = str(engine.version()["Version"]), confluent_kafka.libversion()[0]

    def result() -> PlantedResult:
        machine = describe_machine(*versions, load_average_start)
        return PlantedResult(date.strftime("%Y-%m-%d %H:%M UTC"), machine, tuple(runs))

    for each in measure(plans, repeat):  # Ctrl-C loses the run that it ends, and no other
        runs.append(each)
        path.write_bytes(msgspec.json.format(msgspec.json.encode(result()), indent=2) + b"\n")
    _print(result())
    say(f"all runs: {path}")
    if into is not None:
        text = replace_between(into.read_text("utf-8"), BEGIN_MARK, END_MARK, markdown(result()))
        into.write_text(text, encoding="utf-8")
        say(f"table written into {into}")


def wanted_plans(bugs: Sequence[str]) -> list[Plan]:
    """Return the plans of these bugs; without names all plans, with those without a bug.

    Raises:
        HarnessError: there is no plan for a bug of that name.
    """
    plans = {each.bug: each.plan() for each in PLANTED_PLANS}
    without = [control.plan() for control in CONTROLS]
    for name in bugs:
        if name not in (*plans, WITHOUT):
            raise HarnessError(f"no plan is made for a planted bug {name!r}: {', '.join(plans)}")
    if not bugs:
        return [*plans.values(), *without]
    found = [plans[name] for name in bugs if name != WITHOUT]
    return found + (without if WITHOUT in bugs else [])


def measure(plans: Sequence[Plan], repeat: int) -> Iterator[Detection]:
    """Run every plan once, then each again, so that load on the machine disturbs all of them."""
    started = time.monotonic()
    with TemporaryDirectory(prefix="highwater-bench-") as folder, Screen() as screen:

        def run(plan: Plan) -> PlanResult:
            return run_in_containers(plan, RunFolder(Path(folder) / new_run_id("bench")), screen)

        for plan in [plan for _ in range(repeat) for plan in plans]:
            found = detect(plan, run)
            what = f"{plan.planted or WITHOUT}: {found.outcome}, {', '.join(found.named)}"
            say(f"{time.monotonic() - started:6.1f} s  {what}")
            yield found


def read_runs(path: Path) -> tuple[Detection, ...]:
    """Return the runs in the file."""
    return msgspec.json.decode(path.read_bytes(), type=PlantedResult).runs


def table_rows(runs: Sequence[Detection]) -> list[list[str]]:
    """Return a row for each bug and for each plan without one, in the order of their first runs."""
    groups: dict[tuple[str, str], list[Detection]] = {}
    for each in runs:
        groups.setdefault((each.bug, each.title), []).append(each)
    return [_row(group) for group in groups.values()]


def _row(group: Sequence[Detection]) -> list[str]:
    first = group[0]
    right = sum(each.is_right for each in group)
    violations = [each.to_violation_s for each in group if each.to_violation_s is not None]
    return [
        f"`{first.bug}`" if first.bug else f"none: {first.title}",
        first.invariant or "must pass",
        f"{right} of {len(group)}" if first.bug else f"passed {right} of {len(group)}",
        format_number(summarize([each.to_verdict_s for each in group]).median),
        format_number(summarize(violations).median) if violations else "–",
    ]


def markdown(result: PlantedResult) -> str:
    """Return the table as docs/performance.md holds it."""
    return "\n".join(
        [machine_line(result.machine), "", *markdown_table(COLUMNS, table_rows(result.runs)), ""]
    )


def _print(result: PlantedResult) -> None:
    table = Table(*COLUMNS)
    for cells in table_rows(result.runs):
        table.add_row(*cells)
    RESULTS.print(table)
    RESULTS.print(machine_line(result.machine), markup=False)


if __name__ == "__main__":
    run_command("bench.planted_containers", bench_planted)
