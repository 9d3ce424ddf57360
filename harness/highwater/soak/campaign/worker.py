"""In Spark's Python on any machine: runs plans, each in a process of its own, and keeps runs.

This module is shipped and imports nothing of the harness. The process that it starts imports
Highwater as it is installed there, with all that images are made of.
"""

from __future__ import annotations

import fcntl
import getpass
import json
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

PLAN_WITHIN_S = 3600.0
PLACE_WITHIN_S = 24 * 3600.0
"""Plans wait for each other: a machine has fewer places for clusters than Spark has cores."""
_ENDS_WITHIN_S = 180.0
_CODE_WITHIN_S = 120.0
_LOOK_EVERY_S = 0.5
_ERROR_CHARACTERS = 1_000
_TELL_CODE = "from highwater.soak.campaign.settings import code_here; print(code_here())"


@dataclass(frozen=True, slots=True)
class Order:
    """What workers do. Everything in it can be pickled.

    soak: the soak's settings as JSON has them. code: the digest of the code that must run.
    at_once: clusters on one machine. kept: the folder for archives of runs. one_plan: arguments of
    the Python that runs a plan.
    """

    soak: Mapping[str, Any]
    planted: str
    code: str
    data_version: int
    at_once: int
    kept: str
    one_plan: tuple[str, ...] = ("-m", "highwater.soak.campaign.one_plan")


def rows_of(order: Order, given: Row) -> Iterator[Row]:
    """Run the plans [first, after) and yield a row of PLANS for each."""
    for number in range(given["first"], given["after"]):
        entry = _entry_of(order, number)
        yield {
            "campaign": given["campaign"],
            "group": given["group"],
            "number": number,
            "outcome": entry["outcome"],
            "machine": socket.gethostname(),
            "run": entry["run"],
            "entry": json.dumps(entry),
            "data_version": order.data_version,
        }


def _entry_of(order: Order, number: int) -> dict[str, Any]:
    """Return the entry of a soak's ledger; of a plan that could not be run: with the reason."""
    asked = {"soak": order.soak, "number": number + 1, "planted": order.planted}
    with _place(order.at_once), tempfile.TemporaryDirectory(prefix="highwater-plan-") as folder:
        here = Path(folder)
        found, why = _run([sys.executable, "-c", _TELL_CODE], b"", here, _CODE_WITHIN_S)
        if found is not None and found.decode().strip() != order.code:
            found, why = None, "this machine has another version of Highwater installed"
        if found is not None:
            given = json.dumps(asked).encode()
            found, why = _run([sys.executable, *order.one_plan], given, here, PLAN_WITHIN_S)
        if found is None:
            return {"outcome": "unknown", "run": "", "reasons": [f"{socket.gethostname()}: {why}"]}
        entry: dict[str, Any] = json.loads(found)
        if entry["outcome"] == "pass":
            return {**entry, "run": ""}
        _keep(here, Path(order.kept) / f"{number + 1:05}.tar.gz")
        return entry


def _run(
    command: list[str], given: bytes, folder: Path, within_s: float
) -> tuple[bytes | None, str]:
    """Return what the process printed; None and the end of its messages where it failed."""
    with (
        (folder / "messages").open("w+b") as messages,
        subprocess.Popen(  # noqa: S603 - this interpreter, modules of ours
            command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=messages
        ) as process,
    ):
        try:
            printed, _ = process.communicate(given, within_s)
        except subprocess.TimeoutExpired:
            why = f"it did not end within {within_s:g} s"
        else:
            if process.returncode == 0:
                return printed, ""
            why = f"exit code {process.returncode}"
        finally:
            _end(process)
        return None, f"{why}: {_end_of(messages)}"


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


def _keep(folder: Path, archive: Path) -> None:
    """Pack what the plan left, under the archive's name once it is whole."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.NamedTemporaryFile(dir=archive.parent, suffix=".part", delete=False) as part,
        tarfile.open(fileobj=part, mode="w:gz") as packed,
    ):
        for name in ("runs", "shrunk"):
            if (folder / name).is_dir():
                packed.add(folder / name, name)
    Path(part.name).replace(archive)


@contextmanager
def _place(at_once: int) -> Iterator[None]:
    """Hold one of this machine's places for clusters.

    Raises:
        TimeoutError: none came free.
    """
    until_s = time.monotonic() + PLACE_WITHIN_S
    while time.monotonic() < until_s:
        for file in _places(at_once):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.close()
                continue
            with file:
                yield
            return
        time.sleep(_LOOK_EVERY_S)
    raise TimeoutError(f"none of {at_once} places for clusters came free")


def _places(at_once: int) -> Iterable[IO[str]]:
    for number in range(at_once):
        name = f"highwater-plans-{getpass.getuser()}-{number}.lock"
        yield (Path(tempfile.gettempdir()) / name).open("w")
