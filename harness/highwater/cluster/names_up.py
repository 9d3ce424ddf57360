"""The names that a shell offers where a cluster, or one of its nodes, is to be named."""

from __future__ import annotations

from collections.abc import Iterator

import docker
from docker.errors import DockerException

from highwater.cluster import labels

WITHIN_S = 2
"""For the engine's answer: somebody waits at a prompt."""


def runs_up(incomplete: str) -> list[str]:
    """Return the ids of runs that have containers and begin so."""
    return sorted({run for run, _ in _containers() if run.startswith(incomplete)})


def nodes_up(incomplete: str) -> list[str]:
    """Return the names of these runs' nodes that begin so."""
    return sorted({node for _, node in _containers() if node.startswith(incomplete)})


def _containers() -> Iterator[tuple[str, str]]:
    """Yield each node's run and name; nothing where no engine answers in time."""
    try:
        engine = docker.from_env(timeout=WITHIN_S)
        try:
            found = engine.api.containers(all=True, filters={"label": [labels.RUN, labels.NODE]})
        finally:
            engine.close()
    except (DockerException, OSError):
        return
    for container in found:
        run = str(container["Labels"][labels.RUN])
        for name in container["Names"]:  # /highwater-RUN-NODE
            yield run, str(name).rpartition(f"-{run}-")[2]
