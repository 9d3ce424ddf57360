"""`highwater chaos run`: a plan from a seed, or a plan's file, run once or several times."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from highwater.commands.run import WorldName, new_folder, print_result, read_plan, run_in
from highwater.errors import HarnessError
from highwater.output import RESULTS, print_json
from highwater.report.screen import Screen
from highwater.runs.chaos.options import (
    Brokers,
    Controllers,
    For,
    Guard,
    PresetOption,
    Swarm,
    Without,
    wanted_of,
)
from highwater.runs.chaos.outline import outline, what_stands_against
from highwater.runs.chaos.planning import plan_of
from highwater.runs.chaos.repeating import counted_outcomes, repeat, until_known, worst
from highwater.runs.stock.libraries import ClientKind
from highwater_chaos.guard import problems_with_quorum
from highwater_chaos.plan import Plan
from highwater_checker.verdict import EXIT_CODES
from highwater_core.config import Preset

if TYPE_CHECKING:
    from highwater.runs.plans.outcome import PlanResult


def register(app: typer.Typer) -> None:
    app.command()(run)


def run(
    seed: Annotated[int | None, typer.Option(help="Draw the plan from it.")] = None,
    lasting: For = "60s",
    preset: PresetOption = Preset.FENCED,
    brokers: Brokers = 3,
    controllers: Controllers = 2,
    swarm: Swarm = False,
    guard: Guard = True,
    without: Without = None,
    plan: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Or run this plan's file.")
    ] = None,
    world: Annotated[WorldName, typer.Option(help="Where it is run.")] = WorldName.DOCKER,
    client: Annotated[
        ClientKind, typer.Option(help="Who writes and reads: our clients, or a stock library.")
    ] = ClientKind.OWN,
    times: Annotated[int, typer.Option("--repeat", min=1, help="How often it is run.")] = 1,
    tries: Annotated[
        int,
        typer.Option(
            min=1, help="How often each is tried while its verdict is unknown: it proves nothing."
        ),
    ] = 1,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would act on what; start nothing.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            file_okay=False,
            help="The run's folder; with --repeat or --tries that of all. [default: in runs/]",
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print verdicts as JSON.")] = False,
) -> None:
    """Bring a cluster up, break it by a plan under load, heal it, and judge what it did.

    Exit code 0: every run passed; 1: one failed; 2: one proves nothing, or could not be done.
    """
    if (seed is None) == (plan is None):
        raise HarnessError("say --seed N for a random plan, or --plan FILE: one of the two")
    if plan is not None:
        planned = read_plan(plan)
    else:
        wanted = wanted_of(seed or 0, lasting, preset, brokers, controllers, swarm, guard, without)
        planned = plan_of(wanted)
    if dry_run:
        raise typer.Exit(_print_dry(planned))
    if guard:
        check_quorum(planned)
    with Screen() as screen:
        for line in outline(planned):
            screen.say(line, style="dim")
        numbers = count(1)

        def run_once() -> PlanResult:
            is_one = times == tries == 1
            own = out if out is None or is_one else out / f"{out.name}-{next(numbers)}"
            result = run_in(world, planned, new_folder(own, "chaos"), screen, client)
            if not json:
                print_result(result)
            return result

        def run_until_known(number: int) -> PlanResult:
            screen.say(f"run {number} of {times}", style="bold")
            return until_known(tries, run_once, screen.say)

        results = repeat(times, run_until_known)
    _print_all(results, json)
    raise typer.Exit(EXIT_CODES[worst(results)])


def check_quorum(plan: Plan) -> None:
    """Go on only with a plan that keeps the quorum.

    Raises:
        HarnessError: it does not; the message says when too many are out.
    """
    if problems := problems_with_quorum(plan):
        allowed = "--no-guard runs it all the same"
        raise HarnessError("\n".join(["the plan breaks the quorum", *problems, allowed]))


def _print_dry(plan: Plan) -> int:
    """Say all of it, and return the exit code: 2 when containers cannot run it."""
    for line in outline(plan):
        RESULTS.print(Text(line), soft_wrap=True)
    problems = what_stands_against(plan)
    for problem in problems:
        RESULTS.print(Text(problem, style="bold yellow"), soft_wrap=True)
    return 2 if problems else 0


def _print_all(results: list[PlanResult], json: bool) -> None:
    counts = counted_outcomes(results)
    if json:
        print_json({"verdicts": counts, "runs": results})
    elif len(results) > 1:
        said = ", ".join(f"{outcome} {count} times" for outcome, count in counts.items())
        RESULTS.print(f"of {len(results)} runs: {said}")
