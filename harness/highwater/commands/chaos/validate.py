"""`highwater chaos validate FILE`: whether a plan can be run, here and in the simulator."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from highwater.chaos_runs.outline import notes, what_stands_against
from highwater.commands.run import read_plan
from highwater.errors import HarnessError


def register(app: typer.Typer) -> None:
    app.command()(validate)


def validate(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="The plan's file.")],
) -> None:
    """Say whether containers can run a plan, whether it keeps the quorum, and why not.

    Exit code 0: they can; 2: it is no plan, or has what they cannot do.
    """
    plan = read_plan(file)
    problems = what_stands_against(plan)
    if problems:
        raise HarnessError("\n".join([f"{file}: containers cannot run it", *problems]))
    typer.echo(f"{file}: a plan that containers and the simulator can run, {len(plan.steps)} steps")
    for line in notes(plan):
        typer.echo(line)
