"""A producer under load: unique values at a rate, until it is stopped.

Records come in small bursts, so that requests overlap at any rate; gaps, burst sizes and partitions
are drawn from its one random stream.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from highwater_checker.history import HistoryEvent
from highwater_client.recorder import HistoryRecorder
from highwater_client.sender import OnAcknowledged, RecordSender
from highwater_client.settings import ProducerSettings
from highwater_core.ids import Endpoint
from highwater_core.ports import Rng, Transport
from highwater_core.runtime import Runtime

MAX_BURST_RECORDS = 3
MOST_BURSTS = 100
"""Bursts without a wait. A producer that cannot keep its rate is always late, and requests and
answers need the event loop too."""
_NS_PER_S = 1_000_000_000
_NS_PER_MS = 1_000_000


class Producer:
    """One producer client; `process` names it in the history and begins each of its values.

    now_ns: the time in the history; the runtime's clock where none is given.
    """

    def __init__(
        self,
        runtime: Runtime,
        transport: Transport,
        bootstrap: Sequence[Endpoint],
        settings: ProducerSettings,
        rng: Rng,
        *,
        process: str = "p0",
        now_ns: Callable[[], int] | None = None,
        on_event: Callable[[HistoryEvent], None] | None = None,
        on_acknowledged: OnAcknowledged | None = None,
    ) -> None:
        self._runtime = runtime
        self._settings = settings
        self._rng = rng
        self._process = process
        self._recorder = HistoryRecorder(now_ns or runtime.now_ns, process, on_event=on_event)
        self._sender = RecordSender(
            runtime, transport, bootstrap, settings, self._recorder, on_acknowledged
        )
        self._stopping = runtime.event()
        self._sent = 0

    @property
    def history(self) -> list[HistoryEvent]:
        return self._recorder.events

    async def run(self) -> None:
        """Send until stop(); return once every record has its outcome, then disconnected."""
        interval_ns = _NS_PER_S // self._settings.rate_per_s
        next_ns = self._runtime.now_ns()
        bursts = 0
        while not self._stopping.is_set():
            wait_ms = -(-(next_ns - self._runtime.now_ns()) // _NS_PER_MS)
            if wait_ms > 0 or bursts == MOST_BURSTS:
                bursts = 0
                if await self._stopping.wait(max(1, wait_ms)):
                    break
            bursts += 1
            burst = self._rng.randrange(1, MAX_BURST_RECORDS + 1)
            for _ in range(burst):
                self._send_one()
            next_ns += self._rng.randrange(1, 2 * burst * interval_ns + 1)
        await self._sender.flush()
        self._sender.close()

    def stop(self) -> None:
        """Send no new record."""
        self._stopping.set()

    def _send_one(self) -> None:
        value = f"{self._process}-{self._sent:06}".ljust(self._settings.value_bytes, ".")
        self._sent += 1
        partition = self._rng.randrange(0, self._settings.partition_count)
        keys = self._settings.key_count
        key = f"k{self._rng.randrange(0, keys)}" if keys else ""
        self._sender.send(self._settings.topic, partition, value, key=key)
