"""Replays: a plan's run in the simulator, judged as any run is, and shown line by line."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.text import Text

from highwater.checkout import commit_here
from highwater.output import RESULTS, STYLES
from highwater.report.screen import Screen
from highwater.run_folder import RunFolder
from highwater.runs.plans.in_simulator import simulate
from highwater.search.planting import bug_of
from highwater_chaos.plan import Plan
from highwater_chaos.words import say_plan, say_step
from highwater_checker.judging import judge_run
from highwater_checker.stories.display import Role, display_line, pieces
from highwater_checker.stories.entries import ORACLE, Entry
from highwater_checker.verdict import EXIT_CODES, Outcome, Verdict
from highwater_simulator.runner import RunResult
from highwater_simulator.search import Found, find

_STYLES: dict[Role, str] = {
    Role.TIME: "dim",
    Role.WHO: "cyan",
    Role.EVENT: "",
    Role.TURNING_POINT: "bold",
    Role.PLACE: "green",
    Role.DETAIL: "dim",
    Role.PLAN: "bold yellow",
    Role.ORACLE: "bold white on red",
    Role.WORLD: "magenta",
}
_NS_PER_S = 1e9


@dataclass(frozen=True, slots=True)
class Replayed:
    """A replayed run and its verdict.

    found: its violation, None if there is none.
    bug: the planted bug of every node, "" without one.
    """

    result: RunResult
    found: Found | None
    verdict: Verdict
    bug: str = ""

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.verdict.outcome]


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """A replay for machines. Units: simulated_s is virtual time.

    reasons: why the verdict is no pass.
    planted: the bug that every node had.
    """

    verdict: Outcome
    reasons: tuple[str, ...]
    planted: str
    digest: str
    violation: str
    invariant: str
    rows: tuple[int, ...]
    ids: tuple[str, ...]
    evidence: str
    seed: int
    events: int
    simulated_s: float
    acknowledged: int
    excused: tuple[str, ...]
    fired: tuple[str, ...]
    missed: tuple[str, ...]
    not_reached: tuple[str, ...]


def replay(plan: Plan, bug: str = "") -> Replayed:
    """Run the plan, with the planted bug of this argument or else of the plan.

    The verdict is the judge's, from a temporary run folder that is removed.

    Raises:
        NoSuchBug, PlantsNothing: the plan's nodes cannot have the planted bug.
    """
    planted = bug_of(plan, bug)
    with TemporaryDirectory(prefix="highwater-replay-") as folder, _silent() as screen:
        result = simulate(plan, RunFolder(Path(folder)), screen, planted)
        verdict = judge_run(Path(folder))
    return Replayed(result, find(result), verdict, planted)


def _silent() -> Screen:
    return Screen(Console(quiet=True))


def report_of(replayed: Replayed) -> ReplayReport:
    result, found = replayed.result, replayed.found
    return ReplayReport(
        verdict=replayed.verdict.outcome,
        reasons=replayed.verdict.reasons,
        planted=replayed.bug,
        digest=result.digest(),
        violation="" if found is None else str(found.violation),
        invariant="" if found is None else found.violation.invariant,
        rows=() if found is None else found.rows,
        ids=() if found is None else found.ids,
        evidence="" if found is None else found.evidence,
        seed=result.plan.seed,
        events=result.events,
        simulated_s=result.simulated_ns / _NS_PER_S,
        acknowledged=result.acknowledged,
        excused=tuple(f"{at} from {offset} on" for at, offset in result.excused),
        fired=tuple(say_step(step) for step in result.outcome.fired),
        missed=tuple(say_step(step) for step in result.outcome.missed),
        not_reached=tuple(say_step(step) for step in result.outcome.not_reached),
    )


# ---------------------------------------------------------------- showing


def print_replay(replayed: Replayed, console: Console, around_violation: int | None) -> None:
    """Print the plan in words, a line for each event, and the result."""
    result = replayed.result
    for line in (result.plan.title, *say_plan(result.plan), *_notes(replayed)):
        console.print(Text(line), soft_wrap=True)
    console.print()
    entries = result.trace.entries
    shown = entries if around_violation is None else around(entries, around_violation)
    print_entries(shown, console)
    console.print()
    for line, style in ending(replayed):
        console.print(Text(line, style=style), soft_wrap=True)


def _notes(replayed: Replayed) -> Iterator[str]:
    """Yield the settings of the run that the plan in words leaves out."""
    if replayed.bug:
        yield f"every node has the planted bug {replayed.bug}"
    kept_at, here = replayed.result.plan.commit, commit_here()
    if kept_at and here and kept_at != here:
        yield f"kept at commit {kept_at}; this is {here}, which may do otherwise"


def show(replayed: Replayed, around_violation: int | None = None) -> None:
    """Print the replay on stdout; a reader that has seen enough ends it, as `| head`."""
    try:
        print_replay(replayed, RESULTS, around_violation)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def around(entries: Sequence[Entry], lines: int) -> Sequence[Entry]:
    """Return the oracle's first entry with at most so many entries before and after it."""
    for at, entry in enumerate(entries):
        if entry.who == ORACLE:
            return entries[max(0, at - lines) : at + lines + 1]
    return ()


def print_entries(entries: Iterable[Entry], console: Console) -> None:
    """Print a line for each entry, coloured on a terminal."""
    if not console.is_terminal:
        console.file.writelines(f"{display_line(entry)}\n" for entry in entries)
        return
    for entry in entries:
        line = Text.assemble(*((text, _STYLES[role]) for text, role in pieces(entry)))
        console.print(line, soft_wrap=True)


def ending(replayed: Replayed) -> Iterator[tuple[str, str]]:
    """Yield the last lines with their styles: steps, numbers, violation, verdict, digest."""
    result, found = replayed.result, replayed.found
    outcome = replayed.verdict.outcome
    style = "yellow" if outcome is Outcome.UNKNOWN else "dim"
    for reason in replayed.verdict.without_findings:
        yield reason, style
    for at, offset in result.excused:
        yield f"excused: disks alone lost {at} from offset {offset} on", "yellow"
    for flag in result.flags:
        yield f"flagged: {flag}", "yellow"
    seconds = result.simulated_ns / _NS_PER_S
    yield (
        f"{result.events} events in {seconds:.3f} s of virtual time, "
        f"{result.acknowledged} records acknowledged, {len(result.outcome.fired)} faults",
        "",
    )
    if found is not None:
        yield str(found.violation), "bold red"
    if found is not None and found.rows:
        rows = ", ".join(str(row) for row in found.rows)
        yield f"catalogue row {rows} ({', '.join(found.ids)}): {found.evidence}", "yellow"
    documented = " (a documented flaw)" if found and found.is_documented else ""
    yield f"verdict: {outcome.value}{documented}", STYLES[outcome]
    yield f"digest {result.digest()}", ""
