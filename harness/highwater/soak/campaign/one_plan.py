"""Runs one plan of a campaign on this machine's containers, in a process of its own.

It reads Asked as JSON from stdin, runs in its working folder, and prints the plan's entry.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path
from types import FrameType

import msgspec
from msgspec.structs import replace

from highwater.report.screen import Screen
from highwater.runs.plans.outcome import PlanResult
from highwater.soak.draws import SoakSettings, draw
from highwater.soak.on_machine import Machine
from highwater.soak.running import CouldNotRun, entry_of
from highwater_checker.verdict import Outcome

RUNS, SHRUNK = "runs", "shrunk"
"""Folders of the working folder."""
ENGINE_WITHIN_S = 60.0
_DIES_WITH_PARENT = 1
"""PR_SET_PDEATHSIG of prctl(2)."""


class Asked(msgspec.Struct, frozen=True):
    """number: of the soak's plan, from 1. planted: a planted bug's name, "" for none."""

    soak: SoakSettings
    number: int
    planted: str = ""


def main() -> None:
    signal.signal(signal.SIGTERM, _leave)
    _die_with(os.getppid())
    asked = msgspec.json.decode(sys.stdin.buffer.read(), type=Asked)
    drawn = draw(asked.soak, asked.number).with_planted(asked.planted)
    with Screen() as screen:
        machine = Machine(screen, Path(SHRUNK), engine_within_s=ENGINE_WITHIN_S)
        run = machine.new_run_id()
        began, began_s = machine.utc(), machine.now_s()
        result: PlanResult | None = None
        why: tuple[str, ...] = ()
        try:
            result = machine.run(drawn, Path(RUNS) / run)
            why = result.verdict.reasons
        except CouldNotRun as error:
            why = (str(error),)
        entry = entry_of(
            drawn,
            result,
            why,
            run=run if (Path(RUNS) / run).is_dir() else "",
            began=began,
            took_s=machine.now_s() - began_s,
            load=machine.load(),
        )
        if entry.outcome is Outcome.FAIL:
            entry = replace(entry, simulated=machine.simulate(drawn))
    sys.stdout.buffer.write(msgspec.json.encode(entry))


def _die_with(parent: int) -> None:
    """Have the kernel ask this process to end when Spark's worker is gone, which may be killed."""
    ctypes.CDLL(None, use_errno=True).prctl(_DIES_WITH_PARENT, signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit(128 + signal.SIGTERM)


def _leave(number: int, frame: FrameType | None) -> None:
    """Unwind the stack, so that the cluster is removed."""
    sys.exit(128 + number)


if __name__ == "__main__":
    main()
