"""`highwater chaos schema`: the JSON schema of plans."""

from __future__ import annotations

import typer

from highwater_chaos.plan_schema import plan_schema


def register(app: typer.Typer) -> None:
    app.command()(schema)


def schema() -> None:
    """Print the JSON schema of plan files, for editors; 'validate' also checks a file's meaning."""
    typer.echo(plan_schema(), nl=False)
