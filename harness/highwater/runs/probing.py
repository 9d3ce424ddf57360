"""Fetches, as a consumer, offsets without a committed record from every broker, all the time.

Records above the high watermark are hidden for milliseconds, or as long as a fault lasts, and a new
leader's high watermark may be below its predecessor's. So the prober asks often. It judges nothing:
the answers go to probes.jsonl, for highwater_checker.invariants.empty_fetches.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from highwater.cluster.wire_client import ConnectionClosed, WireClient
from highwater.errors import HarnessError
from highwater_checker.looks import Look, leaderships, replica_at
from highwater_checker.probes import NO_ANSWER, Probe, encode_probe
from highwater_core.errors import ErrorCode
from highwater_core.ids import Endpoint, TopicPartition
from highwater_wire.kafka.record_batch import BadBatch, split_batches

EVERY_S = 0.05
EVERY_S_WITHOUT_LEADER = 0.02
"""The pause while there is no leader: short, to probe a new leader's first moments."""
MAX_WAIT_MS = 10
"""Long enough that the broker makes the fetch wait, short enough to ask often."""
ANSWER_WITHIN_S = 1.0
_STOP_WITHIN_S = 5.0


class ProberDied(HarnessError):
    """The prober's answers are incomplete."""


def offsets_to_probe(
    look: Look, broker: int, at: TopicPartition, told: int | None
) -> tuple[int, ...]:
    """Return the offsets to fetch from the broker, ascending.

    From a leader: the first, a middle and the last offset above its high watermark, or the high
    watermark when there are none. From every broker: the highest high watermark that any broker has
    reported.
    """
    replica = replica_at(look, broker, at)
    wanted = set() if told is None else {told}
    if replica is not None and replica.role == "leader":
        first, end = int(replica.high_watermark), int(replica.log_end_offset)
        wanted |= {first, (first + end) // 2, max(first, end - 1)}
    return tuple(sorted(wanted))


class Prober:
    """One thread a broker, each with a connection of its own; use it as a context manager."""

    def __init__(
        self,
        endpoints: Mapping[int, Endpoint],
        partitions: Sequence[TopicPartition],
        path: Path,
        latest: Callable[[], Look],
        now_ns: Callable[[], int],
    ) -> None:
        """latest: returns the newest look.
        now_ns: the clock of looks and histories."""
        self._partitions = tuple(partitions)
        self._latest = latest
        self._now_ns = now_ns
        self._told: dict[TopicPartition, int] = {}
        self._answers = dict.fromkeys(endpoints, 0)
        self._lock = threading.Lock()
        self._file = path.open("wb")
        self._stopping = threading.Event()
        self._crashes: list[Exception] = []
        self._threads = [
            threading.Thread(
                target=self._run, args=(broker, endpoint), name=f"probe {broker}", daemon=True
            )
            for broker, endpoint in endpoints.items()
        ]

    def __enter__(self) -> Prober:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Return once all answers are written. Again is harmless.

        Raises:
            ProberDied: a thread died, so the answers are incomplete.
        """
        self._stopping.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(_STOP_WITHIN_S)
        with self._lock:
            self._file.close()
        if self._crashes:
            raise ProberDied(repr(self._crashes[0])) from self._crashes[0]

    def told(self, at: TopicPartition) -> int:
        """Return the highest high watermark that a broker reported so far, -1 before the first."""
        return self._told.get(at, -1)

    def answers(self, broker: int) -> int:
        """Return how many fetches the broker answered without an error so far."""
        return self._answers[broker]

    # ------------------------------------------------------------ one broker's thread

    def _run(self, broker: int, endpoint: Endpoint) -> None:
        try:
            client: WireClient | None = None
            turn = 0
            while not self._stopping.wait(self._pause_s()):
                client = self._probe_all(client, broker, endpoint, turn)
                turn += 1
            if client is not None:
                client.close()
        except Exception as error:  # noqa: BLE001 - handed to stop(), which raises it
            self._crashes.append(error)

    def _pause_s(self) -> float:
        led = leaderships(self._latest())
        is_led = all(at in led for at in self._partitions)
        return EVERY_S if is_led else EVERY_S_WITHOUT_LEADER

    def _probe_all(
        self, client: WireClient | None, broker: int, endpoint: Endpoint, turn: int
    ) -> WireClient | None:
        """Probe each partition at one offset; return the connection, None when there is none."""
        look = self._latest()
        for at in self._partitions:
            offsets = offsets_to_probe(look, broker, at, self._told.get(at))
            if not offsets:
                continue
            offset = offsets[turn % len(offsets)]
            asked_ns = self._now_ns()
            try:
                if client is None:
                    client = WireClient(endpoint, timeout_s=ANSWER_WITHIN_S)
                self._write(self._ask(client, broker, at, offset, asked_ns))
            except (ConnectionClosed, OSError):
                if client is not None:
                    client.close()
                client = None
                now_ns = self._now_ns()
                place = at.topic, at.partition, offset
                self._write(Probe(asked_ns, now_ns, broker, *place, error=NO_ANSWER))
        return client

    def _ask(
        self, client: WireClient, broker: int, at: TopicPartition, offset: int, asked_ns: int
    ) -> Probe:
        result: Any = client.fetch(at.topic, at.partition, offset, max_wait_ms=MAX_WAIT_MS)
        answered_ns = self._now_ns()
        error = result.error
        try:
            batches = [batch.header for batch in split_batches(bytes(result.records))]
        except BadBatch as bad:  # a broker's torn batch is evidence, and no end of the prober
            error, batches = bad.error, []
        is_well = error is ErrorCode.NONE
        if is_well:
            self._hear(broker, at, result.high_watermark)
        return Probe(
            asked_ns=asked_ns,
            answered_ns=answered_ns,
            broker=broker,
            topic=at.topic,
            partition=at.partition,
            offset=offset,
            error="" if is_well else error.name,
            high_watermark=result.high_watermark if is_well else -1,
            first_record=batches[0].base_offset if batches else -1,
            last_record=batches[-1].last_offset if batches else -1,
        )

    def _hear(self, broker: int, at: TopicPartition, high_watermark: int) -> None:
        with self._lock:
            self._answers[broker] += 1
            self._told[at] = max(high_watermark, self._told.get(at, 0))

    def _write(self, probe: Probe) -> None:
        with self._lock:
            if not self._file.closed:
                self._file.write(encode_probe(probe) + b"\n")
