"""Ingests run folders into the store in their order, and reports each one's outcome."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from highwater_checker.run_folder.files import text_of
from highwater_pipeline.ingest.decoding import UNFIT
from highwater_pipeline.ingest.inventory import Inventory, NotARun, take_inventory
from highwater_pipeline.ingest.report import IngestReport, RunIngest, Taken
from highwater_pipeline.ingest.small_runs import take_in_small
from highwater_pipeline.ingest.store import Receipt, forget, read_receipt, write_receipt
from highwater_pipeline.ingest.taking_in import take_in
from highwater_pipeline.tables import DATA_VERSION

RUNS_AT_ONCE = 64
"""Runs that one set of Spark jobs takes in; a kill loses at most their ingestion."""


def ingest(spark: SparkSession | None, folders: Sequence[Path], store: Path) -> IngestReport:
    """Ingest run folders into the store's tables, and return each one's outcome.

    spark: None: this process does all the work, which is quicker for small runs.

    A run's id is its folder's name; for a link, the name of its target. A run that is stored with
    the same files is skipped; a run with other files is replaced as a whole. QUARANTINE has the
    lines and files that could not be read. A folder that is no run is refused, and so are a second
    folder of the same name and a run that no table holds; the others are ingested.

    Ordering: a run's receipt is written after its rows in all tables.

    Raises:
        PySparkException: a job failed; the next ingestion ingests its runs again.
    """
    store = store.resolve()
    wanted = list(dict.fromkeys(folder.resolve() for folder in folders))
    became: dict[Path, RunIngest] = {}
    waiting: dict[str, Inventory] = {}
    by_name: dict[str, Path] = {}
    for folder in wanted:
        try:
            inventory = _inventory(folder, by_name)
        except NotARun as error:
            became[folder] = _refused(folder, str(error))
            continue
        receipt = read_receipt(store, inventory.run_id, inventory.fingerprint)
        if receipt is None:
            waiting[inventory.run_id] = inventory
        else:
            became[folder] = _report(inventory, Taken.UNCHANGED, receipt)
    runs = list(waiting.values())
    for first in range(0, len(runs), RUNS_AT_ONCE):
        for run, told in _take_in_group(spark, runs[first : first + RUNS_AT_ONCE], store):
            became[run.folder] = told
    return IngestReport(tuple(became[folder] for folder in wanted))


def _inventory(folder: Path, by_name: dict[str, Path]) -> Inventory:
    """Return the folder's inventory, and add it to by_name."""
    inventory = take_inventory(folder)
    other = by_name.setdefault(folder.name, folder)
    if other != folder:
        raise NotARun(f"{other} has the same name, and a run goes by its name")
    return inventory


def _take_in_group(
    spark: SparkSession | None, runs: Sequence[Inventory], store: Path
) -> Iterator[tuple[Inventory, RunIngest]]:
    """Yield the outcome of each run; where the group fails by one of them, each is taken in alone.

    A run that fails alone is refused, and stored in no table.
    """
    run_ids = {run.run_id for run in runs}
    forget(store, run_ids)
    try:
        counts = take_in_small(runs, store) if spark is None else take_in(spark, runs, store)
    except UNFIT as error:
        forget(store, run_ids)
        if len(runs) == 1:
            why = f"no table holds it: {type(error).__name__}: {error}"
            yield runs[0], _refused(runs[0].folder, why)
        else:
            for run in runs:
                yield from _take_in_group(spark, [run], store)
        return
    for run in runs:
        receipt = Receipt(
            DATA_VERSION,
            run.fingerprint,
            counts.rows.get(run.run_id, {}),
            counts.quarantined.get(run.run_id, {}),
        )
        write_receipt(store, run.run_id, receipt)
        yield run, _report(run, Taken.INGESTED, receipt)


def _refused(folder: Path, why: str) -> RunIngest:
    return RunIngest(text_of(folder.name), Taken.REFUSED, why)


def _report(run: Inventory, taken: Taken, receipt: Receipt) -> RunIngest:
    return RunIngest(run.run_id, taken, rows=receipt.rows, quarantined=receipt.quarantined)
