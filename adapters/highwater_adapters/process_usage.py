"""This process's memory, descriptors and threads, as the kernel counts them.

Source: proc(5), /proc/pid/status and /proc/pid/fd.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from highwater_adapters.movable_clock import moved_by_ms
from highwater_adapters.request_times import RequestTimes
from highwater_core.messages import NodeSnapshot

_STATUS = Path("/proc/self/status")
_DESCRIPTORS = Path("/proc/self/fd")


@dataclass(frozen=True, slots=True)
class ProcessUsage:
    """0 where a number is not known.

    private_bytes: anonymous resident memory (RssAnon). open_files: descriptors, sockets too.
    """

    private_bytes: int = 0
    open_files: int = 0
    threads: int = 0


def own_usage() -> ProcessUsage:
    """Return this process's usage.

    It is not known while all descriptors are taken: clients can cause that, and a snapshot must not
    end a node.
    """
    try:
        status = _STATUS.read_text(encoding="ascii")
        open_files = sum(1 for _ in _DESCRIPTORS.iterdir())
    except OSError:
        return ProcessUsage()
    fields = dict(line.split(":", 1) for line in status.splitlines())
    return ProcessUsage(
        private_bytes=int(fields.get("RssAnon", "0").split()[0]) * 1024,
        open_files=open_files,
        threads=int(fields.get("Threads", "0")),
    )


def with_usage(snapshot: NodeSnapshot, times: RequestTimes | None = None) -> NodeSnapshot:
    """Return the snapshot with this process's usage, its clock, and the requests it answered."""
    usage = own_usage()
    requests = () if times is None else times.counters()
    counters = (
        ("open_files", usage.open_files),
        ("threads", usage.threads),
        ("clock_moved_by_ms", moved_by_ms()),
    )
    return replace(
        snapshot,
        resident_bytes=usage.private_bytes,
        counters=(*snapshot.counters, *counters, *requests),
    )
