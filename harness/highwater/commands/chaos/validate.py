"""`highwater chaos validate FILE`: whether a plan can be run, here and in the simulator."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from highwater.errors import HarnessError
from highwater.runs.chaos.outline import about_quorum, notes, problems_in_containers
from highwater.runs.chaos.planning import problems_in_simulator
from highwater.runs.plans.running import read_plan


def register(app: typer.Typer) -> None:
    app.command()(validate)


def validate(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="The plan's file.")],
) -> None:
    """Check which world can run a plan, and whether it keeps the quorum.

    Exit code 0: containers can run it; 2: they cannot, or the file is no plan.
    """
    plan = read_plan(file)
    refused, not_simulated = problems_in_containers(plan), problems_in_simulator(plan)
    if refused:
        other = ["the simulator cannot either", *not_simulated]
        other = other if not_simulated else ["the simulator can"]
        raise HarnessError("\n".join([f"{file}: containers cannot run it", *refused, *other]))
    steps = f"{len(plan.steps)} steps"
    if not_simulated:
        typer.echo(f"{file}: a plan that containers can run, and the simulator cannot, {steps}")
    else:
        typer.echo(f"{file}: a plan that containers and the simulator can run, {steps}")
    for line in (*not_simulated, *about_quorum(plan), *notes(plan)):
        typer.echo(line)
