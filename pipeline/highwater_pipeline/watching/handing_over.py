"""Hands runs that have ended to the batch job: its tables, its checks, its verdicts.

A soak may prune a run that passed while it is read. So its evidence is linked first into a folder
of the watch: links cost no disk, and what they name stays.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from pyspark.sql import SparkSession

from highwater_checker.run_folder import names
from highwater_checker.run_folder.documents import DOCUMENTS, VERDICT, BadDocument
from highwater_checker.verdict import Outcome
from highwater_pipeline.analysis import verdicts_of
from highwater_pipeline.ingest import Taken, ingest
from highwater_pipeline.locking import InUse, writing
from highwater_pipeline.reading import SMALL_BYTES, read_tables
from highwater_pipeline.tables import Row
from highwater_pipeline.watching.growing import was_pruned
from highwater_pipeline.watching.told import ToldVerdict

STORE_WITHIN_S = 1_800.0
"""How long another process may be at work in the store: it may analyse many runs."""
_RETRY_S = 0.5
_FILES = (*(each.name for each in DOCUMENTS), names.LOOKS, names.PROBES, names.INTENTS)
_FOLDERS = (names.HISTORY, names.TRACE, names.SEGMENTS)


class _Gone(Exception):
    """The run's evidence is not all there any more."""


def hand_over(
    spark: SparkSession, folders: Sequence[Path], store: Path, staging: Path
) -> list[ToldVerdict]:
    """Return the verdict of each run that has ended and is still there, by the batch job.

    A run whose evidence was removed has the verdict of its own verdict.json.

    staging: a folder of this process, for links to the runs' files.

    Raises:
        InUse: another process was at work in the store for longer than STORE_WITHIN_S.
        PySparkException: a job failed.
    """
    shutil.rmtree(staging, ignore_errors=True)
    try:
        staged, pruned = [], []
        found = []
        for folder in folders:
            try:
                staged.append(_stage(folder, staging))
            except _Gone:
                pruned.append(folder)
            except PermissionError as error:
                found.append(_unknown(folder.name, f"it cannot be read: {error}"))
        found += _judged(spark, staged, store) if staged else []
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return [*found, *(_recorded(folder) for folder in pruned if folder.exists())]


def _stage(folder: Path, staging: Path) -> Path:
    """Return a folder with links to the run's evidence.

    Raises:
        _Gone: it is not all there.
    """
    target = staging / folder.name
    target.mkdir(parents=True)
    try:
        for name in _FILES:
            if (folder / name).is_dir():  # the batch job says what is wrong with it
                (target / name).mkdir()
                continue
            with suppress(FileNotFoundError):
                _link(folder / name, target / name)
        for name in _FOLDERS:
            if (folder / name).is_dir():
                shutil.copytree(folder / name, target / name, symlinks=True, copy_function=_link)
    except OSError as error:  # of copytree, too, if a file vanished
        if was_pruned(folder):
            raise _Gone from error
        raise
    if was_pruned(folder):
        raise _Gone
    return target


def _link(source: str | Path, target: str | Path) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except FileNotFoundError:
        raise
    except OSError:  # another file system, or one without links
        shutil.copy2(source, target, follow_symlinks=False)


def _judged(spark: SparkSession, folders: Sequence[Path], store: Path) -> list[ToldVerdict]:
    is_small = _bytes_below(folders) <= SMALL_BYTES
    with _writing_when_free(store):
        taken = ingest(None if is_small else spark, folders, store)
        run_ids = taken.run_ids
        rows: Sequence[Row] = ()
        if run_ids:
            try:
                rows = verdicts_of(read_tables(spark, store, run_ids, are_small=is_small))
            finally:
                spark.catalog.clearCache()  # tables and frames that checks keep: of these runs
    verdicts = [
        ToldVerdict(
            run=row["run_id"],
            outcome=Outcome(row["outcome"]),
            by_tables=row["by_tables"],
            recorded=row["recorded"],
            findings=row["findings"],
            reasons=row["reasons"],
        )
        for row in rows
    ]
    refused = [each for each in taken.runs if each.taken is Taken.REFUSED]
    return [*verdicts, *(_unknown(each.run_id, each.why) for each in refused)]


def _recorded(folder: Path) -> ToldVerdict:
    try:
        verdict = VERDICT.read(folder)
    except BadDocument as error:
        return _unknown(folder.name, str(error))
    if verdict is None:
        return _unknown(folder.name, "its evidence and its verdict were removed")
    outcome = verdict.outcome
    return ToldVerdict(folder.name, outcome, "", outcome.value, 0, "", was_pruned=True)


def _unknown(run: str, why: str) -> ToldVerdict:
    return ToldVerdict(run, Outcome.UNKNOWN, "", "", 0, why)


@contextmanager
def _writing_when_free(store: Path) -> Iterator[None]:
    """Hold the store for this process, once no other one is at work there."""
    with ExitStack() as held:
        until = time.monotonic() + STORE_WITHIN_S
        while True:
            try:
                held.enter_context(writing(store))
            except InUse:
                if time.monotonic() > until:
                    raise
                time.sleep(_RETRY_S)
            else:
                break
        yield


def _bytes_below(folders: Sequence[Path]) -> int:
    return sum(
        path.lstat().st_size for folder in folders for path in folder.rglob("*") if path.is_file()
    )
