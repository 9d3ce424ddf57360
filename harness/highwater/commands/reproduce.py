"""`highwater reproduce`: the plan of a finished run again, so often, with a count."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from highwater.cluster.cleaning import remove_run
from highwater.cluster.engine import connect_engine
from highwater.commands.run import RUNS
from highwater.errors import HarnessError
from highwater.output import RESULTS, print_json, printable
from highwater.report.screen import Screen
from highwater.report.verdict_text import print_outcome
from highwater.run_folder import RunFolder, new_run_id
from highwater.runs.plans.outcome import PlanResult
from highwater.runs.plans.running import WorldName, run_in
from highwater.runs.reproducing import Finished, is_again, notes, read_finished, sum_up
from highwater.runs.stock.libraries import ClientKind
from highwater_checker.run_folder.documents import PLAN, VERDICT
from highwater_checker.verdict import EXIT_CODES, Outcome, worst_of


def register(app: typer.Typer) -> None:
    app.command()(reproduce)


def reproduce(
    folder: Annotated[Path, typer.Argument(exists=True, file_okay=False, help="A run's folder.")],
    times: Annotated[int, typer.Option(min=1, help="How often it is run.")] = 1,
    world: Annotated[
        WorldName | None, typer.Option(help="Where it is run. [default: where that run was]")
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the cluster of the last failed run up.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Run the plan of a finished run again, with the same clients, and say what came of it.

    On containers a failure that depends on the moment comes in some of the runs: --times counts
    them. Each run has a folder of its own in runs/. In virtual time one run is like the next.
    With --keep the nodes of a failed run are started again once their files are copied.
    Exit code 0: every run passed; 1: one failed; 2: one is unknown, or could not be done.
    """
    finished = read_finished(folder)
    where = finished.world if world is None else world
    if keep and where is WorldName.SIM:
        raise HarnessError("virtual time leaves no cluster to keep: --world docker has one")
    client = finished.client if where is WorldName.DOCKER else ClientKind.OWN
    results: list[PlanResult] = []
    with Screen() as screen:
        for note in notes(finished, where):
            screen.say(note, style="yellow")
        for number in range(1, times + 1):
            screen.say(f"run {number} of {times}", style="bold")
            try:
                result = run_in(
                    where, finished.plan, _new_folder, screen, client, keeps_failed=keep
                )
            except HarnessError as error:
                screen.say(f"run {number} could not be done: {error}", style="bold yellow")
                continue
            if result.left_up:
                _remove(results)
            results.append(result)
            if not json:
                _print(number, result, finished)
    not_done = times - len(results)
    said = sum_up(finished, results, not_done)
    if json:
        print_json({"summary": said, "violated": finished.invariants, "runs": results})
    else:
        RESULTS.print(Text(printable(said), style="bold"), soft_wrap=True)
        if where is WorldName.SIM and any(result.verdict.findings for result in results):
            command = f"highwater sim shrink {shlex.quote(str(folder / PLAN.name))}"
            RESULTS.print(Text(printable(f"smaller: {command}")), soft_wrap=True)
        _print_left_up(results)
    outcomes = [result.verdict.outcome for result in results] + [Outcome.UNKNOWN] * not_done
    raise typer.Exit(EXIT_CODES[worst_of(outcomes)])


def _new_folder() -> RunFolder:
    return RunFolder.create(RUNS, new_run_id("again"))


def _remove(results: list[PlanResult]) -> None:
    """Remove the cluster of an earlier run, if one was left up: one alone stays."""
    for number, result in enumerate(results):
        if result.left_up:
            remove_run(connect_engine(), result.folder.name)
            results[number] = replace(result, left_up=())


def _print_left_up(results: list[PlanResult]) -> None:
    for result in results:
        if result.left_up:
            for line in (f"{result.folder.name} is up:", *result.left_up):
                RESULTS.print(Text(printable(line)), soft_wrap=True)


def _print(number: int, result: PlanResult, finished: Finished) -> None:
    same = ""
    if finished.invariants:
        same = "the same, " if is_again(finished, result) else "not the same, "
    head = f"run {number}: {same}{result.folder}"
    RESULTS.print(Text(printable(head), style="bold"), soft_wrap=True)
    print_outcome(result.verdict, f"in {result.folder / VERDICT.name}")
