"""Worker processes that run chunks of schedules; a worker that dies or hangs costs one schedule.

Workers are spawned, so that they share nothing with this process, and end with it. Summaries arrive
as they are made; their order depends on the machine, their contents do not.
"""

from __future__ import annotations

import contextlib
import faulthandler
import multiprocessing
import signal
import tempfile
import time
import traceback
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType

from highwater.errors import HarnessError
from highwater_simulator.search import Chunk, Schedule, Summary

SCHEDULE_WITHIN_S = 60.0
"""Wall-clock time after which a schedule counts as hanging."""
_LAST_LINES = 12


@dataclass(frozen=True, slots=True)
class Lost:
    """A schedule without an outcome: its worker hung, died, or hit a bug of the simulator."""

    schedule: Schedule
    bug: str
    why: str


@dataclass(frozen=True, slots=True)
class _Broke:
    """A worker's message when a schedule raised an exception."""

    why: str


class _Ready:
    """A worker's first message."""


class _ChunkDone:
    """A worker's message at a chunk's end."""


_Message = _Ready | Summary | _Broke | _ChunkDone


class WorkersCannotStart(HarnessError):
    """A worker ended before its first schedule; its output is on stderr."""


@dataclass(slots=True, eq=False)
class _Worker:
    process: BaseProcess
    pipe: Connection
    last_words: Path
    """Where Python writes the stack of a worker that hangs or crashes."""
    chunk: Chunk | None = None
    is_ready: bool = False


class Pool:
    """Processes for chunks; use it as a context manager, whose end ends them all."""

    def __init__(self, jobs: int, schedule_within_s: float = SCHEDULE_WITHIN_S) -> None:
        self._jobs = jobs
        self._schedule_within_s = schedule_within_s
        self._context = multiprocessing.get_context("spawn")
        self._workers: list[_Worker] = []
        self._folder = tempfile.TemporaryDirectory(prefix="highwater-sim-")
        self._made = 0

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for worker in self._workers:
            worker.process.kill()
        for worker in self._workers:
            worker.process.join()
            worker.pipe.close()
        self._workers.clear()
        self._folder.cleanup()

    def run(self, chunks: Iterable[Chunk]) -> Iterator[tuple[Chunk, Summary | Lost]]:
        """Yield every schedule's outcome, with the rest of its chunk at that moment.

        Raises:
            WorkersCannotStart: processes end before they have begun.
        """
        todo = deque(chunk for chunk in chunks if chunk.schedules)
        while todo or any(worker.chunk is not None for worker in self._workers):
            self._give(todo)
            busy = [worker for worker in self._workers if worker.chunk is not None]
            ready = wait([worker.pipe for worker in busy])
            for worker in busy:
                if worker.pipe in ready:
                    yield from self._hear(worker, todo)

    def _give(self, todo: deque[Chunk]) -> None:
        """Give every idle worker a chunk; start workers while there are fewer than allowed."""
        for worker in self._workers:
            if todo and worker.chunk is None:
                self._send(worker, todo.popleft())
        while todo and len(self._workers) < self._jobs:
            self._workers.append(self._make_worker())
            self._send(self._workers[-1], todo.popleft())

    def _make_worker(self) -> _Worker:
        self._made += 1
        last_words = Path(self._folder.name) / f"worker-{self._made}"
        last_words.touch()
        ours, theirs = self._context.Pipe()
        process = self._context.Process(
            target=_work,
            args=(theirs, last_words, self._schedule_within_s),
            name=f"schedules-{self._made}",
            daemon=True,
        )
        with _interrupts_held():
            process.start()
        theirs.close()
        return _Worker(process, ours, last_words)

    def _send(self, worker: _Worker, chunk: Chunk) -> None:
        worker.chunk = chunk
        with contextlib.suppress(BrokenPipeError):  # its end is noticed when its pipe is read
            worker.pipe.send(chunk)

    def _hear(self, worker: _Worker, todo: deque[Chunk]) -> Iterator[tuple[Chunk, Summary | Lost]]:
        chunk = worker.chunk
        if chunk is None:
            return
        message: _Message
        try:
            message = worker.pipe.recv()
        except (EOFError, ConnectionResetError) as error:
            message = _Broke(self._bury(worker))
            if not worker.is_ready:
                raise WorkersCannotStart(f"a worker ended at once: {message.why}") from error
        if isinstance(message, _Ready):
            worker.is_ready = True
        elif isinstance(message, _ChunkDone):
            worker.chunk = None
        elif isinstance(message, Summary):
            worker.chunk = chunk.after(1)
            yield chunk, message
        else:
            worker.chunk = None
            if chunk.schedules[1:]:
                todo.appendleft(chunk.after(1))
            yield chunk, Lost(chunk.schedules[0], chunk.bug, message.why)

    def _bury(self, worker: _Worker) -> str:
        """Remove a worker that has ended, and return the cause of its death."""
        self._workers.remove(worker)
        worker.process.join()
        worker.pipe.close()
        lines = worker.last_words.read_text(errors="replace").splitlines()
        if any(line.startswith("Timeout (") for line in lines):
            what = f"it did not end within {self._schedule_within_s:g} s"
        else:
            what = f"its process ended with exit code {worker.process.exitcode}"
        return "\n".join((what, *lines[:_LAST_LINES]))


def run_here(chunks: Iterable[Chunk]) -> Iterator[tuple[Chunk, Summary | Lost]]:
    """Run the chunks in this process, in order; for profilers and debuggers: nothing is caught."""
    for chunk in chunks:
        for number, summary in enumerate(chunk.summaries(time.process_time_ns)):
            yield chunk.after(number), summary


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    """Delay Ctrl-C; processes that start meanwhile ignore it, and are ended by this one."""
    resource_tracker.ensure_running()  # starting it would allow interrupts again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# ---------------------------------------------------------------- in the worker


def _work(pipe: Connection, last_words: Path, schedule_within_s: float) -> None:
    """Run chunks until the other end is closed."""
    with last_words.open("w") as file, contextlib.suppress(EOFError, BrokenPipeError):
        faulthandler.enable(file)
        pipe.send(_Ready())
        while True:
            chunk: Chunk = pipe.recv()
            faulthandler.dump_traceback_later(schedule_within_s, exit=True, file=file)
            for message in _messages_of(chunk):
                pipe.send(message)
                faulthandler.dump_traceback_later(schedule_within_s, exit=True, file=file)
            faulthandler.cancel_dump_traceback_later()


def _messages_of(chunk: Chunk) -> Iterator[_Message]:
    try:
        yield from chunk.summaries(time.process_time_ns)
    except Exception as error:  # noqa: BLE001 - a bug of the simulator, reported with its seed
        lines = traceback.format_exc().splitlines()[:-1]
        yield _Broke("\n".join((f"{type(error).__name__}: {error}", *lines[-_LAST_LINES:])))
        return
    yield _ChunkDone()
