"""Reads a container's processes' private memory from /proc, inside the container."""

from __future__ import annotations

import docker

from highwater.errors import HarnessError

_COMMAND = ["sh", "-c", "cat /proc/[0-9]*/status 2>/dev/null; true"]


def largest_private_memory(engine: docker.DockerClient, container: str) -> int:
    """Return RssAnon, in bytes, of the container's largest process: its server.

    Raises:
        HarnessError: the container does not run, or its kernel does not report RssAnon.
    """
    made = engine.api.exec_create(container, _COMMAND)
    output = bytes(engine.api.exec_start(made["Id"]))
    sizes = private_memory(output.decode("utf-8", errors="replace"))
    if not sizes:
        raise HarnessError(f"{container}: no RssAnon in /proc: {output[:200]!r}")
    return max(sizes)


def private_memory(status_text: str) -> list[int]:
    """Return every RssAnon in the text of /proc/*/status, in bytes."""
    lines = (line.split() for line in status_text.splitlines() if line.startswith("RssAnon:"))
    return [int(fields[1]) * 1024 for fields in lines]
