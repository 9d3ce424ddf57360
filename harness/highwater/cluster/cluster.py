"""A running cluster: brought up from a topology, controlled node by node, always removed.

Its containers, networks and volumes carry the run's id as a label. `start` and the context manager
remove them on any error; after a SIGKILL of this process the reaper does
(highwater.cluster.reaper).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from ipaddress import IPv4Network
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import docker
from docker.errors import NotFound

from highwater.cluster import builds, labels
from highwater.cluster.builds import NodeBuild, Upgraded
from highwater.cluster.cleaning import ended_nodes, find_runs, remove_run, sweep_stale
from highwater.cluster.collecting import copy_out
from highwater.cluster.containers import Site, container_name, freeze, start_containers, thaw
from highwater.cluster.disks import DISK_FOLDER
from highwater.cluster.engine import Reach, connect_engine, engine_facts
from highwater.cluster.images import ensure_images, ensure_planted_image
from highwater.cluster.inspection import Inspector
from highwater.cluster.labels import Lease, Owner, RunLabels
from highwater.cluster.looking import describe, write_snapshots
from highwater.cluster.network import create_network
from highwater.cluster.node_logs import node_log
from highwater.cluster.readiness import first_missing_condition
from highwater.cluster.reaper import REAPER
from highwater.cluster.topology import (
    CLIENT_PORT,
    CONTROL_PORT,
    ZOOKEEPER,
    ZOOKEEPER_PORT,
    NodeKind,
    Topology,
    decode_topology,
)
from highwater.cluster.trace_parts import copy_traces
from highwater.cluster.zookeeper_dump import dump_zookeeper, write_dump
from highwater.errors import ClusterStartFailed, NodeUnreachable, NoSuchRun
from highwater.run_folder import new_run_id
from highwater.waiting import NeverHappened, eventually
from highwater_chaos.builds import THIS
from highwater_checker.run_folder import names
from highwater_checker.run_folder.documents import Znode
from highwater_core.config import Preset
from highwater_core.ids import Endpoint, NodeId
from highwater_core.messages import NodeSnapshot

READY_WITHIN_S = 60.0
STOP_WITHIN_S = 20
ANSWER_WITHIN_S, AT_ONCE_S = 10.0, 0.5
"""Time for the answer of a busy node, and of one that counts as down when it is late."""
KILLED_EXIT_CODE = 137
"""Of a process that SIGKILL ended."""
UP = ("running", "paused")
STOPPED = ("exited", "created")
"""The engine's words for a container with processes, and for one that can be started."""


class Cluster:
    """One cluster in the engine. Nodes are named by id: brokers from 0, controllers from 1000,
    and ZOOKEEPER (highwater.cluster.topology).

    >>> with Cluster(Topology(brokers=3)) as cluster:
    ...     cluster.start()
    ...     cluster.kill(0)
    """

    def __init__(
        self,
        topology: Topology,
        run_id: str | None = None,
        *,
        lease: Lease = Lease.OWNED,
        planted: str = "",
        sized_disks: bool = False,
        faulty_disks: bool = False,
        movable_clocks: bool = False,
        images: Mapping[int, NodeBuild | str] | None = None,
        engine: docker.DockerClient | None = None,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        """Make a cluster that `start` brings up.

        planted: a bug of highwater_planted that all its nodes have.
        sized_disks: whether brokers have disks that can be filled (highwater.cluster.disks).
        faulty_disks: whether they have disks that can lose power, refuse operations and be slow.
        movable_clocks: whether all nodes' wall clocks can be moved (highwater.cluster.clocks).
        images: what single nodes run instead of this build's image: a tag, or a NodeBuild.
        """
        self.topology = topology
        self._planted = planted
        self._prepared = sized_disks, faulty_disks, movable_clocks
        self._images = images or {}
        self.builds: dict[NodeId, list[str]] = {}
        """What each node has run since this object started or upgraded it, in words, in order."""
        self.run_id = run_id or new_run_id("cluster")
        self.phases: dict[str, float] = {}
        """Seconds that each phase of start() took, in order."""
        self._run = RunLabels(self.run_id, lease, Owner.of_this_process())
        self._engine = engine or connect_engine()
        self._say = say
        self._facts = engine_facts(self._engine)
        self._subnet = IPv4Network("0.0.0.0/0")
        self._ports: dict[NodeId, dict[str, int]] = {}
        self._inspector = Inspector()
        self._on_lease = False
        self._is_ours = False
        """Whether this object may remove the run: it started it, or was attached to it."""

    @classmethod
    def attach(cls, run_id: str | None = None) -> Cluster:
        """Return the running cluster of that id; without an id the only one.

        Raises:
            NoSuchRun: there is none, or more than one to choose from.
        """
        engine = connect_engine()
        runs = [run for run in find_runs(engine) if run.networks]
        chosen = [run for run in runs if run_id in (None, run.labels.run_id)]
        if len(chosen) != 1:
            ids = ", ".join(run.labels.run_id for run in runs) or "none"
            raise NoSuchRun(f"which cluster? running: {ids}; 'highwater up' brings one up")
        run = chosen[0]
        of_network = engine.api.inspect_network(run.networks[0])["Labels"]
        cluster = cls(
            decode_topology(of_network[labels.TOPOLOGY]),
            run.labels.run_id,
            lease=run.labels.lease,
            engine=engine,
        )
        cluster._is_ours = True
        # The owner label stays the first process's: the end of this one must not make the run
        # stale.
        cluster._run = run.labels
        cluster._subnet = IPv4Network(of_network[labels.SUBNET])
        # Labels from the list: a helper that is gone since can no longer be inspected.
        of_nodes = {"label": [f"{labels.RUN}={cluster.run_id}", labels.NODE]}
        for container in engine.api.containers(all=True, filters=of_nodes):
            of_node = container["Labels"]
            ports = labels.parse_ports(of_node.get(labels.HOST_PORTS, ""))
            cluster._ports[NodeId(int(of_node[labels.NODE]))] = ports
        return cluster

    # ------------------------------------------------------------ life

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self, *, ready_within_s: float = READY_WITHIN_S) -> Self:
        """Bring everything up at once and return when the cluster serves.

        Raises:
            ClusterStartFailed: a run of this id is up already, and stays; or this one did not come
                up, and is removed again.
        """
        if find_runs(self._engine, self.run_id):
            raise ClusterStartFailed(f"{self.run_id} is up already; 'highwater down' removes it")
        self._is_ours = True
        try:
            with self._phase("images"):
                images = ensure_images(self._engine, self._say)
                if self._planted:
                    ensure_planted_image(self._engine, self._say)
                first = builds.begin_with(self._engine, self._images, self.topology, self._say)
            if self._run.lease is Lease.OWNED:
                REAPER.cluster_up()
                self._on_lease = True
            sweep_stale(self._engine)
            with self._phase("network"):
                name = f"highwater-{self.run_id}"
                _, self._subnet = create_network(self._engine, name, self._run, self.topology)
            site = Site(
                self._run, self.topology, self._subnet, name, images, self._facts,
                self._planted, *self._prepared, builds=first,
            )  # fmt: skip
            with self._phase("containers"):
                self._ports = start_containers(self._engine, site, self._say)
                own = [spec for spec in self.topology.nodes() if spec.node_id != ZOOKEEPER]
                self.builds = {spec.node_id: [str(site.build_of(spec))] for spec in own}
            with self._phase("ready"):
                self.wait_until_ready(within_s=ready_within_s)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Remove the cluster: containers, volumes, network. Again is harmless."""
        self._inspector.close()
        if self._is_ours:
            remove_run(self._engine, self.run_id)
        self._engine.close()
        if self._on_lease:
            REAPER.cluster_down()
            self._on_lease = False

    def leave_up(self) -> None:
        """Have `stop` leave the cluster running: `highwater down` removes it.

        With the lease KEPT alone; another's cluster goes when this process ends.
        """
        self._is_ours = False

    def wait_until_ready(self, *, within_s: float = READY_WITHIN_S) -> None:
        """Return once one controller is active and it and every broker know all brokers.

        Raises:
            ClusterStartFailed: not in time, or a node's process ended.
        """

        def ready() -> bool:
            missing = self._not_ready()
            ended = ended_nodes(self._engine, self.run_id) if missing else ()
            if ended:
                raise ClusterStartFailed(
                    f"node {ended[0]} ended while the cluster started\n{self.describe()}"
                )
            return not missing

        try:
            eventually(ready, within=within_s, what="the cluster serves", state=self._not_ready)
        except NeverHappened as error:
            raise ClusterStartFailed(f"{error}\n{self.describe()}") from error

    def _not_ready(self) -> str:
        return first_missing_condition(self.topology, self.try_snapshot)

    # ------------------------------------------------------------ faults on whole nodes

    def kill(self, node: int) -> None:
        """End the node's processes with SIGKILL; returns when they are gone."""
        self._engine.api.kill(self.container_name(node), "KILL")
        self._engine.api.wait(self.container_name(node), timeout=STOP_WITHIN_S)

    def terminate(self, node: int, *, within_s: int = STOP_WITHIN_S) -> int:
        """Ask the node to stop (SIGTERM) and return its exit code; after within_s it is killed."""
        self._engine.api.stop(self.container_name(node), timeout=within_s)
        code = self.exit_code(node)
        return -1 if code is None else code

    def start_node(self, node: int) -> None:
        """Start a stopped node again, at its old address and on its old volume."""
        self._engine.api.start(self.container_name(node))

    def upgrade(
        self,
        node: int,
        image: str = THIS,
        preset: Preset | None = None,
        *,
        start: Callable[[int], None] | None = None,
    ) -> Upgraded:
        """Stop the node, have it run another image on its volume, and prove that it does.

        image: a tag, "this" for this build's. preset: None: as before. start: of a stopped node.

        Raises:
            HarnessError: there is no such image, or the node did not come up with it.
        """
        return builds.upgrade(self, node, NodeBuild(image, preset), start or self.start_node)

    def pause(self, node: int) -> None:
        """Freeze the node's processes; its connections stay open.

        Raises:
            NeverHappened: the freezer does not get all of them.
        """
        freeze(self._engine, self.container_name(node))

    def unpause(self, node: int) -> None:
        thaw(self._engine, self.container_name(node))

    def cut_off(self, node: int) -> None:
        """Disconnect the node from the cluster's network: its connections hang without a reset."""
        self._engine.api.disconnect_container_from_network(
            self.container_name(node), self.network_name, force=True
        )

    def rejoin(self, node: int) -> None:
        """Connect the node to the cluster's network again, with its address and name."""
        self._engine.api.connect_container_to_network(
            self.container_name(node),
            self.network_name,
            ipv4_address=self.address(node),
            aliases=[self.topology.node(node).name],
        )

    def status(self, node: int) -> str:
        """Return the container's state: running, paused, exited, created, dead, or "gone"."""
        try:
            return str(self._state(node)["Status"])
        except NotFound:
            return "gone"

    def exit_code(self, node: int) -> int | None:
        """Return the exit code of the node's process (137: SIGKILL), None while it runs."""
        state = self._state(node)
        return int(state["ExitCode"]) if state["Status"] in ("exited", "dead") else None

    def has_sized_disk(self, node: int) -> bool:
        """Return whether the node's disk has a size of its own, and can be filled."""
        mounts = self._engine.api.inspect_container(self.container_name(node))["Mounts"]
        return any(mount["Destination"] == DISK_FOLDER for mount in mounts)

    # ------------------------------------------------------------ addresses

    @property
    def node_ids(self) -> tuple[NodeId, ...]:
        """Brokers, then controllers."""
        return self.topology.node_ids

    @property
    def network_name(self) -> str:
        return f"highwater-{self.run_id}"

    @property
    def engine(self) -> docker.DockerClient:
        return self._engine

    @property
    def labels(self) -> RunLabels:
        """The labels of everything in this run."""
        return self._run

    def container_name(self, node: int) -> str:
        return container_name(self.run_id, self.topology.node(node))

    @property
    def subnet(self) -> IPv4Network:
        return self._subnet

    @property
    def bootstrap(self) -> str:
        """bootstrap.servers for a client on this machine."""
        return ",".join(str(self.external_endpoint(node)) for node in self.topology.broker_ids)

    @property
    def internal_bootstrap(self) -> str:
        """bootstrap.servers for a client in the cluster's network (see network_name)."""
        return ",".join(f"{self.address(node)}:{CLIENT_PORT}" for node in self.topology.broker_ids)

    def address(self, node: int) -> str:
        """Return the node's address in the cluster's network, which never changes."""
        return self.topology.node(node).address(self._subnet)

    def external_endpoint(self, broker: int) -> Endpoint:
        """Return where clients on this machine reach the broker."""
        return Endpoint(self._facts.published_host, self._ports[NodeId(broker)]["external"])

    def control_endpoint(self, node: int) -> Endpoint:
        """Return the node's gRPC server as this machine reaches it."""
        return self._reach(node, "control", CONTROL_PORT)

    @property
    def zookeeper_endpoint(self) -> Endpoint:
        return self._reach(ZOOKEEPER, "zookeeper", ZOOKEEPER_PORT)

    def _reach(self, node: int, name: str, port: int) -> Endpoint:
        if self._facts.reach is Reach.DIRECT:
            return Endpoint(self.address(node), port)
        return Endpoint(self._facts.published_host, self._ports[NodeId(node)][name])

    # ------------------------------------------------------------ state

    def snapshot(self, node: int, *, timeout_s: float = ANSWER_WITHIN_S) -> NodeSnapshot:
        """Ask a node for its state.

        Raises:
            NodeUnreachable: it did not answer.
        """
        return self._inspector.snapshot(self.control_endpoint(node), timeout_s=timeout_s)

    def try_snapshot(self, node: int, *, timeout_s: float = AT_ONCE_S) -> NodeSnapshot | None:
        """Ask a node for its state; None when it does not answer at once."""
        try:
            return self.snapshot(node, timeout_s=timeout_s)
        except NodeUnreachable:
            return None

    def zookeeper_dump(self) -> Mapping[str, Znode]:
        """Return every znode by path.

        Raises:
            NodeUnreachable: ZooKeeper did not answer.
        """
        return dump_zookeeper(self.zookeeper_endpoint)

    def logs(self, node: int, *, tail: int | None = None) -> str:
        """Return the output of the node's processes, all incarnations, oldest first."""
        return node_log(self._engine, self.container_name(node), tail)

    def follow_logs(self, node: int) -> Iterator[str]:
        """Yield the node's output line by line, until it ends."""
        for chunk in self._engine.api.logs(self.container_name(node), stream=True, follow=True):
            yield bytes(chunk).decode("utf-8", errors="replace")

    def describe(self) -> str:
        """Return every container's state and the tail of its log, for a failure's message."""
        return describe(self)

    # ------------------------------------------------------------ evidence

    def collect(self, folder: Path) -> None:
        """Stop the nodes cleanly and copy their files into a run's folder.

        zookeeper.json, logs/<node>.log, trace/<node>-<incarnation>.jsonl, and the brokers'
        partitions in segments/broker-<id>/<topic>-<partition>/. The containers stay, stopped.
        """
        self.collect_zookeeper(folder)
        # Brokers first: a clean shutdown hands leaderships over through the controller.
        self._on_nodes(self.topology.broker_ids, self._settle)
        self._on_nodes(self.topology.controller_ids, self._settle)
        self._on_nodes(self._every_node, lambda node: self.collect_node(node, folder))

    def collect_live(self, folder: Path) -> None:
        """Copy the evidence of running nodes: no segments, but describe.txt and snapshots.json."""
        self.collect_zookeeper(folder)
        (folder / "describe.txt").write_text(self.describe(), encoding="utf-8")
        write_snapshots(self, folder)
        self._on_nodes(
            self._every_node, lambda node: self.collect_node(node, folder, segments=False)
        )

    def collect_zookeeper(self, folder: Path) -> None:
        """Write zookeeper.json; if ZooKeeper is unreachable, its error text instead."""
        write_dump(self.zookeeper_endpoint, folder)

    def collect_node(self, node: int, folder: Path, *, segments: bool = True) -> None:
        """Copy a node's log, traces and, of a broker, segments; of a removed node nothing."""
        spec = self.topology.node(node)
        if self.status(node) == "gone":
            return
        (folder / names.LOGS).mkdir(parents=True, exist_ok=True)
        (folder / names.LOGS / f"{spec.name}.log").write_text(self.logs(node), encoding="utf-8")
        if spec.kind is NodeKind.ZOOKEEPER:
            return
        name = self.container_name(node)
        copy_traces(self._engine, name, spec.name, folder / names.TRACE)
        if segments and spec.kind is NodeKind.BROKER:
            self.copy_broker_data(node, folder / names.SEGMENTS / spec.name)

    def copy_broker_data(self, broker: int, target: Path) -> list[Path]:
        """Copy a broker's partitions, of every log folder, and checkpoints; return the paths."""
        name, folders = self.container_name(broker), self.topology.log_folders
        return copy_out(self._engine, name, DISK_FOLDER, target, left_out=folders)

    def _settle(self, node: NodeId) -> None:
        if self.status(node) == "paused":
            self.unpause(node)
        if node != ZOOKEEPER and self.status(node) == "running":
            self.terminate(node)

    @property
    def _every_node(self) -> tuple[NodeId, ...]:
        """ZooKeeper, then every node."""
        return tuple(spec.node_id for spec in self.topology.nodes())

    def _on_nodes(self, nodes: Sequence[NodeId], work: Callable[[NodeId], None]) -> None:
        with ThreadPoolExecutor(max(1, len(nodes)), thread_name_prefix="nodes") as pool:
            list(pool.map(work, nodes))  # raises the first exception

    # ------------------------------------------------------------ inside

    def _state(self, node: int) -> Mapping[str, Any]:
        state: Mapping[str, Any] = self._engine.api.inspect_container(self.container_name(node))[
            "State"
        ]
        return state

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        started = time.monotonic()
        yield
        self.phases[name] = time.monotonic() - started
        self._say(f"{name}: {self.phases[name]:.2f} s")
