"""Removes the containers, networks and volumes of runs, found by their labels alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import docker
from docker.errors import APIError, NotFound

from highwater.cluster import labels
from highwater.waiting import eventually

REMOVE_WITHIN_S = 30.0
_PARALLEL = 8


@dataclass(frozen=True, slots=True)
class RunResources:
    """The containers, networks and volumes of one run, by id or name."""

    labels: labels.RunLabels
    containers: tuple[str, ...]
    networks: tuple[str, ...]
    volumes: tuple[str, ...]

    @property
    def count(self) -> int:
        return len(self.containers) + len(self.networks) + len(self.volumes)


def ids_of_clusters_up(engine: docker.DockerClient) -> list[str]:
    """Return the ids of the runs with a cluster to attach to, sorted."""
    return [run.labels.run_id for run in find_runs(engine) if run.networks]


def find_runs(engine: docker.DockerClient, run_id: str | None = None) -> list[RunResources]:
    """Return all runs that have something in the engine, or the run of that id; sorted by id."""
    filters = {"label": labels.RUN if run_id is None else f"{labels.RUN}={run_id}"}
    containers = engine.api.containers(all=True, filters=filters)
    networks = engine.api.networks(filters=filters)
    volumes = engine.api.volumes(filters=filters)["Volumes"] or []
    found: dict[str, labels.RunLabels] = {}
    owned: dict[str, dict[str, list[str]]] = {}
    for kind, key, resources in (
        ("containers", "Id", containers),
        ("networks", "Id", networks),
        ("volumes", "Name", volumes),
    ):
        for resource in resources:
            parsed = labels.parse_run_labels(_labels_of(resource))
            if parsed is not None:
                found.setdefault(parsed.run_id, parsed)
                of_run = owned.setdefault(parsed.run_id, {})
                of_run.setdefault(kind, []).append(resource[key])
    return [
        RunResources(
            labels=found[name],
            containers=tuple(owned[name].get("containers", ())),
            networks=tuple(owned[name].get("networks", ())),
            volumes=tuple(owned[name].get("volumes", ())),
        )
        for name in sorted(found)
    ]


def remove_run(engine: docker.DockerClient, run_id: str) -> int:
    """Remove a run's containers, networks and volumes in any state; return their number."""
    resources = find_runs(engine, run_id)
    for run in resources:
        _each(run.containers, lambda name: engine.api.remove_container(name, v=True, force=True))
        _each(run.networks, lambda name: _remove_network(engine, name))
        _each(run.volumes, lambda name: engine.api.remove_volume(name, force=True))
    return sum(run.count for run in resources)


def sweep_stale(engine: docker.DockerClient) -> list[str]:
    """Remove the runs whose owner died without cleaning up; return their ids.

    Runs that were brought up to stay are left alone.
    """
    run_ids = [run.labels.run_id for run in find_runs(engine) if run.labels.is_stale()]
    for run_id in run_ids:
        remove_run(engine, run_id)
    return run_ids


def _labels_of(resource: Mapping[str, Any]) -> Mapping[str, str]:
    return resource.get("Labels") or {}


def _remove_network(engine: docker.DockerClient, network: str) -> None:
    """Remove a network; a foreign container in it (a user's client) is disconnected first."""
    for container in engine.api.inspect_network(network).get("Containers") or {}:
        engine.api.disconnect_container_from_network(container, network, force=True)
    engine.api.remove_network(network)


def _each(names: Iterable[str], remove: Callable[[str], None]) -> None:
    """Remove all in parallel; one that is gone already, or is being removed, is no error.

    Raises:
        NeverHappened: one could not be removed.
    """

    def gone(name: str) -> bool:
        try:
            remove(name)
        except NotFound:
            return True
        except APIError as error:
            # 409: its removal is under way, or a container that uses it is still being removed.
            if error.status_code not in (403, 409):
                raise
            return False
        return True

    def wait(name: str) -> None:
        eventually(lambda: gone(name), within=REMOVE_WITHIN_S, what=f"removal of {name}")

    with ThreadPoolExecutor(_PARALLEL, thread_name_prefix="clean") as pool:
        list(pool.map(wait, names))


def ended_nodes(engine: docker.DockerClient, run_id: str) -> tuple[int, ...]:
    """Return the nodes whose process ended; one call, since it is asked while nodes start."""
    of_nodes = [f"{labels.RUN}={run_id}", labels.NODE]
    filters = {"label": of_nodes, "status": ["exited", "dead"]}
    containers = engine.api.containers(all=True, filters=filters)
    return tuple(sorted(int(container["Labels"][labels.NODE]) for container in containers))
