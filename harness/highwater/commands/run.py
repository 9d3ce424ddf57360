"""`highwater run`: a plan file, or a random plan from a seed, in either world, once or often."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from highwater.errors import HarnessError
from highwater.output import RESULTS, print_json, printable
from highwater.report.explained import command_to_explain
from highwater.report.screen import Screen
from highwater.report.verdict_text import checks_table, print_outcome
from highwater.run_folder import RunFolder, new_run_id
from highwater.runs.chaos.options import (
    AroundViolation,
    Brokers,
    Client,
    Controllers,
    Events,
    For,
    GuardOfAny,
    Out,
    PresetOption,
    Swarm,
    Times,
    Tries,
    Without,
    wanted_of,
)
from highwater.runs.chaos.outline import notes, outline, problems_in_containers
from highwater.runs.chaos.planning import plan_of, problems_in_simulator
from highwater.runs.chaos.repeating import counted_outcomes, repeat, until_known
from highwater.runs.plans.running import WorldName, read_plan, run_in
from highwater.runs.stock.libraries import ClientKind
from highwater_chaos.guard import problems_with_quorum
from highwater_chaos.plan import Plan
from highwater_checker.run_folder.documents import VERDICT
from highwater_checker.verdict import EXIT_CODES, worst_of
from highwater_core.config import Preset

if TYPE_CHECKING:
    from highwater.runs.plans.in_simulator import Ended
    from highwater.runs.plans.outcome import PlanResult

RUNS = Path("runs")


def register(app: typer.Typer) -> None:
    app.command()(run)


def run(
    file: Annotated[
        Path | None, typer.Argument(metavar="PLAN", exists=True, dir_okay=False, help="A file.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Or draw a plan from it.")] = None,
    lasting: For = "60s",
    preset: PresetOption = Preset.FENCED,
    brokers: Brokers = 3,
    controllers: Controllers = 2,
    swarm: Swarm = False,
    guard: GuardOfAny = None,
    without: Without = None,
    world: Annotated[WorldName, typer.Option(help="Where it is run.")] = WorldName.SIM,
    client: Client = ClientKind.OWN,
    times: Times = 1,
    tries: Tries = 1,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would act on what; start nothing.")
    ] = False,
    events: Events = False,
    around_violation: AroundViolation = None,
    out: Out = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print the result as JSON; with --repeat all results.")
    ] = False,
) -> None:
    """Run a plan in virtual time or on containers: break a cluster under load, heal it, judge it.

    Options from --for to --without are for a seed's plan, except --guard. A step that was not done
    makes the verdict unknown. Exit code 0: every run passed; 1: one failed; 2: one is unknown, or
    could not be done.
    """
    if file is not None and seed is None:
        planned = read_plan(file)
    elif file is None and seed is not None:
        kept = guard is not False
        planned = plan_of(
            wanted_of(seed, lasting, preset, brokers, controllers, swarm, kept, without)
        )
    else:
        raise HarnessError("say PLAN, a plan's file, or --seed N for a random one: one of the two")
    if dry_run:
        raise typer.Exit(_print_dry(planned, world))
    if guard:
        check_quorum(planned)
    ended = _shown(around_violation, json) if events else None
    folders = _folders(out, "plan" if seed is None else "chaos", is_one=times == tries == 1)
    with Screen() as screen:
        for line in outline(planned):
            screen.say(line, style="dim")

        def run_once() -> PlanResult:
            result = run_in(world, planned, next(folders), screen, client, ended)
            if not json:
                print_result(result)
            return result

        def run_until_known(number: int) -> PlanResult:
            if times > 1:
                screen.say(f"run {number} of {times}", style="bold")
            return until_known(tries, run_once, screen.say)

        results = repeat(times, run_until_known)
    _print_all(results, json)
    raise typer.Exit(EXIT_CODES[worst_of([each.verdict.outcome for each in results])])


def check_quorum(plan: Plan) -> None:
    """Go on only with a plan that keeps the quorum.

    Raises:
        HarnessError: it does not; the message says when too many brokers are out.
    """
    if problems := problems_with_quorum(plan):
        allowed = "without --guard it is run all the same"
        raise HarnessError("\n".join(["the plan breaks the quorum", *problems, allowed]))


def _folders(out: Path | None, kind: str, is_one: bool) -> Iterator[Callable[[], RunFolder]]:
    """Yield a function for each run that makes its folder: out, out/N, or one in runs/."""
    for number in count(1):
        if out is None:
            yield lambda: RunFolder.create(RUNS, new_run_id(kind))
        else:
            yield partial(RunFolder, out if is_one else out / f"{out.name}-{number}")


def _shown(around_violation: int | None, json: bool) -> Ended:
    """Return the function that prints the plan, a line for each event, and the digest.

    Raises:
        HarnessError: JSON is to be printed too.
    """
    if json:
        raise HarnessError("--events prints lines, and --json JSON: one of the two")
    from highwater.runs.plans.replaying import Replayed, show
    from highwater_simulator.search import find

    return lambda result, verdict: show(
        Replayed(result, find(result), verdict, result.plan.planted), around_violation
    )


def print_result(result: PlanResult) -> None:
    """Print each step's outcome, each check's findings, the verdict, and the report's path."""
    verdict = result.verdict
    for line in (*result.notes, *result.steps):
        RESULTS.print(Text(printable(line)), soft_wrap=True)
    table = checks_table(verdict)
    met = sum(requirement.met for requirement in verdict.requirements)
    table.add_row("what had to happen did", str(len(verdict.requirements)), f"{met} did")
    RESULTS.print(table)
    for gap in result.gaps:
        RESULTS.print(str(gap))
    where = " (in virtual time: no container was started)" if result.in_virtual_time else ""
    print_outcome(verdict, f"in {result.folder / VERDICT.name}", where)
    if verdict.findings:
        told = f"how it came: {command_to_explain(result.folder)}"
        RESULTS.print(Text(printable(told)), soft_wrap=True)
    for name in ("report.html", "run.png"):
        RESULTS.print(str(result.folder / name), soft_wrap=True)


def _print_dry(plan: Plan, world: WorldName) -> int:
    """Print the plan, and return the exit code: 2 when that world cannot run it."""
    is_simulated = world is WorldName.SIM
    for line in (*outline(plan), *(() if is_simulated else notes(plan))):
        RESULTS.print(Text(line), soft_wrap=True)
    problems = problems_in_simulator(plan) if is_simulated else problems_in_containers(plan)
    for problem in problems:
        RESULTS.print(Text(problem, style="bold yellow"), soft_wrap=True)
    return 2 if problems else 0


def _print_all(results: list[PlanResult], json: bool) -> None:
    counts = counted_outcomes(results)
    if json:
        print_json(results[0] if len(results) == 1 else {"verdicts": counts, "runs": results})
    elif len(results) > 1:
        said = ", ".join(f"{outcome} {count} times" for outcome, count in counts.items())
        RESULTS.print(f"of {len(results)} runs: {said}")
