"""A client program's process: runtime, sockets and files, and a dialogue in lines with its owner.

The owner writes commands to stdin, one word a line. The end of stdin means "quit", so that a client
never outlives its owner. The client writes reports to stdout, one JSON object a line. A bug ends
the process at once with 70.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import traceback
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from highwater_adapters.asyncio_runtime import BUG_EXIT_CODE, AsyncioQueue, AsyncioRuntime
from highwater_adapters.random_source import RandomSource
from highwater_adapters.tcp_transport import TcpTransport
from highwater_core.check import check

QUIT = "quit"


class LineFile:
    """A file of values as lines of JSON.

    A line is flushed to the system when write returns, so that a kill of the process loses none,
    and a request that was written before it was sent is in the file. The disk has all lines when
    the file is closed.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb", buffering=0)

    def write(self, value: Any) -> None:
        line = msgspec.json.encode(value) + b"\n"
        written = self._file.write(line)
        check(written == len(line), f"the disk took {written} of {len(line)} bytes")

    def close(self) -> None:
        os.fsync(self._file.fileno())
        self._file.close()


@dataclass(slots=True)
class ClientProcess:
    """The ports of a client program."""

    runtime: AsyncioRuntime
    commands: AsyncioQueue[str]
    files: dict[Path, LineFile]
    transports: list[TcpTransport]

    def transport(self, name: str) -> TcpTransport:
        """Return a transport of its own for the client of that name."""
        self.transports.append(TcpTransport(name))
        return self.transports[-1]

    def rng(self, name: str, seed: int) -> RandomSource:
        """Return a random stream that depends on its name and the seed."""
        return RandomSource(name, seed.to_bytes(8, "big", signed=True))

    def line_file(self, path: str) -> Callable[[Any], None]:
        """Return a file to which values are appended as lines of JSON."""
        return self.files.setdefault(Path(path), LineFile(Path(path))).write

    def tell(self, value: Any) -> None:
        """Send the owner a report."""
        sys.stdout.buffer.write(msgspec.json.encode(value) + b"\n")
        sys.stdout.buffer.flush()


ClientMain = Callable[[ClientProcess], Coroutine[Any, Any, None]]


def run_client(main: ClientMain) -> int:
    """Run the program to its end, and return the process's exit code."""
    asyncio.run(_run(main))
    return 0


async def _run(main: ClientMain) -> None:
    runtime = AsyncioRuntime(_fail)
    process = ClientProcess(runtime, runtime.queue(), {}, [])
    _listen(runtime, process.commands)
    finished = runtime.event()

    async def run_main() -> None:
        await main(process)
        finished.set()

    scope = runtime.scope("client")
    scope.spawn("main", run_main())
    await finished.wait()
    scope.cancel()
    for transport in process.transports:
        transport.close()
    for file in process.files.values():
        file.close()


def _listen(runtime: AsyncioRuntime, commands: AsyncioQueue[str]) -> None:
    """Put stdin's lines into the queue, from a thread that ends with the process."""

    def read() -> None:
        for line in sys.stdin:
            runtime.loop.call_soon_threadsafe(commands.put, line.strip())
        runtime.loop.call_soon_threadsafe(commands.put, QUIT)

    threading.Thread(target=read, name="stdin", daemon=True).start()


def _fail(task_name: str, error: BaseException) -> None:
    sys.stderr.write(f"bug in {task_name}\n{''.join(traceback.format_exception(error))}")
    sys.stderr.flush()
    os._exit(BUG_EXIT_CODE)
