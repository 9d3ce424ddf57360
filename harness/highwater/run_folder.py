"""A run's folder: fixed names, so that any later step can be redone from its files alone.

runs/<id>/ topology.json history/ trace/ logs/ zookeeper.json snapshots.jsonl segments/
verdict.json junit.xml run.png report.html; runs/latest points to the newest.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec

from highwater.errors import HarnessError
from highwater_checker.run_folder import names
from highwater_checker.run_folder.documents import BUILD, PROMISES, BadDocument, Document
from highwater_checker.run_folder.files import may_be_there, read_whole

T = TypeVar("T")
TEST = "test.txt"
"""The name of the test, in the folder of a test's cluster."""


class RunFolder:
    """The paths of one run; every write is on the disk when the call returns."""

    def __init__(self, path: Path) -> None:
        """Make the folder.

        Raises:
            HarnessError: the folder is not empty; another run's evidence would be judged too.
        """
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise HarnessError(f"{path} is not empty: a run takes a folder of its own")
        self.path = path
        for name in (names.HISTORY, names.TRACE, names.LOGS, names.SEGMENTS):
            (path / name).mkdir(parents=True, exist_ok=True)

    @classmethod
    def create(cls, root: Path, run_id: str) -> RunFolder:
        """Make runs/<run_id> and point runs/latest to it."""
        folder = cls(root / run_id)
        point_latest_to(root, run_id)
        return folder

    @classmethod
    def existing(cls, path: Path) -> Self:
        """Return the folder of a run that is over."""
        folder = cls.__new__(cls)
        folder.path = path
        return folder

    @property
    def run_id(self) -> str:
        return self.path.resolve().name

    def write_json(self, name: str, content: Any) -> Path:
        """Write a value (dataclasses too) as indented JSON."""
        text = msgspec.json.format(msgspec.json.encode(content, enc_hook=str), indent=2)
        return self.write_bytes(name, text + b"\n")

    def write(self, document: Document[T], value: T) -> Path:
        """Write one of the run's documents."""
        return self.write_bytes(document.name, document.encode(value))

    def write_bytes(self, name: str, data: bytes) -> Path:
        """Write the whole file or nothing; a link in its place is replaced, not followed."""
        path = self.path / name
        staged = path.with_name(f".{path.name}-{os.getpid()}")
        staged.unlink(missing_ok=True)
        with staged.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        staged.replace(path)
        return path


def point_latest_to(root: Path, run_id: str | None) -> None:
    """Let root/latest be a link to that run's folder; without a run there is no link.

    It is a convenience. Where it cannot be made, this is told on stderr: a runs/ that came from a
    CI's artefact has a folder there, and some disks have no links.
    """
    latest = root / "latest"
    if run_id is None:
        if latest.is_symlink():
            latest.unlink()
        return
    staged = root / f".latest-{os.getpid()}"
    try:
        staged.unlink(missing_ok=True)
        staged.symlink_to(run_id)
        staged.replace(latest)
    except OSError as error:
        with suppress(OSError):
            staged.unlink(missing_ok=True)
        sys.stderr.write(f"highwater: {latest} is not set to {run_id}: {error.strerror}\n")


def is_run(path: Path) -> bool:
    """Return whether the folder is a run's: it has one of the files that each run begins with."""
    marks = (names.TOPOLOGY, names.PLAN, PROMISES.name, names.VERDICT, names.LOOKS)
    return any(may_be_there(path / name) for name in marks)


def was_on_containers(folder: Path) -> bool:
    """Return whether the run was on containers, by its build, or else by ZooKeeper's tree."""
    try:
        build = BUILD.read(folder)
    except BadDocument:
        return True  # earlier versions wrote no build of a simulated run
    return may_be_there(folder / names.ZNODES) if build is None else not build.is_simulated


def name_of_test(folder: Path) -> str:
    """Return the name of the test whose cluster the run was, "" of another run."""
    try:
        return read_whole(folder / TEST).decode(errors="replace").strip()
    except OSError:
        return ""


def new_run_id(kind: str) -> str:
    """Return an id that sorts by time: demo-20260131-142233-a1b2."""
    moment = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    return f"{kind}-{moment}-{os.urandom(2).hex()}"
