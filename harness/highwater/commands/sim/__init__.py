"""`highwater sim ...`: the same node code in virtual time. Each command is a module in here.

The simulator is loaded by the command that needs it, not by `highwater --help`.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module

import typer


def register(app: typer.Typer) -> None:
    """Add the group with one command per module of this package that has register(app)."""
    group = typer.Typer(
        name="sim",
        help="Search, replay and shrink fault schedules of the same node code in virtual time.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )
    for name in sorted(module.name for module in pkgutil.iter_modules(__path__)):
        import_module(f"{__name__}.{name}").register(group)
    app.add_typer(group)
