"""A Kafka listener: accepts connections on one port and watches over them.

Bounds: connections beyond max_connections, or max_connections_per_ip of one address, are closed at
once; one on which no byte moves for max_idle_ms is closed. For a single connection's bounds see
tcp_connection. Bad input closes its connection, with a log line and BAD_INPUT_MET.
"""

from __future__ import annotations

import asyncio
import logging
import math
import select
import socket
from collections import Counter
from collections.abc import Callable

from highwater_adapters.fair_line import FairLine
from highwater_adapters.frames import Scratch
from highwater_adapters.listener_spec import (
    NO_LIMIT,
    ConnectionContext,
    KafkaHandler,
    ListenerSpec,
)
from highwater_adapters.request_times import RequestTimes
from highwater_adapters.tcp_connection import Connection
from highwater_core.check import check
from highwater_core.events import EventKind
from highwater_core.ports import Trace

__all__ = ["ConnectionContext", "KafkaHandler", "KafkaListener", "ListenerSpec"]

_BACKLOG = 512
_ACCEPTS_PER_TURN = 64
_ACCEPT_AGAIN_S = 1.0
"""After the system refused one: it has no descriptor or no memory left."""
_SWEEP_S = 1.0

_LOGGER = logging.getLogger("highwater.listener")


class KafkaListener:
    """Accepts connections on one port and answers their requests."""

    def __init__(
        self,
        spec: ListenerSpec,
        trace: Trace,
        fail: Callable[[str, BaseException], None],
        times: RequestTimes | None = None,
    ) -> None:
        """times: where answered requests are counted; a node's listeners share it."""
        self.spec = spec
        self.times = times or RequestTimes()
        self.scratch = Scratch()
        self._trace = trace
        self._fail = fail
        self._loop = asyncio.get_running_loop()
        self.line = FairLine(self._loop.call_soon, self._loop.time)
        self._socket: socket.socket | None = None
        self._connections: dict[Connection, None] = {}
        self._count = 0  # open connections, and those that are being opened
        self._by_address: Counter[str] = Counter()
        self._openings: dict[asyncio.Task[None], None] = {}
        self._last_has_closed: asyncio.Future[None] | None = None
        self._sweep_s = min(_SWEEP_S, spec.max_idle_ms / 4000)
        self._idle_sweeps = math.ceil(spec.max_idle_ms / 1000 / self._sweep_s)
        self._timer: asyncio.TimerHandle | None = None
        self._accept_timer: asyncio.TimerHandle | None = None

    @property
    def port(self) -> int:
        """The port on which it listens."""
        check(self._socket is not None, "the listener has not started")
        port: int = self._socket.getsockname()[1]  # type: ignore[union-attr]
        return port

    async def start(self) -> None:
        """Listen.

        Raises:
            OSError: the address is taken, or not this machine's.
        """
        self._socket = socket.create_server((self.spec.host, self.spec.port), backlog=_BACKLOG)
        self._socket.setblocking(False)
        self._accept_on()
        self._timer = self._loop.call_later(self._sweep_s, self._sweep_again)

    async def stop(self) -> None:
        """Stop listening and drop every connection; handlers that still wait are cancelled."""
        if self._socket is None:
            return
        for timer in (self._timer, self._accept_timer):
            if timer is not None:
                timer.cancel()
        self._loop.remove_reader(self._socket)
        self._socket.close()
        self._socket = None
        await asyncio.gather(*self._openings, return_exceptions=True)
        for connection in tuple(self._connections):
            connection.drop()
        if self._connections:  # their callbacks for the end are under way
            self._last_has_closed = self._loop.create_future()
            await self._last_has_closed

    # ------------------------------------------------------------ accepting

    def _accept_on(self) -> None:
        self._accept_timer = None
        if self._socket is not None:
            self._loop.add_reader(self._socket, self._accept)

    def _accept(self) -> None:
        for _ in range(_ACCEPTS_PER_TURN):
            if self._socket is None:
                return
            try:
                accepted, address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._accept_later(error)
                return
            refused = self._refusal(address[0])
            if refused is not None:
                accepted.close()
                _LOGGER.warning("%s %s: %s; closed", self.spec.name, address[0], refused)
                continue
            self._count += 1
            self._by_address[address[0]] += 1
            opening = self._loop.create_task(self._open(accepted, address[0]))
            self._openings[opening] = None
            opening.add_done_callback(self._openings.pop)

    def _accept_later(self, error: OSError) -> None:
        """Accept again after a pause; waiting connections stay in the kernel."""
        _LOGGER.warning("%s accepts nobody for %g s: %s", self.spec.name, _ACCEPT_AGAIN_S, error)
        self._loop.remove_reader(self._socket)  # type: ignore[arg-type]
        self._accept_timer = self._loop.call_later(_ACCEPT_AGAIN_S, self._accept_on)

    def _refusal(self, address: str) -> str | None:
        spec = self.spec
        if spec.max_connections != NO_LIMIT and self._count >= spec.max_connections:
            return f"there are max.connections ({spec.max_connections})"
        per_ip = spec.max_connections_per_ip
        if per_ip != NO_LIMIT and self._by_address[address] >= per_ip:
            return f"it has max.connections.per.ip ({per_ip})"
        return None

    async def _open(self, accepted: socket.socket, address: str) -> None:
        connection = Connection(self, address)
        try:
            # asyncio does so only for sockets that name their protocol; this one's does not.
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await self._loop.connect_accepted_socket(lambda: connection, accepted)
        except OSError as error:
            _LOGGER.info("%s %s: %s; closed", self.spec.name, address, error)
            accepted.close()
            self._count_down(address)

    def _count_down(self, address: str) -> None:
        self._count -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]

    # ------------------------------------------------------------ watching over connections

    def sweep(self) -> None:
        """Close connections that are idle, and those whose client has closed unnoticed.

        A connection that is not read from does not learn that its client has closed it, so the
        kernel is asked while no byte moves.
        """
        stalled = {}
        poll = select.poll()
        for connection in tuple(self._connections):
            if connection.sweep(self._idle_sweeps):
                descriptor = connection.fileno()
                stalled[descriptor] = connection
                poll.register(descriptor, select.POLLRDHUP)
        if stalled:
            for descriptor, _ in poll.poll(0):
                stalled[descriptor].drop("its client has left")

    def _sweep_again(self) -> None:
        self.sweep()
        self._timer = self._loop.call_later(self._sweep_s, self._sweep_again)

    def turn_s(self) -> float:
        """Return how long a connection may keep the event loop now; 0: it has to join the line."""
        return self.line.left_s(self._count)

    def opened(self, connection: Connection) -> None:
        self._connections[connection] = None

    def closed(self, connection: Connection) -> None:
        del self._connections[connection]
        if self._last_has_closed is not None and not self._connections:
            self._last_has_closed.set_result(None)
        self._count_down(connection.address)

    def report_bad_input(self, context: ConnectionContext, what: str) -> None:
        _LOGGER.warning("%s %s: %s; closed", context.listener, context.peer, what)
        self._trace.emit(
            EventKind.BAD_INPUT_MET, where=f"{context.listener} {context.peer}", what=what
        )

    def report_bug(self, request_name: str, error: BaseException) -> None:
        self._fail(f"{self.spec.name} {request_name}", error)
