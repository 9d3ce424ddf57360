"""`highwater watch`: a run or a soak as it goes on, in the terminal or as a page."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.live import Live

from highwater.errors import HarnessError
from highwater.output import RESULTS, print_json, say

RUNS = Path("runs")
REFRESH_S = 0.5


def register(app: typer.Typer) -> None:
    app.command()(watch)


def watch(
    folder: Annotated[
        Path | None,
        typer.Argument(help="A run's or a soak's folder. [default: what was begun last]"),
    ] = None,
    serve: Annotated[
        int | None,
        typer.Option("--serve", metavar="PORT", min=0, max=65535, help="Serve a live page."),
    ] = None,
    host: Annotated[str, typer.Option("--host", help="Where --serve listens.")] = "127.0.0.1",
    once: Annotated[bool, typer.Option("--once", help="Print the present state, and end.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the present state as JSON.")] = False,
) -> None:
    """Show leaders, ISRs, offsets and faults of what runs now, from its files alone."""
    from highwater.watching.screen import screen_of
    from highwater.watching.serving import served
    from highwater.watching.view import read_view

    chosen = folder or newest(RUNS)
    if not chosen.is_dir():
        raise HarnessError(f"{chosen} is no folder of a run or a soak")
    if json:
        print_json(read_view(chosen))
    elif once:
        RESULTS.print(screen_of(read_view(chosen)))
    elif serve is not None:
        with served(host, serve, chosen) as address:
            say(f"{address}; Ctrl-C ends it")
            while True:
                time.sleep(REFRESH_S)
    else:
        with Live(console=RESULTS, auto_refresh=False, screen=RESULTS.is_terminal) as live:
            while True:
                live.update(screen_of(read_view(chosen)), refresh=True)
                time.sleep(REFRESH_S)


def newest(runs: Path) -> Path:
    """Return the folder of the soak or the run that was written last.

    Raises:
        HarnessError: there is none.
    """
    soaks = [path.parent for path in runs.glob("soaks/*/status.json")]
    latest = [runs / "latest"] if (runs / "latest").exists() else []
    found = [*soaks, *latest]
    if not found:
        raise HarnessError(f"nothing runs below {runs}: name a run's or a soak's folder")
    return max(found, key=lambda path: path.stat().st_mtime)
