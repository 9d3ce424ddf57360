"""A node's metrics for Prometheus over HTTP: GET /metrics, one answer a connection.

Bounds: peers from outside the node's networks, and connections beyond MAX_CONNECTIONS, are closed
at once; one that has not sent its request, or not read its answer, within WITHIN_S is closed; a
request's head has MAX_HEAD_BYTES at most. The text is made once in FRESH_S at most, however many
ask: of a broker with thousands of replicas it takes a good part of a second, in which the node does
nothing else.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from http import HTTPStatus

from highwater_adapters.peers import AllowedPeers
from highwater_core.check import BugFound
from highwater_core.prometheus import CONTENT_TYPE, PATH

MAX_CONNECTIONS = 16
WITHIN_S = 10.0
FRESH_S = 1.0
MAX_HEAD_BYTES = 16 * 1024

_LOGGER = logging.getLogger("highwater.metrics")


class MetricsPort:
    """Serves one text."""

    def __init__(
        self,
        make_text: Callable[[], str],
        fail: Callable[[str, BaseException], None],
        peers: AllowedPeers,
    ) -> None:
        """make_text: called on the event loop. fail: gets an exception of make_text, a bug."""
        self._make_text = make_text
        self._fail = fail
        self._peers = peers
        self._text, self._stale_at = b"", 0.0
        self._server: asyncio.Server | None = None
        self._open: dict[asyncio.Task[None], None] = {}
        self.port = 0
        """The port that is served, once started."""

    async def start(self, host: str, port: int) -> None:
        """Serve; port 0: any.

        Raises:
            OSError: the address cannot be bound.
        """
        self._server = await asyncio.start_server(
            self._accept, host, port, limit=MAX_HEAD_BYTES, backlog=MAX_CONNECTIONS
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in tuple(self._open):
            task.cancel()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, *_ = writer.get_extra_info("peername") or ("",)  # none: it has left already
        if not self._peers.allows_host(host) or len(self._open) >= MAX_CONNECTIONS:
            writer.transport.abort()
            return
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._open[task] = None
        task.add_done_callback(self._open.pop)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the connection's one request; a client that leaves, or says nothing, gets none."""
        try:
            async with asyncio.timeout(WITHIN_S):
                writer.write(self._answer(await reader.readuntil(b"\r\n\r\n")))
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
            _LOGGER.debug("a scrape ended early: %r", error)
        except asyncio.LimitOverrunError:
            _LOGGER.info("a request's head is longer than %d bytes; closed", MAX_HEAD_BYTES)
        finally:
            writer.transport.abort()

    def _answer(self, head: bytes) -> bytes:
        method, _, rest = head.partition(b" ")
        target = rest.partition(b" ")[0].partition(b"?")[0]
        if method not in (b"GET", b"HEAD"):
            return _response(HTTPStatus.METHOD_NOT_ALLOWED, more=("Allow: GET, HEAD",))
        if target != PATH.encode():
            return _response(HTTPStatus.NOT_FOUND)
        return _response(HTTPStatus.OK, self._fresh_text(), with_body=method == b"GET")

    def _fresh_text(self) -> bytes:
        now = asyncio.get_running_loop().time()
        if now >= self._stale_at:
            try:
                self._text = self._make_text().encode()
            except (Exception, BugFound) as error:
                self._fail("metrics", error)
                raise
            self._stale_at = now + FRESH_S
        return self._text


def _response(
    status: HTTPStatus,
    body: bytes = b"",
    *,
    with_body: bool = True,
    more: tuple[str, ...] = (),
) -> bytes:
    lines = (
        f"HTTP/1.1 {status.value} {status.phrase}",
        f"Content-Type: {CONTENT_TYPE}",
        f"Content-Length: {len(body)}",
        "Connection: close",
        *more,
        "",
        "",
    )
    return "\r\n".join(lines).encode() + (body if with_body else b"")
