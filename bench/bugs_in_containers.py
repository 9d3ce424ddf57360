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
from highwater.bugs.kept import Bug, all_bugs, bug_of
from highwater.output import RESULTS, say
from highwater.report.screen import Screen
from highwater.run_folder import RunFolder, new_run_id
from highwater.runs.plans.in_containers import Unsupported, run_in_containers
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

    named: the violated invariants. why: why the run shows nothing, "" where it does.
    """

    row: int
    is_twin: bool
    outcome: Outcome
    named: tuple[str, ...]
    took_s: float
    why: str = ""

    def is_right(self, bug: Bug) -> bool:
        """Whether the bug was shown by an invariant that its row breaks, or the twin passed."""
        if self.is_twin:
            return self.outcome is Outcome.PASS
        return self.outcome is Outcome.FAIL and bool({*self.named} & {*bug.row.invariants})


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
    wanted = [bug_of(name) for name in bug or ()] or [each for each in all_bugs() if each.scenario]
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
    """Run every bug's plan and twin once, then each again: load disturbs all of them alike.

    A plan that containers cannot run is not tried again.
    """
    refused: set[tuple[int, bool]] = set()
    with TemporaryDirectory(prefix="highwater-bench-") as folder, Screen() as screen:
        for _ in range(repeat):
            for bug in bugs:
                for is_twin, plan in ((False, bug.plan()), (True, bug.twin())):
                    if (bug.row.number, is_twin) in refused:
                        continue
                    run_folder = RunFolder(Path(folder) / new_run_id("bench"))
                    found = run_once(bug, plan, run_folder, screen, is_twin=is_twin)
                    say(f"{bug.name}{' with every fix' if is_twin else ''}: {_in_words(found)}")
                    if found.took_s == 0:
                        refused.add((bug.row.number, is_twin))
                    yield found


def run_once(bug: Bug, plan: Plan, folder: RunFolder, screen: Screen, *, is_twin: bool) -> BugRun:
    """Run the plan; one that containers cannot run is unknown, and took no time."""
    number, began_s = bug.row.number, time.monotonic()
    try:
        result = run_in_containers(plan, folder, screen)
    except Unsupported as fault:
        why = f"containers cannot: {str(fault).splitlines()[0]}"
        return BugRun(number, is_twin, Outcome.UNKNOWN, (), 0, why)
    findings = [finding for check in result.verdict.checks for finding in check.findings]
    named = tuple(sorted({finding.invariant for finding in findings}))
    took_s = time.monotonic() - began_s
    found = BugRun(number, is_twin, result.verdict.outcome, named, took_s)
    if found.is_right(bug):
        return found
    return replace(found, why=why_not(result.verdict))


def why_not(verdict: Verdict) -> str:
    """Return why a run is not what its plan is to show, in one line."""
    unmet = [f"{each.name}: {each.evidence}" for each in verdict.requirements if not each.met]
    reasons = [*map(str, verdict.findings), *unmet, "no invariant was violated"]
    return reasons[0].splitlines()[0][:MOST_WORDS]


def _in_words(run: BugRun) -> str:
    return f"{run.outcome.value} {', '.join(run.named)} {run.why} ({run.took_s:.0f} s)"


def read_runs(path: Path) -> tuple[BugRun, ...]:
    """Return the runs in the file."""
    return msgspec.json.decode(path.read_bytes(), type=BugRuns).runs


def table_rows(runs: Sequence[BugRun]) -> list[list[str]]:
    """Return a row for each bug that was run, by its number."""
    bugs = {bug.row.number: bug for bug in all_bugs()}
    rows = []
    for number in sorted({run.row for run in runs}):
        bug = bugs[number]
        shown = [run for run in runs if run.row == number and not run.is_twin]
        twins = [run for run in runs if run.row == number and run.is_twin]
        failed = [run for run in (*shown, *twins) if not run.is_right(bug)]
        why = failed[0].why if failed else ""
        rows.append([str(number), bug.name, _share(bug, shown), _share(bug, twins), why])
    return rows


def _share(bug: Bug, runs: Sequence[BugRun]) -> str:
    """Return k of n; "–" where containers cannot run the plan."""
    ran = [run for run in runs if run.took_s]
    return f"{sum(run.is_right(bug) for run in ran)} of {len(ran)}" if ran else "–"


if __name__ == "__main__":
    run_command("bench.bugs_in_containers", bench_bugs)
