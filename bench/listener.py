"""`python -m bench.listener`: the cost of connections for a Kafka listener: memory and speed.

A listener runs in a process of its own, without a broker behind it; raw sockets are its clients.
Memory is its RssAnon: before, while the connections are open, after they have closed.
"""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from bench.memory import private_memory
from highwater_adapters.tcp_server import ConnectionContext, KafkaListener, ListenerSpec
from highwater_adapters.tcp_transport import TcpTransport
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.ids import Endpoint, NodeId, Offset
from highwater_wire.kafka.codec import encode_request
from highwater_wire.kafka.messages import (
    FetchPartition,
    FetchPartitionResult,
    FetchRequest,
    FetchResponse,
    KafkaRequest,
    KafkaResponse,
    MetadataRequest,
    MetadataResponse,
    ProducePartition,
    ProducePartitionResult,
    ProduceRequest,
    ProduceResponse,
)

MEBIBYTE = 1024 * 1024
ANNOUNCED_BYTES = 100 * MEBIBYTE
FETCHED_BYTES = 2 * MEBIBYTE
PRODUCED_BYTES = MEBIBYTE
BYTES_PER_MEASURE = 4 * 1024 * MEBIBYTE
SMALL_REQUESTS = 60_000
IN_FLIGHT = 5


# ---------------------------------------------------------------- the listener's process


class _NoTrace:
    def emit(self, kind: EventKind, **detail: Any) -> None:
        pass


class _Segment:
    """Records in a file, with the interface of a segment's view."""

    def __init__(self, descriptor: int, length: int) -> None:
        self._descriptor = descriptor
        self._length = length

    def __len__(self) -> int:
        return self._length

    def read(self) -> bytes:
        return os.pread(self._descriptor, self._length, 0)

    def file_range(self) -> tuple[int, int, int]:
        return self._descriptor, 0, self._length

    def borrow(self, take_back: Callable[[], None]) -> None:
        """Do nothing: the file is never truncated."""

    def give_back(self, take_back: Callable[[], None]) -> None:
        """Do nothing: nothing was borrowed."""


def _fail(task_name: str, error: BaseException) -> None:
    sys.exit(f"{task_name}: {error!r}")


async def serve() -> None:
    """Answer Produce, Fetch (always the same 2 MiB of a file) and Metadata until killed."""
    with tempfile.TemporaryFile() as file:
        file.write(os.urandom(FETCHED_BYTES))
        file.flush()
        records = _Segment(file.fileno(), FETCHED_BYTES)
        fetched = FetchPartitionResult("t", 0, ErrorCode.NONE, Offset(1), Offset(0), records)
        produced = ProduceResponse((ProducePartitionResult("t", 0, ErrorCode.NONE, Offset(0)),))
        metadata = MetadataResponse((), "bench", NodeId(1), ())

        async def handle(request: KafkaRequest, context: ConnectionContext) -> KafkaResponse | None:
            if isinstance(request, ProduceRequest):
                return produced
            return FetchResponse((fetched,)) if isinstance(request, FetchRequest) else metadata

        spec = ListenerSpec("BENCH", 0, handle, host="127.0.0.1")
        listener = KafkaListener(spec, _NoTrace(), _fail)
        await listener.start()
        sys.stdout.write(f"{listener.port}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


class Served:
    """A listener in another process."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self._process = process
        self.port = port

    def memory_mib(self) -> float:
        status = Path(f"/proc/{self._process.pid}/status").read_text(encoding="utf-8")
        return max(private_memory(status)) / MEBIBYTE

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self._process.pid}/stat").read_text(encoding="utf-8").split()
        return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)


@contextmanager
def served() -> Iterator[Served]:
    command = [sys.executable, "-m", "bench.listener", "serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            if process.stdout is None:
                raise RuntimeError("no output of the listener")
            yield Served(process, int(process.stdout.readline()))
        finally:
            process.kill()


# ---------------------------------------------------------------- clients


def measure_memory(connections: int, first_bytes: bytes, drip_s: int) -> tuple[float, ...]:
    """Return the listener's MiB before the connections, with them, and after they closed.

    Each sends first_bytes, and then a byte a second for drip_s seconds.
    """
    with served() as listener:
        with listener.connect() as probe:
            _ask(probe, 1)
        before = listener.memory_mib()
        opened = [listener.connect() for _ in range(connections)]
        for each in opened:
            each.sendall(first_bytes)
        for _ in range(drip_s):
            for each in opened:
                each.send(b"\0")
            time.sleep(1)
        with listener.connect() as probe:
            _ask(probe, 1)  # the listener has read all earlier bytes
        time.sleep(1)
        during = listener.memory_mib()
        for each in opened:
            each.close()
        time.sleep(2)
        return before, during, listener.memory_mib()


def _frame(request: Any, version: int) -> bytes:
    return b"".join(encode_request(request, version, 1, "bench"))  # type: ignore[arg-type]


def _receive(connection: socket.socket) -> None:
    (size,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
    connection.recv(size, socket.MSG_WAITALL)


def _ask(connection: socket.socket, count: int) -> None:
    """Send count Metadata requests, with fifty in flight."""
    frame = _frame(MetadataRequest(("t",)), 1)
    in_flight = min(50, count)
    connection.sendall(frame * in_flight)
    for number in range(count):
        _receive(connection)
        if number + in_flight < count:
            connection.sendall(frame)


def _produce(connection: socket.socket) -> None:
    produce = ProduceRequest(1, 1000, (ProducePartition("t", 0, bytes(PRODUCED_BYTES)),))
    frame = _frame(produce, 8)
    count = BYTES_PER_MEASURE // PRODUCED_BYTES
    for number in range(count):
        connection.sendall(frame)
        if number >= IN_FLIGHT:
            _receive(connection)
    for _ in range(IN_FLIGHT):
        _receive(connection)


async def _fetch(port: int) -> None:
    transport = TcpTransport("bench")
    partition = FetchPartition("t", 0, Offset(0), FETCHED_BYTES)
    request = FetchRequest(NodeId(1), 0, 1, FETCHED_BYTES, (partition,))
    for _ in range(BYTES_PER_MEASURE // FETCHED_BYTES):
        await transport.call(Endpoint("127.0.0.1", port), "f", request, 10_000)
    transport.close()


def measure_speed() -> None:
    """Print the listener's throughput in both directions, and its CPU time."""
    with served() as listener:
        gibibytes = BYTES_PER_MEASURE / 1024**3
        for name in ("produce of 1 MiB", "fetch of 2 MiB", "small requests"):
            cpu_s, began = listener.cpu_s(), time.perf_counter()
            if name.startswith("fetch"):
                asyncio.run(_fetch(listener.port))
            else:
                with listener.connect() as connection:
                    if name.startswith("produce"):
                        _produce(connection)
                    else:
                        _ask(connection, SMALL_REQUESTS)
            took_s, cpu_s = time.perf_counter() - began, listener.cpu_s() - cpu_s
            if name == "small requests":
                speed = f"{SMALL_REQUESTS / took_s:,.0f} requests/s"
                cost = f"{cpu_s / SMALL_REQUESTS * 1e6:.1f} us each"
            else:
                speed = f"{gibibytes * 1024 / took_s:,.0f} MiB/s"
                cost = f"{cpu_s / gibibytes:.2f} s per GiB"
            print(f"{name}: {speed}; the listener's CPU: {cost}")


# ---------------------------------------------------------------- command line

app = typer.Typer(add_completion=False)


@app.command("serve")
def serve_command() -> None:
    asyncio.run(serve())


@app.command()
def memory(
    idle: Annotated[int, typer.Option(help="Connections that say nothing.")] = 5_000,
    slow: Annotated[int, typer.Option(help="Connections that announce 100 MiB and drip.")] = 500,
    drip_s: Annotated[int, typer.Option(help="Bytes that each of those sends, one a second.")] = 3,
) -> None:
    """Print the listener's memory with idle, slow and half-finished connections."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    request = _frame(MetadataRequest(("t",)), 1)
    announced = struct.pack(">i", ANNOUNCED_BYTES)
    for name, count, sent, seconds in (
        ("idle", idle, b"", 0),
        ("idle after one request", idle, request, 0),
        ("half a small frame sent", idle, request[:-1], 0),
        ("100 MiB announced, a byte a second", slow, announced + b"\0", drip_s),
        ("1 MiB of 100 sent", slow // 5, announced + bytes(MEBIBYTE), 0),
    ):
        before, during, after = measure_memory(count, sent, seconds)
        each_kib = (during - before) * 1024 / count
        print(
            f"{count} connections, {name}: {before:.1f} -> {during:.1f} MiB "
            f"({each_kib:.1f} KiB each), closed: {after:.1f} MiB"
        )


@app.command()
def speed() -> None:
    """Print throughput and CPU of large and of small requests."""
    measure_speed()


if __name__ == "__main__":
    app()
