"""`highwater runs prune`: removes folders of old runs."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.filesize import decimal

from highwater.cluster.cleaning import find_runs
from highwater.cluster.engine import connect_engine
from highwater.commands.run import RUNS
from highwater.commands.runs.list import (
    Named,
    RunsFolder,
    Verdicts,
    fields,
    outcomes_of,
    read_runs,
    table_of_runs,
)
from highwater.durations import duration_ms
from highwater.errors import EngineMissing, HarnessError
from highwater.output import RESULTS, print_json, printable, say
from highwater.run_folder import point_latest_to
from highwater.runs.kept import KeptRun, chosen, removable
from highwater_checker.verdict import Outcome

_QUIET_MS = 3_600_000
"""A run without a verdict, in whose folder nothing changed for so long, does not go on."""


def register(app: typer.Typer) -> None:
    app.command()(prune)


def prune(
    runs: RunsFolder = RUNS,
    verdict: Verdicts = None,
    older_than: Annotated[str, typer.Option(help="Only those begun so long ago: 12h, 7d.")] = "",
    keep: Annotated[int | None, typer.Option(min=0, help="The newest so many stay.")] = None,
    named: Named = "",
    yes: Annotated[bool, typer.Option("--yes", help="Do it; without it they are shown.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Remove run folders: by verdict, age, number or name; shows them without --yes.

    Failed runs go only with --verdict fail. Runs whose cluster is up, and runs that may be going
    on, stay; so do folders that are no run's.
    """
    if not (verdict or older_than or keep is not None or named):
        raise HarnessError("say which: --verdict, --older-than, --keep or --named")
    now_ms = round(datetime.now(UTC).timestamp() * 1000)
    found = read_runs(runs)
    picked = chosen(
        found,
        outcomes=outcomes_of(verdict) or [Outcome.PASS, Outcome.UNKNOWN, None],
        begun_before_ms=now_ms - duration_ms(older_than) if older_than else None,
        named=named,
    )
    going = removable(
        found,
        picked,
        keep=keep or 0,
        up=_up(),
        quiet_before_ms=now_ms - _QUIET_MS,
        here=Path.cwd(),
    )
    if yes:
        _remove(runs, found, going)
    _report(going, is_done=yes, as_json=as_json)


def _up() -> list[str]:
    try:
        engine = connect_engine()
    except EngineMissing:
        return []
    try:
        return [each.labels.run_id for each in find_runs(engine)]
    finally:
        engine.close()


def _remove(runs: Path, found: list[KeptRun], going: list[KeptRun]) -> None:
    """Remove the folders; `latest` points to the newest run that stays.

    Raises:
        HarnessError: a folder cannot be removed; those before it are gone.
    """
    latest = runs / "latest"
    pointed_to = latest.readlink().name if latest.is_symlink() else ""
    try:
        for run in going:
            say(f"removing {printable(str(run.path))}")
            shutil.rmtree(run.path)
    except OSError as error:
        raise HarnessError(f"{error.filename}: {error.strerror or error}") from error
    finally:
        if any(run.path.name == pointed_to and not run.path.exists() for run in going):
            left = [run.path.name for run in found if run.path.exists()]
            point_latest_to(runs, left[0] if left else None)


def _report(going: list[KeptRun], *, is_done: bool, as_json: bool) -> None:
    size_bytes = sum(run.size_bytes for run in going)
    if as_json:
        print_json(
            {
                "removed": is_done,
                "size_bytes": size_bytes,
                "runs": [fields(run) for run in going],
            }
        )
        return
    if going:
        RESULTS.print(table_of_runs(going))
    word = "removed" if is_done else "would be removed; --yes removes them"
    count = "1 run" if len(going) == 1 else f"{len(going)} runs"
    typer.echo(f"{count}, {decimal(size_bytes)}: {word}" if going else "no such run")
