"""`highwater init ...`: files for a project that uses Highwater; a module of this package each."""

from __future__ import annotations

import typer

from highwater.commands import add_group


def register(app: typer.Typer) -> None:
    add_group(app, "init", "Write files that a project begins from.", __name__, __path__)
