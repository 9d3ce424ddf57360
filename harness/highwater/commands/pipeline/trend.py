"""`highwater pipeline trend`: failover times of builds, in their order."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from highwater.commands.pipeline import OUT, STORE, Master, Store, check_extra
from highwater.commands.pipeline.compare import By, Fault, MoreFolders


def register(app: typer.Typer) -> None:
    app.command()(trend)


def trend(
    folders: MoreFolders = None,
    by: By = "commit",
    fault: Fault = None,
    store: Store = STORE,
    out: Annotated[Path, typer.Option(help="Where the page goes.")] = OUT,
    master: Master = "local[*]",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show failover times and latency by build, in the order in which builds were first run.

    Exit codes are those of compare, for the last build beside the one before; 2: one build alone.
    """
    check_extra()
    from highwater.report.pipeline_comparisons import trend_of_builds

    raise typer.Exit(
        trend_of_builds(folders or [], store, out, master, by=by, fault=fault, as_json=as_json)
    )
