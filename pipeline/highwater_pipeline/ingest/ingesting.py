"""Ingests run folders into the store in their order, and reports each one's outcome."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession

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
    lines and files that could not be read. A folder that is no run is refused, and so is a second
    folder of the same name; the others are ingested.

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
            became[folder] = RunIngest(folder.name, Taken.REFUSED, str(error))
            continue
        receipt = read_receipt(store, inventory.run_id, inventory.fingerprint)
        if receipt is None:
            waiting[inventory.run_id] = inventory
        else:
            became[folder] = _report(inventory, Taken.UNCHANGED, receipt)
    for inventory, receipt in _take_in_all(spark, list(waiting.values()), store):
        became[inventory.folder] = _report(inventory, Taken.INGESTED, receipt)
    return IngestReport(tuple(became[folder] for folder in wanted))


def _inventory(folder: Path, by_name: dict[str, Path]) -> Inventory:
    """Return the folder's inventory, and add it to by_name."""
    inventory = take_inventory(folder)
    other = by_name.setdefault(folder.name, folder)
    if other != folder:
        raise NotARun(f"{other} has the same name, and a run goes by its name")
    return inventory


def _take_in_all(
    spark: SparkSession | None, runs: Sequence[Inventory], store: Path
) -> list[tuple[Inventory, Receipt]]:
    done: list[tuple[Inventory, Receipt]] = []
    for first in range(0, len(runs), RUNS_AT_ONCE):
        group = runs[first : first + RUNS_AT_ONCE]
        forget(store, {run.run_id for run in group})
        counts = take_in_small(group, store) if spark is None else take_in(spark, group, store)
        for run in group:
            receipt = Receipt(
                DATA_VERSION,
                run.fingerprint,
                counts.rows.get(run.run_id, {}),
                counts.quarantined.get(run.run_id, {}),
            )
            write_receipt(store, run.run_id, receipt)
            done.append((run, receipt))
    return done


def _report(run: Inventory, taken: Taken, receipt: Receipt) -> RunIngest:
    return RunIngest(run.run_id, taken, rows=receipt.rows, quarantined=receipt.quarantined)
