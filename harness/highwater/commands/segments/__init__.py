"""`highwater segments ...`: the logs of finished runs, batch by batch. A module a command."""

from __future__ import annotations

import typer

from highwater.commands import add_group


def register(app: typer.Typer) -> None:
    add_group(
        app,
        "segments",
        "The segment files of brokers and finished runs: print them, and compare replicas.",
        __name__,
        __path__,
    )
