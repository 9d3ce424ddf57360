"""`highwater chaos ...`: faults on containers, by plan or one by one. A module a command."""

from __future__ import annotations

import typer

from highwater.commands import add_group


def register(app: typer.Typer) -> None:
    add_group(
        app,
        "chaos",
        "Faults on containers: random plans and plans by hand, run, repeated, taken back.",
        __name__,
        __path__,
    )
