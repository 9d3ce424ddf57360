"""`highwater chaos plan`: writes the plan file of a seed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from highwater.output import say
from highwater.runs.chaos.options import (
    Brokers,
    Controllers,
    For,
    Guard,
    PresetOption,
    Swarm,
    Without,
    wanted_of,
)
from highwater.runs.chaos.outline import notes, outline
from highwater.runs.chaos.planning import plan_of
from highwater_chaos.plan import encode_plan
from highwater_core.config import Preset


def register(app: typer.Typer) -> None:
    app.command()(plan)


def plan(
    seed: Annotated[int, typer.Option(help="Equal seeds and options give equal plans.")],
    lasting: For = "60s",
    preset: PresetOption = Preset.FENCED,
    brokers: Brokers = 3,
    controllers: Controllers = 2,
    swarm: Swarm = False,
    guard: Guard = True,
    without: Without = None,
    out: Annotated[
        Path | None, typer.Option(dir_okay=False, help="Write it there. [default: to stdout]")
    ] = None,
) -> None:
    """Draw a plan from a seed: a cluster, clients, and faults that containers can do."""
    wanted = wanted_of(seed, lasting, preset, brokers, controllers, swarm, guard, without)
    drawn = plan_of(wanted)
    for line in (*outline(drawn), *notes(drawn)):
        say(line)
    if out is None:
        typer.echo(encode_plan(drawn), nl=False)
    else:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_bytes(encode_plan(drawn))
        typer.echo(str(out))
