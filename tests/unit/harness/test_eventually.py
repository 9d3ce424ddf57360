"""The one way to wait: a first try at once, a last one at the end, a failure with its state."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from highwater.waiting import LONGEST_PAUSE_S, NeverHappened, eventually


class FakeClock:
    """Time that passes only in pauses."""

    def __init__(self) -> None:
        self.now = 100.0
        self.pauses: list[float] = []

    def __call__(self) -> float:
        return self.now

    def pause(self, duration_s: float) -> None:
        self.pauses.append(duration_s)
        self.now += duration_s


def answers(*values: object) -> Callable[[], object]:
    left = list(values)
    return lambda: left.pop(0) if len(left) > 1 else left[0]


def test_a_condition_that_holds_already_needs_no_pause() -> None:
    clock = FakeClock()
    assert eventually(lambda: "leader", within=5, clock=clock, pause=clock.pause) == "leader"
    assert clock.pauses == []


def test_the_first_true_value_is_returned() -> None:
    clock = FakeClock()
    predicate = answers(None, 0, [], 7, 8)
    assert eventually(predicate, within=5, clock=clock, pause=clock.pause) == 7
    assert len(clock.pauses) == 3


def test_pauses_grow_up_to_a_bound_and_never_pass_the_deadline() -> None:
    clock = FakeClock()
    with pytest.raises(NeverHappened):
        eventually(lambda: False, within=2, clock=clock, pause=clock.pause)
    assert clock.pauses[0] < clock.pauses[1] < clock.pauses[2]
    assert max(clock.pauses) == LONGEST_PAUSE_S
    assert clock.now == pytest.approx(102)


def test_it_is_asked_a_last_time_when_the_time_is_over() -> None:
    clock = FakeClock()

    def predicate() -> bool:
        return clock.now >= 102

    assert eventually(predicate, within=2, clock=clock, pause=clock.pause)


def test_a_failure_names_the_awaited_condition_the_last_value_and_the_state() -> None:
    clock = FakeClock()
    with pytest.raises(NeverHappened) as failure:
        eventually(
            lambda: (),
            within=0.5,
            what="a full ISR",
            state=lambda: "broker-1: exited (137)",
            clock=clock,
            pause=clock.pause,
        )
    assert str(failure.value).splitlines() == [
        "not within 0.5 s: a full ISR",
        "last seen: ()",
        "state: broker-1: exited (137)",
    ]


def test_an_expected_error_means_not_yet_and_is_the_last_value() -> None:
    clock = FakeClock()

    def refused() -> bool:
        raise ConnectionRefusedError("port 9095")

    with pytest.raises(NeverHappened, match="port 9095"):
        eventually(refused, within=1, retry_on=OSError, clock=clock, pause=clock.pause)


def test_any_other_error_comes_through_at_once() -> None:
    clock = FakeClock()

    def broken() -> bool:
        raise KeyError("a bug")

    with pytest.raises(KeyError):
        eventually(broken, within=1, retry_on=OSError, clock=clock, pause=clock.pause)
    assert clock.pauses == []
