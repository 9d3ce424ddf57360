"""Which runs a folder holds: one run, runs/, or a soak with what it kept."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from highwater.cli import make_app
from highwater.runs.stock.libraries import ClientKind
from highwater.soak.folder import SoakFolder
from highwater.soak.kept_runs import SOAK_FILE, runs_in
from highwater.soak.ledger import Entry, Ledger
from highwater_checker.verdict import Outcome
from highwater_core.config import Preset
from tests.support.run_on_disk import segment, write_run


def entry(number: int, outcome: Outcome, run: str) -> Entry:
    return Entry(
        number, 5, Preset.FENCED, ClientKind.OWN, 3, 2, 9, outcome, run, "", took_s=40.0, load=1.0
    )


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Write runs/ with two runs, a link, and a soak of four plans of which three did not pass."""
    folder = tmp_path / "runs"
    for name in ("test-b", "test-a", "soaks/night/runs/failed", "soaks/night/runs/passed"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_run(folder / name)
    segment(folder / "soaks/night/runs/failed", 1).write_bytes(b"")
    (folder / "latest").symlink_to("test-b")
    (folder / "other").mkdir()
    soak = SoakFolder(folder / "soaks/night")
    (soak.path / SOAK_FILE).write_text("{}")
    ledger = Ledger(soak.ledger)
    for each in (
        entry(1, Outcome.PASS, "passed"),
        entry(2, Outcome.FAIL, "failed"),
        entry(3, Outcome.FAIL, "removed"),
        entry(4, Outcome.UNKNOWN, ""),
    ):
        ledger.add(each)
    return folder


def test_of_runs_are_its_runs_and_what_did_not_pass_of_its_soaks(runs: Path) -> None:
    soak = runs / "soaks/night"
    assert runs_in(runs) == [runs / "test-a", runs / "test-b", soak / "runs/failed"]
    assert runs_in(soak) == [soak / "runs/failed"]


def test_a_run_is_itself_and_so_is_a_folder_without_runs(runs: Path) -> None:
    """So evidence that is gone is told, and never skipped."""
    for name in ("test-a", "other", "latest"):
        assert runs_in(runs / name) == [runs / name]


def test_all_of_them_are_judged(runs: Path) -> None:
    result = CliRunner().invoke(make_app("judge"), ["judge", str(runs), "--markdown"])
    assert result.exit_code == 1, result.output
    assert result.stdout.startswith("## Highwater: 1 failed, 2 passed\n")
    assert f"highwater reproduce {runs}" not in result.stdout, "it has no plan"
