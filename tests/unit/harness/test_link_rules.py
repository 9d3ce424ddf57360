"""Faults on links: which packets nft's script drops, canaries' proofs, and names of nodes."""

from __future__ import annotations

import re

import pytest

from highwater.cluster.topology import REPLICATION_PORT, ZOOKEEPER, ZOOKEEPER_PORT
from highwater.faults.done import NotDone
from highwater.faults.links.in_namespace import CANARY_PORT
from highwater.faults.links.rules import (
    ALL_PORTS,
    NO_RULES,
    Direction,
    Drop,
    Hold,
    Narrow,
    Slow,
    canaries_of,
    pipe_of,
    script,
)
from highwater.faults.links.words import (
    CLIENTS,
    around,
    directions_of,
    from_zookeeper,
    nodes_and_peers,
    silenced_to_zookeeper,
)
from highwater_chaos import faults as f

A, B = Direction("10.0.0.10", 1, 9093), Direction("10.0.0.11", 1, 2181)
TO_CLIENTS = Direction("10.0.0.1", 1, 9094, leaves=True)
MS = 1_000_000


def elements(text: str) -> dict[str, str]:
    return dict(re.findall(r"add element inet highwater (\w+) \{ (.*?) \}", text))


def rules(text: str, chain: str) -> list[str]:
    begin = f"add rule inet highwater {chain} "
    return [line.removeprefix(begin) for line in text.splitlines() if line.startswith(begin)]


def test_a_script_drops_requests_to_a_port_and_answers_from_it_until_their_time() -> None:
    text = script([Drop(A, 100, 5_000 * MS)], now_ns=1_500 * MS)
    assert elements(text) == {"lose_100": "10.0.0.10 . 9093 timeout 3500ms"}
    assert rules(text, "arriving") == [
        f"ip saddr . th {end} @lose_100 drop" for end in ("dport", "sport")
    ]


def test_a_script_replaces_all_former_rules_and_deletes_no_chain() -> None:
    lines = script([Drop(A, 100, 5 * MS)], 0).splitlines()
    assert lines[0] == "add table inet highwater"
    assert lines.index("flush table inet highwater") == 5
    assert lines.index("flush set inet highwater lose_100") > 5
    assert not [line for line in lines if line.startswith("delete")]


def test_a_script_without_any_drop_that_lasts_leaves_nothing_of_ours() -> None:
    over = [Hold(A, Slow(10), 5 * MS)]
    assert script([], 0) == script([Drop(A, 100, 5 * MS)], 5 * MS, over) == NO_RULES
    assert NO_RULES.splitlines() == ["add table inet highwater", "delete table inet highwater"]


def test_of_two_alike_the_longer_holds_and_different_shares_act_side_by_side() -> None:
    drops = [Drop(A, 100, 9 * MS), Drop(A, 100, 4 * MS), Drop(A, 30, 7 * MS), Drop(B, 30, 2 * MS)]
    found = elements(script(drops, now_ns=3 * MS))
    assert found == {
        "lose_100": "10.0.0.10 . 9093 timeout 6ms",
        "lose_30": "10.0.0.10 . 9093 timeout 4ms",
    }


def test_rules_for_all_ports_and_for_leaving_packets_have_their_own_sets() -> None:
    everything = Direction("10.0.0.10", 1, ALL_PORTS)
    text = script([Drop(each, 100, 5 * MS) for each in (A, everything, TO_CLIENTS)], 0)
    assert elements(text) == {
        "lose_100": "10.0.0.10 . 9093 timeout 5ms",
        "lose_100_all": "10.0.0.10 timeout 5ms",
        "lose_100_leaving": "10.0.0.1 . 9094 timeout 5ms",
    }
    assert "ip saddr @lose_100_all drop" in rules(text, "arriving")
    assert rules(text, "leaving") == [
        f"ip daddr . th {end} @lose_100_leaving drop" for end in ("dport", "sport")
    ]


def test_packets_to_hold_are_marked_with_the_number_of_their_pipe() -> None:
    holds = [Hold(A, Slow(10), 5 * MS), Hold(A, Narrow(64), 9 * MS), Hold(TO_CLIENTS, Slow(1), MS)]
    text = script([], 0, holds)
    assert elements(text) == {
        "pipes_arriving": f"10.0.0.10 . 9093 timeout 9ms : {pipe_of(A):#x}",
        "pipes_leaving": f"10.0.0.1 . 9094 timeout 1ms : {pipe_of(TO_CLIENTS):#x}",
    }
    assert rules(text, "marking_arriving") == [
        f"meta mark set ip saddr . th {end} map @pipes_arriving" for end in ("dport", "sport")
    ]
    assert len(rules(text, "marking_leaving")) == 2


def test_a_pipe_is_of_one_address_one_plane_and_one_way() -> None:
    hosts = ("10.0.0.10", "10.0.0.11", "10.0.1.10")
    directions = [
        Direction(host, 1, port, leaves)
        for host in hosts
        for port in (9092, 9093, 2181)
        for leaves in (False, True)
    ]
    assert len({pipe_of(each) for each in directions}) == len(directions)
    assert pipe_of(TO_CLIENTS) == pipe_of(Direction("10.0.0.1", 7, 9092, leaves=True)) != 0


def test_a_direction_of_all_ports_covers_each_port_of_the_same_ends() -> None:
    everything = Direction(A.source, A.target, ALL_PORTS)
    assert everything.covers(A)
    assert A.covers(A)
    assert not A.covers(everything)
    assert not everything.covers(Direction(A.source, A.target, A.port, leaves=True))
    assert not everything.covers(B)


def test_along_a_direction_of_all_ports_goes_one_canary_of_no_servers_port() -> None:
    (canary,) = canaries_of([Direction("10.0.0.10", 1, ALL_PORTS)])
    assert canary.ports() == (CANARY_PORT, CANARY_PORT)


def test_canaries_go_to_the_servers_port_and_come_from_it() -> None:
    to, back = canaries_of([A])
    assert (to.ports(), back.ports()) == ((CANARY_PORT, 9093), (9093, CANARY_PORT))
    assert to.name != back.name


# ---------------------------------------------------------------- words

ADDRESSES = {
    0: "10.0.0.10", 1: "10.0.0.11", 1000: "10.0.0.200", ZOOKEEPER: "10.0.0.5", CLIENTS: "10.0.0.1",
}  # fmt: skip


def find(words: str) -> int | None:
    return {"broker-0": 0, "leader of t-0": 1, "active controller": 1000}.get(words)


def links(fault: f.Cut | f.LossyLink | f.SlowLink | f.LimitBandwidth) -> list[tuple[str, int, int]]:
    found = directions_of(fault, find, ADDRESSES)
    return [(each.source, each.target, each.port) for each in found]


def test_a_one_way_cut_is_one_direction() -> None:
    fault = f.Cut("broker-0", "leader of t-0", "replication")
    assert links(fault) == [("10.0.0.10", 1, REPLICATION_PORT)]


def test_zookeepers_replies_go_to_every_node_and_to_nobody_else() -> None:
    found = {(each.source, each.target, each.port) for each in from_zookeeper(ADDRESSES)}
    assert found == {("10.0.0.5", node, ZOOKEEPER_PORT) for node in (0, 1, 1000)}


def test_a_slow_or_narrow_link_is_the_link_of_a_cut() -> None:
    cut = links(f.Cut("any", "leader of t-0", "replication"))
    assert cut == links(f.SlowLink("any", "leader of t-0", "replication", 50))
    assert cut == links(f.LimitBandwidth("any", "leader of t-0", "replication", 50))


def test_a_cut_both_ways_is_dropped_at_both_ends() -> None:
    fault = f.Cut("broker-0", "zookeeper", "zookeeper", both_ways=True)
    assert links(fault) == [
        ("10.0.0.10", ZOOKEEPER, ZOOKEEPER_PORT), ("10.0.0.5", 0, ZOOKEEPER_PORT),
    ]  # fmt: skip


def test_any_is_every_other_node_and_on_the_client_plane_the_clients() -> None:
    fault = f.LossyLink("any", "broker-0", "control", 20)
    assert [source for source, _, _ in links(fault)] == ["10.0.0.11", "10.0.0.200"]
    to_clients_too = f.Cut("broker-0", "any", "client")
    assert [target for _, target, port in links(to_clients_too) if port == 9094] == [0, 1, 1000]
    from_clients = f.Cut("any", "broker-0", "client")
    assert ("10.0.0.1", 0, 9094) in links(from_clients)


@pytest.mark.parametrize(
    "fault",
    [f.Cut("leader of t-9", "broker-0", "control"), f.Cut("broker-0", "broker-0", "control")],
)
def test_a_link_of_nobody_or_of_one_node_with_itself_is_not_done(fault: f.Cut) -> None:
    with pytest.raises(NotDone, match="nobody"):
        links(fault)


@pytest.mark.parametrize(
    ("fault", "node"),
    [
        (f.Cut("leader of t-0", "zookeeper", "zookeeper"), 1),
        (f.Cut("zookeeper", "broker-0", "zookeeper", both_ways=True), 0),
        (f.Cut("zookeeper", "broker-0", "zookeeper"), None),
        (f.Cut("any", "zookeeper", "zookeeper"), None),
    ],
)
def test_one_node_that_zookeeper_hears_nothing_of(fault: f.Cut, node: int | None) -> None:
    assert silenced_to_zookeeper(directions_of(fault, find, ADDRESSES), ADDRESSES) == node


def test_packets_to_clients_are_dropped_where_they_leave() -> None:
    fault = f.Cut("broker-0", "any", "client")
    leaving = [each for each in directions_of(fault, find, ADDRESSES) if each.leaves]
    assert leaving == [Direction("10.0.0.1", 0, port, leaves=True) for port in (9092, 9094)]


def test_around_a_node_is_everyone_both_ways_but_not_the_harness_that_asks_it() -> None:
    found = around(f.Isolate("leader of t-0"), find, ADDRESSES)
    with_nodes = {(each.source, each.target) for each in found if each.port == ALL_PORTS}
    others = {node: ADDRESSES[node] for node in (0, 1000, ZOOKEEPER)}
    assert with_nodes == {(address, 1) for address in others.values()} | {
        ("10.0.0.11", node) for node in others
    }
    with_clients = {(each.target, each.port, each.leaves) for each in found if each.port}
    assert with_clients == {(1, port, way) for port in (9092, 9094) for way in (False, True)}


def test_connections_break_at_one_end_of_each_pair() -> None:
    both = f.ResetConnections("any", "any", "control")
    by_node = nodes_and_peers(both, find, ADDRESSES)
    pairs = {
        frozenset((ADDRESSES[node], peer)) for node, peers in by_node.items() for peer in peers
    }
    assert len(pairs) == sum(map(len, by_node.values())) == 3
    with_clients = nodes_and_peers(f.ResetConnections("broker-0", "any", "client"), find, ADDRESSES)
    assert "10.0.0.1" in with_clients[0]
    with pytest.raises(NotDone, match="nobody"):
        nodes_and_peers(f.ResetConnections("broker-0", "broker-0", "control"), find, ADDRESSES)
