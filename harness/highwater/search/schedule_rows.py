"""One schedule as a row of a table: the work of a campaign's workers, without Spark.

A row has the result of `highwater sim run` for the same schedule, from the same functions.
"""

from __future__ import annotations

import gc
import signal
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, fields
from types import FrameType
from typing import Any

from msgspec.structs import replace

from highwater.search.judging import expected_of
from highwater.search.shrinking import shrink_plan
from highwater_chaos.plan import decode_plan, encode_plan
from highwater_core.check import BugFound
from highwater_core.config import Preset
from highwater_pipeline.campaign.state import Settings
from highwater_simulator.generate import Family
from highwater_simulator.oracle.violation import Violation
from highwater_simulator.run_cost import NO_COST, RunCost
from highwater_simulator.search import Chunk, Found, Kind, Schedule, Summary
from highwater_simulator.shrink import describe

Row = Mapping[str, Any]

SCHEDULE_WITHIN_CPU_S = 60.0
"""CPU time of this process after which a schedule counts as hanging."""
TICK_S = 0.01
"""CPU time between tries to end a schedule that takes too long."""
UNWINDS_WITHIN_S = 1.0
"""CPU time that a schedule has to end after a try."""
OURS = "highwater"
SHRINK_WITHIN_CPU_S = 1800.0
_LAST_LINES = 12
_FOUND = (
    "invariant", "topic", "partition", "offset", "at_ns", "message", "rows", "ids", "evidence",
    "plan",
)  # fmt: skip


class TookTooLong(BaseException):
    """A schedule took too long.

    A BaseException: the simulator would take an Exception for a crash of the running node.
    """


def schedule_of(settings: Settings, number: int) -> Schedule:
    """Return the campaign's schedule of that number: families take turns on each seed."""
    seed, family = divmod(number, len(settings.families))
    return Schedule(settings.first_seed + seed, Family(settings.families[family]))


def rows_of(settings: Settings, given: Row) -> Iterator[Row]:
    """Run the schedules [first, after) and yield a row of SCHEDULES for each."""
    for number in range(given["first"], given["after"]):
        schedule = schedule_of(settings, number)
        yield {
            "campaign": given["campaign"],
            "group": given["group"],
            "number": number,
            "data_version": settings.data_version,
            **_outcome_of(schedule, settings),
        }


def _outcome_of(schedule: Schedule, settings: Settings) -> Row:
    """Run the schedule, and return its row, also if it hangs or hits a bug of the simulator."""
    chunk = Chunk((schedule,), Preset(settings.preset), settings.planted)
    try:
        with within_cpu(SCHEDULE_WITHIN_CPU_S):
            (summary,) = chunk.summaries(time.process_time_ns)
    except (Exception, BugFound, TookTooLong) as error:  # noqa: BLE001 - kept, with its seed
        lines = traceback.format_exc().splitlines()[-_LAST_LINES:-1]
        why = "\n".join((f"{type(error).__name__}: {error}", *lines))
        return _row(schedule, settings) | {"outcome": "lost", "message": why}
    return row_of(summary, settings)


def row_of(summary: Summary, settings: Settings) -> dict[str, Any]:
    """Return the summary as a row; its plan names the expected result and the commit."""
    row = _row(summary.schedule, settings) | {
        "outcome": outcome_of(summary),
        "fails_anyway": summary.fails_anyway,
        "events": summary.events,
        "simulated_ns": summary.simulated_ns,
        "cpu_ns": summary.cpu_ns,
        "acknowledged": summary.acknowledged,
        **asdict(summary.cost),
        "is_excused": summary.is_excused,
        "flagged": sorted(map(str, summary.flagged.elements())),
        "fired": sorted(summary.fired.elements()),
        "missed": sorted(summary.missed.elements()),
        "not_reached": sorted(summary.not_reached.elements()),
        "marks": sorted(summary.marks),
    }
    if summary.found is None:
        return row
    found, violation = summary.found, summary.found.violation
    plan = replace(
        decode_plan(summary.plan),
        commit=settings.commit,
        expected=expected_of(found, settings.planted),
    )
    return row | {
        "invariant": violation.invariant,
        "topic": violation.topic,
        "partition": violation.partition,
        "offset": violation.offset,
        "at_ns": violation.at_ns,
        "message": violation.message,
        "rows": list(found.rows),
        "ids": list(found.ids),
        "evidence": found.evidence,
        "plan": encode_plan(plan).decode(),
    }


def outcome_of(summary: Summary) -> str:
    if summary.fails:
        return "fail"
    return "pass" if summary.found is None else "documented"


def _row(schedule: Schedule, settings: Settings) -> dict[str, Any]:
    """Return the row of a schedule without faults and violations."""
    return {
        **dict.fromkeys(_FOUND),
        "seed": schedule.seed,
        "family": str(schedule.family),
        "preset": settings.preset,
        "planted": settings.planted,
        "fails_anyway": False,
        "is_excused": False,
        **dict.fromkeys(("events", "simulated_ns", "cpu_ns", "acknowledged"), 0),
        **asdict(NO_COST),
        **{name: [] for name in ("flagged", "fired", "missed", "not_reached", "marks")},
    }


def summary_of(row: Row) -> Summary:
    """Return the summary from which a row was made; each mark counts once."""
    found = None
    if row["outcome"] in ("fail", "documented"):
        violation = Violation(
            row["invariant"],
            row["message"],
            row["at_ns"],
            row["topic"],
            row["partition"],
            row["offset"],
        )
        found = Found(
            violation,
            rows=tuple(row["rows"]),
            ids=tuple(row["ids"]),
            evidence=row["evidence"],
            is_documented=row["outcome"] == "documented",
        )
    return Summary(
        schedule=Schedule(row["seed"], Family(row["family"])),
        found=found,
        events=row["events"],
        simulated_ns=row["simulated_ns"],
        cpu_ns=row["cpu_ns"],
        acknowledged=row["acknowledged"],
        is_excused=row["is_excused"],
        flagged=Counter(map(kind_of, row["flagged"])),
        fired=Counter(row["fired"]),
        missed=Counter(row["missed"]),
        not_reached=Counter(row["not_reached"]),
        marks=Counter(row["marks"]),
        cost=RunCost(**{each.name: row[each.name] for each in fields(RunCost)}),
        plan=(row["plan"] or "").encode(),
        fails_anyway=row["fails_anyway"],
    )


def kind_of(text: str) -> Kind:
    """Return the kind of that name."""
    invariant, found, rows = text.removesuffix(")").rpartition(" (row ")
    if not found:
        return Kind(text)
    return Kind(invariant, tuple(int(row) for row in rows.split(", ")))


def shrunk_of(settings: Settings, max_runs: int, given: Row) -> Iterator[Row]:
    """Shrink a failing schedule's plan, and yield its row of SHRUNK."""
    plan = decode_plan(given["plan"].encode())
    expected = plan.expected
    row = {
        "campaign": given["campaign"],
        "seed": given["seed"],
        "family": given["family"],
        "invariant": "" if expected is None else expected.invariant,
        "rows": [] if expected is None else list(expected.rows),
    }
    try:
        with within_cpu(SHRINK_WITHIN_CPU_S):
            shrunk = shrink_plan(plan, settings.planted, max_runs, lambda progress: None)
    except (Exception, BugFound, TookTooLong) as error:  # noqa: BLE001 - it costs itself alone
        why = f"{type(error).__name__}: {error}"
        yield row | {"words": f"it could not be shrunk: {why}"}
        return
    yield row | {
        "plan": encode_plan(
            replace(shrunk.plan, commit=settings.commit), omit_defaults=True
        ).decode(),
        "is_minimal": shrunk.is_minimal,
        "runs": shrunk.runs,
        "steps_before": shrunk.before.steps,
        "steps_after": shrunk.after.steps,
        "words": describe(shrunk),
    }


@contextmanager
def within_cpu(limit_s: float) -> Iterator[None]:
    """Raise TookTooLong once the block has used so much CPU time. For the main thread alone.

    CPU time, since a schedule never waits: on a busy machine none counts as hanging.
    """
    before = signal.signal(signal.SIGPROF, _raise_after(limit_s))
    signal.setitimer(signal.ITIMER_PROF, limit_s, TICK_S)
    with warnings.catch_warnings():
        try:
            yield
        except TookTooLong as error:
            # Garbage of the interrupted schedule is collected here, where its warnings are
            # expected.
            traceback.clear_frames(error.__traceback__)
            gc.collect()
            raise
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, before)


def _raise_after(limit_s: float) -> Callable[[int, FrameType | None], None]:
    def leave(number: int, frame: FrameType | None) -> None:
        if _is_ours(frame) and not _is_in_destructor(frame):
            signal.setitimer(signal.ITIMER_PROF, UNWINDS_WITHIN_S, TICK_S)
            # It may be raised between the making of a coroutine and its first step.
            warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
            raise TookTooLong(f"it did not end within {limit_s:g} s of CPU time")

    return leave


def _is_ours(frame: FrameType | None) -> bool:
    """Return whether it is our code that runs: foreign code, as of a collector, may swallow it."""
    return frame is not None and frame.f_globals.get("__name__", "").startswith(OURS)


def _is_in_destructor(frame: FrameType | None) -> bool:
    """Return whether the frame is below a destructor's: Python swallows what that raises."""
    while frame is not None:
        if frame.f_code.co_name == "__del__":
            return True
        frame = frame.f_back
    return False
