"""A node's output: of its container, and of those that the container was made in place of."""

from __future__ import annotations

import tarfile

import docker
from docker.errors import NotFound

from highwater.cluster.container_files import put_file, read_archive
from highwater.cluster.disks import DATA_FOLDER

EARLIER = "earlier.log"
"""On the node's volume: the output of its containers that are removed."""


def node_log(engine: docker.DockerClient, container: str, tail: int | None) -> str:
    """Return the output of the node's processes, all incarnations, oldest first.

    tail: only so many lines, of its present container alone.
    """
    output = bytes(engine.api.logs(container, tail="all" if tail is None else tail))
    whole = output if tail is not None else _earlier(engine, container) + output
    return whole.decode("utf-8", errors="replace")


def keep_log(engine: docker.DockerClient, container: str) -> None:
    """Write the output of a stopped container, which is to be removed, to its node's volume.

    Raises:
        docker.errors.APIError: the engine refused.
    """
    whole = node_log(engine, container, None).encode()
    put_file(engine, container, DATA_FOLDER, tarfile.TarInfo(EARLIER), whole)


def _earlier(engine: docker.DockerClient, container: str) -> bytes:
    try:
        ((_, content),) = read_archive(engine, container, f"{DATA_FOLDER}/{EARLIER}")
    except NotFound:
        return b""
    return content
