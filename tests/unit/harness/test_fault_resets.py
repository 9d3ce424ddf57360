"""Connections that break: the proof at both ends, and refused cases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from highwater.faults.done import NotDone
from highwater.faults.links import namespaces as in_namespaces
from highwater.faults.links.of_cluster import UNTOLD, ClusterLinks
from highwater.faults.links.resets import (
    UNTOLD_MS,
    Connection,
    Report,
    break_connections,
    half_open,
)
from highwater.faults.links.tcp_in_namespace import NO_UNTOLD
from highwater.faults.links.words import CLIENTS
from highwater_chaos import faults as f

A, B = "10.0.0.10", "10.0.0.11"
SEEN: Connection = (B, 9093, A, 40_000)
SEEN_AT_A: Connection = (A, 40_000, B, 9093)


class FakeNamespaces:
    """Answers as one helper a node would; left: the connections that do not end, by node."""

    def __init__(
        self,
        found: tuple[Connection, ...],
        left: Mapping[int, tuple[Connection, ...]],
        error: str,
        established: tuple[Connection, ...],
    ) -> None:
        self.found = found
        self.left = left
        self.error = error
        self.established = established
        self.tasks: list[dict[int, Any]] = []

    def ask(
        self, tasks: Mapping[int, Any], program: str, report: type[Report]
    ) -> dict[int, Report]:
        self.tasks.append(dict(tasks))
        return {
            node: Report(
                self.found if task["break"] else (),
                self.left.get(node, ()),
                self.error,
                () if task["break"] else self.established,
            )
            for node, task in tasks.items()
        }


def fake(
    found: tuple[Connection, ...] = (SEEN,),
    left: Mapping[int, tuple[Connection, ...]] = {},
    error: str = "",
    established: tuple[Connection, ...] = (),
) -> Any:
    return FakeNamespaces(found, left, error, established)


def test_a_connection_broken_at_one_end_is_awaited_to_end_at_the_other() -> None:
    namespaces = fake()
    broken = break_connections(namespaces, {1: [A]}, (9093,), {A: 0, B: 1})
    assert (broken.connections, broken.seen_at_both_ends) == ((SEEN,), 1)
    here, there = namespaces.tasks
    assert here[1]["of"] == [{"peer": A, "ports": [9093]}]
    assert (there[0]["gone"], there[0]["break"]) == ([SEEN_AT_A], False)


def test_of_a_peer_that_has_no_namespace_of_ours_one_end_is_all_that_is_seen() -> None:
    namespaces = fake()
    assert break_connections(namespaces, {1: [A]}, (9093,), {B: 1}).seen_at_both_ends == 0


@pytest.mark.parametrize(
    ("namespaces", "why"),
    [
        (fake(found=()), "no connection"),
        (fake(error="Operation not supported"), "does not break connections: Operation not"),
        (fake(left={1: (SEEN,)}), "still there"),
        (fake(left={0: (SEEN_AT_A,)}), "still there"),
    ],
)
def test_a_reset_not_seen_at_both_ends_is_not_done(namespaces: Any, why: str) -> None:
    with pytest.raises(NotDone, match=why):
        break_connections(namespaces, {1: [A]}, (9093,), {A: 0, B: 1})


def test_half_open_is_gone_at_the_one_end_and_established_at_the_other() -> None:
    namespaces = fake(established=(SEEN_AT_A,))
    assert half_open(namespaces, {1: [A]}, (9093,), {A: 0, B: 1}).connections == (SEEN,)
    here, there = namespaces.tasks
    assert (here[1]["of"], here[1]["break"]) == ([{"peer": A, "ports": [9093]}], True)
    assert here[1]["untold_ms"] == UNTOLD_MS
    assert (there[0]["of"], there[0]["break"]) == ([{"peer": B, "ports": [9093]}], False)


@pytest.mark.parametrize(
    ("namespaces", "why"),
    [
        (fake(found=(), established=(SEEN_AT_A,)), "no connection"),
        (fake(left={1: (SEEN,)}, established=(SEEN_AT_A,)), "still there"),
        (fake(error="nft says no", established=(SEEN_AT_A,)), "nft says no"),
        (fake(established=()), "gone at the other end too"),
    ],
)
def test_a_connection_not_seen_half_open_is_not_done(namespaces: Any, why: str) -> None:
    with pytest.raises(NotDone, match=why):
        half_open(namespaces, {1: [A]}, (9093,), {A: 0, B: 1})


class TwoNodes(ClusterLinks):
    """Links of two nodes that run, with helpers that answer as they are made to."""

    def __init__(self, namespaces: Any) -> None:
        self._namespaces = namespaces

    def _ready_helpers(self) -> Any:
        return self._namespaces

    def _addresses(self) -> dict[int, str]:
        return {0: A, 1: B, CLIENTS: "10.0.0.1"}

    def _up(self) -> dict[str, int]:
        return {A: 0, B: 1}

    def _is_up(self, node: int) -> bool:
        return True


@pytest.mark.parametrize("established", [(), (SEEN_AT_A,)], ids=["not proven", "proven"])
def test_the_rule_that_drops_resets_is_removed_also_where_it_was_not_proven(
    established: tuple[Connection, ...],
) -> None:
    namespaces = fake(established=established)
    ran: list[dict[int, in_namespaces.Task]] = []

    def run(tasks: Mapping[int, in_namespaces.Task]) -> dict[int, in_namespaces.Report]:
        ran.append(dict(tasks))
        return dict.fromkeys(tasks, in_namespaces.Report(0, 0))

    namespaces.run = run
    links = TwoNodes(namespaces)
    fault = f.HalfOpen("broker-0", "broker-1", "replication")
    names = {"broker-0": 0, "broker-1": 1}
    if established:
        done = links.half_open(fault, names.get)
        assert ran == []
        assert done.revert() == "resets pass"
    else:
        with pytest.raises(NotDone, match="gone at the other end too"):
            links.half_open(fault, names.get)
    assert ran == [{1: in_namespaces.Task(script=NO_UNTOLD, show=UNTOLD)}]
