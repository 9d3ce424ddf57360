"""Reads all of ZooKeeper's znodes, for the run folder and for tests, and its four-letter words."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError

from highwater.errors import NodeUnreachable
from highwater_checker.run_folder.documents import UNREACHABLE, ZNODES, Znode
from highwater_core.ids import Endpoint


def dump_zookeeper(endpoint: Endpoint, *, timeout_s: float = 10.0) -> Mapping[str, Znode]:
    """Return every znode by its path, ZooKeeper's own subtree left out; not one atomic view.

    Raises:
        NodeUnreachable: ZooKeeper does not answer.
    """
    client = KazooClient(hosts=str(endpoint), timeout=timeout_s, read_only=True)
    try:
        client.start(timeout=timeout_s)
        found: dict[str, Znode] = {}
        _visit(client, "/", found)
    except (KazooException, client.handler.timeout_exception) as error:
        raise NodeUnreachable(f"ZooKeeper at {endpoint}: {error}") from error
    finally:
        client.stop()
        client.close()
    return found


def write_dump(endpoint: Endpoint, folder: Path) -> None:
    """Write zookeeper.json; if ZooKeeper is unreachable, its error's text instead."""
    try:
        znodes: Mapping[str, Znode | str] = dump_zookeeper(endpoint)
    except NodeUnreachable as error:
        znodes = {UNREACHABLE: str(error)}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ZNODES.name).write_bytes(ZNODES.encode(znodes))


def four_letter_word(endpoint: Endpoint, word: str, *, timeout_s: float = 1.0) -> str:
    """Return ZooKeeper's answer to ruok, stat, cons and the like; "" when there is none in time."""
    try:
        with socket.create_connection((endpoint.host, endpoint.port), timeout_s) as connection:
            connection.settimeout(timeout_s)
            connection.sendall(word.encode())
            chunks = []
            while chunk := connection.recv(65536):
                chunks.append(chunk)
    except OSError:
        return ""
    return b"".join(chunks).decode("utf-8", errors="replace")


def _visit(client: Any, path: str, found: dict[str, Znode]) -> None:
    try:
        data, stat = client.get(path)
        children = sorted(client.get_children(path))
    except NoNodeError:
        return
    if path != "/":
        found[path] = Znode(
            path, _parse(data), stat.version, stat.czxid, stat.mzxid, stat.ephemeralOwner
        )
    for name in children:
        child = f"{path.rstrip('/')}/{name}"
        if child != "/zookeeper":
            _visit(client, child, found)


def _parse(data: bytes) -> Any:
    if not data:
        return None
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:
        return data.decode("utf-8", errors="backslashreplace")
