"""A test's cluster is removed at its end, also if its recording failed."""

from __future__ import annotations

from typing import Any

import pytest

from highwater.cluster.cluster import Cluster
from highwater.runs.judged.cluster import JudgedCluster


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
