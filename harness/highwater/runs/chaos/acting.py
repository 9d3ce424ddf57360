"""The faults that act now: those without an end in the run's intent log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from highwater.errors import NoSuchRun
from highwater_chaos.faults import Fault
from highwater_checker.run_folder.intents import Intent, Phase, read_intents

OPEN_PHASES = (Phase.INTENDED, Phase.ACTING, Phase.REVERTING, Phase.NOT_REVERTED)
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


@dataclass(frozen=True, slots=True)
class ActingFault:
    """A fault that may act.

    phase: its last one.
    since_ns: when it was intended, in the run's time.
    """

    number: int
    fault: Fault
    phase: Phase
    since_ns: int
    node: int | None
    proof: str
    why: str


def acting_faults(path: Path) -> list[ActingFault]:
    """Return the faults that may act, by their numbers; raises what read_intents does."""
    begun: dict[int, Intent[Fault]] = {}
    proven: dict[int, Intent[Fault]] = {}
    last: dict[int, Intent[Fault]] = {}
    for line in read_intents(path, Fault):
        if line.fault is not None:
            begun[line.number] = line
        if line.phase is Phase.ACTING:
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
