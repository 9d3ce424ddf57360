"""A soak's folder: its settings, its plans, its ledger, its runs, its status and its page.

runs/soaks/<name>/ soak.json done.jsonl status.json usage.jsonl plans/ runs/ soak.html junit.xml
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from highwater.errors import HarnessError
from highwater.report.junit import JUNIT
from highwater.soak.draws import Drawn, SoakSettings, topology_of
from highwater.soak.kept_runs import SOAK_FILE
from highwater_chaos.plan import PlanTopology, encode_plan

FORMAT = 1
_TRIES, _BETWEEN_TRIES_S = 5, 0.05
"""To have the soak's lock."""


class SoakFile(msgspec.Struct, frozen=True):
    """soak.json: what the soak's plans are drawn from.

    topology: of its one cluster, None where each plan has a cluster of its own.
    """

    format: int
    settings: SoakSettings
    topology: PlanTopology | None = None


class SoakFolder:
    """The paths of one soak, or of a campaign of its plans."""

    def __init__(self, path: Path, *, of: str = "soak") -> None:
        """of: "soak" or "campaign"."""
        self.path = path
        self.of = of
        self.ledger = path / "done.jsonl"
        self.status = path / "status.json"
        self.usage = path / "usage.jsonl"
        self.plans = path / "plans"
        self.runs = path / "runs"
        self.page = path / f"{of}.html"
        self.junit = path / JUNIT

    def open(self, settings: SoakSettings) -> None:
        """Make the folder, or check that it is of the same soak.

        Raises:
            HarnessError: it has other settings, or is of a version that draws other plans.
        """
        for folder in (self.plans, self.runs):
            folder.mkdir(parents=True, exist_ok=True)
        topology = topology_of(settings) if settings.one_cluster else None
        own = SoakFile(FORMAT, settings, topology)
        file = self.path / SOAK_FILE
        if not file.exists():
            write_whole(file, msgspec.json.format(msgspec.json.encode(own), indent=2) + b"\n")
            return
        try:
            found = msgspec.json.decode(file.read_bytes(), type=SoakFile)
        except (msgspec.DecodeError, ValueError) as fault:
            raise HarnessError(
                f"{file} cannot be read: {fault}; restore it, or take another --name"
            ) from None
        if found.format != FORMAT:
            raise HarnessError(
                f"{file} is of format {found.format}, and this version's is {FORMAT}: "
                "take another --name"
            )
        if found.settings != settings:
            told = msgspec.json.encode(found.settings).decode()
            raise HarnessError(
                f"{self.path} is a soak with other settings: {told}; take another --name"
            )
        if found.topology != topology:
            raise HarnessError(
                f"{file} has another topology than this version draws: take another --name"
            )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the soak for this process.

        Raises:
            HarnessError: another process runs it.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / ".lock").open("w") as file:
            for left in range(_TRIES, -1, -1):  # who watches holds it for a moment
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if not left:
                        told = f"another process runs the soak in {self.path}"
                        raise HarnessError(told) from None
                time.sleep(_BETWEEN_TRIES_S)
            yield

    def is_locked(self) -> bool:
        """Return whether a process runs the soak."""
        try:
            with (self.path / ".lock").open() as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def plan_path(self, number: int) -> Path:
        return self.plans / f"{number:05}.json"

    def write_plan(self, drawn: Drawn) -> Path:
        """Write the plan's file before it is run."""
        path = self.plan_path(drawn.number)
        write_whole(path, encode_plan(drawn.plan))
        return path


def write_whole(path: Path, data: bytes) -> None:
    """Replace the file: a reader sees the old content or the new, also after a loss of power."""
    staged = path.with_name(f".{path.name}.new")
    with staged.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    staged.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
