"""Subnets and host ports: clusters that start at the same moment do not collide."""

from __future__ import annotations

import socket
from collections.abc import Set as AbstractSet
from ipaddress import IPv4Network

import pytest

from highwater.cluster.host_ports import END_PORT, FIRST_PORT, choose_ports
from highwater.cluster.subnets import DEFAULT_POOL, candidates, parse_routes

ROUTES = """\
Iface	Destination	Gateway 	Flags	RefCnt	Use	Metric	Mask		MTU	Window	IRTT
eth0	00000000	0102A8C0	0003	0	0	0	00000000	0	0	0
eth0	0002A8C0	00000000	0001	0	0	0	00FFFFFF	0	0	0
docker0	000011AC	00000000	0001	0	0	0	0000FFFF	0	0	0
torn	0011
"""


def test_every_candidate_is_a_24_of_the_pool_and_no_two_overlap() -> None:
    found = list(candidates(DEFAULT_POOL, [], key="run"))
    assert len(set(found)) == len(found) == 256
    assert all(subnet.prefixlen == 24 and subnet.subnet_of(DEFAULT_POOL) for subnet in found)


def test_nothing_that_overlaps_a_taken_network_is_a_candidate() -> None:
    taken = [IPv4Network("10.213.0.0/17"), IPv4Network("10.213.200.64/26")]
    found = list(candidates(DEFAULT_POOL, taken, key="run"))
    assert len(found) == 127
    assert not any(subnet.overlaps(other) for subnet in found for other in taken)


def test_a_pool_that_is_taken_whole_has_no_candidate() -> None:
    assert list(candidates(DEFAULT_POOL, [IPv4Network("10.0.0.0/8")], key="run")) == []


def test_different_runs_begin_at_different_subnets() -> None:
    first = {next(candidates(DEFAULT_POOL, [], key=f"run-{number}")) for number in range(20)}
    assert len(first) > 10
    again = next(candidates(DEFAULT_POOL, [], key="run-1"))
    assert again == next(candidates(DEFAULT_POOL, [], key="run-1"))


def test_a_small_pool_is_used_as_it_is() -> None:
    pool = IPv4Network("192.168.77.0/25")
    assert list(candidates(pool, [], key="run")) == [pool]


def test_routes_are_read_without_the_default_route() -> None:
    assert parse_routes(ROUTES) == [IPv4Network("192.168.2.0/24"), IPv4Network("172.17.0.0/16")]


def test_chosen_ports_are_free_distinct_and_below_those_of_outgoing_connections() -> None:
    ports = choose_ports(20)
    assert len(set(ports)) == 20
    assert all(FIRST_PORT <= port < END_PORT for port in ports)


def test_a_taken_port_is_not_chosen() -> None:
    # Fifty are left: the clusters of other tests bind ports of this range meanwhile.
    left = frozenset(range(FIRST_PORT, FIRST_PORT + 50))
    assert set(choose_ports(3, taken=_all_ports_but(left))) <= left


def test_a_bound_port_is_not_chosen() -> None:
    with _listener_in_range() as listener:
        bound = listener.getsockname()[1]
        with pytest.raises(OSError, match="no 1 free ports"):
            choose_ports(1, taken=_all_ports_but({bound}))


def _all_ports_but(ports: AbstractSet[int]) -> frozenset[int]:
    return frozenset(range(FIRST_PORT, END_PORT)) - ports


def _listener_in_range() -> socket.socket:
    """Return a socket that is bound to one of the ports; another process may be quicker at some."""
    for port in choose_ports(50):
        listener = socket.socket()
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            listener.close()
        else:
            return listener
    raise OSError("fifty ports that were free are bound a moment later")
