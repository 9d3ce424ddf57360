"""`highwater runs ...`: the folders of finished runs. A module a command."""

from __future__ import annotations

import typer

from highwater.commands import add_group


def register(app: typer.Typer) -> None:
    add_group(
        app,
        "runs",
        "The folders of runs: list them with their verdicts, and remove old ones.",
        __name__,
        __path__,
    )
