"""`highwater chaos ...`: faults on containers, by plan or one by one. A module a command."""

from __future__ import annotations

import typer

from highwater.commands import add_commands


def register(app: typer.Typer) -> None:
    """Add the group with one command per module of this package that has register(app)."""
    group = typer.Typer(
        name="chaos",
        help="Faults on containers: random plans and plans by hand, run, repeated, taken back.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )
    add_commands(group, __name__, __path__)
    app.add_typer(group)
