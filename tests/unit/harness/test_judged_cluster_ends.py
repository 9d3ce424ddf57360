"""A test's cluster is removed at its end, also if its recording failed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from highwater.cluster.cluster import Cluster
from highwater.runs.judged import cluster as module
from highwater.runs.judged.cluster import JudgedCluster
from highwater_checker.verdict import Outcome

PASS, FAIL, UNKNOWN = Outcome.PASS, Outcome.FAIL, Outcome.UNKNOWN


class DeadRecording:
    """A recording whose observer has died."""

    def end(self) -> None:
        raise RuntimeError("the observer died")


def test_a_cluster_whose_observer_died_is_removed_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Found: its containers were left running until the end of the session."""
    removed: list[str] = []
    monkeypatch.setattr(Cluster, "stop", lambda cluster: removed.append(cluster.run_id))
    cluster = JudgedCluster.__new__(JudgedCluster)  # without an engine
    cluster.run_id = "test-1"
    recording: Any = DeadRecording()
    cluster._recording = recording
    with pytest.raises(RuntimeError, match="the observer died"):
        cluster.stop()
    assert removed == ["test-1"]


@pytest.mark.parametrize(
    ("outcome", "accepted", "has_failed", "has_pages"),
    [
        (PASS, (PASS, UNKNOWN), False, False),
        (UNKNOWN, (PASS, UNKNOWN), False, False),
        (UNKNOWN, (PASS,), False, True),
        (FAIL, (PASS, UNKNOWN), False, True),
        (FAIL, (FAIL,), False, True),
        (PASS, (PASS,), True, True),
    ],
)
def test_a_run_that_somebody_will_look_at_has_its_pages(
    monkeypatch: pytest.MonkeyPatch,
    outcome: Outcome,
    accepted: tuple[Outcome, ...],
    has_failed: bool,
    has_pages: bool,
) -> None:
    """Found: of a test that expects a fail the terminal named a page that nobody had written."""
    written: list[Any] = []
    for name in ("write_mixed_builds", "list_evidence", "read_evidence"):
        monkeypatch.setattr(module, name, lambda *_: None)
    monkeypatch.setattr(module, "judge_evidence", lambda _: SimpleNamespace(outcome=outcome))
    monkeypatch.setattr(module, "write_pages", lambda *arguments: written.append(arguments))
    monkeypatch.setattr(JudgedCluster, "node_ids", (0,))
    monkeypatch.setattr(Cluster, "status", lambda self, node: "running")
    monkeypatch.setattr(Cluster, "collect", lambda self, folder: None)
    cluster = JudgedCluster.__new__(JudgedCluster)  # without an engine
    cluster.folder, cluster.has_failed = Path("runs/test-1"), has_failed
    folder = SimpleNamespace(write=lambda *_: None)
    recording: Any = SimpleNamespace(conclude=lambda: None, folder=folder)
    cluster._recording = recording
    assert cluster.judge(accepted).outcome is outcome
    assert bool(written) is has_pages
