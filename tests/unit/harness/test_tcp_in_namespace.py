"""Which TCP connections a helper lists, here on loopback; breaking one takes NET_ADMIN."""

from __future__ import annotations

import socket
import sys

import pytest

from highwater.faults.links.tcp_in_namespace import main, untold

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sock_diag is Linux's")

HERE = "127.0.0.1"


def listed(
    ports: list[int], gone: list[tuple[str, int, str, int]], peer: str = HERE
) -> dict[str, object]:
    of = [{"peer": peer, "ports": ports}]
    return main({"of": of, "break": False, "untold_ms": 0, "gone": gone, "within_s": 0.1})


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6], ids=["IPv4", "IPv6"])
def test_connections_of_a_servers_port_are_listed_at_both_ends(
    family: socket.AddressFamily,
) -> None:
    """An IPv6 server that takes IPv4 too, as gRPC's do, is listed with IPv4 addresses."""
    with socket.socket(family) as server:
        if family is socket.AF_INET6:
            server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        server.bind(("::" if family is socket.AF_INET6 else HERE, 0))
        server.listen()
        port = server.getsockname()[1]
        assert listed([port], [])["found"] == []
        with socket.create_connection((HERE, port)) as client, server.accept()[0]:
            own = client.getsockname()[1]
            ends = sorted([(HERE, own, HERE, port), (HERE, port, HERE, own)])
            whole = {"found": ends, "established": ends, "left": [], "error": ""}
            assert listed([port], []) == whole
            assert listed([port], [], peer="127.0.0.2")["found"] == []
            left = {"found": [], "established": [], "left": [ends[0]], "error": ""}
            assert listed([1], [ends[0]]) == left
            client.shutdown(socket.SHUT_WR)
            closing = listed([port], [])
            assert (closing["found"], closing["established"]) == (ends, [])
    assert listed([1], ends)["left"] == []


def test_the_resets_of_these_connections_alone_are_dropped_for_a_time() -> None:
    lines = untold([("10.0.0.11", 9093, "10.0.0.10", 40_000)], 500).splitlines()
    assert lines[-1].endswith("untold { 10.0.0.10 . 9093 . 40000 timeout 500ms }")
    assert "tcp flags & rst == rst ip daddr . tcp sport . tcp dport @untold drop" in lines[-2]
