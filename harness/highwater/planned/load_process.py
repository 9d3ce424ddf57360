"""The plan's clients as a process beside the harness: `python -m highwater_client`."""

from __future__ import annotations

import contextlib
import queue
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, Any

import msgspec

from highwater.errors import HarnessError
from highwater_client.planned_load import LoadJob, LoadReport

_DECODER = msgspec.json.Decoder(LoadReport)
_QUIT_WITHIN_S = 10.0


class LoadFailed(HarnessError):
    """The clients could not do what they were told, or their process ended."""


class LoadProcess:
    """One process with all clients of a plan; use it as a context manager."""

    def __init__(self, job: LoadJob, folder: Path) -> None:
        path = folder / "load.json"
        path.write_bytes(msgspec.json.format(msgspec.json.encode(job), indent=2))
        self._log_path = folder / "logs" / "clients.log"
        self._log: IO[bytes] = self._log_path.open("wb")
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter, a module of ours
            [sys.executable, "-m", "highwater_client", str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )
        self._done: queue.SimpleQueue[LoadReport | None] = queue.SimpleQueue()
        self._latest = LoadReport()
        self._thread = threading.Thread(target=self._listen, name="clients", daemon=True)
        self._thread.start()

    def __enter__(self) -> LoadProcess:
        return self

    def __exit__(self, *error: object) -> None:
        self.quit()

    @property
    def latest(self) -> LoadReport:
        """What the clients told last."""
        return self._latest

    def tell(self, command: str) -> None:
        """Give a command without waiting for its end."""
        stdin = self._process.stdin
        if stdin is None or stdin.closed:
            raise LoadFailed(f"{command!r}: the clients have ended")
        try:
            stdin.write(f"{command}\n".encode())
            stdin.flush()
        except BrokenPipeError as error:
            raise LoadFailed(f"{command!r}: the clients have ended; {self._log_path}") from error

    def await_done(self, command: str, within_s: float) -> LoadReport:
        """Return what was told at the command's end.

        Raises:
            LoadFailed: it failed, did not end in time, or the process ended.
        """
        try:
            report = self._done.get(timeout=within_s)
        except queue.Empty:
            raise LoadFailed(f"{command!r}: not done within {within_s:g} s") from None
        if report is None:
            raise LoadFailed(f"{command!r}: the clients have ended; {self._log_path}")
        if report.done != command or report.error:
            raise LoadFailed(f"{command!r}: {report.error or f'{report.done!r} was done'}")
        return report

    def do(self, command: str, within_s: float) -> LoadReport:
        """Give a command and return once it is done, as await_done does."""
        self.tell(command)
        return self.await_done(command, within_s)

    def quit(self) -> None:
        """End the process; its histories are then on the disk. Again is harmless."""
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
            report = _DECODER.decode(line)
            self._latest = report
            if report.done:
                self._done.put(report)
        self._done.put(None)
