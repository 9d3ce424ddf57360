"""What many connections together may take of the event loop before others run."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from highwater_adapters.shared_turn import FEW, TURN_S, SharedTurn


class Loop:
    """Calls what was to be called soon when a test begins the next pass."""

    def __init__(self) -> None:
        self._soon: list[Callable[[], None]] = []

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._soon.append(callback)

    def next_pass(self) -> int:
        due, self._soon = self._soon, []
        for callback in due:
            callback()
        return len(due)


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def turn(loop: Loop) -> SharedTurn:
    return SharedTurn(loop.call_soon)


def test_few_connections_cost_the_loop_nothing(loop: Loop, turn: SharedTurn) -> None:
    assert [turn.share_s(FEW) for _ in range(100)] == [TURN_S] * 100
    assert loop.next_pass() == 0


def test_many_that_are_busy_at_once_take_little_more_than_one(loop: Loop, turn: SharedTurn) -> None:
    first = [turn.share_s(1_000) for _ in range(1_000)]
    assert sum(first) < 8 * TURN_S
    assert loop.next_pass() == 1
    second = [turn.share_s(1_000) for _ in range(1_000)]
    assert sum(second) == pytest.approx(TURN_S)


def test_one_of_many_that_is_busy_alone_has_a_whole_turn(loop: Loop, turn: SharedTurn) -> None:
    for _ in range(1_000):
        turn.share_s(1_000)
    for _ in range(2):
        loop.next_pass()
        share_s = turn.share_s(1_000)
    assert share_s == TURN_S
