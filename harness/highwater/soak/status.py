"""A soak's status for programs: status.json, written whole before and after every plan."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

import msgspec

from highwater.soak.folder import write_whole
from highwater_checker.verdict import Outcome


class Doing(StrEnum):
    """What a soak does."""

    RUNNING = "running"
    DONE = "done"
    """The time is over."""
    STOPPED = "stopped"
    """It was interrupted, or ended before its time; `why` has the reason."""


class Status(msgspec.Struct, frozen=True):
    """plan: the number of the plan that is run now, or was run last. run: that run's id.

    ran_s, wanted_s: the time that plans took so far, and that they are to take.
    findings: numbers of failed plans.
    cluster: the engine's name of the one cluster that lives on, "" without one.
    leaks: what grew in nodes of one cluster from round to round, in words.
    """

    doing: Doing
    why: str
    plan: int
    run: str
    ran_s: float
    wanted_s: float
    done: dict[Outcome, int]
    findings: tuple[int, ...]
    updated: str
    cluster: str = ""
    leaks: tuple[str, ...] = ()


def write_status(path: Path, status: Status) -> None:
    write_whole(path, msgspec.json.format(msgspec.json.encode(status), indent=2) + b"\n")


def read_status(path: Path) -> Status | None:
    """Return the status, None where there is none or it is torn: the ledger has all that counts."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Status)
    except (OSError, msgspec.DecodeError, ValueError):
        return None
