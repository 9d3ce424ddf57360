"""In Spark's Python on any machine: runs plans, each in a process of its own, and keeps runs.

This module is shipped and imports nothing of the harness. The process that it starts imports
Highwater as it is installed there, with all that images are made of.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

Row = Mapping[str, Any]

BESIDE_FAULTS_S = 3600.0
"""What a plan may take beside the time of its faults: start, reading to the end, the simulator."""
PLACE_WITHIN_S = 24 * 3600.0
"""Plans wait for each other: a machine has fewer places for clusters than Spark has cores."""
_ENDS_WITHIN_S = 180.0
_LOOK_EVERY_S = 0.5
_ERROR_CHARACTERS = 1_000
_ENTRY = "entry.json"
"""As one_plan writes it."""


@dataclass(frozen=True, slots=True)
class Order:
    """What workers do. Everything in it can be pickled.

    soak: the soak's settings as JSON has them. code: the digest of the code that must run.
    at_once: clusters on one machine. within_s: what a plan may take. kept: the folder for archives
    of runs. one_plan: arguments of the Python that runs a plan.
    """

    soak: Mapping[str, Any]
    planted: str
    code: str
    data_version: int
    at_once: int
    within_s: float
    kept: str
    one_plan: tuple[str, ...] = ("-m", "highwater.soak.campaign.one_plan")


def rows_of(order: Order, given: Row) -> Iterator[Row]:
    """Run the plans [first, after) and yield a row of PLANS for each.

    A plan that could not be run has the outcome "lost".
    """
    for number in range(given["first"], given["after"]):
        entry = _entry_of(order, number)
        is_lost = entry["outcome"] == "unknown" and not entry["run"]
        yield {
            "campaign": given["campaign"],
            "group": given["group"],
            "number": number,
            "outcome": "lost" if is_lost else entry["outcome"],
            "machine": socket.gethostname(),
            "run": entry["run"],
            "entry": json.dumps(entry),
            "data_version": order.data_version,
        }


def _entry_of(order: Order, number: int) -> dict[str, Any]:
    """Return the entry of a soak's ledger; of a plan that could not be run: with the reason."""
    try:
        _check_can_keep(Path(order.kept))
        with (
            _place(order.at_once) as place,
            tempfile.TemporaryDirectory(prefix="highwater-plan-") as folder,
        ):
            return _run_plan(order, number, Path(folder), place)
    except OSError as error:  # no place came free, or a disk is full
        return _lost(str(error))


def _lost(why: str) -> dict[str, Any]:
    return {"outcome": "unknown", "run": "", "reasons": [f"{socket.gethostname()}: {why}"]}


def _run_plan(order: Order, number: int, folder: Path, place: int) -> dict[str, Any]:
    asked = {
        "code": order.code,
        "soak": order.soak,
        "number": number + 1,
        "planted": order.planted,
    }
    command = [sys.executable, *order.one_plan, str(os.getpid())]
    why = _run(command, json.dumps(asked).encode(), folder, order.within_s, place)
    if not (folder / _ENTRY).exists():
        return _lost(why)
    entry: dict[str, Any] = json.loads((folder / _ENTRY).read_bytes())
    if entry["outcome"] == "pass":
        return {**entry, "run": ""}
    if entry["run"]:
        try:
            _keep(folder, Path(order.kept) / archive_name(number + 1, entry["run"]))
        except OSError as error:  # a finding counts without its run, too
            why = f"{socket.gethostname()}: its run is not kept: {error}"
            return {**entry, "run": "", "reasons": [*entry["reasons"], why]}
    return entry


def archive_name(number: int, run: str) -> str:
    """Return the name of the archive of a plan's run. number: the plan's, from 1."""
    return f"{number:05}-{run}.tar.gz"


def _run(command: list[str], given: bytes, folder: Path, within_s: float, place: int) -> str:
    """Wait for the process; return "", or why it failed, with the end of its messages.

    place: a descriptor that the process has, too: the place is free when both have ended.
    """
    with (
        (folder / "messages").open("w+b") as messages,
        subprocess.Popen(  # noqa: S603 - this interpreter, modules of ours
            command,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=messages,
            stderr=messages,
            pass_fds=(place,),
            start_new_session=True,  # Spark ends its workers by a signal to their group
        ) as process,
    ):
        try:
            process.communicate(given, within_s)
        except subprocess.TimeoutExpired:
            why = f"it did not end within {within_s:g} s"
        else:
            if process.returncode == 0:
                return ""
            why = f"exit code {process.returncode}"
        finally:
            _end(process)
        return f"{why}: {_end_of(messages)}"


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process that still runs: by SIGTERM, upon which it removes its cluster."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _end_of(messages: IO[bytes]) -> str:
    messages.seek(0)
    return messages.read().decode("utf-8", "replace").strip()[-_ERROR_CHARACTERS:]


def _check_can_keep(kept: Path) -> None:
    """Raise OSError where no archive can be written: better before a plan has run than after."""
    kept.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=kept):
        pass


def _keep(folder: Path, archive: Path) -> None:
    """Pack what the plan left, under the archive's name once it is whole."""
    with tempfile.NamedTemporaryFile(dir=archive.parent, suffix=".part", delete=False) as part:
        try:
            with tarfile.open(fileobj=part, mode="w:gz") as packed:
                for name in ("runs", "shrunk"):
                    if (folder / name).is_dir():
                        packed.add(folder / name, name)
            part.flush()
            Path(part.name).chmod(0o644)  # another user may fetch it
            Path(part.name).replace(archive)
        except OSError:
            Path(part.name).unlink(missing_ok=True)
            raise


@contextmanager
def _place(at_once: int) -> Iterator[int]:
    """Hold one of this machine's places for clusters, and give the descriptor of its lock.

    Raises:
        TimeoutError: none came free.
    """
    until_s = time.monotonic() + PLACE_WITHIN_S
    while time.monotonic() < until_s:
        for file in _places(at_once):
            with file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    continue
                yield file.fileno()
                return
        time.sleep(_LOOK_EVERY_S)
    raise TimeoutError(f"none of {at_once} places for clusters came free")


def _places(at_once: int) -> Iterable[IO[str]]:
    for number in range(at_once):
        name = f"highwater-plans-{os.getuid()}-{number}.lock"
        yield (Path(tempfile.gettempdir()) / name).open("w")
