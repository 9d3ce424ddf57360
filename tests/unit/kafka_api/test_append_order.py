"""AppendOrder: a partition's requests append in order of arrival, also if one is cancelled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations
from typing import Any

import pytest

from highwater_broker.kafka_api.append_order import AppendOrder
from highwater_core.ids import TopicPartition
from highwater_core.runtime import Event, Task
from highwater_simulator.kernel import Kernel

P, Q = TopicPartition("t", 0), TopicPartition("t", 1)


class Appending:
    """Starts requests that record when they begin and end; each ends when the test releases it."""

    def __init__(self) -> None:
        self.kernel = Kernel()
        self.runtime = self.kernel.runtime("broker-0")
        self.scope = self.runtime.scope("requests")
        self.order = AppendOrder(self.runtime)
        self.log: list[str] = []
        self._tasks: dict[str, Task] = {}
        self._gates: dict[str, Event] = {}

    def start(self, name: str, *keys: TopicPartition) -> None:
        gate = self._gates[name] = self.runtime.event()

        async def append() -> None:
            self.log.append(f"{name} begins")
            await gate.wait()
            self.log.append(f"{name} ends")

        self._tasks[name] = self.scope.spawn(name, self.order.append(keys, append))
        self.kernel.run_for(0)

    def leave(self, name: str) -> None:
        """Cancel the request, as when its connection is closed."""
        self._tasks[name].cancel()
        self.kernel.run_for(0)

    def end(self, names: Sequence[str]) -> None:
        for name in names:
            self._gates[name].set()
            self.kernel.run_for(0)


@pytest.fixture
def appending() -> Iterator[Any]:
    started = Appending()
    yield started
    assert started.order.is_free([P, Q]), "a request kept its place"
    started.kernel.close()


def test_who_leaves_before_its_turn_lets_nobody_overtake_the_one_under_way(appending: Any) -> None:
    for name in "abc":
        appending.start(name, P)
    appending.leave("b")
    assert appending.log == ["a begins"]
    appending.end("ac")
    assert appending.log == ["a begins", "a ends", "c begins", "c ends"]


def test_who_comes_after_one_has_left_waits_for_those_that_have_not(appending: Any) -> None:
    appending.start("a", P)
    appending.start("b", P)
    appending.leave("b")
    assert not appending.order.is_free([P])
    appending.start("c", P)
    appending.end("ac")
    assert appending.log == ["a begins", "a ends", "c begins", "c ends"]


@pytest.mark.parametrize("leaving", [*permutations("bcd")], ids="".join)
def test_those_that_wait_may_leave_in_any_order(appending: Any, leaving: tuple[str, ...]) -> None:
    for name in "abcde":
        appending.start(name, P)
    for name in leaving:
        appending.leave(name)
    appending.start("f", P)
    assert appending.log == ["a begins"]
    appending.end("aef")
    assert appending.log == [f"{name} {does}" for name in "aef" for does in ("begins", "ends")]


def test_who_leaves_while_it_appends_is_waited_for_no_more(appending: Any) -> None:
    appending.start("a", P)
    appending.start("b", P)
    appending.leave("a")
    appending.end("b")
    assert appending.log == ["a begins", "b begins", "b ends"]


def test_each_partition_waits_for_its_own_earlier_requests_only(appending: Any) -> None:
    appending.start("a", P)
    appending.start("b", P, Q)
    appending.start("c", Q)
    appending.leave("b")
    assert appending.log == ["a begins", "c begins"]
    appending.start("d", Q, P)
    appending.end("c")
    assert appending.log[2:] == ["c ends"]
    appending.end("ad")
    assert appending.log[3:] == ["a ends", "d begins", "d ends"]


def test_nothing_is_kept_of_those_that_left(appending: Any) -> None:
    appending.start("a", P)
    for number in range(20):
        appending.start(f"b{number}", P)
        appending.leave(f"b{number}")
    (last,) = appending.order._last.values()
    assert last.earlier == {}, "the one under way, and nobody behind it"
    appending.end("a")
