"""The parts of nodes' traces, put together: 7.jsonl.000001, 7.jsonl.000002, 7.jsonl."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import docker

from highwater.cluster.collecting import copy_out
from highwater.cluster.disks import DATA_FOLDER

TRACE_FOLDER = f"{DATA_FOLDER}/trace"
_CLOSED = re.compile(r"(?P<trace>.+\.jsonl)\.[0-9]{6}")
"""The name of a part that its node no longer writes to."""


def trace_of_part(name: str) -> str:
    """Return the name of the trace of which a closed part has the name, "" of any other file."""
    found = _CLOSED.fullmatch(name)
    return "" if found is None else found["trace"]


def copy_traces(engine: docker.DockerClient, container: str, name: str, target: Path) -> list[str]:
    """Copy a node's traces into target, as NAME-7.jsonl; return the names of its files there."""
    prefix = f"{name}-"
    found = copy_out(engine, container, TRACE_FOLDER, target, prefix=prefix)
    join_parts(target, prefix)
    return [path.name.removeprefix(prefix) for path in found]


def join_parts(folder: Path, prefix: str = "") -> None:
    """Make one file of each trace of that prefix that has parts in the folder; they are gone then.

    Other traces are left alone: several nodes' files may be copied at once.
    """
    closed: dict[str, list[Path]] = {}
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        trace = trace_of_part(path.name)
        if trace and path.name.startswith(prefix):
            closed.setdefault(trace, []).append(path)
    for trace, parts in closed.items():
        whole = folder / f".{trace}.whole"
        with whole.open("wb") as target:
            for part in (*parts, folder / trace):
                if part.exists():  # the last one may not: its node was killed between two parts
                    with part.open("rb") as source:
                        shutil.copyfileobj(source, target)
        whole.replace(folder / trace)
        for part in parts:
            part.unlink()
