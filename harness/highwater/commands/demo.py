"""`highwater demo`: a cluster, two kills, and the proof that nothing was lost."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from highwater.cluster.topology import MIN_SESSION_TIMEOUT_MS
from highwater.errors import EngineMissing
from highwater.output import RESULTS, print_json
from highwater.report.screen import Screen
from highwater.report.verdict_text import checks_table, print_outcome
from highwater.runs.demo import DemoResult, run_demo
from highwater.runs.demo_acts import DemoSettings
from highwater_checker.verdict import EXIT_CODES
from highwater_core.config import Preset

WITHOUT_ENGINE = (
    "THE DEMO IS PLAYED IN VIRTUAL TIME: the same controller and broker code in one process, on a "
    "simulated network, disks and ZooKeeper; no container is started"
)


class DemoWorld(StrEnum):
    """Where the demo is played."""

    AUTO = "auto"
    """On containers, or in virtual time where no engine is to be had."""
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
    runs: Annotated[Path, typer.Option(file_okay=False, help="Where run folders are kept.")] = Path(
        "runs"
    ),
    world: Annotated[
        DemoWorld, typer.Option(help="auto: on containers, in virtual time without an engine.")
    ] = DemoWorld.AUTO,
    json: Annotated[bool, typer.Option("--json", help="Print the verdict as JSON.")] = False,
) -> None:
    """Kill the leader and the active controller under load, and prove that nothing was lost."""
    settings = DemoSettings(
        runs_root=runs,
        preset=preset,
        session_timeout_ms=session_timeout_ms,
        records_per_second=records_per_second,
    )
    with Screen() as screen:
        result = _play(settings, screen, world)
    if json:
        print_json(result)
    else:
        _print_result(result)
    raise typer.Exit(EXIT_CODES[result.verdict.outcome])


def _play(settings: DemoSettings, screen: Screen, world: DemoWorld) -> DemoResult:
    """Play the demo where it can be.

    Raises:
        EngineMissing: it was to be on containers alone.
    """
    if world is not DemoWorld.SIM:
        try:
            return run_demo(settings, screen)
        except EngineMissing as error:
            if world is DemoWorld.DOCKER:
                raise
            screen.say(str(error), style="yellow")
    from highwater.runs.simulated_demo import run_simulated_demo

    screen.say(WITHOUT_ENGINE, style="bold yellow")
    return run_simulated_demo(settings, screen)


def _print_result(result: DemoResult) -> None:
    verdict = result.verdict
    RESULTS.print(checks_table(verdict))
    for gap in result.gaps:
        RESULTS.print(
            f"{gap.topic}-{gap.partition} went {gap.length_s:.2f} s without an acknowledgement"
        )
    where = " (in virtual time: no container was started)" if result.world == "sim" else ""
    print_outcome(verdict, where)
    for name in ("report.html", "run.png"):
        RESULTS.print(str(result.folder / name), soft_wrap=True)
