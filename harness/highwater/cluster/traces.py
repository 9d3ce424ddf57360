"""What controllers of a running cluster have traced so far."""

from __future__ import annotations

import tempfile
from pathlib import Path

from highwater.cluster.cluster import Cluster
from highwater_checker.run_folder.lines import read_traces
from highwater_core.events import TraceEvent


def controllers_traces(cluster: Cluster, unread: list[str]) -> tuple[TraceEvent, ...]:
    """Return the controllers' events, running or stopped; `unread` takes what cannot be read."""
    with tempfile.TemporaryDirectory(prefix="highwater-") as folder:
        for node in cluster.topology.controller_ids:
            cluster.collect_node(node, Path(folder))
        return read_traces(Path(folder) / "trace", unread)
