"""Does deeds again and again, in threads, until it is stopped."""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping

from bench.hostile import greedy, leaving
from bench.hostile.greedy import Deed
from bench.hostile.target import Target
from highwater.cluster.wire_client import ConnectionClosed

DEEDS: Mapping[str, Deed] = {
    each.__name__: each
    for each in (
        leaving.leave_pipelined_fetches,
        leaving.leave_a_half_read_answer,
        leaving.leave_long_waits,
        leaving.wait_in_a_crowd,
        leaving.consume_and_leave,
        leaving.be_killed_while_reading,
        greedy.crawl,
        greedy.stay_idle,
        greedy.name_one_partition_often,
        greedy.describe_one_broker_often,
        greedy.ask_for_many_topics,
        greedy.pipeline_large_requests,
        greedy.say_long_words,
        greedy.make_odd_topics,
        greedy.roll_small_segments,
        greedy.produce_many_keys,
        greedy.produce_in_a_crowd,
        greedy.send_several_batches,
        greedy.send_forged_counts,
        greedy.send_forged_times,
        greedy.send_garbage,
    )
}
_PAUSE_S = 0.05
_AT_PRESENT = (OSError, LookupError, ConnectionClosed)
"""Errors while a broker is down or unreachable, or a partition has no leader."""


class Troop:
    """Threads that draw one deed after another: all in a new order, then all in another, and so on.

    done: how often each deed was done to its end.
    """

    def __init__(
        self, target: Target, deeds: Mapping[str, Deed], seed: int, *, threads: int, pause_s: float
    ) -> None:
        self._target, self._deeds, self._pause_s = target, deeds, pause_s or _PAUSE_S
        self._order = random.Random(seed)  # noqa: S311
        self._to_come: list[str] = []
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self.done = dict.fromkeys(deeds, 0)
        self.failed: dict[str, dict[str, int]] = {name: {} for name in deeds}
        self._crashes: list[BaseException] = []
        self._threads = [
            threading.Thread(
                target=self._run,
                args=(random.Random(f"{seed} {number}"),),  # noqa: S311
                daemon=True,
            )
            for number in range(threads)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    @property
    def trouble(self) -> str:
        """The error that ended a thread; "" without one."""
        return f"{type(self._crashes[0]).__name__}: {self._crashes[0]}" if self._crashes else ""

    def stop(self, within_s: float = 60.0) -> None:
        """Return when the last deeds are done.

        Raises:
            RuntimeError: a deed failed unexpectedly, or does not end.
        """
        self._stopping.set()
        for thread in self._threads:
            thread.join(within_s)
        if self._crashes:
            raise RuntimeError("a deed could not be done") from self._crashes[0]
        if any(thread.is_alive() for thread in self._threads):
            raise RuntimeError(f"a deed does not end: {self.done}")

    def _run(self, rng: random.Random) -> None:
        try:
            while not self._stopping.is_set():
                self._do(self._draw(), rng)
                self._stopping.wait(self._pause_s)
        except BaseException as error:  # noqa: BLE001 - handed to stop(), which raises it
            self._crashes.append(error)

    def _draw(self) -> str:
        with self._lock:
            if not self._to_come:
                self._to_come = list(self._deeds)
                self._order.shuffle(self._to_come)
            return self._to_come.pop()

    def _do(self, name: str, rng: random.Random) -> None:
        try:
            self._deeds[name](self._target, rng)
        except _AT_PRESENT as error:
            with self._lock:
                failed = self.failed[name]
                failed[type(error).__name__] = failed.get(type(error).__name__, 0) + 1
        else:
            with self._lock:
                self.done[name] += 1
