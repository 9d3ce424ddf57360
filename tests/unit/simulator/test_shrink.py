"""The search for a minimal plan, over runs whose outcome is a rule of the test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from highwater_chaos import faults as f
from highwater_chaos.plan import (
    Consumer,
    Group,
    Latencies,
    Network,
    Observed,
    Plan,
    PlanTopology,
    Producer,
    Step,
    Topic,
    When,
    Workload,
)
from highwater_simulator.injector import Outcome
from highwater_simulator.oracle.violation import Violation
from highwater_simulator.runner import CRASH, RunResult
from highwater_simulator.shrink import (
    DoesNotFail,
    ShrinkProgress,
    Signature,
    describe,
    shrink,
    signature_of,
)
from highwater_simulator.trace_log import TraceLog

NS_PER_MS = 1_000_000
BEGIN_MS = 100
"""When the faults of these runs begin."""

LARGE = Plan(
    seed=77,
    title="seed 77",
    topology=PlanTopology(
        brokers=4,
        controllers=3,
        broker_settings={"segment_bytes": 600, "session_timeout_ms": 400},
        controller_settings={"session_timeout_ms": 900},
    ),
    network=Network(Latencies.HEAVY_TAILED, 1_000, 30_000, True, True),
    workload=Workload(
        topics=(Topic(partitions=3, min_insync_replicas=2),),
        producers=(Producer(rate_per_s=40, max_in_flight=5, batch_max_records=4), Producer()),
        consumers=(Consumer(),),
        groups=(Group(members=3, stays_ms=700, session_timeout_ms=900), Group()),
    ),
    steps=(
        Step(10, f.Pause("broker-3", 400)),
        Step(900, f.Kill("broker-3", 4_500), When(Observed.EVENT, event="isr_changed", count=4)),
        Step(1_100, f.Cut("any", "broker-0", "client")),
        Step(1_717, f.ExpireSession("controller-1002")),
        Step(5_000, f.Kill("broker-1")),
    ),
    quiet_after_ms=9_000,
    core=("broker-0", "controller-1001"),
    probes_shrinking=True,
)


def result_of(
    plan: Plan, invariant: str | None, at_ms: int = 2_000, message: str = "it broke"
) -> RunResult:
    """Return a run in which every step before at_ms was done and the invariant broke then."""
    now_ms = [BEGIN_MS]
    trace = TraceLog(lambda: now_ms[0] * NS_PER_MS)
    trace.note("plan", "faults begin")
    outcome = Outcome()
    for step in plan.steps:
        if step.at_ms < at_ms:
            outcome.fired.append(step)
            outcome.fired_at_ms.append(step.at_ms + (33 if step.when else 0))
        else:
            outcome.not_reached.append(step)
    violation = None
    if invariant is not None:
        violation = Violation(invariant, message, (BEGIN_MS + at_ms) * NS_PER_MS)
    return RunResult(
        plan=plan,
        violation=violation,
        flags=(),
        excused=(),
        acknowledged=1,
        events=1,
        simulated_ns=(BEGIN_MS + at_ms) * NS_PER_MS,
        marks=Counter(),
        outcome=outcome,
        trace=trace,
        history=[],
    )


def breaks_if(rule: Callable[[Plan], bool]) -> Callable[[Plan], RunResult]:
    def run(plan: Plan) -> RunResult:
        return result_of(plan, "I1" if rule(plan) else None)

    return run


def has_kill_and_expiry(plan: Plan) -> bool:
    kinds = [type(step.do) for step in plan.steps]
    return f.Kill in kinds and f.ExpireSession in kinds


def test_only_the_faults_that_matter_are_left_in_the_simplest_surroundings() -> None:
    shrunk = shrink(LARGE, run=breaks_if(has_kill_and_expiry))
    plan = shrunk.plan
    assert [type(step.do) for step in plan.steps] == [f.Kill, f.ExpireSession]
    assert plan.topology == PlanTopology(brokers=1, controllers=1)
    assert plan.network == Network()
    assert plan.workload == Workload((Topic(replication_factor=1),), (), ())
    assert (plan.core, plan.probes_shrinking) == ((), False)
    assert shrunk.is_minimal
    assert shrunk.signature == Signature("I1")
    assert (shrunk.before.steps, shrunk.after.steps) == (5, 2)


def test_numbers_become_simple_conditions_go_and_names_become_roles() -> None:
    def rule(plan: Plan) -> bool:
        kills = [step for step in plan.steps if isinstance(step.do, f.Kill)]
        return any(step.do.for_ms is not None and step.do.for_ms >= 130 for step in kills)  # type: ignore[union-attr]

    step = shrink(LARGE, run=breaks_if(rule)).plan.steps[0]
    assert step == Step(0, f.Kill("leader of t-0", 200))


def test_a_condition_that_matters_stays_and_holds_once() -> None:
    def rule(plan: Plan) -> bool:
        return any(step.when is not None for step in plan.steps)

    steps = shrink(LARGE, run=breaks_if(rule)).plan.steps
    assert [step.when for step in steps] == [When(Observed.EVENT, event="isr_changed")]


def test_faults_end_where_the_violation_showed() -> None:
    ends: list[int] = []

    def rule(plan: Plan) -> bool:
        ends.append(plan.quiet_after_ms)
        return plan.quiet_after_ms >= 2_000

    assert shrink(LARGE, run=breaks_if(rule)).plan.quiet_after_ms == 2_000
    assert ends[:2] == [9_000, 2_000]


def test_another_invariant_is_another_failure() -> None:
    def run(plan: Plan) -> RunResult:
        return result_of(plan, "I1" if len(plan.steps) > 2 else "I3")

    assert len(shrink(LARGE, run=run).plan.steps) == 3


def test_another_row_of_the_catalogue_is_another_failure() -> None:
    def explain(result: RunResult) -> tuple[int, ...]:
        return (1, 10) if len(result.plan.steps) > 3 else (10,) if result.plan.steps else (7,)

    shrunk = shrink(LARGE, run=breaks_if(lambda plan: True), explain=explain)
    assert shrunk.signature == Signature("I1", (10,))
    assert len(shrunk.plan.steps) == 1


def test_crashes_are_the_same_by_their_message_without_its_numbers() -> None:
    first = signature_of(result_of(LARGE, CRASH, message="offset 12 is not 13"))
    assert first == signature_of(result_of(LARGE, CRASH, message="offset 2 is not 4"))
    assert first != signature_of(result_of(LARGE, CRASH, message="no such partition"))


def test_a_candidate_that_needs_other_latencies_is_found_under_another_seed() -> None:
    def rule(plan: Plan) -> bool:
        return len(plan.steps) == len(LARGE.steps) or (
            plan.seed == 5 and any(isinstance(step.do, f.ExpireSession) for step in plan.steps)
        )

    shrunk = shrink(LARGE, run=breaks_if(rule))
    assert shrunk.plan.seed == 5
    assert len(shrunk.plan.steps) == 1
    assert len(shrink(LARGE, run=breaks_if(rule), reseeds=2).plan.steps) == len(LARGE.steps)


def test_the_search_ends_when_its_runs_are_used_up_with_the_best_until_then() -> None:
    seen: list[ShrinkProgress] = []
    shrunk = shrink(LARGE, run=breaks_if(has_kill_and_expiry), max_runs=6, on_progress=seen.append)
    assert shrunk.runs == 6
    assert not shrunk.is_minimal
    assert shrunk.result.plan == shrunk.plan
    assert max(at.runs for at in seen) == 6
    assert "may be cut further" in describe(shrunk)


def test_an_interrupt_ends_the_search_with_the_best_until_then() -> None:
    def interrupted(at: ShrinkProgress) -> None:
        if at.runs == 6:
            raise KeyboardInterrupt

    shrunk = shrink(LARGE, run=breaks_if(has_kill_and_expiry), on_progress=interrupted)
    assert (shrunk.was_interrupted, shrunk.is_minimal, shrunk.runs) == (True, False, 6)
    assert shrunk.result.plan == shrunk.plan != LARGE
    assert "then interrupted: it may be cut further" in describe(shrunk)


def test_an_interrupt_before_anything_broke_leaves_nothing_to_keep() -> None:
    def interrupted(plan: Plan) -> RunResult:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        shrink(LARGE, run=interrupted)


def test_no_plan_is_run_twice() -> None:
    plans: list[Plan] = []

    def rule(plan: Plan) -> bool:
        plans.append(plan)
        return has_kill_and_expiry(plan)

    shrunk = shrink(LARGE, run=breaks_if(rule))
    assert shrunk.runs == len(plans)
    failing = [plan for plan in plans if not has_kill_and_expiry(plan)]
    assert len(failing) == len({repr(plan) for plan in failing})


def test_equal_plans_shrink_equally() -> None:
    first, second = (shrink(LARGE, run=breaks_if(has_kill_and_expiry)) for _ in range(2))
    assert (first.plan, first.runs) == (second.plan, second.runs)


def test_a_plan_that_passes_is_not_shrunk() -> None:
    with pytest.raises(DoesNotFail, match="seed 77"):
        shrink(LARGE, run=breaks_if(lambda plan: False))


def test_description_is_at_most_a_screen() -> None:
    steps = tuple(Step(n, f.Kill("broker-0")) for n in range(200))

    def rule(plan: Plan) -> bool:
        return len(plan.steps) == 200

    words = describe(shrink(replace(LARGE, steps=steps), run=breaks_if(rule), max_runs=20))
    assert len(words.splitlines()) < 50
    assert "lines more" in words
    assert "I1: it broke" in words
