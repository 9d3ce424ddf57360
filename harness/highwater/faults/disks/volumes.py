"""Works on nodes' disks by short-lived helpers on their volumes, and judges their reports.

A disk is the node's data folder: its file system port sees nothing else. Traces and the count of
starts are the harness's evidence. They lie outside the folder and stay, as in the simulator.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import msgspec
from docker.errors import NotFound

from highwater.cluster.cluster import Cluster
from highwater.cluster.disks import DATA_FOLDER, DISK_BYTES, DISK_FOLDER, SIZED_DISK_MODE
from highwater.faults.disks import on_volume
from highwater.faults.done import NotDone, prove
from highwater.faults.helpers import run_helper
from highwater_chaos.faults import FILE_SUFFIXES, FileKind

_PROGRAM = Path(on_volume.__file__).read_text(encoding="utf-8")
_FULL = "ENOSPC"
FOLDER_MODE = 0o755
"""Of a data folder that the broker itself has made."""

R = TypeVar("R")


class _Emptied(msgspec.Struct, frozen=True):
    files: int
    left: tuple[str, ...]


class _Flipped(msgspec.Struct, frozen=True):
    path: str
    position: int
    bit: int
    before: str
    after: str


class _Filled(msgspec.Struct, frozen=True):
    refused: str
    ballast_bytes: int
    size_bytes: int


class _RoomMade(msgspec.Struct, frozen=True):
    ballast: bool
    refused_before: str
    refused: str


class _Mode(msgspec.Struct, frozen=True):
    mode: int


class _Looked(msgspec.Struct, frozen=True):
    ballast: bool


def empty_disk(cluster: Cluster, node: int) -> str:
    """Remove everything from a stopped node's disk, and return the proof, from a listing.

    Raises:
        NotDone: something is still there, or the helper failed.
        APIError: the engine refused.
    """
    emptied = _ask(cluster, node, _Emptied, do="empty")
    prove(not emptied.left, f"on the disk of node {node} there is still {emptied.left}")
    return f"{emptied.files} files removed, the disk lists nothing"


def flip_bit(cluster: Cluster, node: int, kind: FileKind) -> str:
    """Flip one bit of one file of the kind on a stopped broker's disk, and return file and digests.

    Raises:
        NotDone: no file of the kind has a byte, its digest did not change, or the helper failed.
        APIError: the engine refused.
    """
    flipped = _ask(cluster, node, _Flipped, do="flip", suffixes=FILE_SUFFIXES[kind])
    prove(bool(flipped.path), f"the disk of node {node} has no {kind} file with a byte in it")
    prove(flipped.before != flipped.after, f"the digest of {flipped.path} has not changed")
    digests = f"sha256 {flipped.before[:12]} -> {flipped.after[:12]}"
    return f"bit {flipped.bit} of byte {flipped.position} of {flipped.path} flipped, {digests}"


def fill_disk(cluster: Cluster, node: int) -> str:
    """Fill a broker's disk of a fixed size, and return the proof: the error of one more write.

    Raises:
        NotDone: the disk has no size of its own, is not full, or the helper failed.
        APIError: the engine refused.
    """
    own = cluster.has_sized_disk(node)
    prove(own, f"the disk of node {node} has no size of its own: the run was begun without")
    filled = _ask(cluster, node, _Filled, do="fill", most_bytes=DISK_BYTES)
    is_full = filled.refused == _FULL
    prove(is_full, f"a disk of {filled.size_bytes} bytes, the write: {filled.refused or 'done'}")
    return f"{filled.ballast_bytes} bytes taken of {filled.size_bytes}; a page more: {_FULL}"


def make_room(cluster: Cluster, node: int) -> str:
    """Undo fill_disk, and return in words whether writes failed before, and succeed now.

    Raises:
        NotDone: the disk is still full, or the helper failed.
        APIError: the engine refused.
    """
    room = _ask(cluster, node, _RoomMade, do="make_room")
    prove(not room.refused, f"the disk of node {node} takes no page: {room.refused}")
    # Space that the node frees meanwhile (old segments, replaced files) can be written again, as on
    # any full disk.
    before = "full until now" if room.refused_before == _FULL else "not quite full any more"
    return f"{before}; a page is written again"


def has_ballast(cluster: Cluster, node: int) -> bool:
    """Return whether our ballast is on the node's disk.

    Raises:
        NotDone: the helper failed.
        APIError: the engine refused.
    """
    return cluster.has_sized_disk(node) and _ask(cluster, node, _Looked, do="look").ballast


def close_folder(cluster: Cluster, node: int, folder: str = "") -> str:
    """Let a broker open nothing in a log folder any more, and return how it is seen.

    folder: the name of one of several; "" is its disk.

    Raises:
        NotDone: it still can, or the helper failed.
        APIError: the engine refused.
    """
    closed = _ask(
        cluster, node, _Mode, _owner(cluster, node, folder), do="close", folder=_path_of(folder)
    )
    is_closed = closed.mode == on_volume.CLOSED_MODE and is_folder_closed(cluster, node, folder)
    prove(is_closed, f"{_in_words(folder)} of node {node} has mode {closed.mode:03o}")
    return f"{_in_words(folder)} has mode 000: it can no longer be opened"


def reopen_folder(cluster: Cluster, node: int, folder: str = "") -> str:
    """Undo close_folder, and return how that is seen.

    Raises:
        NotDone: the folder is still closed, or the helper failed.
        APIError: the engine refused.
    """
    owner = _owner(cluster, node, folder)
    mode = SIZED_DISK_MODE if owner else FOLDER_MODE
    opened = _ask(cluster, node, _Mode, owner, do="reopen", mode=mode, folder=_path_of(folder))
    is_open = opened.mode == mode & on_volume.ALL_MODES
    prove(is_open, f"{_in_words(folder)} of node {node} has mode {opened.mode:03o}")
    return f"{_in_words(folder)} has mode {opened.mode:03o} again"


def closed_folders(cluster: Cluster, node: int) -> list[str]:
    """Return the broker's log folders that something of ours has closed, "" for its whole disk.

    Raises:
        APIError: the engine refused.
    """
    folders = dict.fromkeys(("", *cluster.topology.log_folders))
    return [each for each in folders if is_folder_closed(cluster, node, each)]


def is_folder_closed(cluster: Cluster, node: int, folder: str = "") -> bool:
    """Return whether something of ours has closed the log folder, as the engine sees it.

    Raises:
        APIError: the engine refused.
    """
    try:
        name, path = cluster.container_name(node), _path_of(folder)
        content, about = cluster.engine.api.get_archive(name, path)
    except NotFound:
        return False
    content.close()
    return int(about["mode"]) & on_volume.ALL_MODES == on_volume.CLOSED_MODE


def _path_of(folder: str) -> str:
    return f"{DISK_FOLDER}/{folder}" if folder else DISK_FOLDER


def _in_words(folder: str) -> str:
    return f"the folder {folder}" if folder else "the folder"


def _owner(cluster: Cluster, node: int, folder: str) -> str:
    """Return whose the folder is, who may close it without any capability; "" is the image's.

    The broker makes its several log folders itself.
    """
    return "0" if cluster.has_sized_disk(node) and not folder else ""


def _ask(cluster: Cluster, node: int, report: type[R], user: str = "", **task: object) -> R:
    told = msgspec.json.encode({"folder": DISK_FOLDER, **task}).decode()
    command = ["python3", "-c", _PROGRAM, told]
    return ask_beside(cluster, node, report, command, f"{task['do']} on the disk", user)


def ask_beside(
    cluster: Cluster,
    node: int,
    report: type[R],
    command: Sequence[str],
    what: str,
    user: str = "",
) -> R:
    """Run a command of the node's image on the node's volumes, and return its report.

    what: the work, in words. user: "" is the image's.

    Raises:
        NotDone: it wrote no report.
        APIError: the engine refused.
    """
    about = cluster.engine.api.inspect_container(cluster.container_name(node))
    places = {
        mount["Name"]: {"bind": mount["Destination"], "mode": "rw"}
        for mount in about["Mounts"]
        if mount["Type"] == "volume" and mount["Destination"].startswith(DATA_FOLDER)
    }
    code, said, errors = run_helper(
        cluster.engine,
        about["Image"],
        command,
        cluster.labels,
        volumes=places,
        network_mode="none",
        user=user,
    )
    try:
        return msgspec.json.decode(said, type=report)
    except msgspec.DecodeError as error:
        raise NotDone(f"{what} of node {node} ended with {code}: {errors[-300:]!r}") from error
