"""The store on disk: replaces the rows of runs, and keeps a receipt of each run.

store/<table>/run_id=.../ has a table's rows of one run. store/_ingested/<run_id>.json, the receipt,
exists while all of a run's rows are stored: it is removed first and written last, so that a run
whose ingestion was killed is ingested again. One ingestion at a time writes to a store, and nobody
reads from it meanwhile: callers hold locking.writing.
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
    """A run's ingestion: the fingerprint of its files, and its outcome (report.RunIngest)."""

    data_version: int
    files: Fingerprint
    rows: dict[str, int]
    quarantined: dict[str, int]


def read_receipt(store: Path, run_id: str, fingerprint: Fingerprint) -> Receipt | None:
    """Return the receipt of a run that is stored with exactly these files, else None.

    A receipt that does not decode is another version's: its run is ingested again.
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

    An overwrite replaces only partitions with new rows. Without this, rows of a kind of event that
    the run no longer has would stay.
    """
    for run_id in run_ids:
        _receipt(store, run_id).unlink(missing_ok=True)
    for table in TABLES:
        for partition in (store / table.name).glob("run_id=*"):
            if unquote(partition.name.partition("=")[2]) in run_ids:
                shutil.rmtree(partition)


def write(frame: DataFrame, table: Table, store: Path) -> None:
    """Replace the partitions of the runs in the frame.

    A partition has few files, each in the order of the table's sort key.
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
