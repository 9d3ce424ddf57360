"""Topologies: nodes, addresses and settings."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network

import msgspec
import pytest

from highwater.cluster.topology import (
    ZOOKEEPER,
    NodeKind,
    Topology,
    decode_topology,
    dynamic_range,
    encode_topology,
    node_environment,
)
from highwater_core.config import Preset, Truncation
from highwater_core.ids import Endpoint

SUBNET = IPv4Network("10.213.7.0/24")


def test_brokers_count_from_0_and_controllers_from_1000() -> None:
    topology = Topology(brokers=3, controllers=2)
    assert topology.broker_ids == (0, 1, 2)
    assert topology.controller_ids == (1000, 1001)
    assert topology.node_ids == (0, 1, 2, 1000, 1001)


def test_every_node_has_its_own_address_outside_the_range_that_the_engine_gives_out() -> None:
    topology = Topology(brokers=100, controllers=10)
    addresses = [spec.address(SUBNET) for spec in topology.nodes()]
    assert len(set(addresses)) == len(addresses) == 111
    gateway = str(SUBNET[1])
    assert gateway not in addresses
    assert not any(IPv4Address(address) in dynamic_range(SUBNET) for address in addresses)


def test_a_larger_topology_leaves_each_nodes_address_as_it_is() -> None:
    small, large = Topology(brokers=3), Topology(brokers=9, controllers=5)
    for node in (ZOOKEEPER, *small.node_ids):
        assert small.node(node).address(SUBNET) == large.node(node).address(SUBNET)


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"brokers": 0}, "brokers must be"),
        ({"brokers": 101}, "brokers must be"),
        ({"controllers": 0}, "controllers must be"),
        ({"session_timeout_ms": 999}, "session_timeout_ms"),
        ({"toggles": {"no_such_rule": True}}, "no such toggle"),
        ({"toggles": {"truncation": "by_guess"}}, "toggles"),
        ({"broker_settings": {"node_id": 7}}, "node_id"),
        ({"broker_settings": {"HIGHWATER_SEGMENT_BYTES": 7}}, "HIGHWATER_SEGMENT_BYTES"),
        ({"controller_settings": {"zookeeper": "elsewhere:2181"}}, "zookeeper"),
    ],
)
def test_a_topology_that_cannot_be_is_refused_with_its_reason(
    fields: dict[str, object], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        Topology(**fields)  # type: ignore[arg-type]


def test_toggles_replace_single_rules_of_the_preset() -> None:
    topology = Topology(preset=Preset.V3, toggles={"truncation": "leader_epoch"})
    assert topology.resolved_toggles().truncation is Truncation.LEADER_EPOCH
    assert topology.resolved_toggles().unclean_election


def test_an_unknown_node_is_refused_with_those_that_exist() -> None:
    with pytest.raises(KeyError, match=r"no node 7; there are \[0, 1, 1000\]"):
        Topology(brokers=2, controllers=1).node(7)


def test_a_topology_survives_its_label() -> None:
    topology = Topology(
        brokers=5,
        preset=Preset.V3,
        toggles={"topic_id": True},
        broker_settings={"segment_bytes": 1024, "log_flush": True},
    )
    assert decode_topology(encode_topology(topology)) == topology


def test_a_malformed_label_is_refused() -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_topology('{"brokers": "many"}')


def test_a_broker_gets_addresses_rather_than_names() -> None:
    topology = Topology(session_timeout_ms=2000, broker_settings={"log_flush": True})
    spec = topology.node(1)
    environment = node_environment(topology, spec, SUBNET, Endpoint("127.0.0.1", 21234))
    assert spec.name == "broker-1"
    assert environment == {
        "HIGHWATER_NODE_ID": "1",
        "HIGHWATER_PRESET": "fenced",
        "HIGHWATER_TOGGLES": "",
        "HIGHWATER_SESSION_TIMEOUT_MS": "2000",
        "HIGHWATER_ZOOKEEPER": "10.213.7.5:2181",
        "HIGHWATER_CLIENT_HOST": "10.213.7.11",
        "HIGHWATER_CLIENT_PORT": "9092",
        "HIGHWATER_REPLICATION_HOST": "10.213.7.11",
        "HIGHWATER_REPLICATION_PORT": "9093",
        "HIGHWATER_CONTROL_HOST": "10.213.7.11",
        "HIGHWATER_CONTROL_PORT": "9095",
        "HIGHWATER_METRICS_PORT": "9404",
        "HIGHWATER_EXTERNAL_BIND_PORT": "9094",
        "HIGHWATER_OFFSETS_TOPIC_REPLICATION_FACTOR": "3",
        "HIGHWATER_EXTERNAL_HOST": "127.0.0.1",
        "HIGHWATER_EXTERNAL_PORT": "21234",
        "HIGHWATER_LOG_FLUSH": "true",
    }


def test_a_controller_gets_its_own_settings_and_no_brokers() -> None:
    topology = Topology(
        preset=Preset.V3,
        toggles={"topic_id": True},
        broker_settings={"segment_bytes": 1024},
        controller_settings={"command_timeout_ms": 500},
    )
    spec = topology.node(1001)
    environment = node_environment(topology, spec, SUBNET, None)
    assert spec.kind is NodeKind.CONTROLLER
    assert environment == {
        "HIGHWATER_NODE_ID": "1001",
        "HIGHWATER_PRESET": "v3",
        "HIGHWATER_TOGGLES": '{"topic_id":true}',
        "HIGHWATER_SESSION_TIMEOUT_MS": "6000",
        "HIGHWATER_ZOOKEEPER": "10.213.7.5:2181",
        "HIGHWATER_CONTROL_HOST": "10.213.7.201",
        "HIGHWATER_CONTROL_PORT": "9095",
        "HIGHWATER_METRICS_PORT": "9404",
        "HIGHWATER_COMMAND_TIMEOUT_MS": "500",
    }
