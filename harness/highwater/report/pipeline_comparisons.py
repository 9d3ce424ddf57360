"""Comparisons and trends for the command line: runs in a store, pages, exit codes.

Needs the extra.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from highwater.errors import HarnessError
from highwater.report.pipeline_runs import bytes_below, with_runs_taken_in
from highwater_checker.verdict import EXIT_CODES
from highwater_pipeline.comparing.sides import COLUMNS, NoSuchValue, compare
from highwater_pipeline.reading import SMALL_BYTES, read_tables
from highwater_pipeline.report.comparisons import (
    TONES,
    lead_of_trend,
    notes_of,
    page_of_comparison,
    page_of_trend,
    tone_of_trend,
)
from highwater_pipeline.report.pages import write_page
from highwater_pipeline.report.sections import shown_value
from highwater_pipeline.tables import RUNS, Row, Tables, runs_of_other_versions
from highwater_pipeline.trend import trend

SMALL_STORE_BYTES = SMALL_BYTES // 8
"""Of a store: Parquet has at most an eighth of the bytes of the run folders."""
PRINTED = ("fault", "measure", "verdict", "count_a", "median_a", "count_b", "median_b", "p")
PRINTED_OF_TREND = ("fault", "measure", "build", "count", "median", "low", "high")


def comparison_of_runs(
    folders: Sequence[Path],
    store: Path,
    out: Path,
    master: str,
    *,
    by: str,
    a: str,
    b: str,
    fault: str | None,
    as_json: bool,
) -> int:
    """Read the folders into the store, compare two sides of all its runs, and return the exit code.

    Raises:
        HarnessError: there are no runs, none on one of the sides, or there is no Java.
    """
    _check_by(by)
    if a == b:
        raise HarnessError(f"both sides are the {by} {a or '(none)'}: there is nothing to compare")
    with _stored_runs(folders, store, master) as tables:
        found = compare(tables, by, a, b, fault)
    page = write_page(out, page_of_comparison(found))
    if as_json:
        typer.echo(msgspec.json.encode(found).decode())
    else:
        _print(page, PRINTED, found.rows, (*notes_of(found), found.sentence))
    return EXIT_CODES[TONES[found.answer]]


def trend_of_builds(
    folders: Sequence[Path],
    store: Path,
    out: Path,
    master: str,
    *,
    by: str,
    fault: str | None,
    as_json: bool,
) -> int:
    """Read the folders into the store, compare all its builds, and return the exit code.

    Raises:
        HarnessError: there are no runs, none names its build, or there is no Java.
    """
    _check_by(by)
    with _stored_runs(folders, store, master) as tables:
        found = trend(tables, by, fault)
    page = write_page(out, page_of_trend(found))
    if as_json:
        typer.echo(msgspec.json.encode(found).decode())
    else:
        _print(page, PRINTED_OF_TREND, found.rows, (lead_of_trend(found),))
    return EXIT_CODES[tone_of_trend(found)]


def _check_by(by: str) -> None:
    if by not in COLUMNS:
        raise HarnessError(f"runs are told apart by {', '.join(COLUMNS)}, not by {by!r}")


@contextmanager
def _stored_runs(folders: Sequence[Path], store: Path, master: str) -> Iterator[Tables]:
    """Yield the store's tables once the folders are read into it; report errors."""
    if not folders and not (store / RUNS.name).is_dir():
        raise HarnessError(f"there are no runs in {store}: name their folders, or another --store")
    is_small = bytes_below([store, *folders]) <= SMALL_STORE_BYTES
    try:
        with with_runs_taken_in(folders, store, master, is_small=is_small) as taken:
            taken.tell("runs are compared")
            tables = read_tables(taken.spark, store, are_small=is_small)
            _check_data_version(tables, store)
            yield tables
    except NoSuchValue as error:
        raise HarnessError(str(error)) from error


def _check_data_version(tables: Tables, store: Path) -> None:
    run_ids = runs_of_other_versions(tables)
    if run_ids:
        raise HarnessError(
            f"{len(run_ids)} of the runs in {store} were taken in by another version, {run_ids[0]} "
            "among them: name their folders again, or take another --store"
        )


def _print(page: Path, columns: Sequence[str], rows: Sequence[Row], texts: Sequence[str]) -> None:
    console = Console()
    table = Table()
    for column in columns:
        table.add_column(column)
    for row in rows:
        table.add_row(*(escape(shown_value(row[column])) for column in columns))
    console.print(table)
    for text in (*texts, str(page)):
        console.print(text, markup=False, highlight=False, soft_wrap=True)
