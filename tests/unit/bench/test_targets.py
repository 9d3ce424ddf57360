"""The table's rows and the targets' outcomes."""

from __future__ import annotations

import pytest

from bench import targets
from bench.summary import Summary, summarize
from bench.targets import Outcome, judge_targets, make_repetitions, rows

REPETITIONS = make_repetitions(quick=True)
LOAD = REPETITIONS.loads[0]


def outcome(ours: dict[str, Summary], theirs: dict[str, Summary] | None, target: str) -> Outcome:
    (found,) = [each for each in judge_targets(ours, theirs, REPETITIONS) if target in each.target]
    return found


@pytest.mark.parametrize("quick", [True, False])
def test_every_row_has_a_key_of_its_own(quick: bool) -> None:
    keys = [measure.key for measure in rows(make_repetitions(quick=quick))]
    assert len(keys) == len(set(keys))


def test_without_a_value_a_target_is_neither_met_nor_missed() -> None:
    outcomes = judge_targets({}, None, REPETITIONS)
    assert outcomes
    assert {(each.measured, each.met) for each in outcomes} == {("not measured", None)}


@pytest.mark.parametrize(("samples", "met"), [([2.8, 2.9, 3.4], True), ([2.9, 3.1, 3.2], False)])
def test_bring_up_is_judged_by_its_median(samples: list[float], met: bool) -> None:
    ours = {targets.BRING_UP.key: summarize(samples)}
    assert outcome(ours, None, "first acknowledged record").met is met


@pytest.mark.parametrize(
    ("samples", "median_met", "maximum_met"),
    [
        ([2.2, 2.4, 2.9], True, True),
        ([2.2, 2.6, 2.9], False, True),
        ([2.2, 2.4, 3.1], True, False),
    ],
)
def test_failover_is_judged_by_its_median_and_its_maximum(
    samples: list[float], median_met: bool, maximum_met: bool
) -> None:
    ours = {targets.failover_measure(2_000).key: summarize(samples)}
    assert outcome(ours, None, "session 2 s: median").met is median_met
    assert outcome(ours, None, "session 2 s: maximum").met is maximum_met


def test_memory_is_judged_by_the_largest_broker() -> None:
    ours = {targets.MEMORY_LOADED.key: summarize([40.0, 41.0, 81.0])}
    assert outcome(ours, None, "private memory").met is False


@pytest.mark.parametrize(("theirs", "met"), [([80.0], True), ([110.0], False), (None, None)])
def test_throughput_is_judged_against_apache_kafka(
    theirs: list[float] | None, met: bool | None
) -> None:
    measure = targets.produce_megabytes(LOAD)
    kafka = None if theirs is None else {measure.key: summarize(theirs)}
    found = outcome({measure.key: summarize([200.0])}, kafka, f"{measure.title}:")
    assert found.met is met
