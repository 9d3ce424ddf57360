"""`highwater soak`: hours of drawn plans on containers, each judged as it ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from highwater.durations import duration_ms
from highwater.errors import HarnessError
from highwater.output import RESULTS, STYLES, print_json
from highwater.report.screen import Screen
from highwater.runs.chaos.options import Without
from highwater.runs.stock.libraries import ClientKind
from highwater_checker.verdict import EXIT_CODES, Outcome
from highwater_core.config import Preset

if TYPE_CHECKING:
    from highwater.soak.draws import SoakSettings
    from highwater.soak.folder import SoakFolder
    from highwater.soak.hooks import Hooks
    from highwater.soak.ledger import Entry
    from highwater.soak.running import Limits, Soak

ROOT = Path("runs") / "soaks"
GIB = 2**30


def register(app: typer.Typer) -> None:
    app.command()(soak)


def soak(
    lasting: Annotated[str, typer.Option("--for", help="How long plans are run: 8h, 90m.")] = "1h",
    seed: Annotated[int, typer.Option(min=0, help="Plans are drawn from it.")] = 1,
    name: Annotated[str, typer.Option(help="The soak's folder. [default: soak-SEED]")] = "",
    longest: Annotated[str, typer.Option(help="The longest plan's faults: 60s, 5m.")] = "60s",
    preset: Annotated[
        list[Preset] | None, typer.Option(help="Of the plans; repeatable. [default: fenced]")
    ] = None,
    client: Annotated[
        list[ClientKind] | None,
        typer.Option(help="Who writes and reads; repeatable. [default: own, confluent]"),
    ] = None,
    without: Without = None,
    one_cluster: Annotated[
        bool,
        typer.Option("--one-cluster", help="All plans on one cluster that lives on; finds leaks."),
    ] = False,
    until_failure: Annotated[
        bool, typer.Option("--until-failure", help="End at the first plan that fails, or leak.")
    ] = False,
    again: Annotated[int, typer.Option(min=0, help="How often a failed plan is run again.")] = 2,
    keep_gib: Annotated[float, typer.Option(min=0.1, help="What all run folders may take.")] = 20.0,
    webhook: Annotated[str, typer.Option(help="Gets each finding as JSON.")] = "",
    on_finding: Annotated[
        str, typer.Option(help="A command that gets each finding as JSON on its stdin.")
    ] = "",
    serve: Annotated[
        int | None,
        typer.Option("--serve", metavar="PORT", min=0, max=65535, help="Serve a live page."),
    ] = None,
    host: Annotated[str, typer.Option("--host", help="Where --serve listens.")] = "127.0.0.1",
    json: Annotated[bool, typer.Option("--json", help="Print the entries as JSON.")] = False,
) -> None:
    """Run plans drawn from a seed on containers until the time is over, and judge each.

    The same command goes on where it was ended, also by kill -9. Passed runs keep their verdict
    alone, failed ones everything. Exit code 0: more plans passed than prove nothing, and none
    failed; 1: one failed, or nodes leak; 2: too little was proven, or the soak ended before its
    time.
    """
    from highwater.soak.draws import SoakSettings
    from highwater.soak.folder import SoakFolder
    from highwater.soak.hooks import Hooks
    from highwater.soak.running import Limits

    defaults = SoakSettings(seed)
    settings = SoakSettings(
        seed=seed,
        longest_ms=duration_ms(longest),
        presets=tuple(preset or defaults.presets),
        clients=tuple(client or defaults.clients),
        without=tuple(without or ()),
        one_cluster=one_cluster,
    )
    limits = Limits(_seconds(lasting), until_failure, again, _bytes(keep_gib))
    if Path(name).name != name or name in (".", ".."):
        raise HarnessError(f"--name {name!r}: the name of a folder in {ROOT} is meant")
    folder = SoakFolder(ROOT / (name or f"soak-{seed}"))
    hooks = Hooks(webhook, on_finding)
    with Screen() as screen, _live_page(folder, serve, host, screen):
        soaked, outcome = _run(folder, settings, limits, hooks, screen)
    if json:
        leaks = [*map(str, soaked.leaks)]
        print_json({"verdict": outcome, "plans": soaked.entries, "leaks": leaks})
    else:
        _print_result(folder, soaked, outcome)
    raise typer.Exit(EXIT_CODES[outcome])


def _seconds(lasting: str) -> float:
    wanted_ms = duration_ms(lasting)
    if not wanted_ms:
        raise HarnessError("a soak takes time: --for 0 runs nothing")
    return wanted_ms / 1_000


def _bytes(keep_gib: float) -> int:
    if not isfinite(keep_gib):
        raise HarnessError(f"--keep-gib {keep_gib}: a number of GiB is meant")
    return round(keep_gib * GIB)


def _run(
    folder: SoakFolder, settings: SoakSettings, limits: Limits, hooks: Hooks, screen: Screen
) -> tuple[Soak, Outcome]:
    """Run the soak, with its page written anew after each plan."""
    from highwater.soak.on_machine import Machine
    from highwater.soak.page import write_page
    from highwater.soak.printing import in_a_line
    from highwater.soak.running import Soak

    def ended(entry: Entry) -> None:
        screen.say(in_a_line(entry), style=STYLES[entry.outcome])
        hooks.tell(folder.path, entry, screen.say)
        for leak in running.untold_leaks():
            hooks.tell_leak(folder.path, leak, screen.say)
        draw_page()

    def draw_page() -> None:
        try:
            write_page(folder, settings, running.entries)
        except OSError as error:  # the ledger has all of it
            screen.say(f"the page is not written: {error}", style="yellow")

    machine = Machine(screen, folder.path / "shrunk")
    running = Soak(folder, settings, limits, machine, say=screen.say, ended=ended)
    outcome = running.go()
    draw_page()
    return running, outcome


@contextmanager
def _live_page(folder: SoakFolder, port: int | None, host: str, screen: Screen) -> Iterator[None]:
    """Serve the page of what runs now while the block lasts, if a port is given."""
    if port is None:
        yield
        return
    from highwater.watching.serving import served

    with served(host, port, folder.path) as address:
        screen.say(f"live: {address}", style="bold")
        yield


def _print_result(folder: SoakFolder, soaked: Soak, outcome: Outcome) -> None:
    from highwater.soak.leaks import not_told
    from highwater.soak.printing import print_shares, print_with_command
    from highwater.soak.usage import read_samples

    print_shares(soaked.entries)
    for entry in soaked.entries:
        if entry.outcome is Outcome.FAIL:
            print_with_command(folder.path, entry)
    if untold := not_told(read_samples(folder.usage)):
        line = f"leaks: too few rounds on one cluster to tell of {', '.join(untold)}"
        RESULTS.print(line, soft_wrap=True)
    for leak in soaked.leaks:
        RESULTS.print(f"leak: {leak}", markup=False, soft_wrap=True)
    RESULTS.print(f"verdict: {outcome.value}")
    RESULTS.print(str(folder.page), soft_wrap=True)
