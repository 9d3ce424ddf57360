"""Runs a plan in the simulator, and leaves a run folder as a run on containers does."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import msgspec

from highwater.errors import HarnessError
from highwater.report.page import write_report
from highwater.report.picture import Fault
from highwater.report.screen import Screen
from highwater.run_folder import RunFolder
from highwater.runs.plans.outcome import PlanResult, write_plan
from highwater.runs.plans.promises import promises_in_simulator
from highwater.runs.simulated_evidence import (
    look_at,
    write_clock,
    write_histories,
    write_intents,
    write_lines,
    write_looks,
    write_segments,
    write_traces,
)
from highwater.search.judging import requirements_of, steps_of, watched
from highwater.search.planting import bug_of
from highwater_chaos.plan import Plan
from highwater_chaos.words import say_step
from highwater_checker.judging import judge_evidence
from highwater_checker.run_folder import names
from highwater_checker.run_folder.documents import (
    EXCUSED,
    FINAL_LOOK,
    PROMISES,
    REQUIREMENTS,
    WATCHED,
    Excused,
)
from highwater_checker.run_folder.evidence import read_evidence
from highwater_simulator.display import display
from highwater_simulator.liveness import Core
from highwater_simulator.runner import PlanRun, RunResult
from highwater_simulator.search import bug_or_none
from highwater_simulator.trace_log import Note
from highwater_simulator.unsupported import unsupported
from highwater_simulator.world import World

_NS_PER_S = 1e9


def check_simulated(plan: Plan) -> None:
    """Go on only with a plan that the simulator can do.

    Raises:
        HarnessError: it has something that the simulator cannot do, or a planted bug that its
            nodes cannot have.
    """
    if problems := unsupported(plan):
        raise HarnessError("\n".join(problems))
    bug_of(plan)


def run_in_simulator(plan: Plan, folder: RunFolder, screen: Screen) -> PlanResult:
    """Run the plan, with the planted bug that it expects, and return its verdict.

    Raises:
        NoSuchBug, PlantsNothing: its nodes cannot have that bug.
    """
    bug = bug_of(plan)
    write_plan(folder, plan)
    notes = (f"every node has the planted bug {bug}",) if bug else ()
    with bug_or_none(bug):
        result = PlanRun(plan, at_the_end=partial(_write_end, folder)).run()
    marks = list(_marks(result))
    for mark in marks:
        screen.say(mark.text, time_s=mark.time_s, style="bold")
    _write_evidence(folder, result)
    evidence = read_evidence(folder.path)
    verdict = judge_evidence(evidence)
    folder.write_json(names.VERDICT, verdict)
    write_report(folder, verdict, (), marks, evidence)
    steps = tuple(_said_of_steps(result))
    return PlanResult(folder.path, verdict, notes, steps)


def _said_of_steps(result: RunResult) -> Iterator[str]:
    for step, _, why in steps_of(result):
        yield f"{say_step(step)}: {why}"


def _marks(result: RunResult) -> Iterator[Fault]:
    """Yield what was done to the cluster and what broke."""
    for entry in result.trace.entries:
        if isinstance(entry.event, Note) and entry.who in ("plan", "oracle"):
            yield Fault(entry.at_ns / _NS_PER_S, entry.event.what)


def _write_end(folder: RunFolder, world: World, healed: Core | None) -> None:
    """Write the brokers' logs, and the one look that is taken here, if they had settled.

    Nobody looks before the end, and nobody probes: invariants are checked after every event.
    """
    write_segments(folder, world)
    if healed is not None:
        look = look_at(world, healed)
        folder.write(FINAL_LOOK, look)
        write_looks(folder, [look])


def _write_evidence(folder: RunFolder, result: RunResult) -> None:
    """Write what was promised and seen, each client's history and each node's trace, and the one
    trace as it is read."""
    folder.write(PROMISES, promises_in_simulator(result.plan))
    folder.write(REQUIREMENTS, requirements_of(result))
    folder.write(WATCHED, watched(result))
    folder.write(EXCUSED, tuple(Excused(*at, start) for at, start in result.excused))
    write_histories(folder, result.history, result.processes)
    write_traces(folder, result.trace.entries)
    write_clock(folder)
    write_intents(folder, result)
    write_lines(folder, "trace.txt", [line.encode() for line in display(result.trace.entries)])
    folder.write_json(names.TOPOLOGY, msgspec.to_builtins(result.plan.topology))
