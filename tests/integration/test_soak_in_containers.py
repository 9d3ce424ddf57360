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
from highwater.soak.usage import read_samples
from highwater.waiting import eventually
from highwater_checker.verdict import Outcome

pytestmark = [pytest.mark.docker, pytest.mark.full]

WITHIN_S = 240.0


def soak(folder: Path, lasting: str, *options: str) -> subprocess.Popen[bytes]:
    """Start a soak of short plans in a folder of its own."""
    short = "--seed", "3", "--longest", "10s", "--again", "0"
    command = "soak", "--for", lasting, *short, *options
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


def test_rounds_on_one_cluster_are_judged_by_their_own_stretch_and_a_kill_ends_the_cluster(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "runs" / "soaks" / "soak-3"
    options = "--one-cluster", "--client", "own"
    first = soak(tmp_path, "1h", *options)
    try:

        def third() -> str:
            status = read_status(folder / "status.json")
            is_up = status is not None and status.plan == 3 and bool(runs_of(status.cluster))
            return status.cluster if status is not None and is_up else ""

        killed = eventually(third, within=2 * WITHIN_S, what="the third round has begun")
    finally:
        os.kill(first.pid, signal.SIGKILL)
        first.wait(WITHIN_S)
    entries, _ = read_entries(folder / "done.jsonl")
    assert [(entry.cluster, entry.round, entry.cluster_ended) for entry in entries] == [
        (1, 1, ""),
        (1, 2, ""),
    ]
    samples = read_samples(folder / "usage.jsonl")
    assert [each.round for each in samples if each.kind == "zookeeper"] == [1, 2]
    assert all(each.open_files for each in samples if each.kind == "broker")

    took_s = sum(entry.took_s for entry in entries)
    assert soak(tmp_path, f"{took_s + 1:.0f}s", *options).wait(WITHIN_S) in (0, 2)
    entries, _ = read_entries(folder / "done.jsonl")
    assert (entries[-1].cluster, entries[-1].round) == (2, 1)
    assert all(entry.outcome is not Outcome.FAIL for entry in entries), entries
    for run in (killed, *(entry.run for entry in entries)):
        assert runs_of(run) == []
