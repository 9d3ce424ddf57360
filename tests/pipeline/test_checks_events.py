"""Checks of events, looks and probes find planted violations alone, and three judges agree."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from pyspark.sql import SparkSession

from bench.pipeline.in_duckdb import SAID_AGAIN
from highwater_checker.lives import deleted_topics
from tests.pipeline.event_judges import (
    IN_SQL,
    PYTHON,
    SPARK,
)
from tests.pipeline.event_planted import IDLE, PLANTED, STOPPING, UNREADABLE, UNSEEN
from tests.pipeline.event_runs import CLEAN
from tests.pipeline.event_strategies import runs
from tests.pipeline.frames import Run
from tests.pipeline.judges import (
    Opinion,
    Opinions,
    opinions_of_duckdb,
    opinions_of_python,
    opinions_of_spark,
)
from tests.pipeline.record_histories import Planted

READS_PROBES = "empty_fetches"
GENERATED = 200
ENOUGH = 5
"""Of the generated runs, how many each check must find something in, and nothing in."""


def generated_runs() -> list[Run]:
    """Return the runs that hypothesis draws, for one Spark job to judge them all."""
    drawn: list[Run] = []

    @settings(max_examples=GENERATED, deadline=None, suppress_health_check=list(HealthCheck))
    @given(runs())
    def draw(run: Run) -> None:
        drawn.append(replace(run, run_id=f"generated-{len(drawn)}"))

    draw()
    return drawn


@pytest.fixture(scope="module")
def evidence() -> dict[str, Run]:
    planted = [replace(each.run, run_id=each.name) for each in PLANTED]
    return {run.run_id: run for run in (*planted, *generated_runs())}


@pytest.fixture(scope="module")
def python(evidence: dict[str, Run]) -> Opinions:
    return opinions_of_python(PYTHON, evidence.values())


@pytest.fixture(scope="module")
def pipeline(spark: SparkSession, evidence: dict[str, Run]) -> Opinions:
    """Give opinions of all runs that a test asks about: one job a check."""
    others = (UNREADABLE, UNSEEN, IDLE, *STOPPING.values(), *map(skewed, PLANTED))
    return opinions_of_spark(spark, SPARK, [*evidence.values(), *others])


@pytest.fixture(scope="module")
def duckdb(evidence: dict[str, Run]) -> Opinions:
    return opinions_of_duckdb(IN_SQL, list(evidence.values()))


BY_CLOCKS = "committed_before"
"""Compares the times of a truncation and of a commit, by the machine's clock."""
IN_LIVES = "successors"
"""Finds the life of a deleted topic in which a record was acknowledged, by the nodes' clocks."""


def skewed(planted: Planted) -> Run:
    """Return the planted run, each node's clock 7 s further off than the last one's."""
    events = tuple(
        replace(event, ts_ns=event.ts_ns + 7 * 10**9 * (event.node % 10))
        for event in planted.run.events
    )
    return replace(planted.run, run_id=f"skewed {planted.name}", events=events)


@pytest.mark.parametrize("name", SPARK)
def test_clocks_that_differ_change_no_verdict_but_that_of_cuts_within_an_epoch(
    name: str, pipeline: Opinions
) -> None:
    for planted in PLANTED:
        here = pipeline.get((name, planted.name))
        there = pipeline.get((name, skewed(planted).run_id))
        if here is None or there is None:
            assert here is there, planted.name
            continue
        if name == IN_LIVES and deleted_topics(planted.run.events):
            continue
        assert there.examined == here.examined
        if name == BY_CLOCKS:
            assert _of_leaders(there) == _of_leaders(here), planted.name
        else:
            assert _without_run(there) == _without_run(here), planted.name


def _without_run(opinion: Opinion) -> list[tuple[object, ...]]:
    return [row[1:] for row in opinion.findings]


def _of_leaders(opinion: Opinion) -> list[tuple[object, ...]]:
    return [row[1:] for row in opinion.findings if row[1] == "I4"]


@pytest.mark.parametrize("planted", PLANTED, ids=lambda each: each.name)
def test_planted_violations_are_found_and_nothing_else(
    planted: Planted, pipeline: Opinions
) -> None:
    found = {
        name: [(row[1], row[4], row[5]) for row in pipeline[name, planted.name].findings]
        for name in SPARK
        if (name, planted.name) in pipeline
    }
    assert {name: rows for name, rows in found.items() if rows} == planted.found


@pytest.mark.parametrize("name", SPARK)
def test_spark_agrees_with_the_checker_to_the_letter(
    name: str, evidence: dict[str, Run], python: Opinions, pipeline: Opinions
) -> None:
    for run_id, run in evidence.items():
        assert pipeline.get((name, run_id)) == python.get((name, run_id)), run


@pytest.mark.parametrize("name", IN_SQL)
def test_duckdb_agrees_with_the_checker_too(
    name: str, evidence: dict[str, Run], python: Opinions, duckdb: Opinions
) -> None:
    for run_id, run in evidence.items():
        said = python[name, run_id]
        expected = said.without_messages() if name in SAID_AGAIN else said
        assert duckdb[name, run_id] == expected, run


@pytest.mark.parametrize("name", SPARK)
def test_generated_runs_are_neither_all_sound_nor_all_broken(name: str, python: Opinions) -> None:
    drawn = [
        each
        for (check, run_id), each in python.items()
        if check == name and run_id.startswith("generated-")
    ]
    assert sum(bool(each.findings) for each in drawn) >= ENOUGH
    assert sum(each.examined > 0 and not each.findings for each in drawn) >= ENOUGH


@pytest.mark.parametrize("name", SPARK)
def test_a_clean_run_has_something_of_each_check_to_examine(name: str, pipeline: Opinions) -> None:
    assert pipeline[name, CLEAN.run_id].examined > 0


def test_events_that_lack_details_are_found_and_the_rest_is_judged(
    pipeline: Opinions,
) -> None:
    found = {str(row[-1]) for row in pipeline["completeness", UNREADABLE.run_id].findings}
    assert found == {
        "node 2, incarnation 1: became_leader at seq 3 has no usable high_watermark",
        "node 2, incarnation 1: log_truncated at seq 4 has no usable high_watermark, from_offset, "
        "reason",
        "node 1000, incarnation 1: leader_elected at seq 2 has no usable leader",
    }
    assert pipeline["truncations", UNREADABLE.run_id].examined == 5
    assert pipeline["empty_fetches", UNREADABLE.run_id] == replace(
        pipeline["empty_fetches", CLEAN.run_id]
    )


@pytest.mark.parametrize(("says", "run"), STOPPING.items(), ids=STOPPING)
def test_where_the_checker_stops_at_an_event_that_event_is_found(
    says: str, run: Run, pipeline: Opinions
) -> None:
    with pytest.raises((KeyError, TypeError)):
        opinions_of_python(PYTHON, [run])
    found = [(row[1], row[-1]) for row in pipeline["completeness", run.run_id].findings]
    assert found == [("C00", says)]


@pytest.mark.parametrize("run", [UNSEEN, IDLE], ids=lambda each: each.run_id)
@pytest.mark.parametrize("name", SPARK)
def test_a_look_counts_whoever_answered_and_had_something_to_tell(
    name: str, run: Run, pipeline: Opinions
) -> None:
    told = opinions_of_python({name: PYTHON[name]}, [run])
    assert pipeline[name, run.run_id] == told[name, run.run_id]


@pytest.mark.parametrize("run", [UNSEEN, IDLE], ids=lambda each: each.run_id)
def test_such_a_look_leaves_one_probe_fewer_with_something_to_hide(run: Run) -> None:
    told = opinions_of_python({READS_PROBES: PYTHON[READS_PROBES]}, [CLEAN, run])
    examined = {run_id: opinion.examined for (_, run_id), opinion in told.items()}
    assert examined == {CLEAN.run_id: 2, run.run_id: 1}


def test_a_check_has_the_name_that_the_checker_gives_it() -> None:
    names = {
        name: result.check for name, judge in PYTHON.items() if (result := judge(CLEAN)) is not None
    }
    assert {name: check.name for name, check in SPARK.items()} == names


def test_each_planted_violation_is_of_a_check_and_each_check_has_one() -> None:
    assert {name for each in PLANTED for name in each.found} == set(SPARK)
