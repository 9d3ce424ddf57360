"""Requests that wait for partitions: a waiter checks again whenever one of its keys is checked.

A waiter's own predicate decides when it is done. Uses only the runtime.
Source: docs/explanation/replication.md, "Waiting requests" (Kafka's DelayedProduce and
DelayedFetch).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Protocol

from highwater_core.check import check
from highwater_core.ids import TopicPartition
from highwater_core.runtime import Event, Runtime

MAX_WAITERS = 100_000
"""Beyond this number a request is answered as if its time had passed."""
MAX_READERS = 50_000
MAX_READER_KEYS = 500_000
"""Of consumers' waiting fetches, beside the former; beyond either, a fetch is answered at once."""
WOKEN_PER_TURN = 64
"""So many consumers of a key check again, and so many produces end, before other tasks run: each
one that ends answers at once."""
MAX_TIMEOUT_MS = 5 * 60 * 1000
MAX_ROUNDS = 10_000
"""Most checks that one check may cause, one after another; more means an endless loop."""


class _Woken(Protocol):
    def set(self) -> None: ...


class _Waiter:
    """One waiting request, or one key's part of one."""

    __slots__ = ("is_complete", "is_done", "woken")

    def __init__(self, is_complete: Callable[[], bool], woken: _Woken) -> None:
        self.is_complete = is_complete
        self.woken = woken
        self.is_done = False


class _Waiting:
    """The waiters of one key. The dicts are ordered sets: removal in O(1), oldest first."""

    __slots__ = ("freely", "in_turn")

    def __init__(self) -> None:
        self.freely: dict[_Waiter, None] = {}
        self.in_turn: dict[_Waiter, None] = {}

    def __bool__(self) -> bool:
        return bool(self.freely or self.in_turn)

    def done(self, in_turn_max: int) -> list[_Waiter]:
        """Return the waiters that are done now; predicates do not change state.

        in_turn_max: most waiters in turn to return.
        """
        # A waiter that another key woke stays listed until its task runs.
        done = [one for one in self.freely if not one.is_done and one.is_complete()]
        for waiter in islice(self.in_turn, in_turn_max):
            if not waiter.is_complete():
                break
            done.append(waiter)
        return done

    def remove(self, waiter: _Waiter) -> None:
        self.freely.pop(waiter, None)
        self.in_turn.pop(waiter, None)


class Parts:
    """The parts of one request's wait, key by key: it is done when every part is.

    Add a part in turn before any wait that begins later on its key.
    """

    __slots__ = ("_listed", "_open_count", "_purgatory", "_woken")

    def __init__(self, purgatory: Purgatory) -> None:
        self._purgatory = purgatory
        self._woken: Event | None = None
        self._listed: list[tuple[TopicPartition, _Waiter]] = []
        self._open_count = 0

    def add(
        self, key: TopicPartition, is_complete: Callable[[], bool], *, in_turn: bool = True
    ) -> None:
        """List a part, unless it is complete now; see Purgatory.wait for predicate and in_turn."""
        if is_complete():
            return
        waiter = _Waiter(is_complete, self)
        self._purgatory.list_waiter(key, waiter, in_turn=in_turn)
        self._listed.append((key, waiter))
        self._open_count += 1

    def set(self) -> None:
        """Count one part as done."""
        self._open_count -= 1
        if not self._open_count and self._woken is not None:
            self._woken.set()

    async def wait(self, timeout_ms: int) -> bool:
        """Return True once every part is complete, False when timeout_ms passed first."""
        if not self._open_count:
            return True
        self._woken = self._purgatory.event()
        return await self._purgatory.wait_for(self._woken, timeout_ms)

    def close(self) -> None:
        """Remove the open parts from their keys."""
        for key, waiter in self._listed:
            if not waiter.is_done:
                self._purgatory.forget(waiter, (key,))


class Watch:
    """A permanent listing under many keys, for a client that waits again and again.

    touched: called with each checked key, also without a wait.
    """

    __slots__ = ("keys", "touched", "waiter")

    def __init__(self, touched: Callable[[TopicPartition], None]) -> None:
        self.touched = touched
        self.waiter: _Waiter | None = None
        self.keys: tuple[TopicPartition, ...] | None = None
        """The keys of a reader's listing, while it is listed."""

    def look(self, key: TopicPartition) -> None:
        """Report a checked key, and end the wait if it is done now."""
        self.touched(key)
        waiter = self.waiter
        if waiter is not None and not waiter.is_done and waiter.is_complete():
            waiter.is_done = True
            waiter.woken.set()


class Purgatory:
    """Requests that wait, by partition, each key's in the order in which they began to wait.

    Consumers' fetches have a bound of their own, so that they never displace produces and
    followers.
    Invariant: a waiter is listed under each of its keys from its predicate's first False until it
    is woken, times out or is cancelled; a key without waiters is not listed.
    """

    def __init__(
        self,
        runtime: Runtime,
        max_waiters: int = MAX_WAITERS,
        max_readers: int = MAX_READERS,
        max_reader_keys: int = MAX_READER_KEYS,
        max_timeout_ms: int = MAX_TIMEOUT_MS,
    ) -> None:
        """max_timeout_ms: the longest wait of any request."""
        self._runtime = runtime
        self._max_waiters = max_waiters
        self._max_readers = max_readers
        self._max_timeout_ms = max_timeout_ms
        self._max_reader_keys = max_reader_keys
        self._reader_count = 0
        self._reader_key_count = 0
        self._waiting: dict[TopicPartition, _Waiting] = {}
        self._watches: dict[TopicPartition, dict[Watch, None]] = {}
        self._readers: dict[TopicPartition, dict[Watch, None]] = {}
        self._crowded: dict[TopicPartition, None] = {}
        """Checked keys with waiters that must still check or be woken; an ordered set."""
        self._scope = runtime.scope("purgatory")
        self._is_waking_crowds = False
        self._waiting_count = 0
        self._watching_count = 0
        self._is_checking = False
        self._deferred: list[TopicPartition] = []

    @property
    def waiting_count(self) -> int:
        """The number of waiting requests."""
        return self._waiting_count

    @property
    def watching_count(self) -> int:
        """The number of waiting fetches among these."""
        return self._watching_count

    def is_listing_any(self) -> bool:
        """Return whether any key has a waiter or a reader."""
        return bool(self._waiting) or self._reader_count > 0

    def check(self, key: TopicPartition) -> None:
        """Let the key's waiters check again, and wake those that are done.

        Many readers check after the others, in turns with other tasks. A check within a waiter's
        predicate is carried out after the present one.
        """
        if key not in self._waiting and key not in self._watches and key not in self._readers:
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
        for watch in self._watches.get(key, ()):
            watch.look(key)
        self._wake_readers(key)
        if self._wake_waiting(key):
            self._wake_crowd_of(key)

    def _wake_waiting(self, key: TopicPartition) -> bool:
        """Wake the key's waiters that are done; return whether more of them may be."""
        waiting = self._waiting.get(key)
        if waiting is None:
            return False
        done = waiting.done(WOKEN_PER_TURN)
        for waiter in done:
            waiter.is_done = True
            waiting.remove(waiter)
            waiter.woken.set()
        if not waiting:
            del self._waiting[key]
        return bool(waiting.in_turn) and len(done) >= WOKEN_PER_TURN

    def _wake_readers(self, key: TopicPartition) -> None:
        readers = self._readers.get(key, {})
        if len(readers) > WOKEN_PER_TURN:
            self._wake_crowd_of(key)
            return
        for watch in readers:
            watch.look(key)

    def _wake_crowd_of(self, key: TopicPartition) -> None:
        """Check the key again, in turns with other tasks."""
        self._crowded[key] = None
        if not self._is_waking_crowds:
            self._is_waking_crowds = True
            self._scope.spawn("CrowdWaker", self._wake_crowds())

    async def _wake_crowds(self) -> None:
        try:
            while self._crowded:
                key = next(iter(self._crowded))
                del self._crowded[key]  # a check from now on lets all of them check once more
                await self._runtime.sleep(0)
                while self._wake_waiting(key):
                    await self._runtime.sleep(0)
                for number, watch in enumerate(tuple(self._readers.get(key, ()))):
                    if number % WOKEN_PER_TURN == 0:
                        await self._runtime.sleep(0)
                    if watch.keys is not None:
                        watch.look(key)
        finally:
            self._is_waking_crowds = False

    async def wait(
        self,
        keys: Sequence[TopicPartition],
        is_complete: Callable[[], bool],
        timeout_ms: int,
        *,
        in_turn: bool = False,
    ) -> bool:
        """Return True once is_complete does, False when timeout_ms passed first.

        is_complete is called at once, and then at each check of one of the keys. It must be quick
        and must not change state that other waiters read. Once it has returned True it is not
        called again. After False the caller decides by the state at that moment.

        in_turn: it has one key, and is never complete before earlier waiters in turn on that key;
        is_complete is not called until they are done. So the cost of a check is that of the woken
        waiters alone (a partition's acks=all produces wait like this).
        """
        if is_complete():
            return True
        woken = self._runtime.event()
        waiter = _Waiter(is_complete, woken)
        for key in keys:
            self.list_waiter(key, waiter, in_turn=in_turn)
        try:
            return await self.wait_for(woken, timeout_ms)
        finally:
            self.forget(waiter, keys)

    def parts(self) -> Parts:
        """Return a wait for several keys, with a part for each; close it after the wait."""
        return Parts(self)

    def event(self) -> Event:
        return self._runtime.event()

    def list_waiter(self, key: TopicPartition, waiter: _Waiter, *, in_turn: bool) -> None:
        waiting = self._waiting.get(key)
        if waiting is None:
            waiting = self._waiting[key] = _Waiting()
        (waiting.in_turn if in_turn else waiting.freely)[waiter] = None

    async def wait_for(self, woken: Event, timeout_ms: int) -> bool:
        """Return whether a listed waiter was woken in time; False at once when it is full."""
        if timeout_ms <= 0 or self._waiting_count - self._watching_count >= self._max_waiters:
            return False
        self._waiting_count += 1
        try:
            await woken.wait(min(timeout_ms, self._max_timeout_ms))
        finally:
            self._waiting_count -= 1
        return woken.is_set()

    def watch(self, key: TopicPartition, watch: Watch) -> None:
        self._watches.setdefault(key, {})[watch] = None

    def unwatch(self, key: TopicPartition, watch: Watch) -> None:
        _unlist(self._watches, key, watch)

    def open_reader(self, watch: Watch, keys: Sequence[TopicPartition]) -> bool:
        """List a consumer's watch under its keys; return False without listing it when full."""
        check(watch.keys is None, "purgatory: a reader is open already")
        count = len(keys)
        if (
            self._reader_count >= self._max_readers
            or self._reader_key_count + count > self._max_reader_keys
        ):
            return False
        watch.keys = tuple(keys)
        self._reader_count += 1
        self._reader_key_count += count
        for key in keys:
            self._readers.setdefault(key, {})[watch] = None
        return True

    def close_reader(self, watch: Watch) -> None:
        """Undo open_reader; no effect if that returned False."""
        if watch.keys is None:
            return
        keys, watch.keys = watch.keys, None
        self._reader_count -= 1
        self._reader_key_count -= len(keys)
        for key in keys:
            _unlist(self._readers, key, watch)

    async def wait_watching(
        self, watch: Watch, is_complete: Callable[[], bool], timeout_ms: int
    ) -> bool:
        """Wait as wait does, for all keys of a watch; one wait at a time.

        It does not count for a bound: followers are few, and readers were counted when opened.
        """
        check(watch.waiter is None, "purgatory: two wait on one watch")
        if is_complete():
            return True
        if timeout_ms <= 0:
            return False
        woken = self._runtime.event()
        watch.waiter = waiter = _Waiter(is_complete, woken)
        self._waiting_count += 1
        self._watching_count += 1
        try:
            await woken.wait(min(timeout_ms, self._max_timeout_ms))
        finally:
            self._waiting_count -= 1
            self._watching_count -= 1
            watch.waiter = None
        return waiter.is_done

    def forget(self, waiter: _Waiter, keys: Sequence[TopicPartition]) -> None:
        for key in keys:
            waiting = self._waiting.get(key)
            if waiting is not None:
                waiting.remove(waiter)
                if not waiting:
                    del self._waiting[key]


def _unlist(
    watches: dict[TopicPartition, dict[Watch, None]], key: TopicPartition, watch: Watch
) -> None:
    listed = watches[key]
    del listed[watch]
    if not listed:
        del watches[key]
