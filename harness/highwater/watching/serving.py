"""The live page: one file without outside resources, and its events (server-sent events).

Source: WHATWG HTML, "Server-sent events".
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from threading import BoundedSemaphore, Event, Thread

import msgspec

from highwater.quiet_http import REQUEST_WITHIN_S, QuietHandler, quiet_server
from highwater.watching.metrics import read_metrics
from highwater.watching.view import read_view
from highwater_core.prometheus import CONTENT_TYPE, PATH

EVERY_S = 0.5
MOST_READERS = 20
"""Pages that may be open at a time: each has a thread."""


@contextmanager
def served(host: str, port: int, folder: Path) -> Iterator[str]:
    """Serve the page of the folder's run or soak while the block lasts; yield its address.

    Beside it /view.json for programs and /metrics for Prometheus.

    Raises:
        HarnessError: the address cannot be bound.
    """
    page = files("highwater.watching").joinpath("templates/live.html").read_bytes()
    room = BoundedSemaphore(MOST_READERS)
    over = Event()

    class Handler(QuietHandler):
        def get(self, path: str) -> None:
            if path == "/":
                self.answer("text/html; charset=utf-8", page)
            elif path == "/view.json":
                self.answer("application/json", msgspec.json.encode(read_view(folder)))
            elif path == PATH:
                self.answer(CONTENT_TYPE, read_metrics(folder).encode())
            elif path == "/events":
                self._stream()
            else:
                self.send_error(404)

        def _stream(self) -> None:
            """Send the view when it changes, until the reader or the server ends."""
            if not room.acquire(blocking=False):
                self.send_error(503, f"{MOST_READERS} pages are open")
                return
            try:
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Cache-Control", "no-store")
                self.end_headers()
                sent, told_s = b"", time.monotonic()
                while not over.wait(EVERY_S):
                    now = msgspec.json.encode(read_view(folder))
                    if now != sent or time.monotonic() - told_s > REQUEST_WITHIN_S:
                        self.wfile.write(b"data: " + now + b"\n\n")
                        self.wfile.flush()
                        sent, told_s = now, time.monotonic()
            finally:
                room.release()

    server = quiet_server(host, port, Handler)
    thread = Thread(target=server.serve_forever, name="live page", daemon=True)
    thread.start()
    try:
        yield f"http://{host}:{server.server_port}/"
    finally:
        over.set()
        server.shutdown()
        server.server_close()
        thread.join(REQUEST_WITHIN_S)
