"""`highwater sim scenario`: keeps a plan as a test."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from highwater.errors import HarnessError

NAME = re.compile(r"[a-z0-9][a-z0-9_]*")
FOLDER = Path("tests") / "scenarios"


def register(app: typer.Typer) -> None:
    app.command()(scenario)


def scenario(
    plan: Annotated[Path, typer.Argument(metavar="PLANFILE", help="The plan to keep.")],
    name: Annotated[str, typer.Option(help="The scenario's name: of a-z, 0-9 and _.")],
    title: Annotated[str, typer.Option(help="What it tells, in a sentence.")] = "",
    planted: Annotated[str, typer.Option(help="Have all nodes make this mistake.")] = "",
    folder: Annotated[Path, typer.Option(file_okay=False, help="Where it is kept.")] = FOLDER,
    force: Annotated[bool, typer.Option("--force", help="Replace one of that name.")] = False,
) -> None:
    """Run the plan, and write it with its result as a scenario, whose result tests compare."""
    from highwater.runs.plans.scenarios import make_scenario
    from highwater.search.plans import read_simulated_plan
    from highwater.search.shrinking import write_plan_file
    from highwater.search.writable import check_can_write

    if not NAME.fullmatch(name):
        raise HarnessError(f"--name {name!r}: use a-z, 0-9 and _")
    path = folder / f"{name}.json"
    if path.exists() and not force:
        raise HarnessError(f"{path} is there; --force replaces it")
    found = read_simulated_plan(plan)
    check_can_write(path)
    kept = make_scenario(found, title, planted)
    write_plan_file(kept, path)
    expected = kept.expected
    shows = "" if expected is None else f"{expected.verdict} {expected.invariant}".strip()
    typer.echo(f"{path} must show: {shows}")
