"""A client that sends requests to one broker again and again: the canary of the clients' plane.

UDP canaries are sent between nodes only, not from the clients' machine. So a real client sends
ApiVersions requests, which any broker answers at once, each over a new connection.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from highwater.cluster.wire_client import ConnectionClosed, WireClient
from highwater_core.ids import Endpoint
from highwater_wire.kafka.messages import ApiVersionsRequest

WAITS_S = 0.5
_PAUSE_S = 0.05


@dataclass(frozen=True, slots=True)
class Attempt:
    """One request and whether it was answered. Units: CLOCK_MONOTONIC nanoseconds."""

    begun_ns: int
    ended_ns: int
    answered: bool


class ClientProbe:
    """Sends requests from a thread while its context lasts.

    >>> with ClientProbe(lambda: asks(cluster.external_endpoint(0))) as probe:
    ...     isolate()
    """

    def __init__(
        self, ask: Callable[[], bool], clock_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        """ask: sends one request, and returns whether it was answered."""
        self._ask = ask
        self._clock_ns = clock_ns
        self._attempts: list[Attempt] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="client probe", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_over.set()
        self._thread.join()

    def between(self, begin_ns: int, end_ns: int) -> list[Attempt]:
        """Return the attempts that began and ended within [begin_ns, end_ns]."""
        found = tuple(self._attempts)
        return [each for each in found if begin_ns <= each.begun_ns and each.ended_ns <= end_ns]

    def _run(self) -> None:
        while not self._is_over.is_set():
            begun_ns = self._clock_ns()
            answered = self._ask()
            self._attempts.append(Attempt(begun_ns, self._clock_ns(), answered))
            self._is_over.wait(_PAUSE_S)


def asks(endpoint: Endpoint) -> bool:
    """Return whether the broker answers a client within WAITS_S."""
    try:
        with WireClient(endpoint, timeout_s=WAITS_S) as client:
            client.call(ApiVersionsRequest())
    except (OSError, ConnectionClosed):
        return False
    return True
