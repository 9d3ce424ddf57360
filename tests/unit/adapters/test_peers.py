"""Which addresses may call the control port, over sockets of this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater_adapters import peers
from highwater_adapters.peers import LOOPBACK, AllowedPeers, address_of, own_networks
from highwater_core.networks import Network, parse_networks

ROUTES = """\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t0107D50A\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth0\t0007D50A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
eth1\t0000100A\t0107D50A\t0003\t0\t0\t0\t0000FFFF\t0\t0\t0
torn
"""
"""As a machine of the usual byte order has it: 10.213.7.0/24 directly, the rest by a gateway."""
IPV6 = "fd000000000000000000000000000005 02 40 00 80     eth0\nbad line\n"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(peers, "_ROUTES", tmp_path / "route")
    monkeypatch.setattr(peers, "_IPV6_ADDRESSES", tmp_path / "if_inet6")
    return tmp_path


def test_own_networks_are_those_that_need_no_gateway(machine: Path) -> None:
    assert own_networks() == LOOPBACK
    (machine / "route").write_text(ROUTES)
    (machine / "if_inet6").write_text(IPV6)
    assert own_networks() == (*LOOPBACK, *parse_networks("10.213.7.0/24, fd00::/64"))


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("ipv4:10.0.0.1:4711", "10.0.0.1"),
        ("ipv6:[::1]:4711", "::1"),
        ("ipv6:%5B::1%5D:4711", "::1"),
        ("ipv6:[::ffff:10.0.0.1]:4711", "10.0.0.1"),
        ("ipv6:[fe80::1%25eth0]:4711", "fe80::1"),
        ("unix:/run/x", "None"),
        ("unix:", "None"),
        ("ipv4:nonsense:1", "None"),
        ("", "None"),
    ],
)
def test_a_peers_address_is_taken_from_its_name(peer: str, address: str) -> None:
    assert str(address_of(peer)) == address


@pytest.mark.parametrize(
    ("peer", "is_allowed"),
    [
        ("ipv4:127.0.0.1:1", True),
        ("ipv6:[::1]:1", True),
        ("ipv4:10.213.7.1:1", True),
        ("ipv4:10.213.8.1:1", False),
        ("ipv4:10.16.0.1:1", False),
        ("ipv4:8.8.8.8:1", False),
        ("ipv6:[fd00::9]:1", True),
        ("ipv6:[fd01::9]:1", False),
        ("unix:/run/x", True),
        ("nobody", False),
    ],
)
def test_whoever_is_on_a_network_of_the_machine_may_call(
    machine: Path, peer: str, is_allowed: bool
) -> None:
    (machine / "route").write_text(ROUTES)
    (machine / "if_inet6").write_text(IPV6)
    allowed = AllowedPeers()
    assert [allowed.allows(peer) for _ in range(2)] == [is_allowed] * 2


def test_named_networks_are_the_only_ones() -> None:
    allowed = AllowedPeers(parse_networks("10.1.0.0/16,192.168.7.1/32"))
    assert allowed.allows("ipv4:10.1.2.3:1")
    assert allowed.allows("ipv4:192.168.7.1:1")
    assert not allowed.allows("ipv4:192.168.7.2:1")
    assert not allowed.allows("ipv4:127.0.0.1:1")
    assert not allowed.allows("ipv6:[::1]:1")


def test_a_network_that_the_machine_joins_later_counts_from_then_on() -> None:
    networks: tuple[Network, ...] = LOOPBACK
    allowed = AllowedPeers(own=lambda: networks)
    assert not allowed.allows("ipv4:10.1.2.3:1")
    networks = (*LOOPBACK, *parse_networks("10.1.0.0/16"))
    assert allowed.allows("ipv4:10.1.2.3:1")


def test_verdicts_take_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "_MAX_KNOWN", 3)
    allowed = AllowedPeers(parse_networks("10.0.0.0/8"))
    for number in range(10):
        assert allowed.allows(f"ipv4:10.0.0.{number}:1")
    assert len(allowed._allowed) <= 3


@pytest.mark.parametrize("text", ["10.1.0.0/33", "x", "10.1.0.1/16", "10.1.0.0/16,x"])
def test_a_malformed_network_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_networks(text)
