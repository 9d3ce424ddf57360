"""Watches a cluster from outside: how long a client waits, and how much memory nodes have."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from bench.summary import percentile
from highwater.cluster.cluster import Cluster
from highwater.cluster.wire_client import ConnectionClosed, WireClient, record_batch
from highwater_core.errors import ErrorCode
from highwater_core.ids import Endpoint
from highwater_wire.kafka.messages import ApiVersionsRequest

_EVERY_S = 0.02
_TIMEOUT_S = 60.0


@dataclass(slots=True)
class Waits:
    """Durations of a client's requests, in ms. failures: the number of unanswered requests."""

    ms: list[float] = field(default_factory=list)
    failures: int = 0

    def at(self, percent: int) -> float:
        """Return the percentile in ms; 0 if no request was answered."""
        return percentile(self.ms, percent) if self.ms else 0.0


class Prober:
    """A client that sends small requests to one broker again and again, and times them.

    With a topic it produces (acks=1) to a partition that the broker leads; else it requests
    ApiVersions. is_excused: whether a fault acts on the broker: then no request counts.
    """

    def __init__(self, endpoint: Endpoint, topic: str = "", partition: int = 0) -> None:
        self._endpoint, self._topic, self._partition = endpoint, topic, partition
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.waits = Waits()
        self.is_excused = False

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> Waits:
        self._stopping.set()
        self._thread.join(_TIMEOUT_S + 5)
        return self.waits

    def _run(self) -> None:
        client: WireClient | None = None
        while not self._stopping.wait(_EVERY_S):
            was_excused, began_s = self.is_excused, time.monotonic()
            try:
                client = client or WireClient(self._endpoint, timeout_s=_TIMEOUT_S)
                is_answered = self._ask(client)
            except (OSError, ConnectionClosed):
                client, is_answered = None, False
            if was_excused or self.is_excused:
                continue
            if is_answered:
                self.waits.ms.append((time.monotonic() - began_s) * 1000)
            else:
                self.waits.failures += 1
        if client is not None:
            client.close()

    def _ask(self, client: WireClient) -> bool:
        if not self._topic:
            return bool(client.call(ApiVersionsRequest()).error is ErrorCode.NONE)
        result = client.produce(self._topic, self._partition, record_batch([b"probe"]), acks=1)
        return result.error is ErrorCode.NONE


class MemoryWatch:
    """Samples each node's private memory, as its snapshot reports it, in bytes."""

    def __init__(self, cluster: Cluster, every_s: float) -> None:
        self._cluster, self._every_s = cluster, every_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.samples: dict[int, list[int]] = {int(node): [] for node in cluster.node_ids}

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> Mapping[int, list[int]]:
        """Take a last sample, and return all by node."""
        self._stopping.set()
        self._thread.join(_TIMEOUT_S)
        self._take()
        return self.samples

    def _run(self) -> None:
        while not self._stopping.wait(self._every_s):
            self._take()

    def _take(self) -> None:
        for node, samples in self.samples.items():
            snapshot = self._cluster.try_snapshot(node, timeout_s=2.0)
            if snapshot is not None:
                samples.append(snapshot.resident_bytes)
