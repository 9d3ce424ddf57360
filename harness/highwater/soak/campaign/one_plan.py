"""Runs one plan of a campaign on this machine's containers, in a process of its own.

Its one argument is the id of the process that began it. It reads Asked as JSON from stdin, runs in
its working folder, and writes the plan's entry to ENTRY there.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path
from types import FrameType

RUNS, SHRUNK, ENTRY = "runs", "shrunk", "entry.json"
"""In the working folder: of the run, of plans that the simulator shrank, and the entry."""
ENGINE_WITHIN_S = 60.0
_DIES_WITH_PARENT = 1
"""PR_SET_PDEATHSIG of prctl(2)."""


def main() -> None:
    """Be asked to end when Spark's worker is gone, which may be killed; then run the plan."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    ctypes.CDLL(None).prctl(_DIES_WITH_PARENT, signal.SIGTERM)
    if os.getppid() != int(sys.argv[1]):  # it was gone before
        sys.exit(128 + signal.SIGTERM)
    _run_plan(sys.stdin.buffer.read())


def _leave(number: int, frame: FrameType | None) -> None:
    """Unwind the stack, so that the cluster is removed."""
    sys.exit(128 + number)


def _run_plan(given: bytes) -> None:
    # To import these takes seconds, in which the worker may end.
    import msgspec
    from msgspec.structs import replace

    from highwater.report.screen import Screen
    from highwater.runs.plans.outcome import PlanResult
    from highwater.soak.campaign.settings import AskedPlan, code_here
    from highwater.soak.draws import draw
    from highwater.soak.folder import write_whole
    from highwater.soak.on_machine import Machine
    from highwater.soak.running import entry_of
    from highwater.soak.world import CouldNotRun
    from highwater_checker.verdict import Outcome

    asked = msgspec.json.decode(given, type=AskedPlan)
    if asked.code != code_here():
        sys.exit("this machine has another version of Highwater installed")
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
        write_whole(Path(ENTRY), msgspec.json.encode(entry))
        if entry.outcome is Outcome.FAIL:  # the finding is on the disk whatever comes of this
            simulated = machine.simulate(drawn)
            write_whole(Path(ENTRY), msgspec.json.encode(replace(entry, simulated=simulated)))


if __name__ == "__main__":
    main()
