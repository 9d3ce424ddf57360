"""`python -m bench.bugs_in_containers`: how often the plans of historical bugs show them there.

Each bug's plan and its twin with every fix run some times on containers. Progress goes to stderr,
the table to stdout, all runs as JSON to bench/results/; with --results a file's runs are kept and
added to, so that it can be done in parts.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import msgspec
import typer
from rich.table import Table

from bench.command import RESULT_FOLDER, result_name, run_command
from bench.report import markdown_table, replace_between
from highwater.bugs.in_containers import PLANS, WHY_NOT, evidence_of, plan_of
from highwater.bugs.kept import Bug, all_bugs, bug_of
from highwater.output import RESULTS, say
from highwater.report.screen import Screen
from highwater.run_folder import RunFolder, new_run_id
from highwater.runs.plans.in_containers import run_in_containers
from highwater_chaos.fixed import with_every_fix
from highwater_chaos.plan import Plan
from highwater_checker.verdict import Outcome, Verdict

BEGIN_MARK = "<!-- bench bugs: begin -->"
END_MARK = "<!-- bench bugs: end -->"
MOST_WORDS = 160
"""Characters of a reason in the table."""
COLUMNS = ("row", "bug", "shown", "with every fix passed", "why not")


@dataclass(frozen=True, slots=True)
class BugRun:
    """One run of a bug's plan, or of its twin. Units: seconds, of the whole run.

    evidence: how the run shows the bug; "" of a twin, and where it shows nothing.
    why: why the run shows nothing, or why the twin did not pass; "" otherwise.
    """

    row: int
    is_twin: bool
    outcome: Outcome
    evidence: str
    took_s: float
    why: str = ""

    @property
    def is_right(self) -> bool:
        """Whether the bug was shown, or the twin passed."""
        return self.outcome is Outcome.PASS if self.is_twin else bool(self.evidence)


@dataclass(frozen=True, slots=True)
class BugRuns:
    """Every run, in order."""

    date: str
    runs: tuple[BugRun, ...]


def bench_bugs(
    repeat: Annotated[int, typer.Option(min=1, help="How often each plan is run.")] = 3,
    bug: Annotated[list[str] | None, typer.Option(help="Only this one: an id or a row.")] = None,
    results: Annotated[
        Path | None, typer.Option(help="Add to this file's runs. [default: a new file]")
    ] = None,
    into: Annotated[
        Path | None,
        typer.Option("--markdown", help="Write the table between this file's marks for it."),
    ] = None,
) -> None:
    """Count how often historical bugs show in containers, and pass with every fix."""
    wanted = [bug_of(name) for name in bug or ()]
    wanted = wanted or [each for each in all_bugs() if each.row.number in PLANS]
    date = datetime.now(UTC)
    path = results or RESULT_FOLDER / f"bugs-{result_name(date)}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    runs = list(read_runs(path)) if path.exists() else []
    when = date.strftime("%Y-%m-%d %H:%M UTC")
    for each in measure(wanted, repeat):  # Ctrl-C loses the run that it ends, and no other
        runs.append(each)
        encoded = msgspec.json.encode(BugRuns(when, tuple(runs)))
        path.write_bytes(msgspec.json.format(encoded, indent=2) + b"\n")
    rows = table_rows(runs)
    table = Table(*COLUMNS)
    for cells in rows:
        table.add_row(*cells)
    RESULTS.print(table)
    say(f"all runs: {path}")
    if into is not None:
        lines = "\n".join([*markdown_table(COLUMNS, rows), ""])
        text = replace_between(into.read_text("utf-8"), BEGIN_MARK, END_MARK, lines)
        into.write_text(text, encoding="utf-8")
        say(f"table written into {into}")


def measure(bugs: Sequence[Bug], repeat: int) -> Iterator[BugRun]:
    """Run every bug's plan and its twin once, then each again: load disturbs all of them alike."""
    plans = [(bug, plan_of(bug)) for bug in bugs]  # one without a plan is refused before any runs
    with TemporaryDirectory(prefix="highwater-bench-") as folder, Screen() as screen:
        for _ in range(repeat):
            for bug, plan in plans:
                for is_twin, each in ((False, plan), (True, with_every_fix(plan))):
                    run_folder = RunFolder(Path(folder) / new_run_id("bench"))
                    found = run_once(bug, each, run_folder, screen, is_twin=is_twin)
                    say(f"{bug.name}{' with every fix' if is_twin else ''}: {_in_words(found)}")
                    yield found


def run_once(bug: Bug, plan: Plan, folder: RunFolder, screen: Screen, *, is_twin: bool) -> BugRun:
    number, began_s = bug.row.number, time.monotonic()
    result = run_in_containers(plan, folder, screen)
    took_s = time.monotonic() - began_s
    how = "" if is_twin else evidence_of(bug.row, result.verdict, folder.path)
    found = BugRun(number, is_twin, result.verdict.outcome, how, took_s)
    return found if found.is_right else replace(found, why=why_not(result.verdict))


def why_not(verdict: Verdict) -> str:
    """Return why a run is not what its plan is to show, in one line."""
    unmet = [f"{each.name}: {each.evidence}" for each in verdict.requirements if not each.met]
    reasons = [*map(str, verdict.findings), *unmet, "no invariant was violated"]
    return reasons[0].splitlines()[0][:MOST_WORDS]


def _in_words(run: BugRun) -> str:
    return f"{run.outcome.value} {run.evidence or run.why} ({run.took_s:.0f} s)"


def read_runs(path: Path) -> tuple[BugRun, ...]:
    """Return the runs in the file."""
    return msgspec.json.decode(path.read_bytes(), type=BugRuns).runs


def table_rows(runs: Sequence[BugRun]) -> list[list[str]]:
    """Return a row for each bug that was run or that containers cannot show, by its number."""
    rows = []
    for bug in all_bugs():
        number = bug.row.number
        shown = [run for run in runs if run.row == number and not run.is_twin]
        twins = [run for run in runs if run.row == number and run.is_twin]
        failed = [run.why for run in (*shown, *twins) if not run.is_right]
        if shown or twins:
            why = failed[0] if failed else ""
            rows.append([str(number), bug.name, _share(shown), _share(twins), why])
        elif number in WHY_NOT:
            rows.append([str(number), bug.name, "–", "–", WHY_NOT[number]])
    return rows


def _share(runs: Sequence[BugRun]) -> str:
    """Return k of n."""
    return f"{sum(run.is_right for run in runs)} of {len(runs)}"


if __name__ == "__main__":
    run_command("bench.bugs_in_containers", bench_bugs)
