"""`highwater demo`: a cluster, two kills, and the proof that nothing was lost."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from highwater.demo import DemoResult, DemoSettings, run_demo
from highwater.errors import EngineMissing
from highwater.output import RESULTS, print_json
from highwater.screen import Screen
from highwater.topology import MIN_SESSION_TIMEOUT_MS
from highwater_checker.verdict import EXIT_CODES, Outcome
from highwater_core.config import Preset

WITHOUT_ENGINE = (
    "without an engine, 'python -m highwater_simulator.failover_story' kills a leader of the same "
    "code in virtual time"
)
_STYLES = {Outcome.PASS: "bold green", Outcome.FAIL: "bold red", Outcome.UNKNOWN: "bold yellow"}


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
        try:
            result = run_demo(settings, screen)
        except EngineMissing as error:
            raise EngineMissing(f"{error}\n{WITHOUT_ENGINE}") from error
    if json:
        print_json(result)
    else:
        _print_result(result)
    raise typer.Exit(EXIT_CODES[result.verdict.outcome])


def _print_result(result: DemoResult) -> None:
    verdict = result.verdict
    table = Table("check", "examined", "found")
    for check in verdict.checks:
        noted = "".join(f"; {name}: {count}" for name, count in check.noted)
        found = str(len(check.findings)) if check.findings else "nothing"
        table.add_row(check.check, str(check.examined), found + noted)
    RESULTS.print(table)
    for gap in result.gaps:
        RESULTS.print(
            f"{gap.topic}-{gap.partition} went {gap.length_s:.2f} s without an acknowledgement"
        )
    for reason in verdict.reasons[:20]:
        RESULTS.print(Text(reason, style=_STYLES[verdict.outcome]))
    if len(verdict.reasons) > 20:
        RESULTS.print(f"... and {len(verdict.reasons) - 20} more in verdict.json")
    RESULTS.print(Text(f"verdict: {verdict.outcome.value}", style=_STYLES[verdict.outcome]))
    for name in ("report.html", "run.png"):
        RESULTS.print(str(result.folder / name), soft_wrap=True)
