"""`highwater pipeline compare`: which build or preset is slower, or what presets lose and cost."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from highwater.commands.pipeline import OUT, STORE, Master, Store, check_extra
from highwater.errors import HarnessError

MoreFolders = Annotated[
    list[Path] | None, typer.Argument(help="Folders of runs to take into the store first.")
]
By = Annotated[
    str,
    typer.Option(
        help="What tells runs apart: commit, preset, title, world, planted, brokers, controllers."
    ),
]
Fault = Annotated[str | None, typer.Option(help="Only failovers after this kind of fault.")]


def register(app: typer.Typer) -> None:
    app.command()(compare)


def compare(
    by: By,
    a: Annotated[str | None, typer.Option("--a", help="The side that is compared with.")] = None,
    b: Annotated[str | None, typer.Option("--b", help="The side of which it is asked.")] = None,
    folders: MoreFolders = None,
    campaign: Annotated[
        list[str] | None,
        typer.Option(help="Campaigns of the store, one a preset, instead of runs; --by preset."),
    ] = None,
    fault: Fault = None,
    store: Store = STORE,
    out: Annotated[Path, typer.Option(help="Where the page goes.")] = OUT,
    master: Master = "local[*]",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare whether runs of one side are slower than those of another, and write a page.

    Exit code 0: no measure is shown to be slower on side b; 1: one is; 2: there are too few values,
    or an error. With --campaign: compare what presets lose and cost over the same schedules.
    """
    check_extra()
    if campaign:
        if by != "preset" or a or b or folders or fault:
            raise HarnessError(
                "--campaign goes with --by preset, without sides, folders or a fault"
            )
        from highwater.report.preset_comparisons import comparison_of_campaigns

        raise typer.Exit(comparison_of_campaigns(campaign, store, out, master, as_json=as_json))
    if a is None or b is None:
        raise HarnessError("name both sides, --a and --b; or campaigns of several presets")
    from highwater.report.pipeline_comparisons import comparison_of_runs

    raise typer.Exit(
        comparison_of_runs(
            folders or [], store, out, master, by=by, a=a, b=b, fault=fault, as_json=as_json
        )
    )
