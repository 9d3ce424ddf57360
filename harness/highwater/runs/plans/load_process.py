"""The plan's clients as a process beside the harness: `python -m highwater_client`, or stock ones.

They can be killed and started again. Each incarnation has histories and values of its own, under
names of its own. A request is in the history before it is sent, so a killed client's last requests
are there too.
"""

from __future__ import annotations

import contextlib
import queue
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import msgspec

from highwater.errors import HarnessError
from highwater.faults.done import NotDone, prove
from highwater.runs.stock.libraries import ClientKind
from highwater_checker.history import incarnation_of, process_name
from highwater_checker.run_folder import names
from highwater_checker.run_folder.histories import torn_histories
from highwater_client.load_job import LoadJob, encode_job
from highwater_client.running_load import LoadReport

_DECODER = msgspec.json.Decoder(LoadReport)
_QUIT_WITHIN_S = 10.0
STARTS_WITHIN_S = 20.0


class LoadFailed(HarnessError):
    """The clients could not carry out a command, or their process ended."""


class LoadProcess:
    """All clients of a plan, in one process at a time; use it as a context manager."""

    def __init__(self, job: LoadJob, folder: Path, kind: ClientKind = ClientKind.OWN) -> None:
        self._job = job
        self._folder = folder
        self._kind = kind
        self._lock = threading.Lock()
        self._past = LoadReport()
        """The last reports of the killed incarnations, summed up."""
        self._now = _Incarnation(job, folder, kind)

    def __enter__(self) -> LoadProcess:
        return self

    def __exit__(self, *error: object) -> None:
        self.quit()

    @property
    def latest(self) -> LoadReport:
        """The clients' last report, summed up over all incarnations."""
        return _sum(self._past, self._now.latest)

    def tell(self, command: str) -> None:
        """Send a command without waiting for its end."""
        self._now.tell(command)

    def await_done(self, command: str, within_s: float) -> LoadReport:
        """Return the report at the command's end.

        Raises:
            LoadFailed: the command failed or did not end in time, or the process ended.
        """
        return self._now.await_done(command, within_s)

    def do(self, command: str, within_s: float) -> LoadReport:
        """Send a command and return once it is done, as await_done does."""
        self.tell(command)
        return self.await_done(command, within_s)

    def quit(self) -> None:
        """End the process; its histories are then on the disk. Again is harmless."""
        self._now.quit()

    # ------------------------------------------------------------ a fault

    def kill(self) -> str:
        """End all clients with SIGKILL, and return the proof.

        Raises:
            NotDone: the clients do not run, or ended in another way.
        """
        with self._lock:
            now = self._now
            prove(now.exit_code is None, "the clients do not run")
            code = now.kill()
            prove(code == -signal.SIGKILL, f"the clients ended with {code}, not of SIGKILL")
            torn = [
                name
                for name in torn_histories(Path(self._job.history_folder))
                if incarnation_of(name) == now.number
            ]
        return f"ended by signal {-code}; histories that end in half a line: {len(torn)}"

    def start_again(self) -> str:
        """Start the next incarnation, which writes and reads at once, and return its first report.

        No record is awaited: the brokers may be down at that moment.

        Raises:
            NotDone: it did not report its start in time.
        """
        with self._lock:
            if self._now.exit_code is None:
                return "they run"
            self._past = self.latest
            number = self._now.number + 1
            job = replace(self._job, incarnation=number)
            self._now = _Incarnation(job, self._folder, self._kind)
            try:
                self._now.tell("start")
                self._now.await_done("start", STARTS_WITHIN_S)
            except LoadFailed as error:
                raise NotDone(str(error)) from error
        return f"incarnation {number} says that it began"


def _sum(one: LoadReport, other: LoadReport) -> LoadReport:
    """Return the counts of both reports, with the second one's last state."""
    return LoadReport(
        done=other.done,
        error=other.error,
        sent=one.sent + other.sent,
        acknowledged=one.acknowledged + other.acknowledged,
        failed=one.failed + other.failed,
        unknown=one.unknown + other.unknown,
        read=one.read + other.read,
    )


def _program(kind: ClientKind) -> tuple[str, ...]:
    own = kind is ClientKind.OWN
    return ("highwater_client",) if own else ("highwater.runs.stock", kind.value)


class _Incarnation:
    """One process with all clients of a plan."""

    def __init__(self, job: LoadJob, folder: Path, kind: ClientKind) -> None:
        self.number = job.incarnation
        self.latest = LoadReport()
        path = folder / job.file_name
        path.write_bytes(encode_job(job))
        self._log_path = folder / names.LOGS / f"{process_name('clients', job.incarnation)}.log"
        self._log: IO[bytes] = self._log_path.open("wb")
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter, a module of ours
            [sys.executable, "-m", *_program(kind), str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )
        self._done: queue.SimpleQueue[LoadReport | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._listen, name="clients", daemon=True)
        self._thread.start()

    @property
    def exit_code(self) -> int | None:
        """As in subprocess: minus the signal's number after a signal; None while it runs."""
        return self._process.poll()

    def tell(self, command: str) -> None:
        stdin = self._process.stdin
        if stdin is None or stdin.closed:
            raise LoadFailed(f"{command!r}: the clients have ended")
        try:
            stdin.write(f"{command}\n".encode())
            stdin.flush()
        except BrokenPipeError as error:
            raise LoadFailed(f"{command!r}: the clients have ended; {self._log_path}") from error

    def await_done(self, command: str, within_s: float) -> LoadReport:
        try:
            report = self._done.get(timeout=within_s)
        except queue.Empty:
            raise LoadFailed(f"{command!r}: not done within {within_s:g} s") from None
        if report is None:
            raise LoadFailed(f"{command!r}: the clients have ended; {self._log_path}")
        if report.done != command or report.error:
            raise LoadFailed(f"{command!r}: {report.error or f'{report.done!r} was done'}")
        return report

    def kill(self) -> int:
        """End it with SIGKILL, and return its exit code."""
        self._process.kill()
        code = self._process.wait()
        self.quit()
        return code

    def quit(self) -> None:
        if self._process.stdin is not None and not self._process.stdin.closed:
            with contextlib.suppress(BrokenPipeError):  # it has ended by itself
                self._process.stdin.close()
        try:
            self._process.wait(_QUIT_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._thread.join(_QUIT_WITHIN_S)
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._log.close()

    def _listen(self) -> None:
        stdout: Any = self._process.stdout
        for line in stdout:
            if not line.endswith(b"\n"):
                break  # killed in the middle of a report
            report = _DECODER.decode(line)
            self.latest = report
            if report.done:
                self._done.put(report)
        self._done.put(None)
