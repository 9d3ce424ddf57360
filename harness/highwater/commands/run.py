"""`highwater run`: one plan, in the simulator or on containers."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from highwater.errors import HarnessError
from highwater.output import RESULTS, print_json
from highwater.run_folder import RunFolder, new_run_id
from highwater.screen import Screen
from highwater_chaos.plan import BadPlan, Plan, decode_plan
from highwater_chaos.words import say_plan
from highwater_checker.verdict import EXIT_CODES, Outcome

if TYPE_CHECKING:
    from highwater.planned.outcome import PlanResult

RUNS = Path("runs")
_STYLES = {Outcome.PASS: "bold green", Outcome.FAIL: "bold red", Outcome.UNKNOWN: "bold yellow"}
_MAX_REASONS = 20


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
        result = _run_in(world, planned, out, screen)
    if json:
        print_json(result)
    else:
        _print_result(result)
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


def _run_in(world: WorldName, plan: Plan, out: Path | None, screen: Screen) -> PlanResult:
    if world is WorldName.SIM:
        from highwater.planned.in_simulator import run_in_simulator

        return run_in_simulator(plan, _folder(out), screen)
    from highwater.engine import connect_engine
    from highwater.planned.in_containers import check_supported, run_in_containers

    check_supported(plan)
    connect_engine().close()  # before there is a folder: without an engine no run becomes latest
    return run_in_containers(plan, _folder(out), screen)


def _folder(out: Path | None) -> RunFolder:
    return RunFolder.create(RUNS, new_run_id("plan")) if out is None else RunFolder(out)


def _print_result(result: PlanResult) -> None:
    verdict = result.verdict
    style = _STYLES[verdict.outcome]
    for line in (*result.notes, *result.steps):
        RESULTS.print(Text(line), soft_wrap=True)
    for reason in verdict.reasons[:_MAX_REASONS]:
        RESULTS.print(Text(reason, style=style), soft_wrap=True)
    if len(verdict.reasons) > _MAX_REASONS:
        RESULTS.print(f"... and {len(verdict.reasons) - _MAX_REASONS} more in verdict.json")
    RESULTS.print(Text(f"verdict: {verdict.outcome.value}", style=style))
    RESULTS.print(str(result.folder / "report.html"), soft_wrap=True)
