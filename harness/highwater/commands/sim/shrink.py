"""`highwater sim shrink`: cuts a failing schedule down to the parts that its failure needs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from highwater.errors import INTERRUPTED_EXIT_CODE
from highwater.output import PROGRESS, print_json, say
from highwater.search.options import Families
from highwater_chaos.words import counted
from highwater_core.config import Preset

if TYPE_CHECKING:
    from highwater_simulator.shrink import OnProgress, ShrinkProgress, Shrunk

MAX_RUNS = 500
CUT_SHORT_EXIT_CODE = 1
FOLDER = Path("runs") / "shrunk"


def register(app: typer.Typer) -> None:
    app.command()(shrink)


def shrink(
    what: Annotated[str, typer.Argument(metavar="SEED|PLANFILE", help="What fails.")],
    preset: Annotated[
        Preset | None, typer.Option(help="The protocol's rules, of a seed. [default: fenced]")
    ] = None,
    family: Annotated[
        Families | None, typer.Option(help="Which faults, of a seed. [default: processes]")
    ] = None,
    planted: Annotated[str, typer.Option(help="Have all nodes make this mistake.")] = "",
    max_runs: Annotated[int, typer.Option(min=1, help="How many runs it may take.")] = MAX_RUNS,
    out: Annotated[
        Path | None,
        typer.Option(dir_okay=False, help="The minimal plan's file. [default: in runs/shrunk/]"),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")] = False,
) -> None:
    """Shrink a failing seed or plan file to a minimal plan, and print it in words.

    Exit code 0: nothing more can be removed; 1: the runs were used up before; 130: Ctrl-C ended it
    (the smallest plan so far is written); 2: the plan does not fail.
    """
    from highwater.search import shrinking
    from highwater.search.plans import plan_of
    from highwater.search.writable import check_can_write
    from highwater_simulator.shrink import describe

    plan = plan_of(what, preset, family)
    check_can_write(out or FOLDER / "plan.json")
    with _progress(counted(len(plan.steps), "step"), max_runs) as on_progress:
        shrunk = shrinking.shrink_plan(plan, planted, max_runs, on_progress)
    name = f"{plan.seed}-{shrunk.signature.invariant.replace(' ', '-')}"
    path = out or FOLDER / f"{name}.json"
    shrinking.write_plan_file(shrunk.plan, path)
    if json:
        print_json(
            shrinking.ShrinkReport(
                plan=path,
                is_minimal=shrunk.is_minimal,
                was_interrupted=shrunk.was_interrupted,
                runs=shrunk.runs,
                invariant=shrunk.signature.invariant,
                rows=shrunk.signature.rows,
                words=describe(shrunk),
            )
        )
    else:
        typer.echo(describe(shrunk))
        typer.echo(f"\n{path}")
        typer.echo(f"  {shrinking.command_for(path)}")
    raise typer.Exit(_exit_code(shrunk))


def _exit_code(shrunk: Shrunk) -> int:
    if shrunk.was_interrupted:
        return INTERRUPTED_EXIT_CODE
    return 0 if shrunk.is_minimal else CUT_SHORT_EXIT_CODE


@contextmanager
def _progress(steps: str, max_runs: int) -> Iterator[OnProgress]:
    """Show the progress on stderr: a bar on a terminal, else a line for each kind of change."""
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.fields[steps]} left, trying less of: {task.description}"),
        BarColumn(),
        TextColumn("{task.completed} of {task.total} runs"),
        TimeElapsedColumn(),
        console=PROGRESS,
        transient=True,
        disable=not PROGRESS.is_terminal,
    ) as progress:
        task = progress.add_task("steps", total=max_runs, steps=steps)
        said = [""]

        def on_progress(at: ShrinkProgress) -> None:
            line = f"{counted(at.steps, 'step')} left, trying less of: {at.doing}"
            if not PROGRESS.is_terminal and line != said[0]:
                say(f"{at.runs} runs: {line}")
                said[0] = line
            progress.update(
                task, completed=at.runs, description=at.doing, steps=counted(at.steps, "step")
            )

        yield on_progress
