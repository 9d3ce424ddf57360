"""A cluster's own network, with a subnet of its own so that its nodes keep their addresses."""

from __future__ import annotations

from ipaddress import IPv4Network
from os import environ
from typing import Any

import docker
from docker.errors import APIError
from docker.types import IPAMConfig, IPAMPool
from testcontainers.core.network import Network

from highwater.cluster.labels import RunLabels
from highwater.cluster.subnets import DEFAULT_POOL, POOL_VARIABLE, candidates, host_routes
from highwater.cluster.topology import Topology, dynamic_range, encode_topology
from highwater.errors import ClusterStartFailed

_ATTEMPTS = 32


def create_network(
    engine: docker.DockerClient, name: str, run: RunLabels, topology: Topology
) -> tuple[Network, IPv4Network]:
    """Create the network in a subnet that nothing else uses, and return both.

    The network has the topology as a label, so that `attach` can read it.

    Raises:
        ClusterStartFailed: the engine refused every subnet that looked free.
    """
    pool = IPv4Network(environ.get(POOL_VARIABLE, str(DEFAULT_POOL)))
    taken = [*host_routes(), *_engine_subnets(engine)]
    refused: list[str] = []
    for subnet in candidates(pool, taken, key=run.run_id):
        # testcontainers chooses the name unless it is replaced before creation.
        network = Network(docker_network_kw=_options(subnet, run, topology))
        network.name = name
        try:
            network.create()
        except APIError as error:
            # Another cluster took the subnet meanwhile, or the engine's host has a route to it.
            if "overlap" not in str(error).lower():
                raise
            refused.append(str(subnet))
            if len(refused) == _ATTEMPTS:
                break
        else:
            return network, subnet
    raise ClusterStartFailed(
        f"no free /24 in {pool} (refused: {', '.join(refused) or 'none looked free'}); "
        f"set {POOL_VARIABLE} to another range, or run 'highwater down --all'"
    )


def _options(subnet: IPv4Network, run: RunLabels, topology: Topology) -> dict[str, Any]:
    pool = IPAMPool(subnet=str(subnet), gateway=str(subnet[1]), iprange=str(dynamic_range(subnet)))
    return {
        "driver": "bridge",
        "ipam": IPAMConfig(pool_configs=[pool]),
        "labels": run.as_labels(topology=encode_topology(topology), subnet=str(subnet)),
    }


def _engine_subnets(engine: docker.DockerClient) -> list[IPv4Network]:
    found = []
    for network in engine.api.networks():
        for config in (network.get("IPAM") or {}).get("Config") or ():
            subnet = config.get("Subnet", "")
            if subnet and ":" not in subnet:
                found.append(IPv4Network(subnet, strict=False))
    return found
