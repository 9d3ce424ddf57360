"""`highwater bugs show`: one bug's plan, run as it was and with every fix."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from highwater.errors import HarnessError
from highwater.output import RESULTS, print_json
from highwater.runs.plans.running import WorldName, run_in
from highwater_checker.verdict import Outcome

if TYPE_CHECKING:
    from highwater.bugs.kept import Bug
    from highwater.bugs.told import BugTold, Told
    from highwater.runs.plans.outcome import PlanResult
    from highwater_chaos.plan import Plan

RUNS = Path("runs")


def register(app: typer.Typer) -> None:
    app.command("show")(show_bug)


def show_bug(
    name: Annotated[str, typer.Argument(metavar="BUG", help="KAFKA-1211, KIP-101, or a row.")],
    world: Annotated[WorldName, typer.Option(help="Where it is run.")] = WorldName.SIM,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Run the plan that shows a bug, tell what happened, and run it again with every fix.

    Exit code 0: the bug was shown, and the run with every fix passed. 1: that run failed. 2: the
    bug was not shown, or a run could not be judged.
    """
    from highwater.bugs.kept import bug_of

    bug = bug_of(name)
    if world is WorldName.SIM:
        bug.plan()  # before anything is printed
        raise typer.Exit(_show_simulated(bug, json))
    if json:
        raise HarnessError("--json is for runs in virtual time; each run's folder has its verdict")
    raise typer.Exit(_show_in_containers(bug))


def _show_simulated(bug: Bug, json: bool) -> int:
    from highwater.bugs.fixes import say_difference
    from highwater.bugs.told import tell

    told = tell(bug)
    problems = list(told.problems())
    if json:
        print_json(_fields(told, problems))
    else:
        _print_bug(bug)
        _print_plan(told.shown.plan)
        _print_told("with the bug", told.shown, "bold red")
        _print_told("with every fix", told.mended, "bold green", say_difference(bug))
        for problem in problems:
            RESULTS.print(Text(problem, style="bold yellow"), soft_wrap=True)
    if told.mended.violation is not None:
        return 1
    return 2 if problems else 0


def _print_bug(bug: Bug) -> None:
    from highwater.bugs.told import say_bug

    title, *rest = say_bug(bug.row)
    RESULTS.print(Text(title, style="bold"), soft_wrap=True)
    for line in rest:
        RESULTS.print(Text(line), soft_wrap=True)
    RESULTS.print()


def _print_plan(plan: Plan) -> None:
    from highwater.bugs.told import say_steps

    for line in say_steps(plan):
        RESULTS.print(Text(line, style="dim"), soft_wrap=True)


def _print_told(heading: str, told: Told, style: str, difference: Iterable[str] = ()) -> None:
    RESULTS.print(Text(f"\n{heading}: {told.means}", style="bold"), soft_wrap=True)
    for line in difference:
        RESULTS.print(Text(line, style="bold"), soft_wrap=True)
    RESULTS.print(Text(told.plan.title, style="italic"), soft_wrap=True)
    for line in told.story.lines():
        RESULTS.print(Text(line), soft_wrap=True)
    for line in told.ending():
        RESULTS.print(Text(line, style=style), soft_wrap=True)


def _fields(told: BugTold, problems: list[str]) -> dict[str, object]:
    from highwater.bugs.fixes import changes_of

    def run(each: Told) -> dict[str, object]:
        return {
            "means": each.means,
            "title": each.plan.title,
            "violation": "" if each.violation is None else str(each.violation),
            "evidence": each.evidence,
            "story": list(each.story.lines()),
        }

    return {
        "row": told.bug.row.number,
        "ids": told.bug.row.ids,
        "shown": run(told.shown),
        "mended": run(told.mended),
        "fix": {
            "toggles": changes_of(told.bug),
            "planted": told.shown.plan.planted,
        },
        "problems": problems,
    }


def _show_in_containers(bug: Bug) -> int:
    """Run both plans on containers, print their verdicts, and return the exit code."""
    from highwater.bugs.in_containers import evidence_of, plan_of
    from highwater_chaos.fixed import with_every_fix

    plan = plan_of(bug)  # before anything is printed or started
    _print_bug(bug)
    shown = _run_in_containers("with the bug", plan)
    how = evidence_of(bug.row, shown.verdict, shown.folder)
    style = "bold red" if how else "bold yellow"
    RESULTS.print(Text(f"shown: {how}" if how else "not shown", style=style), soft_wrap=True)
    mended = _run_in_containers("with every fix", with_every_fix(plan)).verdict.outcome
    if mended is Outcome.FAIL:
        return 1
    return 0 if how and mended is Outcome.PASS else 2


def _run_in_containers(heading: str, plan: Plan) -> PlanResult:
    from highwater.bugs.kept import means_of
    from highwater.commands.run import print_result
    from highwater.report.screen import Screen
    from highwater.run_folder import RunFolder, new_run_id

    RESULTS.print(Text(f"\n{heading}: {means_of(plan)}", style="bold"), soft_wrap=True)
    with Screen() as screen:
        result = run_in(
            WorldName.DOCKER, plan, lambda: RunFolder.create(RUNS, new_run_id("bug")), screen
        )
    print_result(result)
    return result
