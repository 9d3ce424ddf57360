"""`highwater chaos ...`: plans drawn and checked, and single faults. A module a command."""

from __future__ import annotations

import typer

from highwater.commands import add_group


def register(app: typer.Typer) -> None:
    add_group(
        app,
        "chaos",
        "Plans drawn and checked; single faults on a cluster that is up, and their way back.",
        __name__,
        __path__,
    )
