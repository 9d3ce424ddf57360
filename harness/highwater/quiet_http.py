"""A small HTTP server: a thread a request, and not a word about clients that leave."""

from __future__ import annotations

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import BoundedSemaphore
from typing import Any

from highwater.errors import HarnessError

MOST_AT_ONCE = 100
"""Connections of one server."""
REQUEST_WITHIN_S = 10
"""A client that says nothing is left after that."""


class QuietServer(ThreadingHTTPServer):
    """Says nothing of a client that leaves in the middle of its request, or of the answer.

    A connection beyond MOST_AT_ONCE is closed at once: whoever opens many would take all threads
    and descriptors of the process that serves beside its own work.
    """

    def __init__(self, address: tuple[str, int], handler: type[QuietHandler]) -> None:
        super().__init__(address, handler)
        self._room = BoundedSemaphore(MOST_AT_ONCE)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread was begun
            self._room.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: object, client_address: object) -> None:
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class QuietHandler(BaseHTTPRequestHandler):
    """Logs no requests: progress belongs to what is served."""

    timeout = REQUEST_WITHIN_S

    def do_GET(self) -> None:
        self.get(self.path.partition("?")[0])

    def get(self, path: str) -> None:
        """Answer a request for the path."""
        self.send_error(404)

    def answer(self, kind: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def quiet_server(host: str, port: int, handler: type[QuietHandler]) -> QuietServer:
    """Return a server that listens; its caller lets it serve.

    Raises:
        HarnessError: the address cannot be bound.
    """
    try:
        return QuietServer((host, port), handler)
    except OSError as error:
        raise HarnessError(f"cannot listen at {host}:{port}: {error}") from error
