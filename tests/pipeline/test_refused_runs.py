"""Runs that no table can hold: each is refused and told, and never stops the others. No Spark."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.errors import PythonException

from highwater_pipeline.ingest import Taken, ingest, ingesting, small_runs
from highwater_pipeline.ingest.documents import Documents, read_documents
from highwater_pipeline.ingest.inventory import UNREAD, Inventory
from highwater_pipeline.ingest.taking_in import Counts
from highwater_pipeline.tables import QUARANTINE, RUNS
from tests.support.run_on_disk import write_run

NAMES = ("a", "b", "c")
RAISED = (OverflowError("too large"), pa.ArrowInvalid("no int"), PythonException("in a worker"))


def three_runs(folder: Path) -> list[Path]:
    return [write_run(folder / name) for name in NAMES]


def stored_in(store: Path) -> list[str]:
    return sorted(path.name for path in (store / RUNS.name).iterdir())


@pytest.mark.parametrize("raised", RAISED, ids=lambda each: type(each).__name__)
def test_a_run_that_no_table_holds_is_refused_and_the_others_are_taken_in(
    raised: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found: a number beyond 64 bits in one run's promises ended the ingestion of its group."""

    def read(run: Inventory) -> Documents:
        if run.run_id == "b":
            raise raised
        return read_documents(run)

    monkeypatch.setattr(small_runs, "read_documents", read)
    report = ingest(None, three_runs(tmp_path), tmp_path / "store")
    assert [run.taken for run in report.runs] == [Taken.INGESTED, Taken.REFUSED, Taken.INGESTED]
    what = f"no table holds it: {type(raised).__name__}: {raised}"
    assert f"refused b: {what}" in str(report)
    assert stored_in(tmp_path / "store") == ["run_id=a", "run_id=c"]


def test_spark_takes_in_each_run_of_a_group_that_fails_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups: list[list[str]] = []

    def take_in(_: object, runs: list[Inventory], store: Path) -> Counts:
        groups.append([run.run_id for run in runs])
        if "b" in groups[-1]:
            raise PythonException("in a worker")
        return small_runs.take_in_small(runs, store)

    monkeypatch.setattr(ingesting, "take_in", take_in)
    report = ingest(object(), three_runs(tmp_path), tmp_path / "store")  # type: ignore[arg-type]
    assert groups == [list(NAMES), ["a"], ["b"], ["c"]]
    assert report.run_ids == ("a", "c")


def test_what_a_run_does_not_cause_ends_the_ingestion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(_: Inventory) -> Documents:
        raise KeyError("our bug")

    monkeypatch.setattr(small_runs, "read_documents", read)
    with pytest.raises(KeyError):
        ingest(None, three_runs(tmp_path), tmp_path / "store")


def test_a_run_whose_name_is_no_utf_8_is_refused(tmp_path: Path) -> None:
    """Found: a UnicodeEncodeError of its receipt."""
    strange = write_run(tmp_path / os.fsdecode(b"run-\xff"))
    report = ingest(None, [strange, write_run(tmp_path / "a")], tmp_path / "store")
    why = "its name, by which a run goes, is no UTF-8"
    assert [(run.run_id, run.why) for run in report.runs] == [("run-\ufffd", why), ("a", "")]
    assert str(report).encode()


def test_files_whose_names_are_no_utf_8_are_in_quarantine(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a")
    for name in (b"history/\xff.jsonl", b"history/\xff.txt", b"segments/broker-0/t-0/\xff.log"):
        (run / os.fsdecode(name)).write_bytes(b"")
    (told,) = ingest(None, [run], tmp_path / "store").runs
    assert told.taken is Taken.INGESTED
    rows = parquet.read_table(tmp_path / "store" / QUARANTINE.name / "run_id=a").to_pylist()
    assert [(row["file"], row["reason"].partition(":")[0]) for row in rows] == [
        ("history/\ufffd.jsonl", UNREAD),
        ("history/\ufffd.txt", "unexpected"),
    ]
