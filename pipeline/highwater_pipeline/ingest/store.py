"""The store on disk: replaces the partitions of runs, and keeps what was taken in of each.

store/<table>/run_id=.../ holds a table's rows of one run; store/_ingested/<run_id>.json says that
all of a run is there. That file goes first and comes last, so that a run whose ingestion was
killed is taken in again. One ingestion at a time writes to a store, and nobody reads there
meanwhile: who calls it holds locking.writing.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection
from pathlib import Path
from urllib.parse import unquote

import msgspec
from pyspark.sql import DataFrame

from highwater_pipeline.ingest.inventory import Fingerprint
from highwater_pipeline.receipts import read_kept, write_kept
from highwater_pipeline.tables import DATA_VERSION, TABLES, Table

_INGESTED = "_ingested"


class Receipt(msgspec.Struct, frozen=True):
    """What was taken in of a run: from which files, and what became of it (report.RunIngest)."""

    data_version: int
    files: Fingerprint
    rows: dict[str, int]
    quarantined: dict[str, int]


def read_receipt(store: Path, run_id: str, fingerprint: Fingerprint) -> Receipt | None:
    """Return the receipt of a run that is in the tables with just these files, else None.

    One that does not decode was written by another version: its run is taken in again.
    """
    receipt = read_kept(_receipt(store, run_id), Receipt)
    if receipt is None:
        return None
    is_current = receipt.data_version == DATA_VERSION and receipt.files == fingerprint
    return receipt if is_current else None


def write_receipt(store: Path, run_id: str, receipt: Receipt) -> None:
    write_kept(_receipt(store, run_id), receipt)


def forget(store: Path, run_ids: Collection[str]) -> None:
    """Remove the runs from the store, receipts first.

    An overwrite of partitions leaves those alone for which there are no new rows: a kind of event
    or a wrong line that a run has no more would stay.
    """
    for run_id in run_ids:
        _receipt(store, run_id).unlink(missing_ok=True)
    for table in TABLES:
        for partition in (store / table.name).glob("run_id=*"):
            if unquote(partition.name.partition("=")[2]) in run_ids:
                shutil.rmtree(partition)


def write(frame: DataFrame, table: Table, store: Path) -> None:
    """Replace the partitions of the runs in the frame.

    Few files a partition, each in the order of the table's sort key.
    """
    order = [*table.partitioned_by, *(c for c in table.sort_key if c not in table.partitioned_by)]
    (
        frame.select(*table.columns)
        .hint("rebalance", *table.partitioned_by)
        .sortWithinPartitions(*order)
        .write.mode("overwrite")
        .option("partitionOverwriteMode", "dynamic")
        .partitionBy(*table.partitioned_by)
        .parquet(str(store / table.name))
    )


def _receipt(store: Path, run_id: str) -> Path:
    return store / _INGESTED / f"{run_id}.json"
