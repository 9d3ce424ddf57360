"""`highwater run`: one plan, in the simulator or on containers."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from highwater.errors import HarnessError
from highwater.output import RESULTS, print_json
from highwater.report.screen import Screen
from highwater.report.verdict_text import checks_table, print_outcome
from highwater.run_folder import RunFolder, new_run_id
from highwater.runs.stock.libraries import ClientKind
from highwater_chaos.plan import BadPlan, Plan, decode_plan
from highwater_chaos.words import say_plan
from highwater_checker.verdict import EXIT_CODES

if TYPE_CHECKING:
    from highwater.runs.plans.outcome import PlanResult

RUNS = Path("runs")


class WorldName(StrEnum):
    SIM = "sim"
    DOCKER = "docker"


def register(app: typer.Typer) -> None:
    app.command()(run)


def run(
    plan: Annotated[Path, typer.Option(exists=True, dir_okay=False, help="The plan's file.")],
    world: Annotated[WorldName, typer.Option(help="Where it is run.")] = WorldName.SIM,
    out: Annotated[
        Path | None, typer.Option(file_okay=False, help="The run's folder. [default: in runs/]")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the verdict as JSON.")] = False,
) -> None:
    """Run a plan: the same file in virtual time or on containers; a step not done is no pass."""
    planned = read_plan(plan)
    with Screen() as screen:
        for line in say_plan(planned):
            screen.say(line, style="dim")
        result = run_in(world, planned, new_folder(out, "plan"), screen)
    if json:
        print_json(result)
    else:
        print_result(result)
    raise typer.Exit(EXIT_CODES[result.verdict.outcome])


def read_plan(path: Path) -> Plan:
    """Return the plan in the file.

    Raises:
        HarnessError: it is no plan; the message says why.
    """
    try:
        return decode_plan(path.read_bytes(), path)
    except BadPlan as error:
        raise HarnessError(str(error)) from error


def run_in(
    world: WorldName,
    plan: Plan,
    folder: Callable[[], RunFolder],
    screen: Screen,
    client: ClientKind = ClientKind.OWN,
) -> PlanResult:
    """Run the plan in that world, by those clients; its folder is made once it can be.

    Raises:
        Unsupported, EngineMissing: it cannot be; there is no folder of it.
        HarnessError: stock clients in the simulator, which has no sockets.
    """
    if world is WorldName.SIM:
        if client is not ClientKind.OWN:
            raise HarnessError(
                f"{client.value} needs sockets and a real clock: --world docker has them"
            )
        from highwater.runs.plans.in_simulator import check_simulated, run_in_simulator

        check_simulated(plan)
        return run_in_simulator(plan, folder(), screen)
    from highwater.cluster.engine import connect_engine
    from highwater.runs.plans.in_containers import check_supported, run_in_containers

    check_supported(plan)
    connect_engine().close()  # before there is a folder: without an engine no run becomes latest
    return run_in_containers(plan, folder(), screen, client)


def new_folder(out: Path | None, kind: str) -> Callable[[], RunFolder]:
    """Return what makes the folder: out, or one in runs/ whose name begins with the kind."""
    if out is not None:
        return lambda: RunFolder(out)
    return lambda: RunFolder.create(RUNS, new_run_id(kind))


def print_result(result: PlanResult) -> None:
    """Print how each step went, what each check found, the verdict, and where its report is."""
    verdict = result.verdict
    for line in (*result.notes, *result.steps):
        RESULTS.print(Text(line), soft_wrap=True)
    table = checks_table(verdict)
    met = sum(requirement.met for requirement in verdict.requirements)
    table.add_row("what had to happen did", str(len(verdict.requirements)), f"{met} did")
    RESULTS.print(table)
    print_outcome(verdict)
    RESULTS.print(str(result.folder / "report.html"), soft_wrap=True)
