"""`highwater sim ...`: the same node code in virtual time. Each command is a module in here.

The simulator is loaded by the command that needs it, not by `highwater --help`.
"""

from __future__ import annotations

import typer

from highwater.commands import add_commands

INTERRUPTED_EXIT_CODE = 130
"""Of a command that Ctrl-C ended, once what it had until then is kept."""


def register(app: typer.Typer) -> None:
    """Add the group with one command per module of this package that has register(app)."""
    group = typer.Typer(
        name="sim",
        help="Search, replay and shrink fault schedules of the same node code in virtual time.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )
    add_commands(group, __name__, __path__)
    app.add_typer(group)
