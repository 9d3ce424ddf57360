"""Waiting requests: which are tried again, in which order, and that none stays behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from highwater_broker.purgatory import Purgatory, Watch
from highwater_core.check import BugFound
from highwater_core.ids import TopicPartition
from highwater_simulator.kernel import Kernel

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


class Waits:
    """Starts waits and notes how they end."""

    def __init__(self, max_waiters: int = 1000) -> None:
        self.kernel = Kernel()
        self.runtime = self.kernel.runtime("node")
        self.scope = self.runtime.scope("waits")
        self.purgatory = Purgatory(self.runtime, max_waiters)
        self.ended: list[tuple[str, bool, int]] = []
        self.asked: list[str] = []
        self.done: set[str] = set()

    def start(
        self,
        name: str,
        *keys: TopicPartition,
        timeout_ms: int = 100,
        is_complete: Callable[[], bool] | None = None,
        in_turn: bool = False,
    ) -> None:
        def ask() -> bool:
            self.asked.append(name)
            return name in self.done

        async def work() -> None:
            result = await self.purgatory.wait(
                keys, is_complete or ask, timeout_ms, in_turn=in_turn
            )
            self.ended.append((name, result, self.runtime.now_ms()))

        self.scope.spawn(name, work())
        self.kernel.run_for(0)

    def check(self, key: TopicPartition) -> None:
        self.purgatory.check(key)
        self.kernel.run_for(0)


@pytest.fixture
def waits() -> Iterator[Waits]:
    started = Waits()
    yield started
    started.kernel.run_for(1_000)
    assert started.purgatory.waiting_count == 0
    assert not started.purgatory.is_listing_any()
    started.kernel.close()


def test_a_wait_that_is_complete_from_the_start_never_waits(waits: Waits) -> None:
    waits.done.add("x")
    waits.start("x", A)
    assert waits.ended == [("x", True, 0)]


def test_a_check_asks_only_its_keys_waiters_in_order_of_waiting(waits: Waits) -> None:
    for name, key in (("first", A), ("other", B), ("second", A)):
        waits.start(name, key)
    waits.asked.clear()
    waits.done |= {"first", "second", "other"}
    waits.check(A)
    assert waits.asked == ["first", "second"]
    assert waits.ended == [("first", True, 0), ("second", True, 0)]


def test_a_waiter_that_is_not_complete_keeps_its_place(waits: Waits) -> None:
    waits.start("x", A)
    waits.start("y", A)
    waits.check(A)
    waits.done |= {"x", "y"}
    waits.check(A)
    assert [name for name, _, _ in waits.ended] == ["x", "y"]


def test_a_wait_ends_false_at_its_timeout(waits: Waits) -> None:
    waits.start("x", A, timeout_ms=30)
    waits.kernel.run_for(30)
    assert waits.ended == [("x", False, 30)]
    waits.asked.clear()
    waits.check(A)
    assert waits.asked == []


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_a_wait_without_time_is_asked_once(waits: Waits, timeout_ms: int) -> None:
    waits.start("x", A, timeout_ms=timeout_ms)
    assert waits.ended == [("x", False, 0)]
    assert waits.asked == ["x"]


def test_a_waiter_on_two_keys_is_woken_once_and_leaves_both(waits: Waits) -> None:
    waits.start("x", A, B)
    waits.done.add("x")
    waits.asked.clear()
    waits.purgatory.check(A)
    waits.purgatory.check(B)
    waits.kernel.run_for(0)
    assert waits.asked == ["x"]
    assert waits.ended == [("x", True, 0)]
    assert not waits.purgatory.is_listing_any()


def test_a_completion_at_the_very_timeout_counts(waits: Waits) -> None:
    waits.start("x", A, timeout_ms=10)
    waits.kernel.call_later(10_000_000 - 1, lambda: waits.done.add("x"))
    waits.kernel.call_later(10_000_000 - 1, lambda: waits.purgatory.check(A))
    waits.kernel.run_for(20)
    assert [(name, result) for name, result, _ in waits.ended] == [("x", True)]


def test_a_cancelled_waiter_leaves_nothing_behind(waits: Waits) -> None:
    waits.start("x", A, B)
    waits.scope.cancel()
    waits.kernel.run_for(0)
    assert waits.purgatory.waiting_count == 0
    assert not waits.purgatory.is_listing_any()
    assert waits.ended == []


def test_beyond_the_limit_a_wait_ends_as_if_its_time_had_passed() -> None:
    waits = Waits(max_waiters=2)
    for name in ("x", "y", "z"):
        waits.start(name, A)
    assert waits.ended == [("z", False, 0)]
    waits.kernel.run_for(100)
    waits.start("w", A)
    assert waits.purgatory.waiting_count == 1
    waits.kernel.close()


def test_a_check_from_within_a_predicate_runs_after_the_check_that_runs(waits: Waits) -> None:
    is_first_call = [True]

    def checks_b() -> bool:
        if not is_first_call[0]:
            waits.purgatory.check(B)
            waits.asked.append("after check of b")
        is_first_call[0] = False
        return False

    waits.start("a1", A, is_complete=checks_b)
    waits.start("a2", A)
    waits.start("b", B)
    waits.asked.clear()
    waits.check(A)
    assert waits.asked == ["after check of b", "a2", "b"]


def test_predicates_that_check_each_other_for_ever_are_a_bug(waits: Waits) -> None:
    is_waiting = [False]

    def checks_itself() -> bool:
        if is_waiting[0]:
            waits.purgatory.check(A)
        return False

    waits.start("x", A, is_complete=checks_itself)
    is_waiting[0] = True
    with pytest.raises(BugFound, match="keep checking"):
        waits.purgatory.check(A)
    is_waiting[0] = False


def test_waiters_in_turn_are_asked_only_up_to_the_first_that_is_not_done(waits: Waits) -> None:
    for name in ("first", "second", "third"):
        waits.start(name, A, in_turn=True)
    waits.start("free", A)
    waits.asked.clear()
    waits.done |= {"first", "free"}
    waits.check(A)
    assert waits.asked == ["free", "first", "second"]
    assert [name for name, _, _ in waits.ended] == ["free", "first"]


def test_a_turn_that_times_out_makes_way_for_the_next(waits: Waits) -> None:
    waits.start("first", A, timeout_ms=10, in_turn=True)
    waits.start("second", A, in_turn=True)
    waits.kernel.run_for(10)
    waits.done.add("second")
    waits.check(A)
    assert waits.ended == [("first", False, 10), ("second", True, 10)]


def test_hundreds_of_waits_come_and_go(waits: Waits) -> None:
    for number in range(300):
        waits.start(f"w{number}", A)
    waits.done |= {f"w{number}" for number in range(300)}
    waits.check(A)
    assert [name for name, _, _ in waits.ended] == [f"w{number}" for number in range(300)]


class Watched:
    """A watch on A and B whose waiter is done once is_done is set."""

    def __init__(self, waits: Waits) -> None:
        self.waits = waits
        self.touched: list[TopicPartition] = []
        self.watch = Watch(self.touched.append)
        self.is_done = False
        self.ended: list[tuple[bool, int]] = []
        for key in (A, B):
            waits.purgatory.watch(key, self.watch)

    def start(self, timeout_ms: int = 100) -> None:
        async def work() -> None:
            waits = self.waits
            result = await waits.purgatory.wait_watching(
                self.watch, lambda: self.is_done, timeout_ms
            )
            self.ended.append((result, waits.runtime.now_ms()))

        self.waits.scope.spawn("watching", work())
        self.waits.kernel.run_for(0)

    def stop(self) -> None:
        for key in (A, B):
            self.waits.purgatory.unwatch(key, self.watch)


def test_a_watch_gets_each_check_with_or_without_a_waiter(waits: Waits) -> None:
    watched = Watched(waits)
    waits.check(B)
    watched.start()
    waits.check(A)
    watched.stop()
    waits.check(A)
    assert watched.touched == [B, A]
    waits.kernel.run_for(100)
    assert watched.ended == [(False, 100)]


def test_waiter_on_a_watch_is_woken_by_any_of_its_keys_once_it_is_done(waits: Waits) -> None:
    watched = Watched(waits)
    watched.start()
    waits.check(A)
    assert (watched.ended, waits.purgatory.waiting_count) == ([], 1)
    watched.is_done = True
    waits.check(B)
    assert (watched.ended, waits.purgatory.waiting_count) == ([(True, 0)], 0)
    watched.start()
    assert watched.ended == [(True, 0), (True, 0)]
    watched.stop()


def test_two_waiters_on_one_watch_are_a_bug(waits: Waits) -> None:
    watched = Watched(waits)
    watched.start()
    second = waits.purgatory.wait_watching(watched.watch, lambda: False, 100)
    with pytest.raises(BugFound, match="two wait on one watch"):
        second.send(None)
    watched.stop()


# ---------------------------------------------------------------- bounds


def open_readers(waits: Waits, count: int, *keys: TopicPartition) -> list[bool]:
    return [
        waits.purgatory.open_reader(Watch(lambda key: None), keys or (A,)) for _ in range(count)
    ]


def test_nothing_waits_longer_than_the_purgatory_allows() -> None:
    waits = Waits()
    waits.purgatory = Purgatory(waits.runtime, max_timeout_ms=50)
    waits.start("x", A, timeout_ms=2**31 - 1)
    watched = Watched(waits)
    watched.start(timeout_ms=2**31 - 1)
    waits.kernel.run_for(50)
    assert (waits.ended, watched.ended) == ([("x", False, 50)], [(False, 50)])
    watched.stop()
    waits.kernel.close()


def test_readers_have_a_bound_of_their_own_and_leave_produces_and_followers_theirs() -> None:
    waits = Waits()
    waits.purgatory = Purgatory(waits.runtime, max_waiters=1, max_readers=2)
    assert open_readers(waits, 3) == [True, True, False]
    watched = Watched(waits)
    watched.start()
    waits.start("produce", A)
    assert (waits.ended, watched.ended) == ([], [])
    waits.start("one too many", A)
    assert waits.ended == [("one too many", False, 0)]
    watched.stop()
    waits.kernel.close()


def test_readers_keys_are_bounded_together() -> None:
    waits = Waits()
    waits.purgatory = Purgatory(waits.runtime, max_reader_keys=3)
    assert open_readers(waits, 1, A, B) == [True]
    assert open_readers(waits, 1, A, B) == [False]
    assert open_readers(waits, 1, B) == [True]
    waits.kernel.close()


def test_a_closed_reader_leaves_nothing_behind_and_makes_room(waits: Waits) -> None:
    waits.purgatory = Purgatory(waits.runtime, max_readers=1)
    touched: list[TopicPartition] = []
    watch = Watch(touched.append)
    assert waits.purgatory.open_reader(watch, (A, B))
    waits.check(A)
    refused = Watch(touched.append)
    assert not waits.purgatory.open_reader(refused, (A,))
    waits.purgatory.close_reader(refused)
    waits.purgatory.close_reader(watch)
    waits.purgatory.close_reader(watch)
    waits.check(A)
    assert touched == [A]
    assert waits.purgatory.open_reader(refused, (A,))
    waits.purgatory.close_reader(refused)


class CountedTurns:
    """A runtime that counts the operations between two of its sleeps."""

    def __init__(self, runtime: Any) -> None:
        self._runtime = runtime
        self.done = self.longest = self.total = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runtime, name)

    def note(self, key: TopicPartition) -> None:
        self.done += 1
        self.total += 1
        self.longest = max(self.longest, self.done)

    async def sleep(self, duration_ms: int) -> None:
        self.done = 0
        await self._runtime.sleep(duration_ms)


class Crowd:
    """A thousand readers of one key, who wait until enough is there."""

    def __init__(self, waits: Waits) -> None:
        self.turns = CountedTurns(waits.runtime)
        self.purgatory = waits.purgatory = Purgatory(self.turns)  # type: ignore[arg-type]
        self.available = 0
        self.woken: list[bool] = []
        for _ in range(1_000):
            watch = Watch(self.turns.note)
            assert self.purgatory.open_reader(watch, [A])
            waits.scope.spawn("reader", self._read(watch))
        waits.kernel.run_for(0)

    async def _read(self, watch: Watch) -> None:
        is_enough = self.purgatory.wait_watching(watch, lambda: self.available >= 2, 500)
        self.woken.append(await is_enough)
        self.purgatory.close_reader(watch)


def test_a_crowd_of_readers_looks_in_turns_after_all_others(waits: Waits) -> None:
    """Found: 49,000 waiting fetches let each Produce take 3 s."""
    crowd = Crowd(waits)
    told: list[TopicPartition] = []
    follower = Watch(told.append)
    crowd.purgatory.watch(A, follower)
    crowd.available = 2
    crowd.purgatory.check(A)
    assert (told, crowd.turns.total) == ([A], 0)
    waits.kernel.run_for(10)
    assert crowd.woken == [True] * 1_000
    assert crowd.turns.longest <= 64


def test_a_crowd_misses_nothing_that_happens_while_it_looks(waits: Waits) -> None:
    crowd = Crowd(waits)
    note, happens_at = crowd.turns.note, 500

    def happen(key: TopicPartition) -> None:
        note(key)
        if crowd.turns.total == happens_at:
            crowd.available = 2
            crowd.purgatory.check(A)

    for watch in crowd.purgatory._readers[A]:
        watch.touched = happen
    crowd.available = 1
    crowd.purgatory.check(A)
    waits.kernel.run_for(10)
    assert crowd.woken == [True] * 1_000


def test_a_crowd_that_left_is_looked_for_no_more(waits: Waits) -> None:
    crowd = Crowd(waits)
    crowd.available = 2
    crowd.purgatory.check(A)
    for watch in tuple(crowd.purgatory._readers[A]):
        crowd.purgatory.close_reader(watch)
    waits.kernel.run_for(1_000)
    assert crowd.turns.total == 0
    assert crowd.woken == [False] * 1_000


class Produces:
    """Requests that each wait for one more record in each of the keys, as produces do."""

    def __init__(self, waits: Waits, count: int, *keys: TopicPartition) -> None:
        self.turns = CountedTurns(waits.runtime)
        self.purgatory = waits.purgatory = Purgatory(self.turns)  # type: ignore[arg-type]
        self.committed = dict.fromkeys(keys, 0)
        self.asked = 0
        self.answered: list[int] = []
        for number in range(count):
            waits.scope.spawn("produce", self._wait(number))
        waits.kernel.run_for(0)

    async def _wait(self, number: int) -> None:
        parts = self.purgatory.parts()
        for key in self.committed:
            parts.add(key, lambda key=key: self._is_committed(key, number))
        if await parts.wait(500):
            self.answered.append(number)
            self.turns.note(A)
        parts.close()

    def _is_committed(self, key: TopicPartition, number: int) -> bool:
        self.asked += 1
        return self.committed[key] > number

    def commit(self, key: TopicPartition, count: int) -> None:
        self.committed[key] = count
        self.purgatory.check(key)


def test_a_check_costs_its_woken_waiters_however_many_wait_for_several_keys(waits: Waits) -> None:
    """Found: each append looked at all of a thousand waiting produces; the broker stood still."""
    produces = Produces(waits, 1_000, A, B)
    produces.asked = 0
    for _ in range(10):
        produces.purgatory.check(A)
    assert produces.asked == 10
    produces.commit(A, 3)
    produces.commit(B, 2)
    waits.kernel.run_for(0)
    assert produces.answered == [0, 1]
    assert produces.asked < 25
    waits.kernel.run_for(1_000)
    assert produces.answered == [0, 1]


def test_thousands_of_produces_that_are_committed_at_once_are_answered_in_turns(
    waits: Waits,
) -> None:
    produces = Produces(waits, 1_000, A)
    produces.commit(A, 1_000)
    waits.kernel.run_for(10)
    assert produces.answered == list(range(1_000))
    assert produces.turns.longest <= 2 * 64


def test_produces_are_counted_against_the_bound_for_any_wait(waits: Waits) -> None:
    waits.purgatory = Purgatory(waits.runtime, max_waiters=1)
    ended: list[bool] = []

    async def wait() -> None:
        parts = waits.purgatory.parts()
        for key in (A, B):
            parts.add(key, lambda: False)
        ended.append(await parts.wait(100))
        parts.close()

    for _ in range(2):
        waits.scope.spawn("produce", wait())
    waits.kernel.run_for(0)
    assert ended == [False]
    assert waits.purgatory.waiting_count == 1
