"""Run folders to tables: files read or quarantined; runs refused, skipped and replaced.

Many folders go through one ingestion, each with one thing wrong; a test looks at its own.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession

from highwater_checker.history import decode
from highwater_checker.judging import judge_run
from highwater_checker.lives_of_records import UNKNOWN_LIFE
from highwater_checker.looks import decode_looks
from highwater_checker.probes import decode_probes
from highwater_checker.run_folder.documents import FINAL_LOOK
from highwater_checker.segments import ReplicaLog, read_batches
from highwater_core.internal_topics import OFFSETS_TOPIC
from highwater_core.traces import decode_events
from highwater_pipeline.ingest import IngestReport, Taken, ingest
from highwater_pipeline.ingest.documents import REASONS_MAX
from highwater_pipeline.ingest.inventory import NOT_FINISHED, UNEXPECTED
from highwater_pipeline.ingest.lines import TORN
from highwater_pipeline.ingest.replica_logs import NOT_COPIED
from highwater_pipeline.reading import read_tables
from highwater_pipeline.tables import (
    DATA_VERSION,
    EVENTS,
    FAULTS,
    LOOKS,
    OF_THE_END,
    OPERATIONS,
    PROBES,
    QUARANTINE,
    RECORDS,
    REPLICA_LOOKS,
    REPLICAS,
    RUNS,
    TABLES,
    Table,
    runs_of_other_versions,
)
from tests.pipeline.frames import Run, arrow_tables
from tests.pipeline.run_folders import (
    BROKERS,
    LOG,
    SEGMENT,
    START_WALL_NS,
    Folder,
    all_of_them,
    another_topic,
    clean_run,
    in_sync_alone,
    unseen_end,
    weak_producer,
)
from tests.support.batches import without_records
from tests.support.made_again import FIRST, OLD, SECOND, write_made_again

Row = dict[str, Any]
CLEAN_ROWS = {
    RUNS.name: 1,
    OPERATIONS.name: 18,
    EVENTS.name: 9,
    LOOKS.name: 2,
    REPLICA_LOOKS.name: 4,
    PROBES.name: 2,
    FAULTS.name: 3,
    REPLICAS.name: 2,
    RECORDS.name: 8,
}


def flip_a_byte(data: bytes) -> bytes:
    return data[:-3] + bytes([data[-3] ^ 1]) + data[-2:]


def torn(folder: Folder) -> None:
    folder.change("history/p0.jsonl", lambda data: data + b'{"time_ns":12,"ty')


def wrong_lines(folder: Folder) -> None:
    folder.replace_line("history/c0.jsonl", 3, b"{]")
    folder.replace_line("trace/broker-1-1.jsonl", 1, b'{"ts_ns":"x"}')
    folder.replace_line("snapshots.jsonl", 0, b'{"time_ns":1}')
    folder.replace_line("probes.jsonl", 1, b"null")
    folder.replace_line("intent.jsonl", 2, b'{"at_ns":1,"number":1.5,"phase":"acting"}')


def strangers(folder: Folder) -> None:
    folder.write("history/.tmp-p7.jsonl", b"half")
    folder.write("history/notes.txt", b"mine")
    folder.write("trace/old/broker-0-1.jsonl", b"{}")
    folder.write("segments/copy-of-broker-0/t-0/0.log", b"")
    folder.write("segments/broker-0/lost+found/0.log", b"")


def damaged(folder: Folder) -> None:
    folder.change(f"segments/broker-1/t-0/{LOG}", flip_a_byte)


def undecodable(folder: Folder) -> None:
    """The second batch of one replica has a right CRC and no records."""
    first, second = SEGMENT
    content = first.data + without_records(second.data)
    folder.write(f"segments/broker-1/t-0/{LOG}", content)


def empty_logs(folder: Folder) -> None:
    folder.write(f"segments/broker-0/t-0/{LOG}", b"")
    (folder.path / f"segments/broker-1/t-0/{LOG}").unlink()
    (folder.path / "snapshots.jsonl").unlink()


def not_copied(folder: Folder) -> None:
    shutil.rmtree(folder.path / "segments" / "broker-1")


def final_look_of_large_numbers(folder: Folder) -> None:
    all_of_them(folder)
    folder.change(
        FINAL_LOOK.name, lambda data: re.sub(rb'("log_end_offset":)\d+', rb"\g<1>%d" % 2**63, data)
    )


def empty_files(folder: Folder) -> None:
    for path in (*folder.path.glob("*/*.jsonl"), *folder.path.glob("*.jsonl")):
        path.write_bytes(b"")


def bad_documents(folder: Folder) -> None:
    folder.write("plan.json", b'{"title": ')
    folder.write("clock.json", b'{"start_wall_ns": "noon"}')


def only_plan(folder: Folder) -> None:
    for name in ("clock.json", "verdict.json", "topology.json"):
        (folder.path / name).unlink()


def nothing(folder: Folder) -> None:
    shutil.rmtree(folder.path)
    (folder.path / "history").mkdir(parents=True)


def made_again(folder: Folder) -> None:
    """Another run: its topic is deleted and created again during a send and a read."""
    shutil.rmtree(folder.path)
    write_made_again(folder.path, old=(*OLD, ("either", 5, 305, 705)))


def deleted_without_a_clock(folder: Folder) -> None:
    shutil.rmtree(folder.path)
    write_made_again(folder.path, with_clock=False)


BROKEN: tuple[Callable[[Folder], None], ...] = (
    torn,
    wrong_lines,
    strangers,
    damaged,
    undecodable,
    empty_logs,
    not_copied,
    in_sync_alone,
    all_of_them,
    unseen_end,
    another_topic,
    weak_producer,
    final_look_of_large_numbers,
    empty_files,
    bad_documents,
    only_plan,
    nothing,
    made_again,
    deleted_without_a_clock,
)


@dataclass(frozen=True, slots=True)
class Ingested:
    """Folders clean and broken in one store; rows are those after the first ingestion."""

    root: Path
    store: Path
    report: IngestReport
    rows: dict[str, list[Row]]

    def of(self, run: str | Callable[[Folder], None], table: Table) -> list[Row]:
        """Return a run's rows, in the order of the table's sort key."""
        run_id = run if isinstance(run, str) else run.__name__
        return [row for row in self.rows[table.name] if row["run_id"] == run_id]


def rows_in(
    spark: SparkSession,
    store: Path,
    run_ids: Sequence[str] | None = None,
    *,
    are_small: bool = False,
) -> dict[str, list[Row]]:
    tables = read_tables(spark, store, run_ids, are_small=are_small)
    return {
        table.name: [row.asDict() for row in tables[table].orderBy(*table.sort_key).collect()]
        for table in TABLES
    }


BY_JOBS = pytest.param(True, id="by Spark's jobs", marks=pytest.mark.full)


@pytest.fixture(scope="module", params=[BY_JOBS, pytest.param(False, id="by this process")])
def by(request: pytest.FixtureRequest, spark: SparkSession) -> SparkSession | None:
    """Return ingest's session, or None: both ways have the same result."""
    return spark if request.param else None


ODD = "a b=c%2F'é[1]"


@pytest.fixture(scope="module")
def ingested(
    by: SparkSession | None, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Ingested:
    root, store = tmp_path_factory.mktemp("runs"), tmp_path_factory.mktemp("store")
    folders = [clean_run(root / name).path for name in ("clean", ODD)]
    for break_it in BROKEN:
        folder = clean_run(root / break_it.__name__)
        break_it(folder)
        folders.append(folder.path)
    (root / "latest").symlink_to("clean")
    (root / "shrunk").mkdir()
    (root / "other" / "clean").mkdir(parents=True)
    clean_run(root / "other" / "clean")
    folders += [root / "latest", root / "shrunk", root / "absent", root / "other" / "clean"]
    report = ingest(by, folders, store)
    return Ingested(root, store, report, rows_in(spark, store))


def as_the_checker_reads(folder: Path) -> Run:
    """Return the contents of a clean run's folder, by highwater_checker's own readers."""

    def lines_of(pattern: str) -> list[list[bytes]]:
        return [path.read_bytes().splitlines() for path in sorted(folder.glob(pattern))]

    (snapshots,), (probes,) = lines_of("snapshots.jsonl"), lines_of("probes.jsonl")
    logs = [
        ReplicaLog(broker, "t", 0, read_batches(folder / f"segments/broker-{broker}/t-0"), 4)
        for broker in BROKERS
    ]
    return Run(
        run_id=folder.name,
        history=[event for lines in lines_of("history/*.jsonl") for event in decode(lines)],
        replicas=logs,
        events=[event for lines in lines_of("trace/*.jsonl") for event in decode_events(lines)],
        looks=decode_looks(snapshots),
        probes=decode_probes(probes),
    )


@pytest.mark.parametrize(
    "table",
    [OPERATIONS, EVENTS, LOOKS, REPLICA_LOOKS, PROBES, REPLICAS, RECORDS],
    ids=lambda t: t.name,
)
def test_a_clean_run_is_read_as_the_checker_reads_it(ingested: Ingested, table: Table) -> None:
    expected = arrow_tables([as_the_checker_reads(ingested.root / "clean")])[table.name].to_pylist()
    expected.sort(key=lambda row: [row[column] for column in table.sort_key])
    assert ingested.of("clean", table) == expected
    assert len(expected) == CLEAN_ROWS[table.name]


def test_sparks_jobs_ingest_the_same_rows_as_this_process(
    ingested: Ingested, spark: SparkSession, tmp_path: Path
) -> None:
    runs = ("clean", torn.__name__)
    ingest(spark, [ingested.root / run for run in runs], tmp_path)
    by_jobs = rows_in(spark, tmp_path)
    for table in TABLES:
        rows = [row for row in ingested.rows[table.name] if row["run_id"] in runs]
        assert by_jobs[table.name] == rows, table.name


def without_looks(ingested: Ingested) -> str:
    """Return a run that has no look, though others have."""
    names = (each.__name__ for each in BROKEN)
    return next(name for name in names if ingested.of(name, RUNS) and not ingested.of(name, LOOKS))


@pytest.mark.parametrize(
    "wanted",
    [None, (ODD, "clean", "none of this name"), (without_looks,), ()],
    ids=["all", "two", "one without looks", "none"],
)
def test_small_tables_have_the_rows_that_large_ones_have(
    ingested: Ingested, spark: SparkSession, wanted: Sequence[Any] | None
) -> None:
    run_ids = wanted and [each(ingested) if callable(each) else each for each in wanted]
    small = rows_in(spark, ingested.store, run_ids, are_small=True)
    for table in TABLES:
        of_all = ingested.rows[table.name]
        assert small[table.name] == [
            row for row in of_all if run_ids is None or row["run_id"] in run_ids
        ], table.name


def test_small_tables_of_another_version_can_be_asked_for_their_version(
    ingested: Ingested, spark: SparkSession, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    shutil.copytree(ingested.store, store)
    for file in (store / RECORDS.name).glob("**/*.parquet"):
        rows = parquet.read_table(file)
        strange = pa.array(["x"] * rows.num_rows)
        parquet.write_table(rows.drop_columns(["offset"]).append_column("offset", strange), file)
    tables = read_tables(spark, store, are_small=True)
    assert runs_of_other_versions(tables) == []


def test_a_file_from_before_a_column_came_reads_as_null_there(
    ingested: Ingested, spark: SparkSession, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    shutil.copytree(ingested.store, store)
    (file,) = (store / RUNS.name / "run_id=clean").glob("*.parquet")
    rows = parquet.read_table(file)
    last = list(RUNS.columns)[-1]
    parquet.write_table(rows.drop_columns([last, "topics"]), file)
    (file.parent / f".{file.name}.crc").unlink(missing_ok=True)  # Spark's jobs wrote the old file's
    by_each = [
        rows_in(spark, store, ["clean"], are_small=each)[RUNS.name] for each in (True, False)
    ]
    assert by_each[0] == by_each[1] == [{**ingested.of("clean", RUNS)[0], last: None}]


def test_a_clean_run_has_nothing_in_quarantine(ingested: Ingested) -> None:
    assert ingested.of("clean", QUARANTINE) == []


def test_a_run_has_its_settings_and_the_judges_verdict(ingested: Ingested) -> None:
    judged = judge_run(ingested.root / "clean")
    assert judged.reasons
    assert ingested.of("clean", RUNS) == [
        {
            "run_id": "clean",
            "title": "a kill",
            "preset": "fenced",
            "brokers": 2,
            "controllers": 1,
            "seed": 7,
            "planted": "no_fsync",
            "commit": "abc",
            "outcome": "pass",
            "world": "docker",
            "data_version": DATA_VERSION,
            "start_wall_ns": START_WALL_NS,
            "judged": judged.outcome.value,
            "reasons": list(judged.reasons[:REASONS_MAX]),
            "replication_factor": None,
            "only_in_sync": None,
            "consumers": None,
            "topics": None,
            "to_the_end": None,
            "saw_the_end": True,
            "least_acknowledged": None,
            "unproven": [
                "promises.json is missing",
                "requirements.json is missing",
                "final_look.json is missing",
            ],
            "compacted": [OFFSETS_TOPIC],
            "watched_examined": None,
            "watched": None,
            "format_version": None,
            "writers_are_known": None,
            "followed": ["p0"],
            "incomplete": [],
            "last_readers": None,
            "last_topics": None,
        }
    ]


def test_incarnations_have_the_settings_of_their_client_others_none(ingested: Ingested) -> None:
    def settings(run: str | Callable[[Folder], None]) -> set[tuple[str, int, int]]:
        rows = ingested.of(run, OPERATIONS)
        return {(row["process"], row["acks"], row["max_in_flight"]) for row in rows}

    assert settings(weak_producer) == {("p0", 1, 5), ("p0.2", 1, 5), ("c0", None, None)}
    assert settings("clean") == {("p0", None, None), ("p0.2", None, None), ("c0", None, None)}


def quarantined(ingested: Ingested, run: Callable[[Folder], None]) -> list[tuple[str, int, str]]:
    rows = ingested.of(run, QUARANTINE)
    return [(row["file"], row["line"], row["reason"]) for row in rows]


def test_acknowledgements_and_reads_have_the_life_of_their_topic(ingested: Ingested) -> None:
    def lives_in(run: Callable[[Folder], None]) -> dict[tuple[str, str], tuple[str, bool]]:
        return {
            (row["process"], row["value"]): (row["life"], row["is_over"])
            for row in ingested.of(run, OPERATIONS)
            if row["type"] == "ok"
        }

    unknown = UNKNOWN_LIFE, True
    known = {(who, value): (FIRST, True) for who in ("p1", "c0") for value in ("old-0", "old-1")}
    known[("p0", "v0")] = SECOND, False
    others = {("p1", "either"): unknown, ("c0", "either"): unknown, ("c0", "v0"): unknown}
    assert lives_in(made_again) == {**known, **others}
    without = lives_in(deleted_without_a_clock)
    assert without == dict.fromkeys((*known, ("c0", "v0")), unknown)
    assert {row["life"] for row in ingested.of("clean", OPERATIONS)} == {None}


@pytest.mark.parametrize(
    ("run", "is_final"),
    [
        ("clean", {0: False, 1: True}),
        (all_of_them, {OF_THE_END: True, 0: False, 1: False}),
        (unseen_end, {0: False, 1: False}),
        (final_look_of_large_numbers, {0: False, 1: False}),
    ],
    ids=["no final look", "a final look", "nobody looked when all was healed", "a wrong one"],
)
def test_the_look_at_the_end_is_the_final_one_and_else_the_last_of_a_run_that_settled(
    ingested: Ingested, run: str | Callable[[Folder], None], is_final: dict[int, bool]
) -> None:
    (found,) = ingested.of(run, RUNS)
    assert found["saw_the_end"] is any(is_final.values())
    for table in (LOOKS, REPLICA_LOOKS):
        assert {row["look"]: row["is_final"] for row in ingested.of(run, table)} == is_final


def test_a_final_look_with_a_number_that_no_column_holds_is_in_quarantine(
    ingested: Ingested,
) -> None:
    why = f"wrong: {2**63} does not fit log_end_offset"
    assert quarantined(ingested, final_look_of_large_numbers) == [(FINAL_LOOK.name, -1, why)]


def test_a_torn_last_line_is_in_quarantine_and_the_rest_is_taken(ingested: Ingested) -> None:
    assert quarantined(ingested, torn) == [("history/p0.jsonl", 6, TORN)]
    assert ingested.of(torn, QUARANTINE)[0]["text"] == '{"time_ns":12,"ty'
    assert len(ingested.of(torn, OPERATIONS)) == CLEAN_ROWS[OPERATIONS.name]


def test_wrong_lines_are_in_quarantine_and_the_others_keep_their_numbers(
    ingested: Ingested,
) -> None:
    found = quarantined(ingested, wrong_lines)
    assert [(file, line, reason.partition(":")[0]) for file, line, reason in found] == [
        ("history/c0.jsonl", 3, "not JSON"),
        ("intent.jsonl", 2, "wrong"),
        ("probes.jsonl", 1, "wrong"),
        ("snapshots.jsonl", 0, "wrong"),
        ("trace/broker-1-1.jsonl", 1, "wrong"),
    ]
    history = [row for row in ingested.of(wrong_lines, OPERATIONS) if row["process"] == "c0"]
    assert [row["line"] for row in history] == [0, 1, 2, 4, 5, 6, 7]
    assert [row["line"] for row in ingested.of(wrong_lines, PROBES)] == [0]
    for table in (LOOKS, REPLICA_LOOKS):
        assert {row["look"] for row in ingested.of(wrong_lines, table)} == {1}
    assert len(ingested.of(wrong_lines, FAULTS)) == 2
    assert len(ingested.of(wrong_lines, EVENTS)) == CLEAN_ROWS[EVENTS.name] - 1


def test_files_that_nobody_expects_are_in_quarantine_as_a_whole(ingested: Ingested) -> None:
    assert quarantined(ingested, strangers) == [
        ("history/.tmp-p7.jsonl", -1, NOT_FINISHED),
        ("history/notes.txt", -1, UNEXPECTED),
        ("segments/broker-0/lost+found", -1, UNEXPECTED),
        ("segments/copy-of-broker-0", -1, UNEXPECTED),
        ("trace/old", -1, UNEXPECTED),
    ]
    assert {row["text"] for row in ingested.of(strangers, QUARANTINE)} == {None}


def test_a_damaged_log_has_no_records_and_says_why(ingested: Ingested) -> None:
    intact, broken = ingested.of(damaged, REPLICAS)
    assert (intact["damage"], intact["log_end_offset"], intact["batches"]) == (None, 4, 2)
    assert broken["damage"] == f"{LOG}: bad magic or CRC at byte {len(SEGMENT[0].data)}"
    assert (broken["high_watermark"], broken["log_end_offset"], broken["batches"]) == (4, 0, 0)
    assert {row["broker"] for row in ingested.of(damaged, RECORDS)} == {0}


def test_a_log_with_a_batch_without_records_is_in_quarantine_and_counts_for_nothing(
    ingested: Ingested,
) -> None:
    """Found: it ended the ingestion of all runs."""
    assert [row["broker"] for row in ingested.of(undecodable, REPLICAS)] == [0]
    (row,) = ingested.of(undecodable, QUARANTINE)
    assert (row["file"], row["line"], row["text"]) == ("segments/broker-1/t-0", -1, None)
    assert row["reason"].startswith("unreadable: batch at 2: ")


def test_values_are_text_bytes_that_are_none_are_replaced(ingested: Ingested) -> None:
    values = [row["value"] for row in ingested.of("clean", RECORDS) if row["broker"] == 0]
    assert values == ["a", None, "\ufffd", "d"]


def test_an_empty_log_ends_where_it_starts_and_no_look_tells_no_high_watermark(
    ingested: Ingested,
) -> None:
    told = ("high_watermark", "log_start_offset", "log_end_offset", "batches", "damage")
    found = [tuple(row[name] for name in told) for row in ingested.of(empty_logs, REPLICAS)]
    assert found == [(-1, 0, 0, 0, None)] * 2
    assert ingested.of(empty_logs, QUARANTINE) == []


def test_a_replica_that_was_not_copied_is_in_quarantine(ingested: Ingested) -> None:
    assert quarantined(ingested, not_copied) == [("segments/broker-1/t-0", -1, NOT_COPIED)]
    assert [row["broker"] for row in ingested.of(not_copied, REPLICAS)] == [0]


@pytest.mark.parametrize(
    ("run", "told"),
    [
        (in_sync_alone, {0: 4}),
        (all_of_them, {0: 4, 1: 4}),
        (unseen_end, {0: -1, 1: -1}),
        (another_topic, {0: -1, 1: -1}),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_a_replica_that_is_not_checked_has_no_high_watermark(
    ingested: Ingested, run: Callable[[Folder], None], told: dict[int, int]
) -> None:
    found = {row["broker"]: row["high_watermark"] for row in ingested.of(run, REPLICAS)}
    assert found == told
    assert ingested.of(run, QUARANTINE) == []
    assert ingested.of(run, RUNS)[0]["saw_the_end"] is (run is not unseen_end)


def test_empty_files_have_no_rows_and_nothing_wrong(ingested: Ingested) -> None:
    for table in (OPERATIONS, EVENTS, LOOKS, REPLICA_LOOKS, PROBES, FAULTS, QUARANTINE):
        assert ingested.of(empty_files, table) == []
    assert len(ingested.of(empty_files, RUNS)) == 1


def test_a_run_with_nothing_but_a_folder_is_a_row_of_runs(ingested: Ingested) -> None:
    (run,) = ingested.of(nothing, RUNS)
    assert {name for name, cell in run.items() if cell is not None} == {
        "run_id",
        "outcome",
        "data_version",
        "judged",
        "reasons",
        "saw_the_end",
        "unproven",
        "compacted",
        "followed",
        "incomplete",
    }
    assert run["outcome"] == ""
    assert run["saw_the_end"] is False
    for table in TABLES:
        assert table is RUNS or ingested.of(nothing, table) == []


def test_documents_that_are_wrong_are_in_quarantine_and_tell_nothing(ingested: Ingested) -> None:
    assert quarantined(ingested, bad_documents) == [
        ("clock.json", -1, "wrong: Expected `int | null`, got `str` - at `$.start_wall_ns`"),
        ("plan.json", -1, "not JSON: Input data was truncated"),
    ]
    (run,) = ingested.of(bad_documents, RUNS)
    assert (run["title"], run["start_wall_ns"], run["preset"]) == (None, None, "fenced")


def test_the_report_tells_of_every_folder(ingested: Ingested) -> None:
    report, root = ingested.report, ingested.root
    names = ["clean", ODD, *(break_it.__name__ for break_it in BROKEN)]
    assert report.run_ids == tuple(names)
    assert report.runs[0].rows == CLEAN_ROWS
    assert {run.run_id: run.why for run in report.runs if run.taken is Taken.REFUSED} == {
        "shrunk": "it is no run: it has none of topology.json, plan.json, history, trace",
        "absent": "there is no such folder",
        "clean": f"{root / 'clean'} has the same name, and a run goes by its name",
    }
    for run in report.runs[: len(names)]:
        for table in TABLES:
            assert run.rows.get(table.name, 0) == len(ingested.of(run.run_id, table))
    assert report.quarantined == {
        "torn": 1,
        "not JSON": 2,
        "wrong": 6,
        "not finished": 1,
        "unexpected": 4,
        "not copied": 1,
        "unreadable": 1,
    }
    first, second, *refused = str(report).splitlines()
    count = len(BROKEN) + 2
    assert first.startswith(f"{count} ingested, 3 refused; rows: {count} runs, ")
    assert second == (
        "quarantined: 2 not JSON, 1 not copied, 1 not finished, 1 torn, 4 unexpected, "
        "1 unreadable, 6 wrong"
    )
    assert refused[0].startswith("refused shrunk: it is no run")


def test_only_runs_that_changed_are_taken_in_again(
    by: SparkSession | None, spark: SparkSession, ingested: Ingested, tmp_path: Path
) -> None:
    """Runs that changed, one of an older version, and one whose ingestion was killed."""
    root, store = tmp_path / "runs", tmp_path / "store"
    shutil.copytree(ingested.root, root, symlinks=True)
    shutil.copytree(ingested.store, store)
    changed, old, killed = Folder(root / "torn"), "wrong_lines", "damaged"
    changed.change("history/p0.jsonl", lambda data: data[: data.rindex(b"\n") + 1])
    changed.change("trace/broker-0-1.jsonl", lambda data: data[: data.index(b"\n") + 1])
    for trace in ("broker-0-2", "broker-1-1"):
        (changed.path / f"trace/{trace}.jsonl").unlink()
    receipt = store / "_ingested" / f"{old}.json"
    receipt.write_text(json.dumps({**json.loads(receipt.read_text()), "data_version": 0}))
    (store / "_ingested" / f"{killed}.json").unlink()
    shutil.rmtree(store / RECORDS.name / f"run_id={killed}")

    report = ingest(by, [root / name for name in ingested.report.run_ids], store)

    taken = {run.run_id for run in report.runs if run.taken is Taken.INGESTED}
    assert taken == {changed.path.name, old, killed}
    after = rows_in(spark, store)
    for table in TABLES:
        others = [row for row in ingested.rows[table.name] if row["run_id"] != "torn"]
        assert [row for row in after[table.name] if row["run_id"] != "torn"] == others
    mine = {name: [row for row in rows if row["run_id"] == "torn"] for name, rows in after.items()}
    assert mine[QUARANTINE.name] == []
    assert [row["kind"] for row in mine[EVENTS.name]] == ["node_started"]
    assert {run.run_id: run.rows for run in report.runs if run.run_id not in taken} == {
        run.run_id: run.rows
        for run in ingested.report.runs
        if run.taken is Taken.INGESTED and run.run_id not in taken
    }
    assert {run.taken for run in ingest(by, [changed.path], store).runs} == {Taken.UNCHANGED}


def test_a_run_may_have_any_name_that_a_folder_has(
    by: SparkSession | None, ingested: Ingested
) -> None:
    assert {table: len(ingested.of(ODD, table)) for table in TABLES} == {
        table: len(ingested.of("clean", table)) for table in TABLES
    }
    (run,) = ingest(by, [ingested.root / ODD], ingested.store).runs
    assert (run.run_id, run.taken) == (ODD, Taken.UNCHANGED)
