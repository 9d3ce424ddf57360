"""`highwater campaign`: a hundred thousand simulated fault schedules on Spark's workers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from highwater.commands.pipeline import STORE, Master, Store, check_extra
from highwater.search.options import Families
from highwater_core.config import Preset


def register(app: typer.Typer) -> None:
    app.command()(campaign)


def campaign(
    seeds: Annotated[int, typer.Option(min=1, help="How many; each runs in every family.")] = 1000,
    first: Annotated[int, typer.Option(min=0, help="The first one.")] = 1,
    preset: Annotated[Preset, typer.Option(help="The protocol's rules.")] = Preset.FENCED,
    family: Annotated[Families, typer.Option(help="Which faults.")] = Families.ALL,
    planted: Annotated[str, typer.Option(help="Have all nodes make this mistake.")] = "",
    name: Annotated[
        str, typer.Option(help="The campaign's. [default: made of what is asked, and the code]")
    ] = "",
    group: Annotated[
        int, typer.Option(min=1, help="Schedules that are kept at once: a kill costs one group.")
    ] = 512,
    shrink_runs: Annotated[
        int, typer.Option(min=0, help="Runs that shrinking a schedule may take; 0: none is shrunk.")
    ] = 500,
    store: Store = STORE,
    out: Annotated[
        Path, typer.Option(file_okay=False, help="Where reports and plans go, by name.")
    ] = Path("runs") / "campaigns",
    master: Master = "local[*]",
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Run schedules on Spark, store a row of each, shrink failing ones, and report.

    The same command again goes on where it was stopped. Exit code 0: every schedule passes; 1: one
    fails; 2: the result is unknown or could not be had; 130: Ctrl-C.
    """
    check_extra()
    from highwater.search.campaigns import Asked, run_campaign

    asked = Asked(
        seeds=seeds,
        first_seed=first,
        preset=preset,
        families=family,
        planted=planted,
        name=name,
        store=store,
        out=out,
        master=master,
        group_length=group,
        shrink_runs=shrink_runs,
    )
    raise typer.Exit(run_campaign(asked, as_json=as_json))
