"""Runs a plan in the simulator, and writes a run folder like that of a run on containers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from highwater.errors import HarnessError
from highwater.report.screen import Screen
from highwater.run_folder import RunFolder
from highwater.runs.build import write_simulated_build
from highwater.runs.plans.leader_changes import longest_session_timeout_ms, takeovers
from highwater.runs.plans.outcome import PlanResult, conclude, write_plan
from highwater.runs.plans.promises import promises_in_simulator
from highwater.runs.plans.schedule import StepDone
from highwater.runs.plans.simulated_looks import SimulatedObserver
from highwater.runs.simulated_evidence import (
    DONE,
    look_at,
    write_clock,
    write_histories,
    write_intents,
    write_lines,
    write_looks,
    write_segments,
    write_traces,
)
from highwater.search.judging import requirements_of, steps_missed, steps_of, watched
from highwater.search.planting import bug_of
from highwater_chaos.plan import Plan
from highwater_chaos.words import say_step
from highwater_checker.run_folder.documents import (
    EXCUSED,
    FINAL_LOOK,
    PROMISES,
    REQUIREMENTS,
    STEPS,
    TOPOLOGY,
    WATCHED,
    Excused,
    RunTopology,
)
from highwater_checker.stories.display import display
from highwater_checker.stories.entries import Note
from highwater_checker.verdict import Verdict
from highwater_simulator.liveness import Core
from highwater_simulator.runner import PlanRun, RunResult
from highwater_simulator.search import bug_or_none
from highwater_simulator.unsupported import unsupported
from highwater_simulator.world import World

Ended = Callable[[RunResult, Verdict], None]


def check_simulated(plan: Plan) -> None:
    """Go on only with a plan that the simulator can do.

    Raises:
        HarnessError: it has something that the simulator cannot do, or a planted bug that its
            nodes cannot have.
    """
    if problems := unsupported(plan):
        raise HarnessError("\n".join(problems))
    bug_of(plan)


def run_in_simulator(
    plan: Plan, folder: RunFolder, screen: Screen, ended: Ended | None = None
) -> PlanResult:
    """Run the plan, with the planted bug that it expects, and return its verdict.

    ended: called with the run once it is judged.

    Raises:
        NoSuchBug, PlantsNothing: its nodes cannot have that bug.
    """
    bug = bug_of(plan)
    result = simulate(plan, folder, screen, bug)
    notes = (f"every node has the planted bug {bug}",) if bug else ()
    steps = tuple(f"{say_step(step)}: {why}" for step, _, why in steps_of(result))
    concluded = conclude(folder, plan, True, notes, steps)
    if ended is not None:
        ended(result, concluded.verdict)
    return concluded


def simulate(plan: Plan, folder: RunFolder, screen: Screen, bug: str) -> RunResult:
    """Run the plan with that planted bug, "" for none, and write the judge's evidence."""
    write_plan(folder, plan)
    write_simulated_build(folder)

    def write_end(world: World, healed: Core | None) -> None:
        write_segments(folder, world)
        if healed is not None:
            look = look_at(world, healed)
            folder.write(FINAL_LOOK, look)
            observer.take(look)

    with bug_or_none(bug):
        run = PlanRun(plan, at_the_end=write_end)
        observer = SimulatedObserver(run.world, plan.steps, screen)
        result = run.run()
    observer.report_steps()
    write_looks(folder, observer.looks)
    begin_ns, session_timeout_ms = (
        result.faults_begin_ns or 0,
        longest_session_timeout_ms(
            plan.topology.broker_settings, plan.topology.controller_settings
        ),
    )
    done = _steps_done(result)
    required = takeovers(plan, done, observer.looks, begin_ns, session_timeout_ms)
    missed = [StepDone(step, missed=why) for step, why in steps_missed(result)]
    folder.write(STEPS, tuple(each.outcome() for each in (*done, *missed)))
    folder.write(REQUIREMENTS, (*requirements_of(result), *required))
    _write_evidence(folder, result)
    return result


def _steps_done(result: RunResult) -> list[StepDone]:
    """Return the steps that acted, with their target nodes from the trace."""
    notes = (entry.event for entry in result.trace.entries if isinstance(entry.event, Note))
    nodes = {note.what: note.detail.get("on") for note in notes if note.who == "plan"}
    fired = zip(result.outcome.fired, result.outcome.fired_at_ms, strict=True)
    return [
        StepDone(step, at_ms, at_ms, at_ms, at_ms, nodes.get(say_step(step)), DONE, "")
        for step, at_ms in fired
    ]


def _write_evidence(folder: RunFolder, result: RunResult) -> None:
    """Write promises, looks, clients' histories, each node's trace, and the one of all nodes."""
    promises = promises_in_simulator(result.plan, groups_are_served=result.groups_are_served)
    folder.write(PROMISES, promises)
    folder.write(WATCHED, watched(result))
    folder.write(EXCUSED, tuple(Excused(*at, start) for at, start in result.excused))
    write_histories(folder, result.history, result.processes)
    write_traces(folder, result.trace.entries)
    write_clock(folder)
    write_intents(folder, result)
    write_lines(folder, "trace.txt", [line.encode() for line in display(result.trace.entries)])
    planned = result.plan.topology
    written = replace(RunTopology.of(planned), broker_settings=planned.settings_of_brokers)
    folder.write(TOPOLOGY, written)
