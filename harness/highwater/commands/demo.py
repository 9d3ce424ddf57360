"""`highwater demo`: a cluster, two kills, and the proof that no record was lost."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from highwater.cluster.topology import MIN_SESSION_TIMEOUT_MS
from highwater.commands.run import RUNS, print_result
from highwater.errors import EngineMissing
from highwater.output import print_json
from highwater.report.screen import Screen
from highwater.run_folder import RunFolder, new_run_id
from highwater.runs.demo import demo_plan
from highwater.runs.plans.outcome import PlanResult
from highwater.runs.plans.running import WorldName, run_in
from highwater.runs.stock.libraries import ClientKind
from highwater_chaos.plan import Plan
from highwater_chaos.words import say_plan
from highwater_checker.verdict import EXIT_CODES
from highwater_core.config import Preset

WITHOUT_ENGINE = (
    "THE DEMO IS PLAYED IN VIRTUAL TIME: the same controller and broker code in one process, on a "
    "simulated network, disks and ZooKeeper; no container is started"
)


class DemoWorld(StrEnum):
    """The world in which the demo runs."""

    AUTO = "auto"
    """On containers, or in virtual time where there is no Docker engine."""
    DOCKER = "docker"
    SIM = "sim"


def register(app: typer.Typer) -> None:
    app.command()(demo)


def demo(
    preset: Annotated[Preset, typer.Option(help="The protocol's rules.")] = Preset.FENCED,
    session_timeout_ms: Annotated[
        int, typer.Option(min=MIN_SESSION_TIMEOUT_MS, help="Of every node's session.")
    ] = 2000,
    records_per_second: Annotated[int, typer.Option(min=1, help="What the client sends.")] = 1000,
    runs: Annotated[Path, typer.Option(file_okay=False, help="Where run folders are kept.")] = RUNS,
    world: Annotated[
        DemoWorld, typer.Option(help="auto: on containers, in virtual time without an engine.")
    ] = DemoWorld.AUTO,
    json: Annotated[bool, typer.Option("--json", help="Print the verdict as JSON.")] = False,
) -> None:
    """Kill the leader and the active controller under load, and prove that no record was lost."""
    plan = demo_plan(preset, session_timeout_ms, records_per_second)
    with Screen() as screen:
        for line in say_plan(plan):
            screen.say(line, style="dim")
        result = _play(plan, runs, screen, world)
    if json:
        print_json(result)
    else:
        print_result(result)
    raise typer.Exit(EXIT_CODES[result.verdict.outcome])


def _play(plan: Plan, runs: Path, screen: Screen, world: DemoWorld) -> PlanResult:
    """Run the demo in the given world, or where it can run.

    Raises:
        EngineMissing: containers were required, and there is no engine.
    """
    if world is not DemoWorld.SIM:
        folder = partial(RunFolder.create, runs, new_run_id("demo"))
        try:
            return run_in(WorldName.DOCKER, plan, folder, screen, ClientKind.CONFLUENT)
        except EngineMissing as error:
            if world is DemoWorld.DOCKER:
                raise
            screen.say(str(error), style="yellow")
    screen.say(WITHOUT_ENGINE, style="bold yellow")
    return run_in(
        WorldName.SIM, plan, partial(RunFolder.create, runs, new_run_id("demo-sim")), screen
    )
