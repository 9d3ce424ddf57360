"""How long many connections together may keep the event loop before other work runs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from highwater_adapters.fair_line import FEW, PASS_S, TURN_S, FairLine

CROWD = 1_000


class Loop:
    """A clock that advances only while work runs, and the callbacks to be called soon."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._soon: list[Callable[[], None]] = []
        self.line = FairLine(self._soon.append, lambda: self.now_s)
        self.log: list[str] = []

    def next_pass(self) -> float:
        """Return how long the pass has taken."""
        begun_s = self.now_s
        due, self._soon[:] = tuple(self._soon), []
        for callback in due:
            callback()
        return self.now_s - begun_s


class Runner:
    """A connection with a number of arrived requests of equal duration."""

    def __init__(self, loop: Loop, name: str, requests: int, request_s: float) -> None:
        self.served_s = 0.0
        self._loop, self._name = loop, name
        self.requests = requests
        self._request_s = request_s

    def receive(self) -> None:
        left_s = self._loop.line.left_s(CROWD)
        if left_s > 0:
            self.go_on(self._loop.now_s + left_s)
        else:
            self._loop.line.begin(self, round(self._request_s * 1e6))

    def go_on(self, ends_at: float) -> None:
        begun_s = self._loop.now_s
        while self.requests:
            self.requests -= 1
            self._loop.now_s += self._request_s
            self._loop.log.append(self._name)
            if self._loop.now_s >= ends_at:
                break
        self._loop.line.spend(self, self._loop.now_s - begun_s)
        if self.requests:
            self._loop.line.join(self)


@pytest.fixture
def loop() -> Loop:
    return Loop()


def test_few_connections_cost_the_loop_nothing(loop: Loop) -> None:
    assert [loop.line.left_s(FEW) for _ in range(100)] == [TURN_S] * 100
    assert not loop._soon


def test_a_crowd_takes_no_more_of_a_pass_than_one(loop: Loop) -> None:
    """Found: each of 5,000 connections started a request in one pass, and the process ended."""
    request_s = 0.003
    crowd = [Runner(loop, "crowd", 10, request_s) for _ in range(500)]
    for runner in crowd:
        runner.receive()
    assert loop.now_s <= PASS_S + request_s
    while any(runner.requests for runner in crowd):
        assert 0 < loop.next_pass() <= PASS_S + request_s
    assert len(loop.log) == 5_000


def test_who_asks_for_little_now_and_then_goes_before_those_who_have_more_than_fits(
    loop: Loop,
) -> None:
    for number in range(300):
        Runner(loop, f"greedy {number}", 64, 0.003).receive()
    honest = Runner(loop, "honest", 0, 0.0001)
    for _ in range(400):
        honest.requests = 1
        loop.log.clear()
        honest.receive()
        loop.next_pass()
        assert loop.log.index("honest") == 0


def test_a_small_request_goes_before_the_first_of_a_whole_crowd(loop: Loop) -> None:
    for number in range(300):
        Runner(loop, f"large {number}", 1, 0.003).receive()
    Runner(loop, "small", 1, 0.0001).receive()
    loop.log.clear()
    loop.next_pass()
    assert loop.log[0] == "small"


def test_those_who_only_begin_leave_half_of_a_pass_to_the_others(loop: Loop) -> None:
    others = [Runner(loop, "other", 1_000, 0.001) for _ in range(3)]
    for runner in others:
        loop.line.join(runner)
    for _ in range(100):
        for _ in range(20):
            Runner(loop, "beginner", 1, 0.0005).receive()
        loop.next_pass()
    assert loop.log.count("other") * 0.001 > 0.4 * loop.now_s


def test_a_large_request_has_its_turn_however_many_small_ones_keep_coming(loop: Loop) -> None:
    """Found: one of 513 bytes was never answered beside forty clients that sent 45 bytes each."""
    small = [Runner(loop, "small", 1, 0.001) for _ in range(40)]
    for runner in small:
        runner.receive()
    Runner(loop, "large", 1, 0.003).receive()
    for _ in range(100):
        for runner in small:
            if not runner.requests:
                runner.requests = 1
                runner.receive()
        loop.next_pass()
    assert "large" in loop.log


def test_a_runner_that_raises_keeps_no_other_waiting(loop: Loop) -> None:
    for _ in range(10):
        Runner(loop, "first", 1, 0.003).receive()

    class Broken(Runner):
        def go_on(self, ends_at: float) -> None:
            raise OSError("no memory")

    Broken(loop, "broken", 1, 0.0001).receive()
    with pytest.raises(OSError, match="no memory"):
        loop.next_pass()
    for _ in range(20):
        loop.next_pass()
    assert loop.log.count("first") == 10


def test_who_was_idle_has_no_credit_to_use_up(loop: Loop) -> None:
    for number in range(20):
        Runner(loop, f"greedy {number}", 1_000, 0.001).receive()
    for _ in range(2_000):
        loop.next_pass()
    loop.log.clear()
    Runner(loop, "late", 1_000, 0.001).receive()
    for _ in range(210):
        loop.next_pass()
    assert 30 <= loop.log.count("late") <= 80


def test_who_was_busy_for_long_does_not_wait_until_newcomers_have_had_as_much(loop: Loop) -> None:
    """Found: after a minute alone a connection stood still for as long as a crowd was busy."""
    old = Runner(loop, "old", 60_000, 0.001)
    old.go_on(60.0)
    for _ in range(1_000):  # and then again and again as it began
        loop.line.begin(old, 45)
        old.requests = 1
        loop.next_pass()
    for number in range(20):
        Runner(loop, f"new {number}", 1_000, 0.001).receive()
    old.requests = 5
    loop.log.clear()
    loop.line.join(old)
    for _ in range(2 * (20 + 1)):
        loop.next_pass()
    assert loop.log.count("old") == 5


def test_all_who_have_more_than_fits_have_the_same_share(loop: Loop) -> None:
    times_s = (0.0001, 0.001, 0.004)
    for number, request_s in enumerate(times_s):
        Runner(loop, str(number), 1_000_000, request_s).receive()
    for _ in range(600):
        loop.next_pass()
    shares = [loop.log.count(str(number)) * each for number, each in enumerate(times_s)]
    assert max(shares) < 1.3 * min(shares)
