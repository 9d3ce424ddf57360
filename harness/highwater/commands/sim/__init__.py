"""`highwater sim ...`: the same node code in virtual time. Each command is a module in here.

The simulator is loaded by the command that needs it, not by `highwater --help`.
"""

from __future__ import annotations

import typer

from highwater.commands import add_group


def register(app: typer.Typer) -> None:
    add_group(
        app,
        "sim",
        "Search, replay and shrink fault schedules of the same node code in virtual time.",
        __name__,
        __path__,
    )
