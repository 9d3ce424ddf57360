"""Starts one node's container through testcontainers, under its own name, address and volume."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Network
from typing import Any

import docker
from docker.errors import APIError, NotFound
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer
from testcontainers.core.docker_client import DockerClient

from highwater.cluster.builds import NodeBuild, command_of
from highwater.cluster.clocks import (
    CLOCK_FOLDER,
    clock_volume,
    make_clock_library,
    with_movable_clock,
)
from highwater.cluster.disks import (
    DATA_FOLDER,
    DISK_FOLDER,
    FAULTY_DISK_RIGHTS,
    disk_name,
    make_disks,
    on_faulty_disk,
)
from highwater.cluster.engine import CALL_TIMEOUT_S, EngineFacts, Reach
from highwater.cluster.host_ports import choose_ports
from highwater.cluster.images import ImageTags
from highwater.cluster.images.build import Say
from highwater.cluster.labels import RunLabels, format_ports
from highwater.cluster.topology import (
    CONTROL_PORT,
    EXTERNAL_PORT,
    ZOOKEEPER_PORT,
    NodeKind,
    NodeSpec,
    Topology,
    node_environment,
)
from highwater.errors import ClusterStartFailed
from highwater.waiting import NeverHappened, eventually
from highwater_core.ids import Endpoint, NodeId

# testcontainers' reaper is an image, which cannot be pulled without a registry;
# highwater.cluster.reaper does its work by our own labels.
testcontainers_config.ryuk_disabled = True

FREEZE_WITHIN_S = 10.0
THAWED_WITHIN_S = 5.0
_PORT_ATTEMPTS = 5
_MODULES = {NodeKind.BROKER: "highwater_broker", NodeKind.CONTROLLER: "highwater_controller"}


@dataclass(frozen=True, slots=True)
class Site:
    """The settings that all containers of a cluster share."""

    run: RunLabels
    topology: Topology
    subnet: IPv4Network
    network_name: str
    images: ImageTags
    facts: EngineFacts
    planted: str = ""
    """The planted bug of brokers and controllers (highwater_planted); "" for none."""
    sized_disks: bool = False
    """Whether brokers have disks of a fixed size; the disks exist before the containers."""
    faulty_disks: bool = False
    """Whether brokers have disks that can lose power, refuse operations and be slow."""
    movable_clocks: bool = False
    """Whether faults can move the wall clocks of brokers and controllers; the library exists."""
    builds: Mapping[NodeId, NodeBuild] = field(default_factory=dict)
    """What single nodes run instead of what all others run; their images are tags."""

    def build_of(self, spec: NodeSpec) -> NodeBuild:
        """Return the build with which the controller or broker begins."""
        image = self.images.planted if self.planted else self.images.node
        return self.builds.get(spec.node_id, NodeBuild(image, planted=self.planted))


def start_containers(
    engine: docker.DockerClient, site: Site, say: Say
) -> dict[NodeId, dict[str, int]]:
    """Start all nodes' containers; return their ports on the engine's host, by node and name.

    Raises:
        ImageBuildFailed: there is no library that moves clocks.
        ClusterStartFailed: there is none, or no host port for a node.
        docker.errors.APIError: the engine refused.
    """
    nodes = list(site.topology.nodes())
    _prepare(engine, site, say)
    with ThreadPoolExecutor(len(nodes), thread_name_prefix="start") as pool:
        ports = pool.map(lambda spec: start_container(site, spec), nodes)
        return {spec.node_id: chosen for spec, chosen in zip(nodes, ports, strict=True)}


def _prepare(engine: docker.DockerClient, site: Site, say: Say) -> None:
    """Make what nodes' containers mount beside their own volumes."""
    if site.sized_disks:
        brokers = (each for each in site.topology.nodes() if each.kind is NodeKind.BROKER)
        names = [container_name(site.run.run_id, each) for each in brokers]
        make_disks(engine, site.run, site.images.node, names)
    if site.movable_clocks:
        make_clock_library(engine, site.run, say)


def container_name(run_id: str, spec: NodeSpec) -> str:
    """Return the container's name, and its volume's."""
    return f"highwater-{run_id}-{spec.name}"


def published_ports(spec: NodeSpec, reach: Reach) -> dict[str, int]:
    """Return the container ports to publish, by name."""
    ports = {"external": EXTERNAL_PORT} if spec.kind is NodeKind.BROKER else {}
    if reach is Reach.PUBLISHED:
        if spec.kind is NodeKind.ZOOKEEPER:
            ports["zookeeper"] = ZOOKEEPER_PORT
        else:
            ports["control"] = CONTROL_PORT
    return ports


def start_container(site: Site, spec: NodeSpec) -> dict[str, int]:
    """Create and start the node's container; return its ports on the engine's host, by name.

    Raises:
        ClusterStartFailed: in every try one of the chosen host ports was taken.
    """
    names = published_ports(spec, site.facts.reach)
    for _ in range(_PORT_ATTEMPTS):
        chosen = choose_ports(len(names), bind_host=site.facts.bind_host)
        ports = dict(zip(names, chosen, strict=True))
        container = _make(site, spec, ports)
        try:
            container.start()
        except APIError as error:
            container.stop()
            if not _port_is_taken(error):
                raise
        else:
            return ports
        finally:
            container.get_docker_client().client.close()
    raise ClusterStartFailed(f"{spec.name}: no host port that the engine could publish")


def freeze(engine: docker.DockerClient, name: str) -> None:
    """Freeze the container's processes.

    On a busy machine the runtime may give up freezing with cgroups v1 and thaw the container again
    ("unable to freeze"): then the request is repeated.

    Raises:
        NeverHappened: not all processes could be frozen.
        APIError: the engine refused for another reason.
    """

    def is_frozen() -> bool:
        try:
            engine.api.pause(name)
        except APIError as error:
            if "unable to freeze" not in str(error):
                raise
            return False
        return True

    eventually(is_frozen, within=FREEZE_WITHIN_S, what=f"{name} is frozen")


def thaw(engine: docker.DockerClient, name: str) -> None:
    """Let the container's processes go on, and wait until the engine reports that they do.

    The engine of a busy machine may take note of a pause after the answer to the unpause, and then
    reports the container as paused for a moment. It is no error that somebody else pauses the
    container meanwhile, or removes it: the wait ends.

    Raises:
        APIError: the container was not paused.
    """
    engine.api.unpause(name)
    with suppress(NeverHappened, NotFound):
        eventually(
            lambda: engine.api.inspect_container(name)["State"]["Status"] != "paused",
            within=THAWED_WITHIN_S,
            what=f"{name} goes on",
        )


def _make(site: Site, spec: NodeSpec, ports: Mapping[str, int]) -> DockerContainer:
    client_options = {"timeout": CALL_TIMEOUT_S}
    zookeeper = spec.kind is NodeKind.ZOOKEEPER
    is_faulty = site.faulty_disks and spec.kind is NodeKind.BROKER
    build = site.build_of(spec)
    container = DockerContainer(
        site.images.zookeeper if zookeeper else build.image,
        docker_client_kw=client_options,
        name=container_name(site.run.run_id, spec),
    )
    container_ports = published_ports(spec, site.facts.reach)
    for name, port in ports.items():
        # with_bind_ports takes no address: it would publish on all interfaces.
        container.ports[f"{container_ports[name]}/tcp"] = (site.facts.bind_host, port)
    if not zookeeper:
        command = command_of(_MODULES[spec.kind], build.planted)
        if site.movable_clocks:
            command = with_movable_clock(command)
            container.with_volume_mapping(clock_volume(site.run.run_id), CLOCK_FOLDER, "ro")
        container.with_command(on_faulty_disk(command) if is_faulty else command)
        external = None
        if "external" in ports:
            external = Endpoint(site.facts.published_host, ports["external"])
        topology = replace(site.topology, preset=build.preset or site.topology.preset)
        container.with_envs(**node_environment(topology, spec, site.subnet, external))
        volume = _create_volume(container.get_docker_client(), site, spec)
        container.with_volume_mapping(volume, DATA_FOLDER, "rw")
    if site.sized_disks and spec.kind is NodeKind.BROKER:
        container.with_volume_mapping(disk_name(volume), DISK_FOLDER, "rw")
    endpoint = container.get_docker_client().client.api.create_endpoint_config(
        ipv4_address=spec.address(site.subnet), aliases=[spec.name]
    )
    options: dict[str, Any] = {
        "hostname": spec.name,
        "network": site.network_name,
        "networking_config": {site.network_name: endpoint},
        "labels": site.run.as_labels(
            node=str(spec.node_id), kind=spec.kind.value, host_ports=format_ports(ports)
        ),
        "init": True,  # PID 1 forwards signals and reaps
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges"],
        **(FAULTY_DISK_RIGHTS if is_faulty else {}),
    }
    return container.with_kwargs(**options)


def _create_volume(client: DockerClient, site: Site, spec: NodeSpec) -> str:
    name = container_name(site.run.run_id, spec)
    client.client.api.create_volume(
        name, labels=site.run.as_labels(node=str(spec.node_id), kind=spec.kind.value)
    )
    return name


def _port_is_taken(error: APIError) -> bool:
    text = str(error.explanation or error).lower()
    return "port is already allocated" in text or "address already in use" in text
