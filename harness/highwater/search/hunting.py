"""How soon the search finds each planted bug: hunts from several starting seeds.

A hunt runs schedules of the one generator configuration, with the bug planted, until one of them
shows a violation that it does not show without the bug.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from highwater.search.options import Families
from highwater.search.planting import check_bug
from highwater.search.pool import Lost, Pool
from highwater.search.searching import families_of
from highwater_planted import PLANTED
from highwater_simulator.search import Chunk, Schedule, Summary, schedules_of

SEED_STRIDE = 1_000_000
"""Between starting seeds, so that no two hunts share a schedule."""


@dataclass(frozen=True, slots=True)
class HuntOptions:
    """The options of hunts; equal options give equal hunts.

    limit: the number of schedules after which a hunt gives up.
    """

    bugs: tuple[str, ...]
    first_seed: int = 1
    seeds: int = 10
    limit: int = 500
    families: Families = Families.ALL
    has_feedback: bool = False
    jobs: int = 1


@dataclass(slots=True)
class Hunt:
    """The state of one hunt.

    invariant: the violated one; "" while none is found.
    found_by: the schedule that violated it.
    not_its_own: violations that the same plans show without the bug.
    """

    bug: str
    first_seed: int
    schedules: int = 0
    cpu_ns: int = 0
    invariant: str = ""
    found_by: str = ""
    lost: list[str] = field(default_factory=list)
    not_its_own: list[str] = field(default_factory=list)

    def is_over(self, limit: int) -> bool:
        """Return whether the hunt has found a violation, or has given up."""
        return bool(self.invariant) or self.schedules >= limit

    def add(self, outcome: Summary | Lost) -> None:
        self.schedules += 1
        if isinstance(outcome, Lost):
            self.lost.append(f"{outcome.schedule}: {outcome.why}")
            return
        self.cpu_ns += outcome.cpu_ns
        if outcome.found is not None and outcome.fails_anyway:
            self.not_its_own.append(f"{outcome.schedule}: {outcome.found.violation}")
        elif outcome.found is not None:
            self.invariant = outcome.found.violation.invariant
            self.found_by = str(outcome.schedule)


@dataclass(frozen=True, slots=True)
class Hunted:
    """All finished hunts, in the order of the bugs."""

    hunts: tuple[Hunt, ...]
    was_interrupted: bool = False


@dataclass(frozen=True, slots=True)
class BugReport:
    """Hunts of one bug. Units: medians over all hunts, None where most found no violation."""

    bug: str
    summary: str
    source: str
    breaks: tuple[str, ...]
    """The invariants that it was expected to violate."""
    hunts: int
    found: int
    median_schedules: float | None
    most_schedules: int
    median_cpu_s: float | None
    by: dict[str, int]
    """Hunts by the violated invariant."""
    lost: tuple[str, ...]
    not_its_own: tuple[str, ...]


def chosen_bugs(name: str) -> tuple[str, ...]:
    """Return the bug of that name, or all for ""."""
    check_bug(name)
    return (name,) if name else tuple(PLANTED)


def hunt(options: HuntOptions, heard: Callable[[Hunt], None]) -> Hunted:
    """Run all hunts, or until Ctrl-C; report each hunt after each of its schedules.

    An interrupted hunt is left out: without a violation so far it says nothing.
    """
    hunts: dict[tuple[str, Schedule], Hunt] = {}
    chunks = []
    for bug in options.bugs:
        for number in range(options.seeds):
            seed = options.first_seed + number * SEED_STRIDE
            schedules = schedules_of(seed, options.limit, families_of(options.families))
            chunk = Chunk(
                tuple(schedules),
                bug=bug,
                has_feedback=options.has_feedback,
                stops_at_first=True,
            )
            chunks.append(chunk)
            hunts[_key(chunk)] = Hunt(bug, seed)
    was_interrupted = False
    try:
        with Pool(options.jobs) as pool:
            for chunk, outcome in pool.run(chunks):
                this = hunts[_key(chunk)]
                this.add(outcome)
                heard(this)
    except KeyboardInterrupt:
        was_interrupted = True
    over = tuple(each for each in hunts.values() if each.is_over(options.limit))
    return Hunted(over, was_interrupted)


def _key(chunk: Chunk) -> tuple[str, Schedule]:
    """Return the key of a hunt's chunk; it stays the same as the chunk gets shorter."""
    return chunk.bug, chunk.schedules[-1]


def reports_of(hunts: Iterable[Hunt]) -> list[BugReport]:
    """Return one report a bug, in the order of the hunts."""
    by_bug: dict[str, list[Hunt]] = {}
    for each in hunts:
        by_bug.setdefault(each.bug, []).append(each)
    return [_report(bug, tried) for bug, tried in by_bug.items()]


def _report(bug: str, hunts: Sequence[Hunt]) -> BugReport:
    planted = PLANTED[bug]
    found = [each for each in hunts if each.invariant]
    return BugReport(
        bug=bug,
        summary=planted.summary,
        source=planted.source,
        breaks=planted.breaks,
        hunts=len(hunts),
        found=len(found),
        median_schedules=_median([float(each.schedules) for each in found], len(hunts)),
        most_schedules=max(each.schedules for each in hunts),
        median_cpu_s=_median([each.cpu_ns / 1e9 for each in found], len(hunts)),
        by=dict(Counter(each.invariant for each in found).most_common()),
        lost=tuple(why for each in hunts for why in each.lost),
        not_its_own=tuple(what for each in hunts for what in each.not_its_own),
    )


def _median(values: list[float], count: int) -> float | None:
    """Return the median of count hunts; hunts without a violation count as endless."""
    median = statistics.median([*values, *[math.inf] * (count - len(values))])
    return round(median, 2) if math.isfinite(median) else None


# ---------------------------------------------------------------- as text

HEADERS = ("bug", "schedules (median)", "most", "CPU s (median)", "found", "seen as", "source")


def row_of(report: BugReport) -> tuple[str, ...]:
    """Return a report's cells under HEADERS."""
    median, cpu_s = report.median_schedules, report.median_cpu_s
    return (
        report.bug,
        "-" if median is None else f"{median:g}",
        str(report.most_schedules),
        "-" if cpu_s is None else f"{cpu_s:.1f}",
        f"{report.found} of {report.hunts}",
        ", ".join(f"{name} {count}" for name, count in report.by.items()) or "-",
        report.source,
    )


def markdown(reports: Iterable[BugReport]) -> Iterator[str]:
    """Yield the lines of a table in Markdown."""
    yield f"| {' | '.join(HEADERS)} | what is wrong |"
    yield "|" + "---|" * (len(HEADERS) + 1)
    for report in reports:
        yield f"| {' | '.join(row_of(report))} | {report.summary} |"
