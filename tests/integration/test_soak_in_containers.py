"""`highwater soak` on real containers: killed in the middle of a plan, and run again to its end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from highwater.cluster.cleaning import find_runs
from highwater.cluster.engine import connect_engine
from highwater.soak.ledger import read_entries
from highwater.soak.status import Doing, read_status
from highwater.waiting import eventually
from highwater_checker.verdict import Outcome

pytestmark = [pytest.mark.docker, pytest.mark.full]

WITHIN_S = 240.0


def soak(folder: Path, lasting: str) -> subprocess.Popen[bytes]:
    """Start a soak of short plans in a folder of its own."""
    command = "soak", "--for", lasting, "--seed", "3", "--longest", "10s", "--again", "0"
    program = "import sys; from highwater.cli import main; sys.exit(main())"
    return subprocess.Popen([sys.executable, "-c", program, *command], cwd=folder)


def runs_of(prefix: str) -> list[str]:
    engine = connect_engine()
    try:
        found = find_runs(engine)
    finally:
        engine.close()
    return [each.labels.run_id for each in found if each.labels.run_id.startswith(prefix)]


def test_a_soak_that_is_killed_goes_on_and_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "soaks" / "soak-3"
    first = soak(tmp_path, "1h")
    try:

        def running() -> str:
            status = read_status(folder / "status.json")
            is_up = status is not None and status.plan == 2 and bool(runs_of(status.run))
            return status.run if status is not None and is_up else ""

        killed = eventually(running, within=WITHIN_S, what="the second plan has a cluster")
    finally:
        os.kill(first.pid, signal.SIGKILL)
        first.wait(WITHIN_S)
    entries, _ = read_entries(folder / "done.jsonl")
    assert [entry.number for entry in entries] == [1]

    lasting = f"{entries[0].took_s + 1:.0f}s"  # so that the second plan is the last one
    assert soak(tmp_path, lasting).wait(WITHIN_S) in (0, 2)
    entries, damaged = read_entries(folder / "done.jsonl")
    assert [entry.number for entry in entries] == [1, 2]
    assert damaged == []
    assert all(entry.outcome is not Outcome.FAIL for entry in entries), entries
    status = read_status(folder / "status.json")
    assert status is not None
    assert status.doing is Doing.DONE
    assert (folder / "soak.html").is_file()
    for run in (killed, *(entry.run for entry in entries)):
        assert runs_of(run) == []
