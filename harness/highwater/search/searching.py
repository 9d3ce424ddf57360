"""Searches: schedules on worker processes, summed up; failing plans are kept as files."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from highwater.search.judging import expected_of
from highwater.search.options import Families, SearchOptions
from highwater.search.planting import check_planting
from highwater.search.pool import Lost, Pool, run_here
from highwater.search.shrinking import command_for
from highwater_chaos.plan import decode_plan, encode_plan
from highwater_checker.verdict import Outcome
from highwater_simulator.generate import Family
from highwater_simulator.search import Chunk, Summary, Totals, chunks_of, schedules_of

CHUNK_LENGTH = 4
"""Schedules that a worker gets at a time: enough that it need not wait for more."""
FEEDBACK_CHUNK_LENGTH = 100
"""With coverage feedback: a corpus lives as long as its chunk."""
EXCUSED_PERCENT_MAX = 5.0
EXCUSED_JUDGED_FROM = 200
"""With fewer schedules with disk faults the share of excused losses says nothing."""


@dataclass(slots=True)
class Search:
    """The state of a search.

    lost: schedules without an outcome.
    wall_s: the time of the whole search, with the start of its workers.
    more_lost: how many more schedules have no outcome.
    """

    options: SearchOptions
    totals: Totals = field(default_factory=Totals)
    lost: list[Lost] = field(default_factory=list)
    wall_s: float = 0.0
    was_interrupted: bool = False
    more_lost: int = 0

    @property
    def excused_percent(self) -> float:
        """Return the percentage of excused losses among the schedules with disk faults."""
        of = self._may_lose
        return 100 * self.totals.excused / of if of else 0.0

    @property
    def _may_lose(self) -> int:
        by_family = self.totals.by_family
        return sum(by_family[family] for family in Family if family.may_lose)

    def reasons(self) -> list[str]:
        """Return why the search proves nothing; empty when it proves something."""
        reasons = [f"{lost.schedule}: {lost.why.splitlines()[0]}" for lost in self.lost]
        if self.more_lost:
            reasons.append(f"{self.more_lost:,} more schedules have no outcome")
        if self.was_interrupted:
            reasons.append("it was interrupted")
        if not self.totals.schedules:
            reasons.append("no schedule was run")
        elif not self.totals.acknowledged:
            reasons.append("no record was acknowledged")
        if self._may_lose >= EXCUSED_JUDGED_FROM and self.excused_percent >= EXCUSED_PERCENT_MAX:
            reasons.append(f"{self.excused_percent:.1f} % of the schedules had an excused loss")
        return reasons

    @property
    def outcome(self) -> Outcome:
        if self.totals.failing:
            return Outcome.FAIL
        return Outcome.UNKNOWN if self.reasons() else Outcome.PASS


def families_of(families: Families) -> tuple[Family, ...]:
    return tuple(Family) if families is Families.ALL else (Family(families.value),)


def search(options: SearchOptions, heard: Callable[[Search, Summary | Lost], None]) -> Search:
    """Run the schedules, or until the first violation or Ctrl-C; report each as it ends.

    Raises:
        NoSuchBug, PlantsNothing: no node would have the planted bug of the options.
    """
    check_planting(options.bug, options.preset)
    found = Search(options)
    began_s = time.monotonic()
    try:
        with contextlib.closing(_outcomes(options)) as outcomes:
            for outcome in outcomes:
                found.wall_s = time.monotonic() - began_s
                if isinstance(outcome, Lost):
                    found.lost.append(outcome)
                else:
                    found.totals.add(outcome)
                heard(found, outcome)
                if options.stops_at_first and found.totals.failing:
                    break
    except KeyboardInterrupt:
        found.was_interrupted = True
    found.wall_s = time.monotonic() - began_s
    return found


def _outcomes(options: SearchOptions) -> Generator[Summary | Lost, None, None]:
    schedules = schedules_of(options.first_seed, options.schedules, families_of(options.families))
    model = Chunk((), options.preset, options.bug, options.has_feedback)
    length = FEEDBACK_CHUNK_LENGTH if options.has_feedback else CHUNK_LENGTH
    chunks = chunks_of(schedules, model, length)
    if options.jobs == 0:
        for _, outcome in run_here(chunks):
            yield outcome
        return
    with Pool(options.jobs) as pool:
        for _, outcome in pool.run(chunks):
            yield outcome


def keep_plan(folder: Path, outcome: Summary | Lost, bug: str, commit: str) -> None:
    """Write the plan of a schedule with a violation, so that it survives generator and search.

    It has the planted bug, the code's commit and the violation.
    """
    if isinstance(outcome, Lost) or outcome.found is None:
        return
    plan = replace(
        decode_plan(outcome.plan), commit=commit, expected=expected_of(outcome.found, bug)
    )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / plan_name(outcome)).write_bytes(encode_plan(plan))


def plan_name(summary: Summary) -> str:
    """Return the file name of a failing schedule's plan."""
    return f"seed-{summary.schedule.seed}-{summary.schedule.family}.json"


def replay_command(summary: Summary, options: SearchOptions, plan_file: Path | None) -> str:
    """Return the command that shows the schedule again; a plan file names its planted bug."""
    if summary.is_mutant and plan_file is not None:
        return command_for(plan_file)
    what = f"{summary.schedule.seed} --family {summary.schedule.family}"
    what += f" --preset {options.preset}" if options.preset != "fenced" else ""
    return f"highwater sim replay {what}" + (f" --planted {options.bug}" if options.bug else "")
