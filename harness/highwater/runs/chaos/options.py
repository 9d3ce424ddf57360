"""The options that `highwater chaos plan` and `highwater run` have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from highwater.cluster.topology import MAX_BROKERS, MAX_CONTROLLERS
from highwater.durations import duration_ms
from highwater.errors import HarnessError
from highwater.runs.stock.libraries import ClientKind
from highwater_chaos.random_kinds import Kind
from highwater_chaos.random_plan import Wanted
from highwater_core.config import Preset

For = Annotated[str, typer.Option("--for", help="How long faults may come: 60s, 2m.")]
PresetOption = Annotated[Preset, typer.Option("--preset", help="The protocol's rules.")]
Brokers = Annotated[int, typer.Option(min=1, max=MAX_BROKERS)]
Controllers = Annotated[int, typer.Option(min=1, max=MAX_CONTROLLERS)]
Swarm = Annotated[
    bool,
    typer.Option(
        "--swarm/--independent",
        help="Some kinds of faults only, drawn; or every kind, each at its own times.",
    ),
]
Guard = Annotated[
    bool,
    typer.Option(
        "--guard/--no-guard",
        help="Keep a quorum: min.insync.replicas brokers and a controller at any moment.",
    ),
]
GuardOfAny = Annotated[
    bool | None,
    typer.Option(
        "--guard/--no-guard",
        help="Keep a quorum: min.insync.replicas brokers and a controller at any moment; a file "
        "that breaks it is refused. [default: a seed's plan keeps it, a file need not]",
    ),
]
Client = Annotated[
    ClientKind, typer.Option(help="Who writes and reads: our clients, or a stock library.")
]
Times = Annotated[int, typer.Option("--repeat", min=1, help="How often it is run.")]
Tries = Annotated[
    int,
    typer.Option(
        min=1, help="How often each is tried while its verdict is unknown: it proves nothing."
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        file_okay=False,
        help="The run's folder; with --repeat or --tries that of all. [default: in runs/]",
    ),
]

Events = Annotated[
    bool,
    typer.Option(
        "--events", help="Print the plan in words, each event in virtual time, and the digest."
    ),
]
AroundViolation = Annotated[
    int | None,
    typer.Option(min=0, metavar="N", help="Of --events only so many lines before and after it."),
]
Without = Annotated[
    list[Kind] | None,
    typer.Option("--without", help="A kind of fault that the plan must not have; repeatable."),
]


def wanted_of(
    seed: int,
    lasting: str,
    preset: Preset,
    brokers: int,
    controllers: int,
    swarm: bool,
    guard: bool,
    without: list[Kind] | None,
) -> Wanted:
    """Return the options as a request for a plan.

    Raises:
        HarnessError: no plan can have these options.
    """
    try:
        return Wanted(
            seed=seed,
            duration_ms=duration_ms(lasting),
            preset=preset,
            brokers=brokers,
            controllers=controllers,
            is_swarm=swarm,
            is_guarded=guard,
            without=tuple(without or ()),
        )
    except ValueError as error:
        raise HarnessError(str(error)) from error
