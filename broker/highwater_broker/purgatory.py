"""Where requests wait for partitions: a waiter looks again whenever one of its keys is checked.

It decides nothing itself: the waiter's own predicate says when it is done. Touches only the
runtime.
Source: replication.md section 4, "Purgatory" (Kafka's DelayedProduce and DelayedFetch).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from highwater_core.check import check
from highwater_core.ids import TopicPartition
from highwater_core.runtime import Event, Runtime

MAX_WAITERS = 100_000
"""Past this many, a request that would wait is answered as if its time had passed."""
MAX_TIMEOUT_MS = 24 * 60 * 60 * 1000
MAX_ROUNDS = 10_000
"""Checks that one check may set off, one after another; more means that they never end."""


class _Waiter:
    """One waiting request."""

    __slots__ = ("is_complete", "is_done", "woken")

    def __init__(self, is_complete: Callable[[], bool], woken: Event) -> None:
        self.is_complete = is_complete
        self.woken = woken
        self.is_done = False


class Purgatory:
    """Requests that wait, by partition, each key's in the order in which they began to wait.

    Invariant: a waiter is listed under each of its keys from the first time that its predicate
    said no until it is woken, times out or is cancelled; a key without waiters is not listed.
    """

    def __init__(self, runtime: Runtime, max_waiters: int = MAX_WAITERS) -> None:
        self._runtime = runtime
        self._max_waiters = max_waiters
        # The inner dicts are ordered sets: removal in O(1), iteration in order of waiting.
        self._waiters: dict[TopicPartition, dict[_Waiter, None]] = {}
        self._waiting_count = 0
        self._is_checking = False
        self._deferred: list[TopicPartition] = []

    @property
    def waiting_count(self) -> int:
        """Requests that wait now."""
        return self._waiting_count

    def is_listing_any(self) -> bool:
        """Return whether any key has a waiter; never when nothing waits."""
        return bool(self._waiters)

    def check(self, key: TopicPartition) -> None:
        """Let the key's waiters look again, and wake those that are done.

        A check from within a waiter's predicate is carried out after the one that runs.
        """
        if key not in self._waiters:
            return
        if self._is_checking:
            self._deferred.append(key)
            return
        self._is_checking = True
        try:
            self._wake_done(key)
            rounds = 0
            while self._deferred:
                rounds += 1
                check(rounds <= MAX_ROUNDS, "purgatory: predicates keep checking each other")
                self._wake_done(self._deferred.pop(0))
        finally:
            self._is_checking = False
            self._deferred.clear()

    def _wake_done(self, key: TopicPartition) -> None:
        waiters = self._waiters.get(key)
        if waiters is None:
            return
        for waiter in tuple(waiters):
            # One that another key woke stays listed until its task runs.
            if not waiter.is_done and waiter.is_complete():
                waiter.is_done = True
                waiters.pop(waiter, None)
                waiter.woken.set()
        if not waiters:
            self._waiters.pop(key, None)

    async def wait(
        self, keys: Sequence[TopicPartition], is_complete: Callable[[], bool], timeout_ms: int
    ) -> bool:
        """Return True once is_complete says so, False when timeout_ms passed first.

        is_complete is called now, without waiting, and then at each check of one of the keys; it
        must be quick and must not change what other waiters look at. Once it has said yes it is
        not called again. After False the caller decides from the state it then finds.
        """
        if is_complete():
            return True
        if timeout_ms <= 0 or self._waiting_count >= self._max_waiters:
            return False
        waiter = _Waiter(is_complete, self._runtime.event())
        for key in keys:
            self._waiters.setdefault(key, {})[waiter] = None
        self._waiting_count += 1
        try:
            await waiter.woken.wait(min(timeout_ms, MAX_TIMEOUT_MS))
        finally:
            self._waiting_count -= 1
            self._forget(waiter, keys)
        return waiter.is_done

    def _forget(self, waiter: _Waiter, keys: Sequence[TopicPartition]) -> None:
        for key in keys:
            waiters = self._waiters.get(key)
            if waiters is None:
                continue
            waiters.pop(waiter, None)
            if not waiters:
                del self._waiters[key]
