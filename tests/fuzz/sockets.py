"""Fuzzes the Kafka listeners over real sockets: halves of frames, pipelining, early ends.

The broker's node is simulated, but its listeners, its sockets and its files are real: answers go
by sendfile. Virtual time goes on as the event loop turns, so no wait takes real time.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import struct
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from highwater_adapters.files import RealFile, RealFileSystem
from highwater_adapters.tcp_server import ConnectionContext, KafkaListener, ListenerSpec
from highwater_chaos.plan import PlanTopology
from highwater_core.ids import Offset
from highwater_core.ports import Ports
from highwater_simulator.tasks import NodeRuntime, SimulatedTask
from highwater_simulator.world import NodeHandle, World
from highwater_wire.kafka.messages import (
    CONSUMER,
    FetchPartition,
    FetchRequest,
    KafkaRequest,
    KafkaResponse,
    MetadataRequest,
    ProducePartition,
    ProduceRequest,
)
from highwater_wire.kafka.record_batch import build_batch
from tests.fuzz.cases import Broken, Case, Stalled, Step
from tests.fuzz.clusters import FuzzedCluster
from tests.fuzz.draws import Draws
from tests.fuzz.kafka_frames import PROFILES, draw_frame, frame_of, simpler_frames
from tests.support.failover_story import ORDERS

STEPS = 40
CONNECTIONS = 6
LARGE_BATCHES = 12
LARGE_BATCH_BYTES = 60_000
"""Large enough that an answer goes by sendfile, in more than one piece."""
TURNS_PER_STEP = 8
"""Passes of the event loop, each a millisecond of virtual time."""
TURNS_MAX = 3_000
"""Within which a fresh connection's request is answered, and closed connections are gone."""
LOG_LINES_MAX = 1_000
"""Of one case; each step may cost its connection, and a line."""


class SocketsFuzzer:
    """A broker's two ports, and some connections that behave as they please."""

    name = "sockets"

    def draw(self, draws: Draws) -> Case:
        return tuple(_draw_step(draws) for _ in range(STEPS))

    def run(self, case: Case) -> None:
        with tempfile.TemporaryDirectory(prefix="highwater-fuzz-") as folder, _counted_lines():
            _Run(case, Path(folder)).run()

    def simpler(self, step: Step) -> Iterator[Step]:
        """Yield the same with a simpler request, where the step is one whole frame."""
        action, _, listener = step.label.split(" ")
        if action != "send" or len(step.payload) < 4:
            return
        if struct.unpack_from(">i", step.payload)[0] + 4 == len(step.payload):
            for frame in simpler_frames(step.payload[4:], PROFILES[listener]):
                yield Step(step.label, struct.pack(">i", len(frame)) + frame)


def _draw_step(draws: Draws) -> Step:
    number = draws.below(CONNECTIONS)
    listener = "CLIENT" if number % 3 else "REPLICATION"
    kind = draws.below(20)
    if kind < 2:
        action, sent = draws.one_of(("close", "reset", "half-close")), b""
    elif kind < 5:
        action, sent = "read", b""
    else:
        action = "send"
        sent = b"".join(_draw_sent(draws, listener) for _ in range(draws.one_of((1, 1, 2, 6))))
        if draws.chance(8):
            sent = sent[: draws.below(len(sent) + 1)]
        elif draws.chance(5):
            sent = draws.damaged(sent)
    return Step(f"{action} {number} {listener}", sent)


def _draw_sent(draws: Draws, listener: str) -> bytes:
    if draws.chance(40):
        max_bytes = draws.one_of((1_000, 40_000, 70_000, 1 << 20))
        offset = Offset(draws.below(LARGE_BATCHES))
        partition = FetchPartition(ORDERS.topic, 0, offset, max_bytes)
        wait_ms, min_bytes = draws.one_of((0, 100, 2**31 - 1)), draws.one_of((1, 1, 2**31 - 1))
        request = FetchRequest(CONSUMER, wait_ms, min_bytes, max_bytes, (partition,))
        return frame_of(request, 11, draws.below(99))
    frame = draw_frame(draws, PROFILES[listener], draws.below(99))
    return struct.pack(">i", len(frame)) + frame


# ---------------------------------------------------------------- the world


class _KernelFile(RealFile):
    """A real file whose syncs take virtual time only."""

    runtime: NodeRuntime

    async def sync(self) -> None:
        await self.runtime.sleep(1)


class _KernelFiles(RealFileSystem):
    """A real folder for a simulated node."""

    def __init__(self, folder: Path, runtime: NodeRuntime) -> None:
        super().__init__(folder)
        self._node_runtime = runtime

    def open(self, path: str) -> _KernelFile:
        file = super().open(path)
        file.__class__ = _KernelFile  # the same file, but for what its sync awaits
        file.runtime = self._node_runtime  # type: ignore[attr-defined]
        return file  # type: ignore[return-value]

    async def sync_folder(self, path: str) -> None:
        await self._node_runtime.sleep(1)

    async def sync_many(self, files: Sequence[str], folders: Sequence[str]) -> None:
        await self._node_runtime.sleep(1)


class _WorldWithFiles(World):
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        super().__init__(1, PlanTopology(brokers=1, controllers=1))

    def _ports(self, handle: NodeHandle, runtime: NodeRuntime) -> Ports:
        ports = super()._ports(handle, runtime)
        folder = self._folder / f"{handle.name}-{runtime.incarnation}"
        folder.mkdir(exist_ok=True)
        return replace(ports, files=_KernelFiles(folder, runtime))


class _Trace:
    """The listeners' trace: what is bad about the input is theirs to tell, and nobody's here."""

    def emit(self, kind: object, **detail: object) -> None:
        pass


class _CountedLines(logging.Handler):
    """Takes the listeners' log lines, so many and no more."""

    def __init__(self) -> None:
        super().__init__()
        self._lines = 0

    def emit(self, record: logging.LogRecord) -> None:
        self._lines += 1
        if self._lines > LOG_LINES_MAX:
            raise Stalled(f"more than {LOG_LINES_MAX} log lines: {record.getMessage()}")


@contextmanager
def _counted_lines() -> Iterator[None]:
    """Keep the listeners' log lines from the screen, and count them."""
    logger, handler = logging.getLogger("highwater"), _CountedLines()
    former = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = former


# ---------------------------------------------------------------- a run


class _Client:
    """A raw connection that neither waits nor reads unless it is told to."""

    def __init__(self, port: int) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        self._socket.setblocking(False)
        self.is_over = False
        code = self._socket.connect_ex(("127.0.0.1", port))
        if code not in (0, errno.EINPROGRESS):
            raise Broken("others are served", f"connect: {errno.errorcode[code]}")

    def send(self, data: bytes) -> None:
        """Send what there is room for: a peer that does not read on is the peer's right."""
        with suppress(BlockingIOError):
            try:
                self._socket.send(data)
            except OSError as error:
                if not isinstance(error, BlockingIOError):
                    self.is_over = True

    def read(self) -> bytes:
        try:
            data = self._socket.recv(1 << 16)
        except BlockingIOError:
            return b""
        except OSError:
            data = b""
        self.is_over = self.is_over or not data
        return data

    def end(self, how: str) -> None:
        if how == "half-close":
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_WR)
            return
        if how == "reset":
            linger = struct.pack("ii", 1, 0)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self._socket.close()
        self.is_over = True


class _Run:
    def __init__(self, case: Case, folder: Path) -> None:
        self._case = case
        self._world = _WorldWithFiles(folder)
        self._cluster = FuzzedCluster(self._world)
        self._failures: list[BaseException] = []
        self._listeners: dict[str, KafkaListener] = {}
        self._clients: dict[int, _Client] = {}

    def run(self) -> None:
        try:
            self._world.run(self._cluster.bring_up_alone(), 600_000)
            asyncio.run(self._feed_all())
        finally:
            self._world.close()

    async def _feed_all(self) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._on_loop_error)
        for name in ("CLIENT", "REPLICATION"):
            spec = ListenerSpec(name, 0, self._handler(name), PROFILES[name], host="127.0.0.1")
            listener = KafkaListener(spec, _Trace(), lambda _, error: self._failures.append(error))
            await listener.start()
            self._listeners[name] = listener
        try:
            await self._fill()
            for step in self._case:
                self._feed(step)
                await self._turn(TURNS_PER_STEP)
            await self._check_serves()
            await self._check_forgotten()
        finally:
            for client in self._clients.values():
                client.end("close")
            for listener in self._listeners.values():
                await listener.stop()

    def _handler(self, listener_name: str) -> Any:
        async def handle(request: KafkaRequest, context: ConnectionContext) -> KafkaResponse | None:
            """Run the node's handler as a task of its own runtime; its first step at once."""
            answered: asyncio.Future[KafkaResponse | None] = (
                asyncio.get_running_loop().create_future()
            )

            async def work() -> None:
                _, node = self._cluster.broker(0)
                response = await node.handle_kafka(request, listener_name)
                if not answered.done():
                    answered.set_result(response)

            runtime = self._world.brokers[0].runtime
            if runtime is None:
                return await answered
            task = SimulatedTask(runtime, listener_name, work())
            task.step()
            try:
                return await answered
            finally:
                if not task.is_done():
                    task.cancel()  # as the listener gives its handler up

        return handle

    def _on_loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """What a callback raised is a bug; what a socket met is not."""
        error = context.get("exception")
        if error is not None and not isinstance(error, OSError | asyncio.CancelledError):
            self._failures.append(error)

    async def _turn(self, turns: int) -> None:
        """Let the event loop turn, and as many milliseconds of virtual time go by."""
        for _ in range(turns):
            await asyncio.sleep(0)
            self._world.kernel.run_for(1)
            if self._failures:
                raise self._failures[0]

    async def _fill(self) -> None:
        """Write some large batches, for answers that take long to send."""
        for _ in range(LARGE_BATCHES):
            records = build_batch([(None, b"v" * LARGE_BATCH_BYTES, 1_000)])
            produce = ProduceRequest(1, 1_000, (ProducePartition(ORDERS.topic, 0, records),))
            await self._call(frame_of(produce, 3))

    def _feed(self, step: Step) -> None:
        action, number, listener = step.label.split(" ")
        client = self._clients.get(int(number))
        if client is None or client.is_over:
            client = self._clients[int(number)] = _Client(self._listeners[listener].port)
        if action == "send":
            client.send(step.payload)
        elif action == "read":
            client.read()
        else:
            client.end(action)

    async def _call(self, frame: bytes) -> bytes:
        """Return the answer to a request on a connection of its own."""
        client = _Client(self._listeners["CLIENT"].port)
        await self._turn(2)
        client.send(frame)
        found = b""
        for _ in range(TURNS_MAX):
            await self._turn(1)
            found += client.read()
            if len(found) >= 4 and len(found) >= 4 + struct.unpack_from(">i", found)[0]:
                break
            if client.is_over:
                raise Broken("others are served", "a sound client's connection was closed")
        else:
            raise Broken("others are served", f"no answer within {TURNS_MAX} turns")
        client.end("close")
        return found

    async def _check_serves(self) -> None:
        await self._call(frame_of(MetadataRequest(None), 5))
        batch = build_batch([(None, b"after", 1_000)])
        produce = ProduceRequest(-1, 1_000, (ProducePartition("witness", 0, batch),))
        answer = await self._call(frame_of(produce, 3))
        if b"witness\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00" not in answer:
            raise Broken("others are served", f"a produce was answered {answer!r}")

    async def _check_forgotten(self) -> None:
        """Close every connection: nothing that they asked for may go on waiting."""
        for client in self._clients.values():
            client.end("close")
        _, node = self._cluster.broker(0)
        for _ in range(TURNS_MAX):
            await self._turn(1)
            if not any(listener._connections for listener in self._listeners.values()):
                break
        else:
            raise Broken("closed connections are forgotten", "some are still held")
        await self._turn(100)
        waiting = dict(node.snapshot().counters)["waiting_requests"]
        if waiting:
            raise Broken("waits end with their connection", f"{waiting} requests still wait")
