"""Runs of the pipeline for the command line: progress, a table, exit codes. Needs the extra."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import msgspec
import typer
from grpc import Call, RpcError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from highwater.errors import HarnessError
from highwater.report.page import PAGE
from highwater_checker.verdict import EXIT_CODES
from highwater_pipeline.analysis import Analysis, analyse
from highwater_pipeline.campaign.shipping import is_here
from highwater_pipeline.engines import Engine, NoEngine, engines_to_try
from highwater_pipeline.ingest import ingest
from highwater_pipeline.java import NoSpark, check_java, lacks_spark
from highwater_pipeline.local_engine import (
    WITHIN_S,
    NoLocalEngine,
    lacks_local_engine,
    local_engine,
)
from highwater_pipeline.locking import InUse, reading, writing
from highwater_pipeline.reading import SMALL_BYTES, read_tables
from highwater_pipeline.report.writing import write_report
from highwater_pipeline.session import spark_session


class TakenIn(NamedTuple):
    """Runs that are in the store, and a session over it.

    scratch: as read_tables gets it.
    tell: shows a line of progress.
    """

    spark: SparkSession
    scratch: Path | None
    run_ids: Sequence[str]
    tell: Callable[[str], None]


def report_of_runs(
    folders: Sequence[Path], store: Path, out: Path, engine: Engine, master: str, *, as_json: bool
) -> int:
    """Read the runs into the store, analyse the store's runs, and return the exit code.

    Raises:
        HarnessError: no engine is to be had, or none of the folders is a run.
    """
    is_small = bytes_below(folders) <= SMALL_BYTES
    try:
        engines = engines_to_try(
            engine,
            are_small=is_small,
            lacks_spark=lacks_spark,
            lacks_local=lacks_local_engine,
        )
    except NoEngine as error:
        raise HarnessError(str(error)) from error
    run_ids, analysis = _analysed(folders, store, engines, master, is_small=is_small)
    page = write_report(out, _title(run_ids), analysis, links_to(folders, out))
    if as_json:
        typer.echo(msgspec.json.encode(analysis, enc_hook=str).decode())
    else:
        _print(analysis, page)
    return EXIT_CODES[analysis.outcome]


def _analysed(
    folders: Sequence[Path], store: Path, engines: Sequence[Engine], master: str, *, is_small: bool
) -> tuple[Sequence[str], Analysis]:
    """Return the runs' ids and their analysis, by the first engine that does not fail.

    Raises:
        HarnessError: the local engine failed, and is the last.
    """
    for engine, following in zip(engines, (*engines[1:], None), strict=True):
        try:
            return _analysed_by(engine, folders, store, master, is_small=is_small)
        except (NoLocalEngine, PySparkException, RpcError, OSError) as error:
            if engine is not Engine.LOCAL:
                raise
            failed = f"the local engine failed: {_first_line(error)}"
            if following is None:
                raise HarnessError(f"{failed}; Spark does it, with Java") from error
            Console(stderr=True).print(f"{failed}; {following} does it again", markup=False)
    raise AssertionError("there is an engine to try")


def _first_line(error: Exception) -> str:
    told = error.details() if isinstance(error, Call) else None
    return str(told or error).partition("\n")[0]


def _analysed_by(
    engine: Engine, folders: Sequence[Path], store: Path, master: str, *, is_small: bool
) -> tuple[Sequence[str], Analysis]:
    bound_s = WITHIN_S if engine is Engine.LOCAL and is_small else None
    with (
        ThreadPoolExecutor(1) as pool,  # ends last: an engine that stops ends what waits for it
        with_runs_taken_in(folders, store, master, is_small=is_small, engine=engine) as taken,
    ):
        taken.tell(f"{len(taken.run_ids)} runs are checked and measured")
        tables = read_tables(
            taken.spark, store, taken.run_ids, are_small=is_small, scratch=taken.scratch
        )
        try:
            return taken.run_ids, pool.submit(analyse, tables).result(bound_s)
        except TimeoutError as error:
            raise NoLocalEngine(f"it has not answered within {bound_s} s") from error


@contextmanager
def with_runs_taken_in(
    folders: Sequence[Path],
    store: Path,
    master: str,
    *,
    is_small: bool,
    engine: Engine = Engine.SPARK,
) -> Iterator[TakenIn]:
    """Yield a session of the engine, with the folders' runs in the store.

    Meanwhile no other process writes to the store. Where folders are given no other process reads
    it either: rows are removed before they are written again, and a reader would miss them.

    Raises:
        HarnessError: Spark does not start, folders are given and none is a run, or another process
            uses the store.
        NoLocalEngine: the local engine does not start.
    """
    console = Console(stderr=True)
    is_local = engine is Engine.LOCAL
    start = local_engine() if is_local else _spark(master, is_small=is_small)
    try:
        with (
            writing(store) if folders else reading(store),
            console.status(f"{'Sail' if is_local else 'Spark'} starts") as status,
            _starting(start) as started,
        ):
            if not is_local:
                check_java()  # before runs are taken in, which may take minutes
            run_ids: Sequence[str] = ()
            if folders:
                is_alone = is_local or (is_small and is_here(master))
                spark = None if is_alone else started()[0]
                status.update(f"{len(folders)} folders are taken in")
                taken = ingest(spark, folders, store)
                console.print(str(taken), markup=False)
                run_ids = taken.run_ids
                if not run_ids:
                    raise HarnessError("none of these folders is a run")
            spark, scratch = started()
            yield TakenIn(spark, scratch, run_ids, status.update)
    except NoLocalEngine:
        raise  # its caller has another engine
    except NoSpark as error:
        raise HarnessError(str(error)) from error
    except InUse as error:
        raise HarnessError(f"{error}: wait until it has ended, or take another --store") from error


_Started = tuple[SparkSession, Path | None]


@contextmanager
def _spark(master: str, *, is_small: bool) -> Iterator[_Started]:
    with spark_session(master, is_small=is_small) as spark:
        yield spark, None


@contextmanager
def _starting(session: AbstractContextManager[_Started]) -> Iterator[Callable[[], _Started]]:
    """Yield a function that waits for a session, which starts meanwhile and ends with the block."""
    with ThreadPoolExecutor(1) as pool, ExitStack() as stack:
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
