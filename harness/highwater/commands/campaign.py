"""`highwater campaign`: fault schedules or plans by the thousand on Spark's workers."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from highwater.commands.pipeline import STORE, Master, Store, check_extra
from highwater.durations import duration_ms
from highwater.errors import HarnessError
from highwater.runs.chaos.options import PresetOption, Without
from highwater.runs.stock.libraries import ClientKind
from highwater.search.options import Families
from highwater_core.config import Preset

SCHEDULES_KEPT_AT_ONCE, PLANS_KEPT_AT_ONCE = 512, 8


class World(StrEnum):
    """Where a campaign's plans run."""

    SIM = "sim"
    DOCKER = "docker"


Seeds = Annotated[
    int, typer.Option(min=1, help="How many; each runs in every family. On containers: plans.")
]
First = Annotated[
    int, typer.Option(min=0, help="The first seed. On containers: of the soak that has the plans.")
]
Where = Annotated[World, typer.Option(help="In virtual time, or on containers.")]
Family = Annotated[Families | None, typer.Option(help="Which faults; sim. [default: all]")]
Longest = Annotated[
    str, typer.Option(help="The longest plan's faults: 60s, 5m; docker. [default: 60s]")
]
Clients = Annotated[
    list[ClientKind] | None,
    typer.Option(help="Who writes and reads; repeatable; docker. [default: own, confluent]"),
]
AtOnce = Annotated[
    int | None, typer.Option(min=1, help="Clusters on one machine at once; docker. [default: 1]")
]
Planted = Annotated[str, typer.Option(help="Have all nodes make this mistake.")]
Name = Annotated[
    str, typer.Option(help="The campaign's. [default: made of the other options and the code]")
]
Group = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Schedules that are kept at once: a kill costs one group. [default: 512; 8 plans]",
    ),
]
ShrinkRuns = Annotated[
    int, typer.Option(min=0, help="Runs that shrinking a schedule may take; 0: none; sim.")
]
Out = Annotated[Path, typer.Option(file_okay=False, help="Where reports and plans go, by name.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the report as JSON.")]


def register(app: typer.Typer) -> None:
    app.command()(campaign)


def campaign(
    seeds: Seeds = 1000,
    first: First = 1,
    world: Where = World.SIM,
    preset: PresetOption = Preset.FENCED,
    family: Family = None,
    longest: Longest = "",
    client: Clients = None,
    without: Without = None,
    at_once: AtOnce = None,
    planted: Planted = "",
    name: Name = "",
    group: Group = None,
    shrink_runs: ShrinkRuns = 500,
    store: Store = STORE,
    out: Out = Path("runs") / "campaigns",
    master: Master = "local[*]",
    as_json: AsJson = False,
) -> None:
    """Run schedules on Spark, store a row of each, shrink failing ones, and report.

    With --world docker: a soak's plans, each on containers of a worker's machine. The same command
    again goes on where it was stopped. Exit code 0: every schedule passes; 1: one fails; 2: the
    result is unknown or could not be had; 130: Ctrl-C.
    """
    check_extra()
    if world is World.DOCKER:
        _refuse(World.SIM, family=family)
        from highwater.soak.campaign.running import AskedOfContainers, run_on_containers

        plans = AskedOfContainers(
            seed=first,
            plans=seeds,
            preset=preset,
            longest_ms=duration_ms(longest or "60s"),
            clients=tuple(client or (ClientKind.OWN, ClientKind.CONFLUENT)),
            without=tuple(without or ()),
            planted=planted,
            name=name,
            store=store,
            out=out,
            master=master,
            group_length=group or PLANS_KEPT_AT_ONCE,
            at_once=at_once or 1,
        )
        raise typer.Exit(run_on_containers(plans, as_json=as_json))
    _refuse(World.DOCKER, longest=longest, client=client, without=without, at_once=at_once)
    from highwater.search.campaigns import Asked, run_campaign

    asked = Asked(
        seeds=seeds,
        first_seed=first,
        preset=preset,
        families=family or Families.ALL,
        planted=planted,
        name=name,
        store=store,
        out=out,
        master=master,
        group_length=group or SCHEDULES_KEPT_AT_ONCE,
        shrink_runs=shrink_runs,
    )
    raise typer.Exit(run_campaign(asked, as_json=as_json))


def _refuse(world: World, **given: object) -> None:
    """Refuse options that mean something in that world alone."""
    for name, value in given.items():
        if value:
            option = name.replace("_", "-")
            raise HarnessError(f"--{option} is of --world {world.value}")
