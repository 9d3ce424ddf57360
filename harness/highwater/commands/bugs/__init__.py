"""`highwater bugs ...`: Kafka's historical failover bugs, each with a plan that shows it."""

from __future__ import annotations

import typer

from highwater.commands import add_group


def register(app: typer.Typer) -> None:
    add_group(
        app,
        "bugs",
        "Historical failover bugs: list them, and run the plan that shows one.",
        __name__,
        __path__,
    )
