"""Receives nodes' trace events while they run, through Inspect's stream."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping

import grpc

from highwater.waiting import eventually
from highwater_core.events import TraceEvent
from highwater_core.ids import Endpoint
from highwater_wire.control import (
    WATCH_TRACE,
    MalformedControlMessage,
    decode_trace_line,
    encode_watch_trace,
)

RETRY_S = 0.1
ANSWER_WITHIN_S = 10.0


class TraceWatch:
    """One thread a node; a node that is down is asked again until it answers.

    A node's earlier events that it still has count as new. Events that it has dropped, and events
    that a killed node had not sent, are missing.
    """

    def __init__(
        self,
        endpoints: Mapping[int, Endpoint],
        listener: Callable[[TraceEvent], None] = lambda event: None,
    ) -> None:
        """listener: gets each event at once too, in the thread that received it."""
        self._listener = listener
        self._news: queue.SimpleQueue[TraceEvent] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._heard: dict[int, None] = {}
        self._channels = {
            node: grpc.insecure_channel(str(endpoint), options=[("grpc.enable_http_proxy", 0)])
            for node, endpoint in endpoints.items()
        }
        self._threads = [
            threading.Thread(target=self._watch, args=(node,), name=f"trace {node}", daemon=True)
            for node in endpoints
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def news(self) -> tuple[TraceEvent, ...]:
        """Return the events since the last call, each node's in their order."""
        found: list[TraceEvent] = []
        while True:
            try:
                found.append(self._news.get_nowait())
            except queue.Empty:
                return tuple(found)

    def await_all(self, within: float = ANSWER_WITHIN_S) -> None:
        """Return once every node's stream has answered.

        Raises:
            NeverHappened: one did not in time.
        """
        eventually(
            lambda: set(self._heard) == set(self._channels),
            within=within,
            what="the trace of every node is heard",
            state=lambda: sorted(self._heard),
        )

    def stop(self) -> None:
        self._stopping.set()
        for channel in self._channels.values():
            channel.close()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(5.0)

    def _watch(self, node: int) -> None:
        watch: grpc.UnaryStreamMultiCallable[bytes, bytes] = self._channels[node].unary_stream(
            WATCH_TRACE
        )
        last = (0, -1)
        while not self._stopping.is_set():
            try:
                for line in watch(encode_watch_trace(0), wait_for_ready=False):
                    event = decode_trace_line(line)
                    self._heard[node] = None
                    place = event.incarnation, event.seq
                    if place > last:
                        last = place
                        self._news.put(event)
                        self._listener(event)
            except (grpc.RpcError, MalformedControlMessage, ValueError):
                pass  # the node is down, or this channel was closed (ValueError)
            self._stopping.wait(RETRY_S)
