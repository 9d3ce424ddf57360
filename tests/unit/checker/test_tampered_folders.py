"""The judge's verdict of each way to tamper with a folder; the pipeline's tests ask the tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater_checker.judging import judge_run
from highwater_checker.looks import Look
from tests.pipeline.tampered import TAMPERED
from tests.pipeline.tampering import BROKERS, FAIL, looked
from tests.pipeline.tampering_logs import started_high
from tests.support.run_on_disk import write_run


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
