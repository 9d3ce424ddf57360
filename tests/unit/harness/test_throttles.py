"""A throttle is not left behind by a move that does not begin."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from highwater.cluster import throttles
from highwater.cluster.configs import ConfigRefused
from highwater.cluster.partitions import PartitionRefused
from highwater.errors import HarnessError
from highwater_core.ids import TopicPartition

AT = TopicPartition("demo", 0)
CLUSTER: Any = SimpleNamespace(topology=SimpleNamespace(broker_ids=(0, 1, 2)))


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the order of what is done with the cluster; no partition is being moved."""
    steps: list[str] = []

    def note(name: str, result: object = None) -> None:
        def step(*arguments: object) -> object:
            steps.append(name)
            return result

        monkeypatch.setattr(throttles, name, step)

    for name in ("throttle_move", "reassign", "lift_throttle"):
        note(name)
    note("list_reassignments", ())
    return steps


def test_no_throttle_is_set_for_a_broker_that_there_is_not(done: list[str]) -> None:
    with pytest.raises(PartitionRefused, match="no broker 99"):
        throttles.reassign_throttled(CLUSTER, AT, (1, 99), 1_000)
    assert done == []


@pytest.mark.parametrize(
    ("fails", "error"),
    [("throttle_move", ConfigRefused("refused")), ("reassign", PartitionRefused("refused"))],
)
def test_a_throttle_is_lifted_where_no_move_begins(
    fails: str, error: HarnessError, done: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(cluster: Any, at: TopicPartition, target: Sequence[int], *rate: int) -> None:
        raise error

    monkeypatch.setattr(throttles, fails, fail)
    with pytest.raises(type(error)):
        throttles.reassign_throttled(CLUSTER, AT, (1, 2), 1_000)
    assert done[-2:] == ["list_reassignments", "lift_throttle"]


def test_the_first_error_is_told_where_brokers_no_longer_answer(
    done: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*arguments: object) -> None:
        raise PartitionRefused("no broker answers")

    def refused(*arguments: object) -> None:
        raise ConfigRefused("refused")

    monkeypatch.setattr(throttles, "list_reassignments", lost)
    monkeypatch.setattr(throttles, "throttle_move", refused)
    with pytest.raises(ConfigRefused):
        throttles.reassign_throttled(CLUSTER, AT, (1, 2), 1_000)
