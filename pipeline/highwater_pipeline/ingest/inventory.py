"""The files in a run's folder, by the table to which they belong, and their fingerprint.

It looks at names and hashes bytes; it decodes no file.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from highwater_checker.run_folder import names
from highwater_checker.run_folder.documents import DOCUMENTS
from highwater_checker.run_folder.evidence_files import logs_among
from highwater_checker.run_folder.files import may_be_there, sha256_of, text_of
from highwater_pipeline.tables import EVENTS, FAULTS, OPERATIONS, PROBES, REPLICA_LOOKS

SEGMENTS = names.SEGMENTS

_LINE_FILES = {
    names.LOOKS: REPLICA_LOOKS.name,
    names.PROBES: PROBES.name,
    names.INTENTS: FAULTS.name,
}
_LINE_FOLDERS = {names.HISTORY: OPERATIONS.name, names.TRACE: EVENTS.name}
_MARKS = (names.TOPOLOGY, names.PLAN, *_LINE_FOLDERS)
_BROKER = re.compile(r"broker-(0|[1-9][0-9]{0,8})")
_REPLICA = re.compile(r"([a-zA-Z0-9._-]{1,249})-(0|[1-9][0-9]{0,8})")
# A replica that is being removed, or is none of its broker's any more (highwater_broker.log).
_ASIDE = re.compile(_REPLICA.pattern + r"\.[0-9]+-(delete|stray)")

NOT_FINISHED = "not finished: its name is that of a file that is being written"
UNEXPECTED = "unexpected: nothing here has such a name"
UNREAD = "unreadable"
"""The first word of the reason why a file that a verdict is made from was not read."""

Fingerprint = Mapping[str, tuple[int, str]]
"""Path in the run's folder to bytes and SHA-256, or to (-1, its kind) if the entry is not read."""


class NotARun(Exception):
    """The folder is no run's, or cannot be read; the message says why."""


@dataclass(frozen=True, slots=True)
class ReplicaFolder:
    """A replica's log. path: in the run's folder."""

    broker: int
    topic: str
    partition: int
    path: str


@dataclass(frozen=True, slots=True)
class Inventory:
    """A run's files, by their paths in its folder; every sequence ascends by path.

    line_files: files of JSON lines, each with the name of its table.
    strangers: files and folders that are not read, each with the reason.
    """

    run_id: str
    folder: Path
    documents: tuple[str, ...]
    line_files: tuple[tuple[str, str], ...]
    replicas: tuple[ReplicaFolder, ...]
    strangers: tuple[tuple[str, str], ...]
    fingerprint: Fingerprint

    @property
    def total_bytes(self) -> int:
        """Return the size of all files that are read."""
        return sum(max(size, 0) for size, _ in self.fingerprint.values())

    def without(self, changed: Collection[str]) -> Inventory:
        """Return the inventory without the logs, looks and probes that changed since the run.

        The judge reads none of these either (highwater_checker.run_folder.evidence).

        changed: files that are not as they were written, by their paths.
        """
        logs = {f"{SEGMENTS}/{broker}/{log}" for broker, log in logs_among(changed)}
        unread = {names.LOOKS, names.PROBES}.intersection(changed)
        return replace(
            self,
            replicas=tuple(each for each in self.replicas if each.path not in logs),
            line_files=tuple(each for each in self.line_files if each[0] not in unread),
        )


def take_inventory(folder: Path) -> Inventory:
    """Return the folder's files, each hashed; the folder's name is the run's id.

    Raises:
        NotARun: the folder has no file that only runs have, or the disk cannot be read.
    """
    if not folder.is_dir():
        raise NotARun("there is no such folder")
    if text_of(folder.name) != folder.name:
        raise NotARun("its name, by which a run goes, is no UTF-8")
    if not any((folder / mark).exists() for mark in _MARKS):
        raise NotARun(f"it is no run: it has none of {', '.join(_MARKS)}")
    try:
        return _inventory(folder)
    except OSError as error:
        raise NotARun(f"it cannot be read: {error}") from error


def _inventory(folder: Path) -> Inventory:
    strangers: list[tuple[str, str]] = []
    documents = tuple(each.name for each in DOCUMENTS if may_be_there(folder / each.name))
    line_files = sorted(_line_files(folder, strangers))
    replicas = sorted(_replicas(folder, strangers), key=lambda replica: replica.path)
    paths = [folder / name for name in (*documents, *(file for file, _ in line_files))]
    for replica in replicas:
        paths += (folder / replica.path).glob("*.log")
    fingerprint = {_in_run(folder, path): _hash(path) for path in sorted(paths)}
    fingerprint |= {replica.path: (-1, "replica") for replica in replicas}
    fingerprint |= {path: (-1, reason) for path, reason in strangers}
    return Inventory(
        run_id=folder.name,
        folder=folder,
        documents=documents,
        line_files=tuple(line_files),
        replicas=tuple(replicas),
        strangers=tuple(sorted(strangers)),
        fingerprint=fingerprint,
    )


def _line_files(folder: Path, strangers: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield (path, table) of each file of lines; add files of other names to strangers.

    Folders, pipes and links to nothing of such names are files that their readers cannot read.
    """
    for name, table in _LINE_FILES.items():
        if may_be_there(folder / name):
            yield name, table
    for name, table in _LINE_FOLDERS.items():
        for path in _entries(folder / name):
            if path.name.startswith(".tmp-"):
                strangers.append((_in_run(folder, path), NOT_FINISHED))
            elif path.name.startswith(".") or path.suffix != ".jsonl":
                strangers.append((_in_run(folder, path), UNEXPECTED))
            elif text_of(path.name) != path.name:
                strangers.append((_in_run(folder, path), f"{UNREAD}: its name is no UTF-8"))
            else:
                yield _in_run(folder, path), table


def _replicas(folder: Path, strangers: list[tuple[str, str]]) -> Iterator[ReplicaFolder]:
    """Yield the replicas below segments/; add folders that are no replica's to strangers."""
    for of_broker in _entries(folder / SEGMENTS):
        broker = _BROKER.fullmatch(of_broker.name)
        if broker is None:
            strangers.append((_in_run(folder, of_broker), UNEXPECTED))
            continue
        for path in _entries(of_broker):
            if not path.is_dir() or _ASIDE.fullmatch(path.name):
                continue  # checkpoints and the like, or no replica
            replica = _REPLICA.fullmatch(path.name)
            if replica is None:
                strangers.append((_in_run(folder, path), UNEXPECTED))
                continue
            yield ReplicaFolder(int(broker[1]), replica[1], int(replica[2]), _in_run(folder, path))


def _entries(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []


def _in_run(folder: Path, path: Path) -> str:
    return text_of(path.relative_to(folder).as_posix())


def _hash(path: Path) -> tuple[int, str]:
    try:
        digest = sha256_of(path)
        return path.stat().st_size, digest
    except OSError as error:
        return -1, f"{UNREAD}: {error.strerror or error}"
