"""Calls over the simulated network: the Transport and ControlPlane ports.

A connection is opened by a handshake, carries requests and answers in order and breaks when the
peer dies or a fault resets it. A call that timed out has been sent, and may still be carried out:
late, even after its own repetition on the next connection (KAFKA-9539, KIP-570). A handler in a
Kafka listener ends with its connection. An answer that is sent from a file is read as its reader
takes it, and is cut short when its sender is gone by then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from highwater_core.check import BugFound, check
from highwater_core.ids import Endpoint
from highwater_core.messages import ControlRequest, ControlResponse
from highwater_core.ports import CallEnd, CallFailed, ControlHandler
from highwater_core.runtime import TimedOut
from highwater_simulator.clocks import NS_PER_MS
from highwater_simulator.network import Network, Pipe, Plane
from highwater_simulator.tasks import NodeRuntime, SimulatedFuture, SimulatedTask
from highwater_simulator.unread import Unread
from highwater_wire.kafka.codec import MalformedRequest
from highwater_wire.kafka.group_order import is_commit, waits_for_commits
from highwater_wire.kafka.messages import HangUp, expects_response

Handler = Callable[[Any], Awaitable[Any]]

KEEPALIVE_PERCENT = 150
"""The silence after which a control connection is given up, as a share of a call's timeout: gRPC's
keepalive of 15 s at the default timeout of 10 s, scaled with the timeout."""
_LOOK_AGAIN_MS = 1
"""How often the reader of an answer checks whether its paused sender goes on."""


@dataclass(frozen=True, slots=True)
class Carriage:
    """How requests and answers arrive: as the values themselves, or as copies through the codecs.

    An answer arrives as Unread where some of its records are read only then.
    """

    request: Callable[[Any], Any]
    response: Callable[[Any, Any], Any]


@dataclass(frozen=True, slots=True)
class Listener:
    """A node's address for requests.

    Handlers of one connection start in the order of its requests and may overlap, but for groups'
    requests behind an OffsetCommit.

    answers_in_order: answers leave in the order of the requests, and the handlers end with their
        connection. Without it, as for gRPC here, they go on.
    has_read: called with each request and the answer that was read as it arrived.
    """

    runtime: NodeRuntime
    plane: Plane
    handler: Handler
    carriage: Carriage
    answers_in_order: bool
    has_read: Callable[[Any, Any], None] | None = None


@dataclass(frozen=True, slots=True)
class _Answer:
    value: Any = None
    """The response, as it is carried; HangUp where the connection is closed instead."""
    failure: CallFailed | None = None
    request: Any = None
    """The request of an answer that is Unread."""


class Listeners:
    """Every listener by its endpoint, and the connections that it accepted."""

    def __init__(self) -> None:
        self._listeners: dict[Endpoint, Listener] = {}
        self._planes: dict[Endpoint, Plane] = {}
        self._accepted: dict[NodeRuntime, list[ServerSide]] = {}

    def listen(self, endpoint: Endpoint, listener: Listener) -> None:
        known = self._listeners.get(endpoint)
        check(known is None or not known.runtime.is_alive, f"{endpoint} is taken")
        self.declare(endpoint, listener.plane)
        self._listeners[endpoint] = listener

    def declare(self, endpoint: Endpoint, plane: Plane) -> None:
        """Note the plane of an endpoint, whether or not a node answers there."""
        self._planes[endpoint] = plane

    def find(self, endpoint: Endpoint) -> Listener | None:
        listener = self._listeners.get(endpoint)
        return listener if listener is not None and listener.runtime.is_alive else None

    def plane_of(self, endpoint: Endpoint) -> Plane:
        """Return the endpoint's plane; an undeclared endpoint is no node's."""
        return self._planes.get(endpoint, Plane.CLIENT)

    def accepted(self, side: ServerSide, runtime: NodeRuntime) -> None:
        live = [known for known in self._accepted.get(runtime, []) if not known.is_over]
        self._accepted[runtime] = [*live, side]

    def close(self, runtime: NodeRuntime) -> None:
        """Stop answering for a dead incarnation: its peers see their connections reset."""
        for side in self._accepted.pop(runtime, []):
            side.break_off("the peer died")
        self._listeners = {
            endpoint: listener
            for endpoint, listener in self._listeners.items()
            if listener.runtime is not runtime
        }


class _Exchange:
    """A request and, once it is there, its answer; a value of None is not sent."""

    __slots__ = ("answer", "call_id", "task")

    def __init__(self, call_id: int) -> None:
        self.call_id = call_id
        self.answer: _Answer | None = None
        self.task: SimulatedTask | None = None
        """The handler's."""


class ServerSide:
    """The end of a connection at the node that accepted it."""

    def __init__(self, listener: Listener, client: ClientSide, to_client: Pipe) -> None:
        self._listener = listener
        self._client = client
        self._to_client = to_client
        self._to_client.sender = listener.runtime
        self._exchanges: deque[_Exchange] = deque()
        self._unread: list[tuple[_Exchange, Any]] = []
        self._last_commit: SimulatedFuture[None] | None = None
        """Done once the last OffsetCommit so far, and so all, have been handled."""
        self._is_lost = False

    @property
    def is_over(self) -> bool:
        """Whether the client has closed it."""
        return self._client.is_over

    @property
    def is_alive(self) -> bool:
        return self._listener.runtime.is_alive

    @property
    def is_responsive(self) -> bool:
        """Whether this side would answer a ping now."""
        return self._listener.runtime.is_alive and not self._listener.runtime.is_paused

    def receive(self, call_id: int, request: Any) -> None:
        runtime = self._listener.runtime
        if not runtime.is_alive:
            self.break_off("the peer died")
            return
        if self._is_lost:
            return
        exchange = _Exchange(call_id)
        if self._listener.answers_in_order:
            self._exchanges.append(exchange)
        if runtime.is_paused or self._unread:
            self._read_later(exchange, request)
        else:
            exchange.task = runtime.start_now("Connection", self._handle(exchange, request))

    def lost(self) -> None:
        """End the handlers that wait: their client is gone."""
        if not self._listener.answers_in_order or not self.is_alive:
            return
        self._is_lost = True
        exchanges, self._exchanges = self._exchanges, deque()
        self._unread.clear()
        for exchange in exchanges:
            if exchange.task is not None and exchange.answer is None:
                exchange.task.cancel()

    def read(self, request: Any, unread: Unread) -> Any:
        """Return the answer with the present contents of its files.

        Raises:
            OSError: the files no longer have its records.
        """
        value = unread.read()
        if self._listener.has_read is not None:
            self._listener.has_read(request, value)
        return value

    def _read_later(self, exchange: _Exchange, request: Any) -> None:
        self._unread.append((exchange, request))
        if len(self._unread) == 1:
            pause_ns = self._to_client.link.pause_ns()
            self._listener.runtime.start("Connection", self._read_after_pause(pause_ns))

    async def _read_after_pause(self, pause_ns: int) -> None:
        """Read the requests that came during a pause, the node's connections in random order."""
        await self._listener.runtime.sleep_ns(pause_ns)
        unread, self._unread = self._unread, []
        for exchange, request in unread:
            work = self._handle(exchange, request)
            exchange.task = self._listener.runtime.start("Connection", work)

    def break_off(self, why: str) -> None:
        client = self._client
        self._to_client.send(lambda: client.end(CallFailed(why, end=CallEnd.BROKEN)))

    async def _handle(self, exchange: _Exchange, request: Any) -> None:
        carriage = self._listener.carriage
        try:
            read = carriage.request(request)
        except MalformedRequest as error:
            self.break_off(f"refused: {error}")
            return
        value = await self._answer(read)
        try:
            answer = value if isinstance(value, HangUp) else carriage.response(request, value)
            exchange.answer = _Answer(answer, request=request)
        except OSError as error:  # reading the records failed, as sendfile in the real server
            self.break_off(f"records could not be read: {error}")
            return
        if not self._listener.answers_in_order:
            self._send(exchange, exchange.answer)
        while self._exchanges and (answer := self._exchanges[0].answer) is not None:
            self._send(self._exchanges.popleft(), answer)

    async def _answer(self, request: Any) -> Any:
        """Return the handler's answer; groups' requests wait for OffsetCommits before them."""
        if not waits_for_commits(request):
            return await self._listener.handler(request)
        earlier = self._last_commit
        own = self._listener.runtime.future() if is_commit(request) else earlier
        self._last_commit = own
        try:
            if earlier is not None:
                await earlier.wait()
            return await self._listener.handler(request)
        finally:
            if own is not None and own is not earlier:
                own.set(None)

    def _send(self, exchange: _Exchange, answer: _Answer) -> None:
        client = self._client
        if isinstance(answer.value, HangUp):
            self.break_off(answer.value.why)
        elif answer.value is not None:
            self._to_client.send(lambda: client.answered(exchange.call_id, answer))


class ClientSide:
    """The end of a connection at the node that opened it."""

    def __init__(
        self, runtime: NodeRuntime, network: Network, listeners: Listeners, endpoint: Endpoint,
        plane: Plane,
    ) -> None:  # fmt: skip
        self._runtime = runtime
        self._listeners = listeners
        self._endpoint = endpoint
        self._network, self._plane = network, plane
        self._connection = network.connect(runtime, endpoint.host, plane, self._reset)
        self._to_server, self._to_client = self._connection.there, self._connection.back
        self._server: ServerSide | None = None
        self._unsent: list[tuple[int, Any]] = []
        self._pending: dict[int, SimulatedFuture[_Answer]] = {}
        self._next_call_id = 0
        self._unheard_since_ns: int | None = None
        """When the oldest request since the last answer was sent."""
        self.is_closed = False
        self._to_server.send(self._accept)

    @property
    def is_over(self) -> bool:
        """Whether the connection is closed, or its node is dead."""
        return self._connection.is_over

    def is_mute(self, for_ms: int) -> bool:
        """Return whether a peer that cannot answer was silent for so long."""
        if self._unheard_since_ns is None or self._server is None:
            return False
        if self._connection.is_whole and self._server.is_responsive:
            return False
        return self._runtime.now_ns() - self._unheard_since_ns >= for_ms * NS_PER_MS

    async def call(self, request: Any, timeout_ms: int) -> Any:
        call_id = self._next_call_id
        self._next_call_id += 1
        deadline_ns = self._runtime.now_ns() + timeout_ms * NS_PER_MS
        future: SimulatedFuture[_Answer] = self._runtime.future()
        self._pending[call_id] = future
        if self._server is None:
            self._unsent.append((call_id, request))
        else:
            self._send(self._server, call_id, request)
        try:
            answer = await future.wait(timeout_ms)
        except TimedOut as error:
            unsent = any(waiting == call_id for waiting, _ in self._unsent)
            message = f"{self._endpoint}: no answer within {timeout_ms} ms"
            raise CallFailed(message, sent=not unsent) from error
        finally:
            self._pending.pop(call_id, None)
            self._unsent = [waiting for waiting in self._unsent if waiting[0] != call_id]
        if answer.failure is not None:
            raise answer.failure
        if isinstance(answer.value, Unread):
            return await self._read(answer.request, answer.value, deadline_ns)
        return answer.value

    async def _read(self, request: Any, unread: Unread, deadline_ns: int) -> Any:
        """Read an answer that the peer sends from its files; a paused peer sends nothing.

        Raises:
            CallFailed: the answer ends in the middle.
        """
        server = self._server
        if server is None:
            raise BugFound("an answer of nobody")
        while not self.is_closed and server.is_alive and not server.is_responsive:
            if self._runtime.now_ns() >= deadline_ns:
                raise CallFailed(f"{self._endpoint}: the answer did not arrive whole in time")
            await self._runtime.sleep(_LOOK_AGAIN_MS)
        if self.is_closed or not server.is_alive:
            raise CallFailed(f"{self._endpoint}: the connection ended within an answer")
        try:
            return server.read(request, unread)
        except OSError as error:
            raise CallFailed(f"{self._endpoint}: the answer ends early: {error}") from error

    def answered(self, call_id: int, answer: _Answer) -> None:
        self._unheard_since_ns = None
        future = self._pending.pop(call_id, None)
        if future is not None and not self.is_closed:
            future.set_now(answer)

    def close(self, why: str) -> None:
        """Close from this side; requests on their way may still arrive at the peer."""
        self.end(CallFailed(why))

    def _reset(self) -> None:
        reset = f"{self._endpoint}: the connection was reset"
        self.end(CallFailed(reset, end=CallEnd.BROKEN))

    def end(self, failure: CallFailed) -> None:
        """Fail the pending calls; the next call needs a new connection."""
        if self.is_closed:
            return
        self.is_closed = True
        self._connection.give_up()
        pending, self._pending = self._pending, {}
        unsent = {call_id for call_id, _ in self._unsent}
        for call_id, future in pending.items():
            sent = failure.sent and call_id not in unsent
            own = CallFailed(str(failure), sent=sent, end=failure.end)
            future.set(_Answer(failure=own))

    def _send(self, server: ServerSide, call_id: int, request: Any) -> None:
        if self._unheard_since_ns is None:
            self._unheard_since_ns = self._runtime.now_ns()
        self._network.calls[self._plane] += 1
        self._to_server.send(lambda: server.receive(call_id, request))
        if not expects_response(request):
            self.answered(call_id, _Answer())

    def _accept(self) -> None:
        """Run at the peer when the handshake reaches it."""
        listener = self._listeners.find(self._endpoint)
        if listener is None:
            why = f"{self._endpoint} refused the connection"
            refusal = CallFailed(why, sent=False, end=CallEnd.BROKEN)
            self._to_client.send(lambda: self.end(refusal))
            return
        server = ServerSide(listener, self, self._to_client)
        self._connection.accepted(server.lost)
        self._listeners.accepted(server, listener.runtime)
        self._to_client.send(lambda: self._established(server))

    def _established(self, server: ServerSide) -> None:
        if self.is_closed or not self._runtime.is_alive:
            return
        self._server = server
        unsent, self._unsent = self._unsent, []
        for call_id, request in unsent:
            self._send(server, call_id, request)


class _Connections:
    """One node's open connections by endpoint and name."""

    def __init__(self, runtime: NodeRuntime, network: Network, listeners: Listeners) -> None:
        self._runtime = runtime
        self._network = network
        self._listeners = listeners
        self._open: dict[tuple[Endpoint, str], ClientSide] = {}

    def get(self, endpoint: Endpoint, name: str, plane: Plane) -> ClientSide:
        connection = self._open.get((endpoint, name))
        if connection is None or connection.is_closed:
            connection = ClientSide(self._runtime, self._network, self._listeners, endpoint, plane)
            self._open[endpoint, name] = connection
        return connection

    def close(self, endpoint: Endpoint, name: str, why: str) -> None:
        connection = self._open.pop((endpoint, name), None)
        if connection is not None:
            connection.close(why)


class SimulatedTransport:
    """The Transport port of one incarnation of one node."""

    def __init__(self, runtime: NodeRuntime, network: Network, listeners: Listeners) -> None:
        self._connections = _Connections(runtime, network, listeners)
        self._listeners = listeners

    async def call(self, endpoint: Endpoint, connection: str, request: Any, timeout_ms: int) -> Any:
        plane = self._listeners.plane_of(endpoint)
        open_connection = self._connections.get(endpoint, connection, plane)
        try:
            return await open_connection.call(request, timeout_ms)
        except CallFailed as failure:
            open_connection.close(str(failure))
            raise

    def disconnect(self, endpoint: Endpoint, connection: str) -> None:
        self._connections.close(endpoint, connection, f"disconnected from {endpoint}")


class SimulatedControlPlane:
    """The ControlPlane port of one incarnation of one node, which answers at `endpoint`."""

    def __init__(
        self, runtime: NodeRuntime, network: Network, listeners: Listeners,
        endpoint: Endpoint, carriage: Carriage,
    ) -> None:  # fmt: skip
        self._runtime = runtime
        self._connections = _Connections(runtime, network, listeners)
        self._listeners = listeners
        self._endpoint = endpoint
        self._carriage = carriage

    async def call(
        self, endpoint: Endpoint, request: ControlRequest, timeout_ms: int
    ) -> ControlResponse:
        """Return the answer; give up a connection that was not accepted in time or became silent.

        Otherwise a call would wait for ever for a peer that died before its acceptance arrived.
        """
        connection = self._connections.get(endpoint, "control", Plane.CONTROL)
        try:
            response: ControlResponse = await connection.call(request, timeout_ms)
        except CallFailed as failure:
            if not failure.sent or connection.is_mute(timeout_ms * KEEPALIVE_PERCENT // 100):
                connection.close(str(failure))
            raise
        return response

    def serve(self, handler: ControlHandler) -> None:
        self._listeners.listen(
            self._endpoint,
            Listener(self._runtime, Plane.CONTROL, handler, self._carriage, answers_in_order=False),
        )
