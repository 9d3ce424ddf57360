"""The Coordination port over kazoo, the only module that imports it.

kazoo runs one thread per session. All its callbacks run in that thread, in the order in which
ZooKeeper's packets came, and only pass their data to the event loop; so a watch's event is in the
queue before an answer that shows the change. Differences from plain kazoo:

- A session ends once: kazoo would open a new one after an expiry, behind the node's back.
- Commands are not retried: ConnectionLost says that the outcome is unknown. A call made while the
  session is suspended waits for the connection or for the session's end.
- A request that is larger than a server reads is not sent: the server would close the connection,
  and again at each retry.
- kazoo forgets its watches when the connection drops. Each of them fires once after
  SESSION_ESTABLISHED, whether or not its znode changed: the node reads again and loses nothing.

ZooKeeper says only at a reconnect that a session has expired: a node cut off for longer learns of
it late. SESSION_SUSPENDED comes as soon as the connection is lost or two thirds of the session
timeout have passed in silence.
"""

from __future__ import annotations

import asyncio
import errno
import functools
import logging
import select
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from kazoo import exceptions as zk
from kazoo.client import KazooClient
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.states import EventType, KazooState
from kazoo.retry import KazooRetry

from highwater_adapters.asyncio_runtime import AsyncioQueue
from highwater_core.check import check
from highwater_core.ports import (
    ANY_VERSION,
    BadVersion,
    ConnectionLost,
    CoordinationError,
    CoordinationEvent,
    CoordinationEventKind,
    CreateOp,
    DeleteOp,
    MultiFailed,
    MultiOp,
    NodeExists,
    NoNode,
    NotEmpty,
    SessionExpired,
    SetOp,
    Stat,
    TooLarge,
)
from highwater_core.request_sizes import (
    MAX_REQUEST_BYTES,
    size_of_create,
    size_of_multi,
    size_of_path,
    size_of_set,
)

_RECONNECT_DELAY_S = 0.05
_RECONNECT_MAX_DELAY_S = 0.15
_CONNECT_TIMEOUT_S = 0.5
"""For one TCP connection: after a cut is healed, no attempt waits for a lost SYN's backoff."""

_CLOSE_TIMEOUT_S = 2.0
"""How long a server may take to answer the session's end; without it the session expires."""

_SILENCE_SHARE = 2 / 3
"""Of the session timeout: the longest wait for the server's bytes, and for it to read."""

_PEER_CLOSED = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR
"""POLLRDHUP is Linux's: elsewhere a server that closes while it is written to is silent."""

_ERRORS: tuple[tuple[type[Exception], type[CoordinationError]], ...] = (
    (zk.NoNodeError, NoNode),
    (zk.BadArgumentsError, NoNode),  # a path that ZooKeeper allows nowhere
    (ValueError, NoNode),  # the same in kazoo
    (zk.NodeExistsError, NodeExists),
    (zk.BadVersionError, BadVersion),
    (zk.NotEmptyError, NotEmpty),
    (zk.SessionExpiredError, SessionExpired),  # also kazoo's ConnectionClosedError
    (zk.ZookeeperError, ConnectionLost),  # also throttled, moved, forbidden: it may be done later
)

_NOT_AT_FAULT = (zk.RolledBackError, zk.RuntimeInconsistency)
"""The results of a failed multi's operations before and after the one that failed."""

_KIND = CoordinationEventKind


class _LoopHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's handler without its worker threads: callbacks run in the connection's thread.

    Being never `running`, it makes kazoo's results call back at once.
    """

    def __init__(self, session_timeout_ms: int) -> None:
        super().__init__()
        self.is_fenced = False
        self._write_timeout_s = session_timeout_ms / 1000 * _SILENCE_SHARE

    def start(self) -> None:
        pass

    def stop(self) -> None:
        pass

    def spawn(self, func: Any, *args: Any, **kwargs: Any) -> Any:
        """Run kazoo's loop; bytes that it does not understand end it, and the session."""

        def run() -> None:
            with suppress(Exception):
                func(*args, **kwargs)

        return super().spawn(run)

    def dispatch_callback(self, callback: Any) -> None:
        callback.func(*callback.args)

    def create_connection(self, *args: Any, timeout: float, **options: Any) -> Any:
        if self.is_fenced:
            raise ConnectionAbortedError("the session is over")
        timeout = min(timeout, _CONNECT_TIMEOUT_S)
        return super().create_connection(*args, timeout=timeout, **options)

    def select(self, rlist: Any, wlist: Any, xlist: Any, timeout: float | None = None) -> Any:
        """Wait as kazoo requests; to write, no longer than the session lives or the server listens.

        kazoo waits a whole session timeout until it may write and does not look at whether the
        server has closed meanwhile. A proxy passes a server's reset on as such an end.
        """
        if rlist or not wlist:
            return super().select(rlist, wlist, xlist, timeout)
        (connection,) = wlist
        poll = select.poll()
        poll.register(connection, select.POLLOUT | _PEER_CLOSED)
        seconds = self._write_timeout_s if timeout is None else min(timeout, self._write_timeout_s)
        for _, event in poll.poll(seconds * 1000):
            if event & _PEER_CLOSED:
                raise ConnectionAbortedError(errno.ECONNABORTED, "the server closed it")
            return [], wlist, []
        return [], [], []


class KazooCoordination:
    """See highwater_core.ports.Coordination. Made by KazooCoordinationFactory only."""

    def __init__(
        self,
        hosts: str,
        session_timeout_ms: int,
        logger: logging.Logger,
        max_request_bytes: int = MAX_REQUEST_BYTES,
    ) -> None:
        self._max_request_bytes = max_request_bytes
        self._loop = asyncio.get_running_loop()
        self._events: AsyncioQueue[CoordinationEvent] = AsyncioQueue(self._loop)
        self._connected: asyncio.Future[int] = self._loop.create_future()
        self._lost_watches: dict[CoordinationEvent, None] = {}
        self._awaited: dict[asyncio.Future[Any], None] = {}
        """Answers under way."""
        self._is_over = False
        self._stopping: asyncio.Task[None] | None = None
        self._had_session = False  # kazoo's thread alone touches it
        self._handler = _LoopHandler(session_timeout_ms)
        self._client = KazooClient(
            hosts=hosts,
            timeout=session_timeout_ms / 1000,
            handler=self._handler,
            connection_retry=KazooRetry(
                max_tries=-1,
                delay=_RECONNECT_DELAY_S,
                max_delay=_RECONNECT_MAX_DELAY_S,
                sleep_func=self._handler.sleep_func,
            ),
            logger=logger,
        )
        self._client.add_listener(self._state_changed)

    # ------------------------------------------------------------ the session

    @property
    def session_id(self) -> int:
        return self._connected.result()

    @property
    def events(self) -> AsyncioQueue[CoordinationEvent]:
        return self._events

    async def connect(self) -> None:
        """Return once there is a session; kazoo tries until then."""
        self._client.start_async()
        try:
            await asyncio.shield(self._connected)
        except asyncio.CancelledError:
            self._begin_stop()
            raise

    async def close(self) -> None:
        stopping = self._begin_stop()
        _, running = await asyncio.wait({stopping}, timeout=_CLOSE_TIMEOUT_S)
        if running:
            self._drop_connection()
        await asyncio.shield(stopping)

    def _drop_connection(self) -> None:
        """Stop kazoo's wait for a server that does not answer the session's end."""
        connection = self._client._connection._socket
        if connection is not None:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _begin_stop(self) -> asyncio.Task[None]:
        """End the session, where it still exists, and kazoo's thread."""
        self._is_over = True
        self._handler.is_fenced = True
        if self._stopping is None:
            self._stopping = self._loop.create_task(asyncio.to_thread(self._stop_client))
        return self._stopping

    def _stop_client(self) -> None:
        self._client.stop()
        self._client.close()

    def _state_changed(self, state: str) -> None:
        """Runs in kazoo's thread."""
        if state == KazooState.CONNECTED:
            self._had_session = True
            self._hand_over(self._session_established, self._client.client_id[0])
        elif state == KazooState.SUSPENDED:
            self._hand_over(self._session_suspended)
        elif self._had_session:  # LOST
            self._handler.is_fenced = True
            self._hand_over(self._session_expired)

    def _session_established(self, session_id: int) -> None:
        if self._is_over:
            return
        if not self._connected.done():
            self._connected.set_result(session_id)
        check(session_id == self.session_id, "a port has one session")
        self._events.put(CoordinationEvent(_KIND.SESSION_ESTABLISHED))
        lost_watches, self._lost_watches = self._lost_watches, {}
        for event in lost_watches:
            self._events.put(event)

    def _session_suspended(self) -> None:
        if not self._is_over:
            self._events.put(CoordinationEvent(_KIND.SESSION_SUSPENDED))

    def _session_expired(self) -> None:
        if not self._is_over:
            self._events.put(CoordinationEvent(_KIND.SESSION_EXPIRED))
            self._begin_stop()
            for answer in tuple(self._awaited):  # a dead thread answers no more
                _settle(answer, (zk.ConnectionLoss(), None))

    # ------------------------------------------------------------ calls

    async def create(
        self, path: str, data: bytes, *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        self._refuse_too_large(size_of_create(path, data), path)
        created: str = await self._answer(
            self._client.create_async, path, data, ephemeral=ephemeral, sequence=sequential
        )
        return created

    async def ensure_path(self, path: str) -> None:
        parts = path.strip("/").split("/")
        for depth in range(1, len(parts) + 1):
            prefix = "/" + "/".join(parts[:depth])
            if await self.exists(prefix) is None:
                try:
                    await self.create(prefix, b"")
                except NodeExists:
                    continue

    async def get(self, path: str, *, watch: bool = False) -> tuple[bytes, Stat]:
        self._refuse_too_large(size_of_path(path), path)
        data, stat = await self._answer(
            self._client.get_async, path, watch=self._watch(watch, _KIND.NODE_CHANGED, path)
        )
        return data or b"", _to_stat(stat)

    async def exists(self, path: str, *, watch: bool = False) -> Stat | None:
        self._refuse_too_large(size_of_path(path), path)
        try:
            stat = await self._answer(
                self._client.exists_async, path, watch=self._watch(watch, _KIND.NODE_CHANGED, path)
            )
        except NoNode:  # nor can there ever be one
            return None
        return None if stat is None else _to_stat(stat)

    async def children(self, path: str, *, watch: bool = False) -> list[str]:
        self._refuse_too_large(size_of_path(path), path)
        names = await self._answer(
            self._client.get_children_async,
            path,
            watch=self._watch(watch, _KIND.CHILDREN_CHANGED, path),
        )
        return sorted(names)

    async def set(self, path: str, data: bytes, expected_version: int = ANY_VERSION) -> Stat:
        self._refuse_too_large(size_of_set(path, data), path)
        return _to_stat(await self._answer(self._client.set_async, path, data, expected_version))

    async def delete(self, path: str, expected_version: int = ANY_VERSION) -> None:
        self._refuse_too_large(size_of_path(path), path)
        await self._answer(self._client.delete_async, path, expected_version)

    async def multi(self, operations: Sequence[MultiOp]) -> list[Stat | None]:
        self._refuse_too_large(size_of_multi(operations), "multi")
        transaction = self._client.transaction()
        for operation in operations:
            _add_operation(transaction, operation)
        results = await self._answer(transaction.commit_async)
        for index, result in enumerate(results):
            if isinstance(result, Exception) and not isinstance(result, _NOT_AT_FAULT):
                error = _to_error(result, operations[index].path)
                if not isinstance(error, CoordinationError) or isinstance(error, ConnectionLost):
                    raise error
                raise MultiFailed(index, error)
        check(not any(isinstance(result, Exception) for result in results), "a multi blames none")
        return [
            _to_stat(result) if isinstance(operation, SetOp) else None
            for operation, result in zip(operations, results, strict=True)
        ]

    def _refuse_too_large(self, size_bytes: int, what: str) -> None:
        if size_bytes > self._max_request_bytes:
            raise TooLarge(f"{what[:300]}: {size_bytes} bytes, at most {self._max_request_bytes}")

    async def _answer(self, start: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Start one of kazoo's asynchronous calls and return its answer."""
        if self._is_over:
            raise SessionExpired("the session is over")
        what = str(arguments[0]) if arguments else "multi"
        answer: asyncio.Future[Any] = self._loop.create_future()
        try:
            started = start(*arguments, **options)
        except ValueError as fault:
            raise _to_error(fault, what) from fault
        started.rawlink(functools.partial(self._answered, answer))
        self._awaited[answer] = None
        try:
            error, value = await answer
        finally:
            del self._awaited[answer]
        if error is None:
            return value
        if self._is_over and isinstance(error, zk.ConnectionLoss):
            raise SessionExpired(what)
        raise _to_error(error, what)

    def _answered(self, answer: asyncio.Future[Any], result: Any) -> None:
        """Runs in kazoo's thread."""
        self._hand_over(_settle, answer, (result.exception, result.value))

    def _watch(self, is_wanted: bool, kind: CoordinationEventKind, path: str) -> _Watch | None:
        return _Watch(CoordinationEvent(kind, path), self._watch_fired) if is_wanted else None

    def _watch_fired(self, event: CoordinationEvent, fired: Any) -> None:
        """Runs in kazoo's thread."""
        is_lost = fired.type == EventType.NONE
        self._hand_over(self._watch_lost if is_lost else self._events.put, event)

    def _watch_lost(self, event: CoordinationEvent) -> None:
        self._lost_watches[event] = None

    def _hand_over(self, action: Callable[..., None], *arguments: Any) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(action, *arguments)


@dataclass(frozen=True, slots=True)
class _Watch:
    """The callback of a watch for kazoo; equal ones on one path count as one."""

    event: CoordinationEvent
    fired: Callable[[CoordinationEvent, Any], None] = field(compare=False)

    def __call__(self, fired: Any) -> None:
        self.fired(self.event, fired)


def _settle(answer: asyncio.Future[Any], outcome: tuple[Exception | None, Any]) -> None:
    if not answer.done():  # its task may have been cancelled
        answer.set_result(outcome)


def _add_operation(transaction: Any, operation: MultiOp) -> None:
    if isinstance(operation, CreateOp):
        transaction.create(
            operation.path,
            operation.data,
            ephemeral=operation.ephemeral,
            sequence=operation.sequential,
        )
    elif isinstance(operation, SetOp):
        transaction.set_data(operation.path, operation.data, operation.expected_version)
    elif isinstance(operation, DeleteOp):
        transaction.delete(operation.path, operation.expected_version)
    else:
        transaction.check(operation.path, operation.expected_version)


def _to_stat(stat: Any) -> Stat:
    return Stat(
        czxid=stat.czxid,
        mzxid=stat.mzxid,
        node_version=stat.version,
        ephemeral_owner=stat.ephemeralOwner,
    )


def _to_error(error: Exception, what: str) -> Exception:
    """Return our error for kazoo's; one that is not ZooKeeper's is a bug, returned as it is."""
    for theirs, ours in _ERRORS:
        if isinstance(error, theirs):
            return ours(f"{what}: {type(error).__name__}" if ours is ConnectionLost else what)
    return error


class KazooCoordinationFactory:
    """See highwater_core.ports.CoordinationFactory.

    Units: ZooKeeper bounds the session timeout by 2 and 20 times its tickTime.
    """

    def __init__(
        self,
        hosts: str,
        logger: logging.Logger | None = None,
        max_request_bytes: int = MAX_REQUEST_BYTES,
    ) -> None:
        self._hosts = hosts
        self._logger = logger or logging.getLogger("highwater.zookeeper")
        self._max_request_bytes = max_request_bytes

    async def open(self, session_timeout_ms: int) -> KazooCoordination:
        coordination = KazooCoordination(
            self._hosts, session_timeout_ms, self._logger, self._max_request_bytes
        )
        await coordination.connect()
        return coordination
