"""An upgrade that was cut short may leave a node without a container: commands say what to do."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from highwater.cluster.topology import Topology
from highwater.commands import logs
from highwater.errors import HarnessError
from highwater.runs.chaos.single import start_again

SAYS = "broker-0 has no container: an upgrade was cut short, which 'highwater heal --run r' fin"


@pytest.fixture
def cluster() -> Any:
    topology = Topology()
    return SimpleNamespace(
        run_id="r", topology=topology, node_ids=topology.node_ids, status=lambda node: "gone"
    )


def test_its_log_is_refused_in_words(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found: a traceback of the engine's client."""
    monkeypatch.setattr(logs, "Cluster", SimpleNamespace(attach=lambda run: cluster))
    with pytest.raises(HarnessError, match=SAYS):
        logs.logs("broker-0")


def test_its_start_is_refused_at_once(cluster: Any, tmp_path: Path) -> None:
    """Found: half a minute of waiting for an answer, and no word of what to do."""
    with pytest.raises(HarnessError, match=SAYS):
        start_again(cluster, "broker-0", tmp_path)
