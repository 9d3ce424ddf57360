"""The interface of a measured system, and Highwater as such a system.

Clients connect to the containers' own addresses: a published port goes through the engine's proxy,
which would be measured too.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Protocol

import docker

from bench.memory import largest_private_memory
from highwater.cluster.cluster import Cluster
from highwater.cluster.containers import container_name
from highwater.cluster.engine import Reach, connect_engine, engine_facts
from highwater.cluster.topology import CLIENT_PORT, Topology
from highwater.errors import HarnessError
from highwater.run_folder import new_run_id
from highwater_core.ids import Endpoint

BROKERS = (0, 1, 2)


class System(Protocol):
    """A cluster of three brokers and ZooKeeper in containers, with replication 3."""

    @property
    def name(self) -> str: ...

    def start(self, session_timeout_ms: int) -> Mapping[str, float]:
        """Bring a new cluster up; return the seconds of each phase, in order."""
        ...

    @property
    def bootstrap(self) -> str:
        """bootstrap.servers, by the containers' own addresses."""
        ...

    @property
    def zookeeper(self) -> Endpoint: ...

    def endpoint(self, broker: int) -> Endpoint:
        """Return the broker's own address for clients."""
        ...

    def kill_broker(self, broker: int) -> None:
        """Send SIGKILL, also to Highwater's controllers; return when the process is gone."""
        ...

    def start_broker(self, broker: int) -> None:
        """Start a killed broker again on its old data."""
        ...

    def broker_memory_bytes(self) -> Sequence[int]:
        """Return each broker process's private memory (RssAnon)."""
        ...

    def stop(self) -> None:
        """Remove the cluster; a second call is harmless."""
        ...


def require_reachable_containers(engine: docker.DockerClient) -> None:
    """Raise HarnessError unless this machine reaches containers by their own addresses."""
    if engine_facts(engine).reach is not Reach.DIRECT:
        raise HarnessError("the bench needs a local engine on Linux: it measures without proxies")


class HighwaterSystem:
    """See System."""

    name = "Highwater"

    def __init__(
        self,
        broker_settings: Mapping[str, str | int | bool] | None = None,
        toggles: Mapping[str, str | bool] | None = None,
    ) -> None:
        self._engine = connect_engine()
        self._toggles = dict(toggles or {})
        self._broker_settings = dict(broker_settings or {})
        self._cluster: Cluster | None = None

    def start(self, session_timeout_ms: int) -> Mapping[str, float]:
        topology = Topology(
            brokers=len(BROKERS),
            controllers=2,
            session_timeout_ms=session_timeout_ms,
            broker_settings=self._broker_settings,
            toggles=self._toggles,
        )
        self._cluster = Cluster(topology, new_run_id("bench"), engine=self._engine)
        self._cluster.start()
        return dict(self._cluster.phases)

    @property
    def cluster(self) -> Cluster:
        if self._cluster is None:
            raise RuntimeError("the system has not been started")
        return self._cluster

    @property
    def bootstrap(self) -> str:
        return self.cluster.internal_bootstrap

    @property
    def zookeeper(self) -> Endpoint:
        return self.cluster.zookeeper_endpoint

    def endpoint(self, broker: int) -> Endpoint:
        return Endpoint(self.cluster.address(broker), CLIENT_PORT)

    def kill_broker(self, broker: int) -> None:
        self.cluster.kill(broker)

    def start_broker(self, broker: int) -> None:
        self.cluster.start_node(broker)

    def broker_memory_bytes(self) -> Sequence[int]:
        cluster = self.cluster
        return [
            largest_private_memory(
                self._engine, container_name(cluster.run_id, cluster.topology.node(broker))
            )
            for broker in BROKERS
        ]

    def stop(self) -> None:
        if self._cluster is not None:
            self._cluster.stop()
            self._cluster = None


class PhaseClock:
    """Times phases that follow one another."""

    def __init__(self) -> None:
        self.phases: dict[str, float] = {}
        self._last = time.perf_counter()

    def end(self, phase: str) -> None:
        now = time.perf_counter()
        self.phases[phase] = now - self._last
        self._last = now
