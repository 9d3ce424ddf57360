"""The faults that act now: those without an end in the run's intent log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from highwater.errors import NoSuchRun
from highwater_chaos.faults import Fault

OPEN_PHASES = ("intended", "acting", "reverting", "not_reverted")
"""The phases after which a fault may act."""


def choose_run(runs: Path, asked: str, up: Sequence[str]) -> str:
    """Return the named run, else the only one that is up.

    When no cluster is up, return the newest run in the folder.

    Raises:
        NoSuchRun: several are up.
    """
    if asked:
        return asked
    if len(up) > 1:
        raise NoSuchRun(f"which cluster? running: {', '.join(up)}; --run ID names one")
    return up[0] if up else (runs / "latest").resolve().name


class IntentLine(msgspec.Struct, frozen=True):
    """One line of the log; unknown fields are skipped."""

    at_ns: int
    number: int
    phase: str
    fault: Fault | None = None
    node: int | None = None
    proof: str = ""
    why: str = ""


def read_intents(path: Path) -> list[IntentLine]:
    """Return the log's lines, in order.

    An unfinished last line is left out: its phase had not begun.

    Raises:
        OSError: there is no such file.
        msgspec.DecodeError: another line is malformed.
    """
    lines = path.read_bytes().split(b"\n")[:-1]  # the last is "", or was not finished
    return [msgspec.json.decode(line, type=IntentLine) for line in lines]


@dataclass(frozen=True, slots=True)
class ActingFault:
    """A fault that may act.

    phase: its last one.
    since_ns: when it was intended, in the run's time.
    """

    number: int
    fault: Fault
    phase: str
    since_ns: int
    node: int | None
    proof: str
    why: str


def acting_faults(path: Path) -> list[ActingFault]:
    """Return the faults that may act, by their numbers; raises what read_intents does."""
    begun: dict[int, IntentLine] = {}
    proven: dict[int, IntentLine] = {}
    last: dict[int, IntentLine] = {}
    for line in read_intents(path):
        if line.fault is not None:
            begun[line.number] = line
        if line.phase == "acting":
            proven[line.number] = line
        last[line.number] = line
    return [
        ActingFault(
            number=number,
            fault=fault,
            phase=last[number].phase,
            since_ns=line.at_ns,
            node=proven[number].node if number in proven else None,
            proof=proven[number].proof if number in proven else "",
            why=last[number].why,
        )
        for number, line in sorted(begun.items())
        if (fault := line.fault) is not None and last[number].phase in OPEN_PHASES
    ]
