"""The labels of all resources that Highwater makes in an engine, and whether their owner lives.

A run's containers, networks and volumes carry the run's id and its owner, the process that must
remove them. Cleaning uses labels alone, so it works however a process died.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

NAMESPACE = "org.highwater"
RUN = f"{NAMESPACE}.run"
NODE = f"{NAMESPACE}.node"
KIND = f"{NAMESPACE}.kind"
LEASE = f"{NAMESPACE}.lease"
OWNER_HOST = f"{NAMESPACE}.owner-host"
OWNER_PID = f"{NAMESPACE}.owner-pid"
OWNER_STARTED = f"{NAMESPACE}.owner-started"
TOPOLOGY = f"{NAMESPACE}.topology"
SUBNET = f"{NAMESPACE}.subnet"
HOST_PORTS = f"{NAMESPACE}.host-ports"
"""Published ports by name, on a node's container: "external=21234,control=21235"."""
IMAGE = f"{NAMESPACE}.image"


class Lease(StrEnum):
    """How long a run's resources may stay."""

    OWNED = "owned"
    """As long as its owner lives."""
    KEPT = "kept"
    """Until `highwater down`."""


@dataclass(frozen=True, slots=True)
class Owner:
    """A process, by number and start time: the number alone may be another process's by now."""

    host: str
    pid: int
    started: str

    @classmethod
    def of_this_process(cls) -> Owner:
        return cls(socket.gethostname(), os.getpid(), process_start(os.getpid()))

    def is_gone(self) -> bool:
        """Return whether the process certainly ended; never true for one of another host."""
        if self.host != socket.gethostname():
            return False
        if not _is_alive(self.pid):
            return True
        return self.started != "" and process_start(self.pid) != self.started


@dataclass(frozen=True, slots=True)
class RunLabels:
    """The labels of every resource of a run."""

    run_id: str
    lease: Lease
    owner: Owner

    def as_labels(self, **more: str) -> dict[str, str]:
        """Return the labels as the engine takes them.

        more: further labels, by their names without the namespace.
        """
        named = {f"{NAMESPACE}.{name.replace('_', '-')}": text for name, text in more.items()}
        return {
            RUN: self.run_id,
            LEASE: self.lease,
            OWNER_HOST: self.owner.host,
            OWNER_PID: str(self.owner.pid),
            OWNER_STARTED: self.owner.started,
            **named,
        }

    def is_stale(self) -> bool:
        """Return whether the run's owner is gone."""
        return self.lease is Lease.OWNED and self.owner.is_gone()


def parse_run_labels(labels: Mapping[str, str]) -> RunLabels | None:
    """Return the run's labels; None for a resource that is not a run's.

    Malformed labels (another version's) give a kept lease: never swept, removed by `down`.
    """
    run_id = labels.get(RUN)
    if not run_id:
        return None
    pid = labels.get(OWNER_PID, "")
    owner = Owner(
        labels.get(OWNER_HOST, ""),
        int(pid) if pid.isdecimal() else 0,
        labels.get(OWNER_STARTED, ""),
    )
    owned = labels.get(LEASE) == Lease.OWNED and owner.pid > 0
    return RunLabels(run_id, Lease.OWNED if owned else Lease.KEPT, owner)


def process_start(pid: int) -> str:
    """Return the process's start in clock ticks since boot, or "" where /proc has none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
    # The second field, the name in parentheses, may hold anything; start is field 22.
    return stat.rpartition(")")[2].split()[19]


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return not _is_zombie(pid)


def _is_zombie(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] in ("Z", "X")


def format_ports(ports: Mapping[str, int]) -> str:
    return ",".join(f"{name}={ports[name]}" for name in sorted(ports))


def parse_ports(text: str) -> dict[str, int]:
    """Return ports by name; malformed ones are left out."""
    pairs = (part.partition("=") for part in text.split(",") if part)
    return {name: int(port) for name, _, port in pairs if port.isdecimal()}
