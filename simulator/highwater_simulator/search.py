"""Runs schedules one after the other and sums up their results; worker processes are the harness's.

A schedule is a seed and a family of faults. Under a preset that does not promise every invariant, a
violation is *documented* when the catalogue finds its flaw in the trace. Every other violation
fails the search.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from highwater_chaos.faults import fault_name
from highwater_chaos.plan import Plan, encode_plan
from highwater_core.config import Preset
from highwater_planted import planted
from highwater_simulator.feedback import Corpus
from highwater_simulator.generate import Family, generate
from highwater_simulator.oracle.documented import explanations_of
from highwater_simulator.oracle.violation import Violation
from highwater_simulator.run_cost import NO_COST, RunCost
from highwater_simulator.runner import RunResult, run_plan

CpuClock = Callable[[], int]
"""Nanoseconds of CPU time of this process."""


@dataclass(frozen=True, slots=True, order=True)
class Schedule:
    """A schedule: a seed, its family and preset."""

    seed: int
    family: Family

    def __str__(self) -> str:
        return f"seed {self.seed}, {self.family}"


def schedules_of(first_seed: int, count: int, families: tuple[Family, ...]) -> list[Schedule]:
    """Return count schedules from first_seed on; several families take turns on each seed."""
    return [
        Schedule(first_seed + number // len(families), families[number % len(families)])
        for number in range(count)
    ]


class Kind(NamedTuple):
    """Violations that are reported together; rows () is a kind without a row of the catalogue."""

    invariant: str
    rows: tuple[int, ...] = ()

    def __str__(self) -> str:
        rows = ", ".join(str(row) for row in self.rows)
        return f"{self.invariant} (row {rows})" if rows else self.invariant


@dataclass(frozen=True, slots=True)
class Found:
    """A violation, and the rows of the catalogue that explain it.

    is_documented: the catalogue explains the violation, by a row that the preset has, or that the
        plan expects.
    """

    violation: Violation
    rows: tuple[int, ...] = ()
    ids: tuple[str, ...] = ()
    """JIRA and KIP ids of the rows."""
    evidence: str = ""
    is_documented: bool = False

    @property
    def kind(self) -> Kind:
        return Kind(self.violation.invariant, self.rows)


@dataclass(frozen=True, slots=True)
class Summary:
    """One schedule's outcome, small enough to be sent between processes.

    Units: simulated_ns is virtual time, cpu_ns CPU time. plan: the plan file, of failures only.
    """

    schedule: Schedule
    found: Found | None
    events: int
    simulated_ns: int
    cpu_ns: int
    acknowledged: int
    is_excused: bool
    """Whether the loss of a committed record was excused by disk faults."""
    flagged: Counter[Kind]
    """Flagged violations that the catalogue names, which did not end the run."""
    fired: Counter[str]
    missed: Counter[str]
    not_reached: Counter[str]
    marks: Counter[str]
    cost: RunCost = NO_COST
    plan: bytes = b""
    is_mutant: bool = False
    """Whether its plan was mutated from others instead of generated from the seed alone."""
    fails_anyway: bool = False
    """Whether its plan also fails without the planted bug."""

    @property
    def fails(self) -> bool:
        return self.found is not None and not self.found.is_documented


@dataclass(slots=True)
class Totals:
    """The sum of summaries; it does not depend on their order."""

    failing: int = 0
    excused: int = 0
    events: int = 0
    simulated_ns: int = 0
    cpu_ns: int = 0
    acknowledged: int = 0
    flagged: Counter[Kind] = field(default_factory=Counter)
    fired: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)
    not_reached: Counter[str] = field(default_factory=Counter)
    by_family: Counter[Family] = field(default_factory=Counter)
    """Number of schedules."""
    reached: dict[Family, Counter[str]] = field(default_factory=dict)
    """Number of a family's schedules that reached each mark."""
    kinds: Counter[Kind] = field(default_factory=Counter)
    first: dict[Kind, Summary] = field(default_factory=dict)
    """For each kind of violation, the summary of its first schedule."""

    @property
    def schedules(self) -> int:
        return self.by_family.total()

    def reached_by(self) -> Counter[str]:
        """Return how many schedules reached each mark."""
        return sum(self.reached.values(), Counter())

    def add(self, summary: Summary) -> None:
        family = summary.schedule.family
        self.by_family[family] += 1
        self.reached.setdefault(family, Counter()).update(summary.marks.keys())
        self.failing += summary.fails
        self.excused += summary.is_excused
        self.events += summary.events
        self.simulated_ns += summary.simulated_ns
        self.cpu_ns += summary.cpu_ns
        self.acknowledged += summary.acknowledged
        self.flagged += summary.flagged
        self.fired += summary.fired
        self.missed += summary.missed
        self.not_reached += summary.not_reached
        if summary.found is not None:
            kind = summary.found.kind
            self.kinds[kind] += 1
            first = self.first.get(kind)
            if first is None or summary.schedule < first.schedule:
                self.first[kind] = summary


def total(summaries: Iterable[Summary]) -> Totals:
    totals = Totals()
    for summary in summaries:
        totals.add(summary)
    return totals


# ---------------------------------------------------------------- running


def bug_or_none(name: str) -> AbstractContextManager[None]:
    """Return a context with the planted bug of that name; "" is none."""
    return planted(name) if name else nullcontext()


def summarize(schedule: Schedule, plan: Plan, cpu_ns: CpuClock, bug: str = "") -> Summary:
    """Run the plan, with the planted bug if there is one, and sum it up."""
    began_ns = cpu_ns()
    with bug_or_none(bug):
        result = run_plan(plan)
    found = find(result)
    return Summary(
        schedule=schedule,
        found=found,
        events=result.events,
        simulated_ns=result.simulated_ns,
        cpu_ns=cpu_ns() - began_ns,
        acknowledged=result.acknowledged,
        is_excused=bool(result.excused),
        flagged=Counter(explained(flag, result).kind for flag in result.flags),
        fired=Counter(fault_name(step.do) for step in result.outcome.fired),
        missed=Counter(fault_name(step.do) for step in result.outcome.missed),
        not_reached=Counter(fault_name(step.do) for step in result.outcome.not_reached),
        marks=result.marks,
        cost=result.cost,
        plan=encode_plan(plan) if found is not None else b"",
        fails_anyway=bool(bug) and found is not None and fails(plan),
    )


def fails(plan: Plan) -> bool:
    """Run the plan and return whether it shows another violation than a documented flaw."""
    found = find(run_plan(plan))
    return found is not None and not found.is_documented


def find(result: RunResult) -> Found | None:
    """Return the run's violation, else the first flag that no row of the catalogue names."""
    if result.violation is not None:
        return explained(result.violation, result)
    flags = (explained(flag, result) for flag in result.flags)
    return next((flag for flag in flags if not flag.is_documented), None)


def explained(violation: Violation, result: RunResult) -> Found:
    """Return the violation with the rows that explain it, of those that its run may show."""
    explanations = explanations_of(result.plan, violation, result.trace.entries)
    return Found(
        violation,
        rows=tuple(each.row for each in explanations),
        ids=tuple(name for each in explanations for name in each.ids),
        evidence="; ".join(each.evidence for each in explanations),
        is_documented=bool(explanations),
    )


@dataclass(frozen=True, slots=True)
class Chunk:
    """Schedules that one process runs in order.

    bug: the nodes' planted bug, or ""; with stops_at_first a violation that the same plan shows
    without the bug does not count.
    has_feedback: whether plans that reached new marks are kept and mutated within the chunk.
    """

    schedules: tuple[Schedule, ...]
    preset: Preset = Preset.FENCED
    bug: str = ""
    has_feedback: bool = False
    stops_at_first: bool = False

    def summaries(self, cpu_ns: CpuClock) -> Iterator[Summary]:
        """Run the schedules; their plans depend on the chunk alone."""
        corpora = {
            family: Corpus(self.schedules[0].seed)
            for family in dict.fromkeys(schedule.family for schedule in self.schedules)
            if self.has_feedback
        }
        for schedule in self.schedules:
            plan = generate(schedule.seed, self.preset, schedule.family)
            corpus = corpora.get(schedule.family)
            mutant = corpus.maybe_mutate(plan) if corpus is not None else None
            summary = summarize(schedule, mutant or plan, cpu_ns, self.bug)
            if corpus is not None:
                corpus.note(mutant or plan, summary.marks)
            yield replace(summary, is_mutant=mutant is not None)
            if self.stops_at_first and summary.found is not None and not summary.fails_anyway:
                return

    def after(self, count: int) -> Chunk:
        """Return the rest of the chunk once count schedules are done."""
        return replace(self, schedules=self.schedules[count:])


def chunks_of(schedules: Sequence[Schedule], chunk: Chunk, length: int) -> Iterator[Chunk]:
    """Return chunks of at most length schedules, otherwise like the given one."""
    for start in range(0, len(schedules), length):
        yield replace(chunk, schedules=tuple(schedules[start : start + length]))
