"""Run folders as they grow: whole lines alone; runs that end, are pruned, vanish or stop."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from pyspark.sql.streaming.datasource import ReadAllAvailable

from highwater_checker.verdict import Outcome
from highwater_pipeline.watching import growing, handing_over, source
from highwater_pipeline.watching.growing import (
    STALE_AFTER_S,
    goes_on,
    runs_below,
    shares,
    was_pruned,
    whole_lines,
)
from highwater_pipeline.watching.told import Ledger, Told, ToldAlert, ToldVerdict, outcome_of
from tests.support.run_on_disk import write

HISTORY = "history/p0.jsonl"
ALL = 1 << 40


def run_of(root: Path, name: str, history: bytes = b"", *, has_ended: bool = False) -> Path:
    run = root / name
    write(run / "plan.json", b"{}")
    write(run / HISTORY, history)
    if has_ended:
        write(run / "verdict.json", b'{"outcome": "fail", "checks": [], "requirements": []}')
    return run


# ---------------------------------------------------------------- whole lines


@pytest.mark.parametrize(
    ("data", "begin", "limit", "end"),
    [
        (b"", 0, ALL, 0),
        (b"one\ntwo\n", 0, ALL, 8),
        (b"one\ntw", 0, ALL, 4),
        (b"one", 0, ALL, 0),
        (b"one\ntwo\n", 4, ALL, 8),
        (b"one\ntw", 4, ALL, 4),
        (b"one\ntwo\nthree\n", 0, 9, 8),
        (b"one\n", 8, ALL, 8),
        (b"longer than the limit\ntwo\n", 0, 3, 22),
        (b"longer than the limit", 0, 3, 0),
    ],
)
def test_a_file_is_read_up_to_the_end_of_a_whole_line(
    tmp_path: Path, data: bytes, begin: int, limit: int, end: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for block in (1, 2, 5, 64):
        monkeypatch.setattr(growing, "BLOCK_BYTES", block)
        run = run_of(tmp_path, "r", data)
        assert whole_lines({run: {HISTORY: begin}}, limit) == {run: {HISTORY: end}}


@pytest.mark.parametrize(
    ("behind", "limit", "found"),
    [
        ({}, 9, {}),
        ({"a": 3, "b": 5}, 9, {"a": 3, "b": 5}),
        ({"active": 100, "idle": 0, "done": 0}, 9, {"active": 9, "idle": 0, "done": 0}),
        ({"a": 100, "b": 1, "c": 100}, 9, {"b": 1, "a": 4, "c": 4}),
        ({"a": 100, "b": 100}, 1, {"a": 0, "b": 1}),
    ],
)
def test_what_is_read_at_once_is_shared_by_those_files_that_have_something_to_read(
    behind: dict[str, int], limit: int, found: dict[str, int]
) -> None:
    assert shares(behind, limit) == found


def test_the_first_batch_of_many_files_is_bounded_too(tmp_path: Path) -> None:
    run = run_of(tmp_path, "r1")
    for number in range(20):
        write(run / "history" / f"c{number}.jsonl", b"line\n" * 100)
    ends = whole_lines({run: {}}, 1_000)[run]
    assert 0 < sum(ends.values()) <= 1_000 + 20 * len(b"line\n")


@pytest.mark.parametrize("strange", ["folder", "pipe", "link to itself", "link to nothing"])
def test_what_is_no_regular_file_is_not_read_and_hides_no_other(
    strange: str, tmp_path: Path
) -> None:
    """A run's folder may come from anywhere."""
    run = run_of(tmp_path, "r1", b"one\n")
    path = run / "history" / "x.jsonl"
    if strange == "folder":
        path.mkdir()
    elif strange == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("x.jsonl" if strange == "link to itself" else "nowhere")
    end, rows = lines_between(tmp_path, {})
    assert rows == [("r1", b"one")]
    assert lines_between(tmp_path, end) == (end, [])


# ---------------------------------------------------------------- which runs there are


def test_runs_are_found_below_a_folder_a_soaks_folder_or_are_the_folder(tmp_path: Path) -> None:
    soak = tmp_path / "soak-7"
    run = run_of(soak / "runs", "r1")
    (soak / "runs" / "latest").symlink_to("r1")
    (soak / "plans").mkdir()
    for root in (soak, soak / "runs", run):
        assert list(runs_below(root)) == [run]
    assert not list(runs_below(tmp_path / "nowhere"))


def test_a_run_goes_by_its_name_and_folders_of_others_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = run_of(tmp_path, "r1")
    run_of(tmp_path / "runs", "r1")
    second = run_of(tmp_path / "runs", "r2")
    closed = run_of(tmp_path, "closed")
    is_file = Path.is_file

    def refusing(path: Path) -> bool:
        if path.parent == closed:
            raise PermissionError(path)
        return is_file(path)

    monkeypatch.setattr(Path, "is_file", refusing)
    assert list(runs_below(tmp_path)) == [first, second]


def test_a_run_goes_on_until_its_verdict_or_until_nothing_was_written_for_long(
    tmp_path: Path,
) -> None:
    run = run_of(tmp_path, "r1", b"one\n")
    written_s = (run / HISTORY).stat().st_mtime
    assert goes_on(run, written_s)
    assert not goes_on(run, written_s + STALE_AFTER_S + 1)
    write(run / "verdict.json", b"{}")
    assert not goes_on(run, written_s)


# ---------------------------------------------------------------- offsets


def lines_between(root: Path, start: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """Return the next offset, and the (run, line) rows up to there; no line is of the end."""
    reader = source._LineReader(root)
    end = reader.latestOffset(start, ReadAllAvailable())
    rows = [
        (row["run_id"], row["line"])
        for part in reader.partitions(start, end)
        for batch in reader.read(part)
        for row in batch.to_pylist()
    ]
    return end, sorted(rows, key=str)


def test_lines_are_read_once_and_a_torn_one_when_it_has_its_end(tmp_path: Path) -> None:
    run = run_of(tmp_path, "r1", b"one\n\ntw")
    end, rows = lines_between(tmp_path, {})
    assert rows == [("r1", b"one")]
    with (run / HISTORY).open("ab") as file:
        file.write(b"o\nthree\n")
    end, rows = lines_between(tmp_path, end)
    assert rows == [("r1", b"three"), ("r1", b"two")]
    assert lines_between(tmp_path, end) == (end, [])


@pytest.mark.parametrize("how", ["ended", "removed", "interrupted"])
def test_a_run_that_goes_on_no_more_is_let_go_of_once(tmp_path: Path, how: str) -> None:
    run = run_of(tmp_path, "r1", b"one\n")
    end, _ = lines_between(tmp_path, {})
    if how == "ended":
        write(run / "verdict.json", b"{}")
    elif how == "removed":
        shutil.rmtree(run)
    else:
        for path in (run / HISTORY, run / "plan.json"):
            os.utime(path, (0, 0))
    end, rows = lines_between(tmp_path, end)
    assert (end, rows) == ({}, [("r1", None)])
    assert lines_between(tmp_path, end) == ({}, [])


def test_a_folder_that_vanishes_between_offset_and_read_gives_no_lines(tmp_path: Path) -> None:
    run_of(tmp_path, "r1", b"one\n")
    reader = source._LineReader(tmp_path)
    parts = reader.partitions({}, reader.latestOffset({}, ReadAllAvailable()))
    shutil.rmtree(tmp_path / "r1")
    assert [batch.num_rows for part in parts for batch in reader.read(part)] == []


def test_a_run_that_is_long_behind_is_read_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "BATCH_BYTES", 10)
    run_of(tmp_path, "r1", b"".join(b"line %d\n" % number for number in range(5)))
    end: dict[str, Any] = {}
    found: list[Any] = []
    for _ in range(9):
        end, rows = lines_between(tmp_path, end)
        assert len(rows) <= 1
        found += rows
    assert found == [("r1", b"line %d" % number) for number in range(5)]


# ---------------------------------------------------------------- evidence of ended runs


def test_evidence_is_linked_and_stays_when_the_run_is_removed(tmp_path: Path) -> None:
    run = run_of(tmp_path, "r1", b"one\n", has_ended=True)
    write(run / "report.html", b"no evidence")
    staged = handing_over._stage(run, tmp_path / "staging")
    shutil.rmtree(run)
    assert staged.name == "r1"
    assert (staged / HISTORY).read_bytes() == b"one\n"
    assert sorted(path.name for path in staged.iterdir()) == [
        "history", "plan.json", "verdict.json",
    ]  # fmt: skip


def test_a_pruned_run_has_its_own_verdict_and_one_that_is_gone_has_none(tmp_path: Path) -> None:
    """No Spark: nothing is handed to it."""
    pruned = run_of(tmp_path, "r1", has_ended=True)
    write(pruned / "sums.json", b"{}")
    gone = tmp_path / "r2"
    assert was_pruned(pruned)
    assert was_pruned(gone)
    found = handing_over.hand_over(None, [pruned, gone], tmp_path / "tables", tmp_path / "staging")
    assert found == [ToldVerdict("r1", Outcome.FAIL, "", "fail", 0, "", was_pruned=True)]


def test_a_document_that_is_a_folder_is_left_to_the_batch_job(tmp_path: Path) -> None:
    run = run_of(tmp_path, "r1", has_ended=True)
    (run / "promises.json").mkdir()
    staged = handing_over._stage(run, tmp_path / "staging")
    assert (staged / "promises.json").is_dir()


def test_a_run_that_may_not_be_read_is_unknown_and_keeps_no_other_from_its_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [run_of(tmp_path, name, has_ended=True) for name in ("r1", "r2")]
    write(runs[1] / "sums.json", b"{}")

    def refusing(source: Path, target: Path) -> None:
        raise PermissionError(13, "Permission denied", str(source))

    monkeypatch.setattr(handing_over, "_link", refusing)
    found = handing_over.hand_over(None, runs[:1], tmp_path / "tables", tmp_path / "staging")
    assert [(each.run, each.outcome) for each in found] == [("r1", Outcome.UNKNOWN)]
    assert "Permission denied" in found[0].reasons


# ---------------------------------------------------------------- what was told


ALERT = ToldAlert("r1", "I7", "t", 0, -1, 2, "", "two leaders", 1.5, "snapshots.jsonl")
PASS = ToldVerdict("r1", Outcome.PASS, "pass", "pass", 0, "")
FAIL = ToldVerdict("r2", Outcome.FAIL, "fail", "fail", 3, "")
UNKNOWN = ToldVerdict("r3", Outcome.UNKNOWN, "unknown", "", 0, "too little")


def test_what_comes_again_is_told_once_also_after_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "told.jsonl"
    ledger = Ledger(path)
    assert ledger.add([ALERT, ALERT, PASS]) == [ALERT, PASS]
    with path.open("ab") as file:
        file.write(b'{"kind":"verdict","run":"r')
    again = Ledger(path)
    assert again.all == (ALERT, PASS)
    assert again.add([ALERT, PASS, FAIL]) == [FAIL]
    assert again.has_verdict("r2")
    assert not again.has_verdict("r3")
    assert Ledger(path).all == (ALERT, PASS, FAIL)


def test_a_finding_in_other_words_is_told_once(tmp_path: Path) -> None:
    """Its words name what else is known, which changes; of looks they tell findings apart."""
    ledger = Ledger(tmp_path / "told.jsonl")
    first = replace(ALERT, offset=3, operation="p0's send 3", message="below 10")
    assert ledger.add([first, replace(first, message="below 20")]) == [first]
    other = replace(ALERT, message="two leaders of epoch 5")
    assert ledger.add([ALERT, other]) == [ALERT, other]


def test_a_line_that_could_not_be_written_leaves_nothing_and_is_told_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(tmp_path / "told.jsonl")
    ledger.add([PASS])

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            ledger.add([FAIL])
    assert Ledger(tmp_path / "told.jsonl").all == (PASS,)
    assert ledger.add([FAIL]) == [FAIL]


@pytest.mark.parametrize(
    ("told", "outcome"),
    [
        ([], Outcome.UNKNOWN),
        ([PASS], Outcome.PASS),
        ([PASS, UNKNOWN], Outcome.UNKNOWN),
        ([PASS, UNKNOWN, FAIL], Outcome.FAIL),
        ([PASS, ALERT], Outcome.FAIL),
    ],
)
def test_an_alert_fails_a_watch_and_nothing_told_proves_nothing(
    told: list[Told], outcome: Outcome
) -> None:
    assert outcome_of(told) is outcome
