"""A small HTTP server: a thread a request, and not a word about clients that leave."""

from __future__ import annotations

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from highwater.errors import HarnessError

REQUEST_WITHIN_S = 10
"""A client that says nothing is left after that."""


class QuietServer(ThreadingHTTPServer):
    """Says nothing of a client that leaves in the middle of its request, or of the answer."""

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
