"""The watch over growing runs, with Spark: alerts at once, verdicts of the batch job, restarts."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from highwater_checker.history import HistoryEvent, encode
from highwater_checker.verdict import Outcome
from highwater_pipeline.analysis import analyse
from highwater_pipeline.ingest import ingest
from highwater_pipeline.reading import read_tables
from highwater_pipeline.watching import stream
from highwater_pipeline.watching.stream import OtherWatch, WatchFailed, Watching
from highwater_pipeline.watching.told import Told, ToldAlert, ToldVerdict
from tests.pipeline.command import highwater_without_java
from tests.pipeline.record_histories import read, send
from tests.pipeline.run_folders import TOPOLOGY, all_of_them, clean_run
from tests.support.run_on_disk import write, write_run

VERDICT = b'{"outcome": "pass", "checks": [], "requirements": []}'


def running(root: Path, name: str, events: Sequence[HistoryEvent]) -> Path:
    """Write what a plan's run has on the disk while it goes on."""
    run = root / name
    promises = {"producers": [{"client": "p0"}], "consumers": [{"client": "c0", "topic": "t"}]}
    plan = {"title": "a run", "seed": 1, "steps": []}
    for file, document in (("topology", TOPOLOGY), ("plan", plan), ("promises", promises)):
        write(run / f"{file}.json", msgspec.json.encode(document))
    append(run, events)
    return run


def append(run: Path, events: Sequence[HistoryEvent], *, torn: int = 0) -> bytes:
    """Append the events, but for so many last bytes, which are returned."""
    data = b"".join(encode(each) + b"\n" for each in events)
    history = run / "history" / f"{events[0].process}.jsonl"
    history.parent.mkdir(exist_ok=True)
    with history.open("ab") as file:
        file.write(data[: len(data) - torn])
    return data[len(data) - torn :]


@contextmanager
def watching(
    spark: SparkSession, root: Path, told: list[Told], folder: str = "watch"
) -> Iterator[Watching]:
    parent = root.parent
    watch = Watching(spark, root, parent / "tables", parent / folder, told.append)
    try:
        yield watch
    finally:
        watch.stop()


def by_tables_of_none(
    _: SparkSession, folders: Sequence[Path], store: Path, staging: Path
) -> list[ToldVerdict]:
    return [ToldVerdict(each.name, Outcome.UNKNOWN, "", "", 0, "") for each in folders]


def test_planted_evidence_is_alerted_while_runs_go_on_once_each_over_a_restart(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "hand_over", by_tables_of_none)
    root = tmp_path / "runs"
    run = running(root, "r1", [*send("p0", 0, "a", 3), *send("p0", 1, "b", 4)])
    of_no_column = [replace(read("c0", 3, value), partition=3_000_000_000) for value in "ab"]
    vanishing = running(root, "r2", of_no_column)
    os.mkfifo(vanishing / "history" / "x.jsonl")
    torn = append(run, [read("c0", 3, "x"), read("c0", 4, "y")], torn=5)
    told: list[Told] = []
    with watching(spark, root, told) as watch:
        watch.process_all()
        first, wide = sorted(told, key=lambda each: each.run)
        shutil.rmtree(vanishing)
    assert isinstance(first, ToldAlert)
    assert (first.run, first.invariant, first.offset) == ("r1", "inconsistent-offsets", 3)
    assert (first.operation, first.file) == ("p0's send 0", "history/p0.jsonl")
    assert isinstance(wide, ToldAlert)
    assert (wide.run, wide.partition) == ("r2", 3_000_000_000)

    with (run / "history" / "c0.jsonl").open("ab") as file:
        file.write(torn)
    with watching(spark, root, told) as watch:
        watch.process_all()
        quiet_since_s = time.monotonic()
        assert watch.idle_s() <= time.monotonic() - quiet_since_s + stream.LOOK_EVERY_S
        assert watch.untold() == 0
        second = told[2:]
        write(run / "verdict.json", VERDICT)
        append(run, [read("c0", 4, "z")])
        watch.process_all()
    assert [(each.run, each.offset) for each in second if isinstance(each, ToldAlert)] == [
        ("r1", 4)
    ]
    # The verdict is told of all that came after it was written.
    assert told[3:] == [ToldVerdict("r1", Outcome.UNKNOWN, "", "", 0, "")]
    assert watch.ledger.all == tuple(told)


def test_a_verdict_that_failed_is_told_by_the_next_watch(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> list[ToldVerdict]:
        raise OSError("the disk is gone")

    root = tmp_path / "runs"
    write(root / "r1" / "verdict.json", VERDICT)
    told: list[Told] = []
    monkeypatch.setattr(stream, "hand_over", fails)
    with watching(spark, root, told) as watch:
        for asked in (watch.process_all, watch.idle_s):
            with pytest.raises(WatchFailed, match="the disk is gone"):
                asked()
    assert not told
    with pytest.raises(WatchFailed, match="the disk is gone"):
        watch.untold()

    monkeypatch.setattr(stream, "hand_over", by_tables_of_none)
    with watching(spark, root, told) as watch:
        watch.process_all()
    assert [each.run for each in told] == ["r1"]


def test_a_watch_over_other_runs_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "watch" / "watch.json", b'{"format": 1, "root": "/elsewhere"}')
    with pytest.raises(OtherWatch, match="is the watch of /elsewhere"):
        Watching(spark, tmp_path, tmp_path / "tables", tmp_path / "watch", print)


@pytest.mark.full
def test_verdicts_are_those_of_the_batch_job(spark: SparkSession, tmp_path: Path) -> None:
    root = tmp_path / "runs"
    for name in ("sound", "untraced"):
        write(write_run(root / name) / "verdict.json", VERDICT)
    (root / "untraced" / "trace" / "broker-1-1.jsonl").unlink()
    all_of_them(clean_run(root / "lost"))
    told: list[Told] = []
    with watching(spark, root, told) as watch:
        watch.process_all()
    store = tmp_path / "others"
    runs = ingest(None, sorted(root.iterdir()), store)
    batch = analyse(read_tables(spark, store, runs.run_ids, are_small=True)).verdicts
    assert [row["outcome"] for row in batch] == ["fail", "pass", "unknown"]
    names = ("run_id", "outcome", "by_tables", "recorded", "findings", "reasons")
    assert sorted(
        (each.run, each.outcome.value, each.by_tables, each.recorded, each.findings, each.reasons)
        for each in told
        if isinstance(each, ToldVerdict)
    ) == [tuple(row[name] for name in names) for row in batch]


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    done = highwater_without_java("pipeline", "watch", "nowhere", cwd=tmp_path)
    assert done.returncode == 2
    assert "nowhere is no folder" in done.stderr
    assert not (tmp_path / "runs").exists()
