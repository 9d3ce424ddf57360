"""How many requests of each kind a node has answered on its Kafka listeners, and in what time.

Source: Kafka's RequestMetrics (RequestsPerSec, TotalTimeMs).
"""

from __future__ import annotations

from highwater_core.prometheus import REQUEST_MS, REQUESTS
from highwater_wire.kafka.messages import ApiVersionsRequest, UnsupportedRequest

_SUFFIX = "Request"
OF_FOLLOWERS = "REPLICATION"
"""The listener whose fetches are followers'."""


class RequestTimes:
    """Sums over all listeners, from the process's start."""

    def __init__(self) -> None:
        self._sums: dict[tuple[type, str], list[float]] = {}

    def add(self, request_type: type, listener: str, took_s: float) -> None:
        """Count a request that was answered took_s after its handling had begun."""
        sums = self._sums.get((request_type, listener))
        if sums is None:
            sums = self._sums[request_type, listener] = [0, 0.0]
        sums[0] += 1
        sums[1] += took_s

    def counters(self) -> tuple[tuple[str, int], ...]:
        """Return a snapshot's counters of the requests, by name.

        Fetches count as Kafka counts them: FetchFollower, FetchConsumer. Of the requests that are
        not supported, those for ApiVersions alone are answered.
        """
        counts: dict[str, int] = {}
        times_s: dict[str, float] = {}
        for (request_type, listener), (count, took_s) in self._sums.items():
            name = _name_of(request_type, listener)
            counts[name] = counts.get(name, 0) + int(count)
            times_s[name] = times_s.get(name, 0.0) + took_s
        return tuple(
            counter
            for name in sorted(counts)
            for counter in (
                (f"{REQUESTS}{name}", counts[name]),
                (f"{REQUEST_MS}{name}", round(times_s[name] * 1_000)),
            )
        )


def _name_of(request_type: type, listener: str) -> str:
    if request_type is UnsupportedRequest:
        request_type = ApiVersionsRequest
    name = request_type.__name__.removesuffix(_SUFFIX)
    if name != "Fetch":
        return name
    return "FetchFollower" if listener == OF_FOLLOWERS else "FetchConsumer"
