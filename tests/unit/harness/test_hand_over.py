"""The active controller is stopped only if another can follow it, and its successor is awaited."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from highwater.cluster.hand_over import NotHandedOver, hand_over
from highwater_core.ids import NodeId

FIRST, SECOND = NodeId(1000), NodeId(1001)


class Controllers:
    """Stands for a cluster of two controllers; the second is active after so many looks."""

    def __init__(
        self,
        active: int | None,
        after_looks: int = 0,
        silent: int | None = None,
        without_session: int | None = None,
    ) -> None:
        self.topology = SimpleNamespace(
            controller_ids=(FIRST, SECOND),
            node=lambda node: SimpleNamespace(name=f"controller-{node}"),
        )
        self.terminated: list[int] = []
        self._active = active
        self._silent = silent
        self._without_session = without_session
        self._looks_left = after_looks

    def terminate(self, node: int) -> int:
        self.terminated.append(node)
        self._active = None
        return 0

    def try_snapshot(self, node: int, *, timeout_s: float) -> Any:
        if node in self.terminated or node == self._silent:
            return None
        if self.terminated:
            self._looks_left -= 1
            self._active = SECOND if self._looks_left < 0 else None
        return SimpleNamespace(
            node_id=node,
            active_controller=node == self._active,
            controller_id=-1
            if self._active is None or node == self._without_session
            else self._active,
            controller_epoch=2,
        )


def test_the_active_one_is_stopped_and_the_other_awaited() -> None:
    cluster: Any = Controllers(FIRST, after_looks=3)
    done = hand_over(cluster, within_s=30.0)
    assert cluster.terminated == [FIRST]
    assert (done.stopped, done.active, done.controller_epoch) == (FIRST, SECOND, 2)


@pytest.mark.parametrize(
    ("cluster", "says"),
    [
        (Controllers(None), "no controller says that it is active; 1000 takes -1 for it, 1001"),
        (Controllers(FIRST, silent=SECOND), "no other controller is ready to follow controller"),
        (Controllers(FIRST, without_session=SECOND), "ready to follow .* 1001 takes -1 for it"),
    ],
    ids=["nobody is active", "nobody follows", "the other one has no session"],
)
def test_nothing_is_stopped_where_nobody_can_follow(cluster: Any, says: str) -> None:
    with pytest.raises(NotHandedOver, match=says):
        hand_over(cluster, within_s=30.0)
    assert cluster.terminated == []


def test_without_a_successor_in_time_the_controllers_states_are_reported() -> None:
    cluster: Any = Controllers(FIRST, after_looks=1_000_000)
    with pytest.raises(NotHandedOver, match="state: 1001 takes -1 for it"):
        hand_over(cluster, within_s=0.0)
