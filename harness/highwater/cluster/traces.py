"""The trace events of a running cluster's controllers."""

from __future__ import annotations

import tempfile
from pathlib import Path

from highwater.cluster.cluster import Cluster
from highwater_checker.run_folder import names
from highwater_checker.run_folder.lines import read_traces
from highwater_core.events import TraceEvent


def controllers_traces(cluster: Cluster, unread: list[str]) -> tuple[TraceEvent, ...]:
    """Return the events of all controllers, running or stopped; unreadable lines go to `unread`."""
    with tempfile.TemporaryDirectory(prefix="highwater-") as folder:
        for node in cluster.topology.controller_ids:
            cluster.collect_node(node, Path(folder))
        return read_traces(Path(folder) / names.TRACE, unread)
