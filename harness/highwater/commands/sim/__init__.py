"""`highwater sim ...`: the node code in virtual time. Each command is a module of this package.

A command that needs the simulator loads it; `highwater --help` does not.
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
