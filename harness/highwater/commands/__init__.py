"""The commands: a module each, with register(app: typer.Typer) that adds its command.

A package is a group of commands. `highwater.command_list` has their names and order.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable
from importlib import import_module

import typer

from highwater.command_list import LISTED

_MODULES = {"elect": "partitions", "reassign": "partitions"}
"""The commands that share a module; any other's has the command's name, with _ for -."""


def add_names(app: typer.Typer) -> None:
    """Add all commands' names with their help, and nothing behind them: quick to have."""
    for purpose, below in LISTED.items():
        for name, says in below.items():
            app.command(name, help=says, rich_help_panel=purpose)(lambda: None)


def command_names() -> list[str]:
    """Return the names of all commands, in the order of the help."""
    return [name for below in LISTED.values() for name in below]


def add_group(app: typer.Typer, name: str, says: str, package: str, path: Iterable[str]) -> None:
    """Add a group with one command per module of the package that has register(app)."""
    group = typer.Typer(name=name, help=says, no_args_is_help=True, pretty_exceptions_enable=False)
    add_commands(group, package, path)
    app.add_typer(group)


def add_commands(app: typer.Typer, package: str, path: Iterable[str], wanted: str = "") -> None:
    """Add the package's command of that name, if it is there, or else every one."""
    names = sorted(module.name for module in pkgutil.iter_modules(path))
    module = _MODULES.get(wanted, wanted.replace("-", "_"))
    for name in [module] if module in names else names:
        import_module(f"{package}.{name}").register(app)
