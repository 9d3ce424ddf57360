"""A cluster's nodes, preset and settings, as a value, and each node's address in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import IPv4Network

import msgspec

from highwater_core.config import Overrides, Preset, Toggles, has_controllers, resolve_toggles
from highwater_core.ids import FIRST_CONTROLLER_ID, Endpoint, NodeId
from highwater_core.settings import PREFIX

Setting = str | int | bool

ZOOKEEPER = NodeId(2000)
"""ZooKeeper's server, by the harness's own numbering."""

CLIENT_PORT = 9092
REPLICATION_PORT = 9093
EXTERNAL_PORT = 9094
CONTROL_PORT = 9095
METRICS_PORT = 9404
ZOOKEEPER_PORT = 2181

MAX_BROKERS = 100
MAX_CONTROLLERS = 10
_ZOOKEEPER_HOST = 5
_FIRST_BROKER_HOST = 10
_FIRST_CONTROLLER_HOST = 200
MIN_SESSION_TIMEOUT_MS = 1_000
"""The least session timeout that the ZooKeeper image grants."""


class NodeKind(StrEnum):
    BROKER = "broker"
    CONTROLLER = "controller"
    ZOOKEEPER = "zookeeper"


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """One node: its id, its kind, and the last number of its address in the network."""

    node_id: NodeId
    kind: NodeKind
    host_number: int

    @property
    def name(self) -> str:
        """broker-0, controller-1000, zookeeper."""
        return self.kind if self.kind is NodeKind.ZOOKEEPER else f"{self.kind}-{self.node_id}"

    def address(self, subnet: IPv4Network) -> str:
        return str(subnet[self.host_number])


@dataclass(frozen=True, slots=True)
class Topology:
    """A cluster to bring up on containers, with each node's address.

    broker_settings and controller_settings replace defaults by field name (replica_lag_time_max_ms
    becomes HIGHWATER_REPLICA_LAG_TIME_MAX_MS); toggles replace single rules of the preset.
    """

    brokers: int = 3
    controllers: int = 2
    preset: Preset = Preset.FENCED
    session_timeout_ms: int = 6_000
    toggles: Overrides = field(default_factory=dict)
    broker_settings: Mapping[str, Setting] = field(default_factory=dict)
    controller_settings: Mapping[str, Setting] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 1 <= self.brokers <= MAX_BROKERS:
            raise ValueError(f"brokers must be from 1 to {MAX_BROKERS}, not {self.brokers}")
        if not 1 <= self.controllers <= MAX_CONTROLLERS:
            raise ValueError(
                f"controllers must be from 1 to {MAX_CONTROLLERS}, not {self.controllers}"
            )
        if self.session_timeout_ms < MIN_SESSION_TIMEOUT_MS:
            raise ValueError(f"session_timeout_ms must be at least {MIN_SESSION_TIMEOUT_MS}")
        try:
            self.resolved_toggles()
        except msgspec.ValidationError as error:
            raise ValueError(f"toggles: {error}") from error
        for name in (*self.broker_settings, *self.controller_settings):
            if name != name.lower() or name in _OWNED_SETTINGS:
                raise ValueError(f"{name!r} is not a setting that a topology may replace")

    def resolved_toggles(self) -> Toggles:
        return resolve_toggles(self.preset, self.toggles)

    @property
    def log_folders(self) -> tuple[str, ...]:
        """The names of each broker's log folders; "" where its disk is the only one."""
        return tuple(str(self.broker_settings.get("log_folders", "")).split(","))

    @property
    def broker_ids(self) -> tuple[NodeId, ...]:
        return tuple(NodeId(number) for number in range(self.brokers))

    @property
    def controller_ids(self) -> tuple[NodeId, ...]:
        """The controllers, none where brokers command themselves."""
        count = self.controllers if has_controllers(self.preset, self.toggles) else 0
        return tuple(NodeId(FIRST_CONTROLLER_ID + number) for number in range(count))

    @property
    def node_ids(self) -> tuple[NodeId, ...]:
        """Brokers, then controllers, ascending."""
        return (*self.broker_ids, *self.controller_ids)

    def nodes(self) -> Iterator[NodeSpec]:
        """Yield ZooKeeper, then every node."""
        yield NodeSpec(ZOOKEEPER, NodeKind.ZOOKEEPER, _ZOOKEEPER_HOST)
        for node_id in self.broker_ids:
            yield NodeSpec(node_id, NodeKind.BROKER, _FIRST_BROKER_HOST + node_id)
        for number, node_id in enumerate(self.controller_ids):
            yield NodeSpec(node_id, NodeKind.CONTROLLER, _FIRST_CONTROLLER_HOST + number)

    def node(self, node_id: int) -> NodeSpec:
        """Return the node of that id.

        Raises:
            KeyError: the topology has none.
        """
        for spec in self.nodes():
            if spec.node_id == node_id:
                return spec
        raise KeyError(f"no node {node_id}; there are {[int(n) for n in self.node_ids]}")


_OWNED_SETTINGS = frozenset(
    {
        "node_id",
        "preset",
        "toggles",
        "session_timeout_ms",
        "zookeeper",
        "incarnation",
        "build",
        "data_folder",
        "trace_path",
        "client_host",
        "client_port",
        "external_host",
        "external_port",
        "external_bind_port",
        "replication_host",
        "replication_port",
        "control_host",
        "control_port",
        "metrics_port",
    }
)
"""Settings that follow from the topology or the image."""


def encode_topology(topology: Topology) -> str:
    """Return the topology as one line of JSON, for a label or a file."""
    return msgspec.json.encode(topology, order="deterministic").decode()


def decode_topology(text: str | bytes) -> Topology:
    """Return the topology.

    Raises:
        ValueError: the JSON is no topology (msgspec.ValidationError is a ValueError).
    """
    return msgspec.json.decode(text, type=Topology)


def dynamic_range(subnet: IPv4Network) -> IPv4Network:
    """Return the addresses that the engine may assign itself, apart from the nodes' own."""
    return list(subnet.subnets(new_prefix=27))[-1]


def node_environment(
    topology: Topology, spec: NodeSpec, subnet: IPv4Network, external: Endpoint | None
) -> dict[str, str]:
    """Return the HIGHWATER_* variables of a controller or broker.

    They have addresses rather than names, which still work when the network's DNS does not.
    external: the broker's endpoint for clients on the harness's machine, None for a controller.
    """
    address = spec.address(subnet)
    zookeeper = topology.node(ZOOKEEPER).address(subnet)
    settings: dict[str, Setting] = {
        "node_id": spec.node_id,
        "preset": topology.preset.value,
        "toggles": _toggles_text(topology.toggles),
        "session_timeout_ms": topology.session_timeout_ms,
        "zookeeper": f"{zookeeper}:{ZOOKEEPER_PORT}",
        "control_host": address,
        "control_port": CONTROL_PORT,
        "metrics_port": METRICS_PORT,
    }
    if spec.kind is NodeKind.BROKER:
        settings |= {
            "client_host": address,
            "client_port": CLIENT_PORT,
            "replication_host": address,
            "replication_port": REPLICATION_PORT,
            "external_bind_port": EXTERNAL_PORT,
            # A cluster that never has three brokers is to have groups, too.
            "offsets_topic_replication_factor": min(3, topology.brokers),
        }
        if external is not None:
            settings |= {"external_host": external.host, "external_port": external.port}
        settings |= topology.broker_settings
    else:
        settings |= topology.controller_settings
    return {f"{PREFIX}{name.upper()}": _setting_text(value) for name, value in settings.items()}


def _setting_text(value: Setting) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _toggles_text(toggles: Overrides) -> str:
    return msgspec.json.encode(dict(toggles)).decode() if toggles else ""
