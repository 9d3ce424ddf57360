"""The judge's verdict of each way to tamper with a folder; the pipeline's tests ask the tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater_checker.judging import judge_run
from highwater_checker.looks import Look
from highwater_wire.kafka.record_batch import build_batch
from tests.pipeline.tampered import TAMPERED
from tests.pipeline.tampering import BROKERS, FAIL, looked
from tests.pipeline.tampering_logs import started_high
from tests.support.run_on_disk import segment, write, write_run


@pytest.mark.parametrize("name", TAMPERED)
def test_a_tampered_folder_gets_its_verdict_and_reasons(name: str, tmp_path: Path) -> None:
    tamper, expected = TAMPERED[name]
    run = write_run(tmp_path / "run")
    looked(run, Look(99, BROKERS))
    tamper(run)
    verdict = judge_run(run)
    assert verdict.outcome.value == expected, verdict.reasons
    assert bool(verdict.reasons) is (expected != "pass")


def test_where_binary_records_differ_their_bytes_are_shown(tmp_path: Path) -> None:
    """Found: both were shown as the same replacement character."""
    run = write_run(tmp_path / "run")
    tamper, expected = TAMPERED["offsets-differ"]
    assert expected == FAIL
    tamper(run)
    (reason,) = judge_run(run).reasons
    assert r"broker 0 holds '\\xc9' at 1, broker 1 holds '\\xca'" in reason


@pytest.mark.parametrize(("lost_from", "is_told"), [(0, False), (1, True), (100, True)])
def test_a_lawful_loss_excuses_log_starts_above_it_alone(
    lost_from: int, is_told: bool, tmp_path: Path
) -> None:
    run = write_run(tmp_path / "run")
    started_high(lost_from)(run)
    assert any("it starts at 1" in reason for reason in judge_run(run).reasons) is is_told


@pytest.mark.parametrize(
    ("mine", "theirs", "told"),
    [
        ((b"x" * 400 + b"A" + b"y" * 400, 1_000), (b"x" * 400 + b"B" + b"y" * 400, 1_000), "A"),
        ((b"v0", 1_000), (b"v0", 2_000), "from byte"),
    ],
)
def test_what_differs_between_replicas_is_shown_and_not_their_checksums_alone(
    mine: tuple[bytes, int], theirs: tuple[bytes, int], told: str, tmp_path: Path
) -> None:
    """Found: the line had the batches' CRCs, and long values were cut before they differed."""
    run = write_run(tmp_path / "run")
    for broker, (value, timestamp_ms) in enumerate((mine, theirs)):
        write(segment(run, broker), build_batch([(None, value, timestamp_ms)], 0, 0))
    (unlike,) = [each for each in judge_run(run).findings if each.invariant == "I3"]
    byte, first, second = unlike.around
    at = int(byte.removeprefix("from byte ").split()[0])
    assert at > 20
    assert told in byte + first
    if told == "A":
        assert "A" in first
        assert "B" in second
