"""`highwater pipeline compare`: whether one build or preset is slower than another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from highwater.commands.pipeline import OUT, STORE, Master, Store, check_extra

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
    a: Annotated[str, typer.Option("--a", help="The side that is compared with.")],
    b: Annotated[str, typer.Option("--b", help="The side of which it is asked.")],
    folders: MoreFolders = None,
    fault: Fault = None,
    store: Store = STORE,
    out: Annotated[Path, typer.Option(help="Where the page goes.")] = OUT,
    master: Master = "local[*]",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare whether runs of one side are slower than those of another, and write a page.

    Exit code 0: no measure is shown to be slower on side b; 1: one is; 2: there are too few values,
    or an error.
    """
    check_extra()
    from highwater.report.pipeline_comparisons import comparison_of_runs

    raise typer.Exit(
        comparison_of_runs(
            folders or [], store, out, master, by=by, a=a, b=b, fault=fault, as_json=as_json
        )
    )
