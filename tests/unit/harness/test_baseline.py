"""The state of a node without faults, and the words for each difference."""

from __future__ import annotations

import pytest

from highwater.faults.healing import (
    GONE,
    Baseline,
    Healed,
    NodeHealed,
    NodeSeen,
    wrong_with_rules,
)

AT = Baseline("broker-0", "10.0.0.10")
NAMES = ("broker-0", "1559d955fe8a")
EXPIRED = """table inet highwater {
\tset lose_100 {
\t\ttype ipv4_addr . inet_service
\t\tflags timeout
\t}
\tchain arriving {
\t\ttype filter hook input priority filter; policy accept;
\t\tip saddr . th dport @lose_100 drop
\t}
}
"""
ACTING = EXPIRED.replace(
    "timeout\n", "timeout\n\t\telements = { 192.0.2.1 . 9093 timeout 1m expires 59s }\n"
)


@pytest.mark.parametrize(
    ("seen", "wrong"),
    [
        (NodeSeen("running", "10.0.0.10", NAMES), []),
        (NodeSeen("paused", "10.0.0.10", NAMES), ["paused"]),
        (NodeSeen("exited", "10.0.0.10", NAMES), ["stopped"]),
        (NodeSeen("created", "10.0.0.10", NAMES), ["stopped"]),
        (NodeSeen("dead", "10.0.0.10", NAMES), ["dead"]),
        (NodeSeen("gone"), [GONE]),
        (NodeSeen("running"), ["off the network"]),
        (NodeSeen("running", "10.0.0.225", NAMES), ["at 10.0.0.225, not 10.0.0.10"]),
        (NodeSeen("running", "10.0.0.10", NAMES[1:]), ["without its name broker-0"]),
        (NodeSeen("paused"), ["paused", "off the network"]),
        (NodeSeen("running", "10.0.0.10", NAMES, stopped=2), ["2 processes stopped"]),
    ],
)
def test_a_node_is_as_it_was_when_it_runs_in_its_place(seen: NodeSeen, wrong: list[str]) -> None:
    assert AT.wrong_with(seen) == wrong


def test_a_node_that_may_be_stopped_must_still_be_in_its_place() -> None:
    at = Baseline(AT.name, AT.address, may_be_stopped=True)
    assert at.wrong_with(NodeSeen("exited", "10.0.0.10", NAMES)) == []
    assert at.wrong_with(NodeSeen("exited")) == ["off the network"]
    assert at.wrong_with(NodeSeen("paused", "10.0.0.10", NAMES)) == ["paused"]


def test_rules_of_ours_are_wrong_whether_they_drop_or_their_time_is_over() -> None:
    assert wrong_with_rules("") == []
    assert wrong_with_rules(EXPIRED) == ["nft rules whose time is over"]
    assert wrong_with_rules(ACTING) == ["nft rules that drop"]


def test_a_run_is_well_when_nothing_is_left_of_any_node_nor_beside_them() -> None:
    well = NodeHealed(0, "broker-0", found=["paused"], done=["unpaused"])
    assert Healed("run", [well]).problems == []
    bad = NodeHealed(1, "broker-1", left=["paused"])
    assert Healed("run", [well, bad], left=["1 helpers"]).problems == [
        "1 helpers", "broker-1: paused",
    ]  # fmt: skip
