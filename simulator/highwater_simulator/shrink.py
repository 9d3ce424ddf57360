"""Shrinks a failing plan to one that a person can read, with the same violation.

Each change is kept if the run still violates the same invariant (by the same rows of the catalogue,
where the caller explains violations), under the plan's network seed or one of a few others: the
faults matter, not their latencies. Deterministic: it depends on the plan and on the bounds alone.
Source: docs/explanation/simulator.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from msgspec.structs import fields, replace

from highwater_chaos.plan import Network, Plan, Step, client_names, encode_plan, problems_of
from highwater_chaos.words import counted, say_plan
from highwater_checker.stories.entries import Note
from highwater_simulator import simpler
from highwater_simulator.minimal import minimal_number, minimal_subset
from highwater_simulator.runner import CRASH, RunResult, run_plan

MAX_RUNS = 500
RESEEDS = 8
MAX_LINES = 40
"""Lines of a screen."""

_NS_PER_MS = 1_000_000

Run = Callable[[Plan], RunResult]
Explain = Callable[[RunResult], tuple[int, ...]]
"""Returns the rows of the catalogue that explain a run's violation."""


class DoesNotFail(Exception):
    """There is nothing to shrink: the plan's run has no violation."""


@dataclass(frozen=True, slots=True)
class Signature:
    """The parts of a violation that must stay: the invariant, its rows, and a crash's message."""

    invariant: str
    rows: tuple[int, ...] = ()
    crash: str = ""

    def covers(self, other: Signature) -> bool:
        """Return whether the other is the same, explained by some or all of these rows."""
        return (
            (other.invariant, other.crash) == (self.invariant, self.crash)
            and bool(other.rows) == bool(self.rows)
            and all(row in self.rows for row in other.rows)
        )


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a plan for its reader."""

    steps: int
    brokers: int
    controllers: int
    partitions: int
    clients: int
    settings: int
    quiet_after_ms: int

    @classmethod
    def of(cls, plan: Plan) -> Size:
        return cls(
            steps=len(plan.steps),
            brokers=plan.topology.brokers,
            controllers=plan.topology.controllers,
            partitions=sum(topic.partitions for topic in plan.workload.topics),
            clients=len(client_names(plan.workload)),
            settings=len(simpler.settings_of(plan)),
            quiet_after_ms=plan.quiet_after_ms,
        )

    def __str__(self) -> str:
        return (
            f"{counted(self.steps, 'step')}, {counted(self.brokers, 'broker')}, "
            f"{counted(self.controllers, 'controller')}, {counted(self.partitions, 'partition')}, "
            f"{counted(self.clients, 'client')}, {counted(self.settings, 'setting')}, "
            f"{self.quiet_after_ms} ms"
        )


@dataclass(frozen=True, slots=True)
class ShrinkProgress:
    """The search's progress: runs of max_runs are used; the best plan so far has `steps`."""

    runs: int
    max_runs: int
    steps: int
    doing: str


@dataclass(frozen=True, slots=True)
class Shrunk:
    """A shrunk plan.

    is_minimal: False when the runs were used up before the end, or the search was interrupted.
    """

    plan: Plan
    result: RunResult
    signature: Signature
    runs: int
    before: Size
    after: Size
    is_minimal: bool
    was_interrupted: bool = False


OnProgress = Callable[[ShrinkProgress], None]


class _RunsUsedUp(Exception):
    """The search ends with the best plan so far."""


def signature_of(result: RunResult, explain: Explain | None = None) -> Signature | None:
    """Return the run's violation as a signature, None when it passed."""
    violation = result.violation
    if violation is None:
        return None
    crash = re.sub(r"\d+", "#", violation.message) if violation.invariant == CRASH else ""
    rows = tuple(explain(result)) if explain is not None else ()
    return Signature(violation.invariant, rows, crash)


def shrink(
    plan: Plan,
    *,
    run: Run = run_plan,
    explain: Explain | None = None,
    max_runs: int = MAX_RUNS,
    reseeds: int = RESEEDS,
    on_progress: OnProgress = lambda progress: None,
) -> Shrunk:
    """Return a plan with the same violation from which little more can be removed.

    Ctrl-C ends the search with the best plan so far.

    Raises:
        DoesNotFail: the plan's run passes.
        KeyboardInterrupt: it came in the first run, before the violation is known.
    """
    result = run(plan)
    signature = signature_of(result, explain)
    if signature is None:
        raise DoesNotFail(f"{plan.title or 'the plan'} breaks nothing: nothing to shrink")
    search = _Search(plan, result, signature, run, explain, max_runs, reseeds, on_progress)
    is_minimal = search.go()
    return Shrunk(
        plan=search.plan,
        result=search.result,
        signature=search.signature,
        runs=search.runs,
        before=Size.of(plan),
        after=Size.of(search.plan),
        is_minimal=is_minimal,
        was_interrupted=search.was_interrupted,
    )


class _Search:
    """The best plan so far, its run, and the tried plans."""

    def __init__(
        self,
        plan: Plan,
        result: RunResult,
        signature: Signature,
        run: Run,
        explain: Explain | None,
        max_runs: int,
        reseeds: int,
        on_progress: OnProgress,
    ) -> None:
        self.plan = plan
        self.result = result
        self.runs = 1
        self.signature = signature
        self.was_interrupted = False
        self._run = run
        self._explain = explain
        self._max_runs = max_runs
        self._reseeds = reseeds
        self._on_progress = on_progress
        self._doing = ""
        self._passed: dict[bytes, None] = {}

    def go(self) -> bool:
        """Try all kinds of changes until none helps; return False when it ended before."""
        try:
            self._begin("steps")
            self._cut_time()
            self._fewer_steps(0)
            while True:
                before = self.plan
                for name, work in self._passes():
                    self._begin(name)
                    work()
                if before == self.plan:
                    return True
        except _RunsUsedUp:
            return False
        except KeyboardInterrupt:
            self.was_interrupted = True
            return False

    def _passes(self) -> Iterator[tuple[str, Callable[[], None]]]:
        yield "time", self._cut_time
        yield "steps", lambda: self._fewer_steps(self._reseeds)
        yield "durations", self._shorter_durations
        yield "conditions", self._fewer_conditions
        yield "nodes", self._other_names
        yield "topology", self._smaller_topology
        yield "settings", self._fewer_settings
        yield "workload", self._lighter_workload
        yield "network", self._flat_network
        yield "time", self._rounder_times

    def _begin(self, doing: str) -> None:
        self._doing = doing
        self._on_progress(
            ShrinkProgress(self.runs, self._max_runs, len(self.plan.steps), self._doing)
        )

    # ------------------------------------------------------------ one candidate

    def _try(self, candidate: Plan, reseeds: int | None = None) -> bool:
        """Take the candidate as the best plan if one of the seeds gives the same violation."""
        if candidate == self.plan:
            return True
        if problems_of(candidate):
            return False
        count = self._reseeds if reseeds is None else reseeds
        others = [seed for seed in range(1, count + 1) if seed != candidate.seed]
        return any(self._try_one(replace(candidate, seed=s)) for s in (candidate.seed, *others))

    def _try_one(self, candidate: Plan) -> bool:
        key = encode_plan(candidate)
        if key in self._passed:
            return False
        if self.runs >= self._max_runs:
            raise _RunsUsedUp
        self.runs += 1
        result = self._run(candidate)
        signature = signature_of(result, self._explain)
        if signature is None or not self.signature.covers(signature):
            self._passed[key] = None
            self._begin(self._doing)
            return False
        self.plan, self.result, self.signature = candidate, result, signature
        self._begin(self._doing)
        return True

    # ------------------------------------------------------------ time and steps

    def _cut_time(self) -> None:
        """End the faults when the violation showed; drop steps that had not fired by then."""
        violation = self.result.violation
        if violation is not None:
            end_ms = max(0, -(-(violation.at_ns - _faults_begin_ns(self.result)) // _NS_PER_MS))
            if end_ms < self.plan.quiet_after_ms:
                self._try(replace(self.plan, quiet_after_ms=end_ms), 0)
        fired = self.result.outcome.fired
        self._try(replace(self.plan, steps=tuple(s for s in self.plan.steps if s in fired)))

    def _fewer_steps(self, reseeds: int) -> None:
        plan = self.plan
        minimal_subset(plan.steps, lambda kept: self._try(replace(self.plan, steps=kept), reseeds))

    def _rounder_times(self) -> None:
        for number, step in enumerate(self.plan.steps):
            minimal_number(
                step.at_ms,
                lambda at_ms, number=number: self._try_step(number, at_ms=at_ms),  # type: ignore[misc]
            )
        minimal_number(
            self.plan.quiet_after_ms,
            lambda after_ms: self._try(replace(self.plan, quiet_after_ms=after_ms)),
        )
        in_order = tuple(sorted(self.plan.steps, key=lambda step: step.at_ms))
        self._try(replace(self.plan, steps=in_order))

    def _try_step(self, number: int, **changes: object) -> bool:
        step = replace(self.plan.steps[number], **changes)
        return self._try(simpler.with_step(self.plan, number, step))

    # ------------------------------------------------------------ fields of steps

    def _shorter_durations(self) -> None:
        for number, step in enumerate(self.plan.steps):
            endless = simpler.forever(step)
            if endless is not None:
                self._try(simpler.with_step(self.plan, number, endless))
            for name in tuple(simpler.number_fields(self.plan.steps[number])):
                self._smaller_number(number, name)

    def _smaller_number(self, number: int, name: str) -> None:
        def fails(value: int) -> bool:
            fault = replace(self.plan.steps[number].do, **{name: value})
            return self._try_step(number, do=fault)

        minimal_number(getattr(self.plan.steps[number].do, name), fails, least=1)

    def _fewer_conditions(self) -> None:
        for number in range(len(self.plan.steps)):
            fired_at_ms = _fired_at_ms(self.result, self.plan.steps[number])
            for candidate in simpler.without_condition(self.plan.steps[number], fired_at_ms):
                if self.plan.steps[number].when is not None:
                    self._try(simpler.with_step(self.plan, number, candidate))

    def _other_names(self) -> None:
        for number in range(len(self.plan.steps)):
            for candidate in simpler.names_instead(self.plan.steps[number], self.plan):
                if self._try(simpler.with_step(self.plan, number, candidate)):
                    break

    # ------------------------------------------------------------ the rest

    def _smaller_topology(self) -> None:
        self._try(replace(self.plan, core=()))
        self._try(replace(self.plan, probes_shrinking=False))
        for smaller, count in (
            (simpler.with_brokers, self.plan.topology.brokers),
            (simpler.with_controllers, self.plan.topology.controllers),
        ):
            for fewer in range(1, count):
                if self._try(smaller(self.plan, fewer)):
                    break
        for number, topic in enumerate(self.plan.workload.topics):
            topics = list(self.plan.workload.topics)
            topics[number] = replace(topic, min_insync_replicas=1)
            self._try(simpler.with_workload(self.plan, topics=tuple(topics)))

    def _fewer_settings(self) -> None:
        minimal_subset(
            simpler.settings_of(self.plan),
            lambda kept: self._try(simpler.without_settings(self.plan, kept)),
        )

    def _lighter_workload(self) -> None:
        for kind in ("groups", "consumers", "producers"):
            minimal_subset(
                getattr(self.plan.workload, kind),
                lambda kept, kind=kind: self._try(  # type: ignore[misc]
                    simpler.with_workload(self.plan, **{kind: kept})
                ),
            )
        for count in range(1, self.plan.topology.log_folders_per_broker):
            if self._try(simpler.with_log_folders(self.plan, count)):
                break
        for partitions in range(1, self.plan.workload.topics[0].partitions):
            if self._try(simpler.with_partitions(self.plan, partitions)):
                break
        for number in range(len(self.plan.workload.groups)):
            self._plainer_client("groups", number, size="members")
        for number in range(len(self.plan.workload.producers)):
            self._plainer_client("producers", number, size="rate_per_s")

    def _plainer_client(self, kind: str, number: int, size: str) -> None:
        """Leave out settings of a producer or a group, and lower the size of its load."""
        client = getattr(self.plan.workload, kind)[number]
        usual = {
            field.name: field.default
            for field in fields(client)
            if field.name not in ("topic", size) and getattr(client, field.name) != field.default
        }
        minimal_subset(
            tuple(usual),
            lambda kept: self._try(
                simpler.with_client(
                    self.plan,
                    kind,
                    number,
                    **{
                        name: getattr(client, name) if name in kept else default
                        for name, default in usual.items()
                    },
                )
            ),
        )
        minimal_number(
            getattr(client, size),
            lambda count: self._try(simpler.with_client(self.plan, kind, number, **{size: count})),
            least=1,
        )

    def _flat_network(self) -> None:
        if self._try(replace(self.plan, network=Network())):
            return
        for field in fields(Network):
            network = replace(self.plan.network, **{field.name: field.default})
            self._try(replace(self.plan, network=network))


# ---------------------------------------------------------------- facts of a run


def _faults_begin_ns(result: RunResult) -> int:
    """Return when the plan's time began; the run's end when it never did."""
    for entry in result.trace.entries:
        if isinstance(entry.event, Note) and entry.event.what == "faults begin":
            return entry.at_ns
    return result.simulated_ns


def _fired_at_ms(result: RunResult, step: Step) -> int | None:
    """Return when the step was done, in the plan's time."""
    outcome = result.outcome
    times_ms = zip(outcome.fired, outcome.fired_at_ms, strict=True)
    return next((at_ms for fired, at_ms in times_ms if fired == step), None)


def describe(shrunk: Shrunk) -> str:
    """Return the minimal plan and its violation in words, in at most a screen."""
    return "\n".join([*describe_run(shrunk.result), *_describe_search(shrunk)])


def describe_run(result: RunResult) -> list[str]:
    """Return the plan in words, then its violation; the middle of a long plan is left out."""
    lines = list(say_plan(result.plan))
    if len(lines) > MAX_LINES:
        half = MAX_LINES // 2
        left_out = f"... {len(lines) - 2 * half} lines more ..."
        lines = [*lines[:half], left_out, *lines[-half:]]
    violation = result.violation
    if violation is None:
        return [*lines, "nothing is broken"]
    at_ms = (violation.at_ns - _faults_begin_ns(result)) / _NS_PER_MS
    return [*lines, f"after {at_ms:.3f} ms this broke {violation}"]


def _describe_search(shrunk: Shrunk) -> Iterator[str]:
    yield ""
    rows = ", ".join(str(row) for row in shrunk.signature.rows)
    if rows:
        yield f"explained by catalogue row {rows}"
    yield f"from {shrunk.before}"
    yield f"to   {shrunk.after}"
    ending = ""
    if not shrunk.is_minimal:
        why = "then interrupted" if shrunk.was_interrupted else "all that were allowed"
        ending = f", {why}: it may be cut further"
    yield f"in {counted(shrunk.runs, 'run')}{ending}; network seed {shrunk.plan.seed}"
