"""Connections that break: what proves it, at both ends, and what is not done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from highwater.faults.done import NotDone
from highwater.faults.resets import (
    UNTOLD_MS,
    Connection,
    Report,
    break_connections,
    half_open,
)

A, B = "10.0.0.10", "10.0.0.11"
SEEN: Connection = (B, 9093, A, 40_000)
SEEN_AT_A: Connection = (A, 40_000, B, 9093)


class FakeNamespaces:
    """Answers as one helper a node would; left: what does not go away, by node."""

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


def test_what_was_broken_at_one_end_is_awaited_to_be_gone_at_the_other() -> None:
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
def test_what_is_not_seen_to_be_gone_at_both_ends_is_not_done(namespaces: Any, why: str) -> None:
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
def test_what_is_not_seen_to_be_half_open_is_not_done(namespaces: Any, why: str) -> None:
    with pytest.raises(NotDone, match=why):
        half_open(namespaces, {1: [A]}, (9093,), {A: 0, B: 1})
