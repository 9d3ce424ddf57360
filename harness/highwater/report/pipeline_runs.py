"""Runs of the pipeline for the command line: progress, a table, exit codes. Needs the extra."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

import msgspec
import typer
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from highwater.errors import HarnessError
from highwater.report.page import PAGE
from highwater_checker.verdict import EXIT_CODES
from highwater_pipeline.analysis import Analysis, analyse
from highwater_pipeline.campaign.shipping import is_here
from highwater_pipeline.ingest import ingest
from highwater_pipeline.java import NoSpark, check_java
from highwater_pipeline.locking import InUse, reading, writing
from highwater_pipeline.report.writing import write_report
from highwater_pipeline.session import spark_session
from highwater_pipeline.tables import SMALL_BYTES, read_tables


def report_of_runs(
    folders: Sequence[Path], store: Path, out: Path, master: str, *, as_json: bool
) -> int:
    """Read the runs into the store, analyse the store's runs, and return the exit code.

    Raises:
        HarnessError: there is no Java, or none of the folders is a run.
    """
    is_small = bytes_below(folders) <= SMALL_BYTES
    with with_runs_taken_in(folders, store, master, is_small=is_small) as (spark, run_ids, tell):
        tell(f"{len(run_ids)} runs are checked and measured")
        analysis = analyse(read_tables(spark, store, run_ids, are_small=is_small))
    page = write_report(out, _title(run_ids), analysis, links_to(folders, out))
    if as_json:
        typer.echo(msgspec.json.encode(analysis, enc_hook=str).decode())
    else:
        _print(analysis, page)
    return EXIT_CODES[analysis.outcome]


@contextmanager
def with_runs_taken_in(
    folders: Sequence[Path], store: Path, master: str, *, is_small: bool
) -> Iterator[tuple[SparkSession, Sequence[str], Callable[[str], None]]]:
    """Yield a session, the ids of the folders' runs, now in the store, and a progress function.

    Meanwhile no other process writes to the store. Where folders are given no other process reads
    it either: rows are removed before they are written again, and a reader would miss them.

    Raises:
        HarnessError: there is no Java, folders are given and none is a run, or another process uses
            the store.
    """
    console = Console(stderr=True)
    try:
        with (
            writing(store) if folders else reading(store),
            console.status("Spark starts") as status,
            _starting(master, is_small=is_small) as started,
        ):
            run_ids: Sequence[str] = ()
            if folders:
                is_alone = is_small and is_here(master)
                spark = None if is_alone else started()
                status.update(f"{len(folders)} folders are taken in")
                taken = ingest(spark, folders, store)
                console.print(str(taken), markup=False)
                run_ids = taken.run_ids
                if not run_ids:
                    raise HarnessError("none of these folders is a run")
            yield started(), run_ids, status.update
    except NoSpark as error:
        raise HarnessError(str(error)) from error
    except InUse as error:
        raise HarnessError(f"{error}: wait until it has ended, or take another --store") from error


@contextmanager
def _starting(master: str, *, is_small: bool) -> Iterator[Callable[[], SparkSession]]:
    """Yield a function that waits for a session, which starts meanwhile and ends with the block.

    Raises:
        NoJava: raised at once, before the block runs.
    """
    check_java()
    with ThreadPoolExecutor(1) as pool, ExitStack() as stack:
        session = spark_session(master, is_small=is_small)
        starting = pool.submit(stack.enter_context, session)
        try:
            yield starting.result
        finally:
            wait([starting])  # otherwise a session that has not started yet would not be stopped


def bytes_below(folders: Sequence[Path]) -> int:
    """Return the size of all files in the folders; a file that vanishes meanwhile counts 0."""
    found = 0
    for folder in folders:
        for place, _, names in os.walk(folder):
            for name in names:
                with suppress(OSError):
                    found += (Path(place) / name).lstat().st_size
    return found


def links_to(folders: Sequence[Path], out: Path) -> dict[str, str]:
    """Return the address of the page of each run that has one, relative to the folder `out`."""
    return {
        folder.resolve().name: quote(os.path.relpath(folder.resolve() / PAGE, out.resolve()))
        for folder in folders
        if (folder / PAGE).is_file()
    }


def _title(run_ids: Sequence[str]) -> str:
    return run_ids[0] if len(run_ids) == 1 else f"{len(run_ids)} runs"


def _print(analysis: Analysis, page: Path) -> None:
    console = Console()
    table = Table()
    for column in ("run", "outcome", "violations", "quarantined"):
        table.add_column(column)
    for row in analysis.verdicts:
        numbers = (str(row["findings"]), str(row["quarantined"]))
        table.add_row(row["run_id"], row["outcome"], *numbers)
    console.print(table)
    console.print(f"verdict: {analysis.outcome}")
    console.print(str(page), soft_wrap=True)
