"""The commands: a module each, with register(app: typer.Typer) that adds its command.

A new module needs no registration elsewhere. A package is a group of commands.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable
from importlib import import_module

import typer


def add_group(app: typer.Typer, name: str, says: str, package: str, path: Iterable[str]) -> None:
    """Add a group with one command per module of the package that has register(app)."""
    group = typer.Typer(name=name, help=says, no_args_is_help=True, pretty_exceptions_enable=False)
    add_commands(group, package, path)
    app.add_typer(group)


def add_commands(app: typer.Typer, package: str, path: Iterable[str], wanted: str = "") -> None:
    """Add the package's command of that name, if it is there, or else every one."""
    names = sorted(module.name for module in pkgutil.iter_modules(path))
    for name in [wanted] if wanted in names else names:
        import_module(f"{package}.{name}").register(app)
