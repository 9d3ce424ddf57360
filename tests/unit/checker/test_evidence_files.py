"""The list of a run's files of evidence: any change after the run is reported."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from highwater_checker.judging import judge_run
from highwater_checker.looks import Look, encode_look
from highwater_checker.run_folder.documents import (
    EXCUSED,
    FILES,
    FINAL_LOOK,
    PROMISES,
    REQUIREMENTS,
)
from highwater_checker.run_folder.evidence_files import written_files
from highwater_checker.run_folder.names import INTENTS, LOOKS
from highwater_checker.verdict import Outcome, Verdict
from highwater_wire.kafka.record_batch import build_batch
from tests.support.run_on_disk import SENT, broker, segment, write, write_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run")


def reasons_of(verdict: Verdict) -> str:
    return "\n".join(verdict.reasons)


@pytest.mark.parametrize(
    "name",
    ["history/p0.jsonl", "history/admin.jsonl", "trace/broker-1-1.jsonl", LOOKS, EXCUSED.name],
)  # fmt: skip
@pytest.mark.parametrize("is_emptied", [True, False])
def test_a_file_whose_end_is_gone_is_reported(run: Path, name: str, is_emptied: bool) -> None:
    """Found: a producer whose history was empty had nothing to be asked for, and all passed."""
    write(run / "history" / "admin.jsonl", SENT.replace(b'"p0"', b'"admin"'))
    write(run / LOOKS, encode_look(Look(99, {0: broker(0), 1: broker(1)})) + b"\n")
    write(run / EXCUSED.name, EXCUSED.encode(()))
    write(run / FILES.name, FILES.encode(written_files(run)))
    assert judge_run(run).outcome is Outcome.PASS
    whole = (run / name).read_bytes()
    left = b"" if is_emptied else whole[:-1]
    write(run / name, left)
    verdict = judge_run(run)
    assert verdict.outcome is not Outcome.PASS
    assert f"{name}: {len(left)} bytes, where {len(whole)} were written" in reasons_of(verdict)


def test_a_missing_file_of_the_list_is_reported(run: Path) -> None:
    """Found: without the history of its last start a client passed with the records before it."""
    write(run / "history" / "p0.2.jsonl", b"")
    write(run / FILES.name, FILES.encode(written_files(run)))
    assert judge_run(run).outcome is Outcome.PASS
    (run / "history" / "p0.2.jsonl").unlink()
    verdict = judge_run(run)
    assert (verdict.outcome, reasons_of(verdict)) == (
        Outcome.UNKNOWN,
        "segments decode: history/p0.2.jsonl is missing",
    )


EVIDENCE = (
    "history/c0.jsonl",
    "trace/broker-1-1.jsonl",
    "segments/broker-1/t-0/00000000000000000000.log",
    INTENTS,
    PROMISES.name,
    REQUIREMENTS.name,
    FINAL_LOOK.name,
)


@pytest.mark.parametrize("name", EVIDENCE)
def test_a_file_that_changed_after_the_run_is_reported_though_its_size_is_the_same(
    run: Path, name: str
) -> None:
    """Found: an unmet requirement was edited into a met one, and the run passed."""
    write(run / INTENTS, b'{"at_ns":7,"number":1,"phase":"acting"}\n')
    write(run / FILES.name, FILES.encode(written_files(run)))
    assert judge_run(run).outcome is Outcome.PASS
    whole = (run / name).read_bytes()
    write(run / name, bytes([whole[0] ^ 0x20]) + whole[1:])
    verdict = judge_run(run)
    assert verdict.outcome is not Outcome.PASS
    assert f"{name}: its content is not as it was written" in reasons_of(verdict)


def test_a_file_that_was_added_after_the_run_is_reported(run: Path) -> None:
    write(run / FILES.name, FILES.encode(written_files(run)))
    write(run / "history" / "p1.jsonl", b"")
    verdict = judge_run(run)
    assert verdict.outcome is Outcome.UNKNOWN
    assert "history/p1.jsonl was not there when the run ended" in reasons_of(verdict)


def test_a_list_of_the_first_format_has_sizes_alone(run: Path) -> None:
    sizes = {name: each.size_bytes for name, each in written_files(run).items()}
    promises = PROMISES.read(run)
    assert promises is not None
    write(run / PROMISES.name, PROMISES.encode(replace(promises, format_version=1)))
    sizes.pop(PROMISES.name)
    write(run / FILES.name, FILES.encode(sizes))
    write(run / "history" / "p1.jsonl", b"")
    assert judge_run(run).outcome is Outcome.PASS
    (run / "history" / "c0.jsonl").write_bytes(b"")
    assert "history/c0.jsonl: 0 bytes, where " in reasons_of(judge_run(run))


@pytest.mark.parametrize("list_of_files", [b"{}", b'{"promises.json": 1}'])
def test_a_list_without_digests_proves_nothing_of_a_run_that_promised_one(
    run: Path, list_of_files: bytes
) -> None:
    """Found: with an emptied list, any file could be edited, and the run passed."""
    promises = PROMISES.read(run)
    assert promises is not None
    write(run / PROMISES.name, PROMISES.encode(replace(promises, kept=(FILES.name,))))
    write(run / FILES.name, FILES.encode(written_files(run)))
    assert judge_run(run).outcome is Outcome.PASS
    write(run / FILES.name, list_of_files)
    verdict = judge_run(run)
    assert verdict.outcome is Outcome.UNKNOWN
    assert "files.json: it lacks digests of files of evidence" in reasons_of(verdict)


def lost(run: Path) -> None:
    """Both replicas have another record than was acknowledged."""
    for node in (0, 1):
        write(segment(run, node), build_batch([(None, b"other", 1_000)], 0, 0))


@pytest.mark.parametrize(
    ("name", "kept", "told"),
    [
        ("history/p0.jsonl", {"I9"}, {"I1"}),
        ("history/c0.jsonl", {"I1"}, {"I9"}),
        ("trace/broker-1-1.jsonl", set(), {"I1", "I9"}),
        (EXCUSED.name, set(), {"I1", "I9"}),
        (INTENTS, {"I1", "I9"}, set()),
    ],
)
def test_a_finding_that_rests_on_a_changed_file_is_told_and_fails_no_run(
    run: Path, name: str, kept: set[str], told: set[str]
) -> None:
    """Found: a copy that had lost excused.json failed for losses that the run had excused."""
    lost(run)
    for each in (INTENTS, EXCUSED.name):
        write(run / each, b"[]" if each == EXCUSED.name else b"")
    write(run / FILES.name, FILES.encode(written_files(run)))
    assert {each.invariant for each in judge_run(run).findings} == {"I1", "I9"}
    write(run / name, (run / name).read_bytes() + b"\n")
    verdict = judge_run(run)
    assert {each.invariant for each in verdict.findings} == kept
    assert verdict.outcome is (Outcome.FAIL if kept else Outcome.UNKNOWN)
    unread = [each for check in verdict.checks for each in check.unread]
    unfounded = [each for each in unread if each.endswith(f": it rests on {name}")]
    assert {each.partition(":")[0] for each in unfounded} == told


def test_only_the_logs_checks_need_no_events(run: Path) -> None:
    write(segment(run, 1), build_batch([(None, b"other", 1_000)], 0, 0))
    write(run / FILES.name, FILES.encode(written_files(run)))
    write(run / "trace" / "broker-1-1.jsonl", b"")
    assert {each.invariant for each in judge_run(run).findings} == {"I3"}
