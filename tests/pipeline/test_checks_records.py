"""Checks of operations and records find planted violations alone, and three judges agree."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from pyspark.sql import SparkSession

from bench.pipeline.in_duckdb import SAID_AGAIN
from highwater_pipeline.checks import ranges
from tests.pipeline.frames import Run
from tests.pipeline.judges import (
    Opinion,
    Opinions,
    opinions_of_duckdb,
    opinions_of_python,
    opinions_of_spark,
)
from tests.pipeline.record_histories import ORPHAN, PLANTED, Planted
from tests.pipeline.record_judges import (
    PYTHON,
    SPARK,
)
from tests.pipeline.record_strategies import runs

GENERATED = 150
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
    return opinions_of_spark(spark, SPARK, [*evidence.values(), ORPHAN])


@pytest.fixture(scope="module")
def duckdb(evidence: dict[str, Run]) -> Opinions:
    return opinions_of_duckdb(SPARK, list(evidence.values()))


@pytest.mark.parametrize("planted", PLANTED, ids=lambda each: each.name)
def test_planted_violations_are_found_and_nothing_else(
    planted: Planted, pipeline: Opinions
) -> None:
    found = {
        name: [(row[1], row[4], row[5]) for row in pipeline[name, planted.name].findings]
        for name in SPARK
    }
    assert {name: rows for name, rows in found.items() if rows} == planted.found


@pytest.mark.parametrize("name", SPARK)
def test_spark_agrees_with_the_checker_to_the_letter(
    name: str, evidence: dict[str, Run], python: Opinions, pipeline: Opinions
) -> None:
    for run_id, run in evidence.items():
        assert pipeline[name, run_id] == python[name, run_id], run


@pytest.mark.parametrize(
    ("by_ranges", "range_bits"),
    [
        pytest.param(False, 8, id="none"),
        pytest.param(True, 1, id="2", marks=pytest.mark.full),
        pytest.param(True, 2, id="4", marks=pytest.mark.full),
    ],
)
def test_findings_do_not_depend_on_where_ranges_end(
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    evidence: dict[str, Run],
    pipeline: Opinions,
    by_ranges: bool,
    range_bits: int,
) -> None:
    monkeypatch.setattr(ranges, "RANGE_BITS", range_bits)
    checks = {name: SPARK[name] for name in ("acknowledged_records", "reads")}
    runs = [*evidence.values(), ORPHAN]
    again = opinions_of_spark(spark, checks, runs, by_ranges=by_ranges)
    assert again == {key: each for key, each in pipeline.items() if key[0] in checks}


@pytest.mark.parametrize("name", SPARK)
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


@pytest.mark.parametrize("name", ["acknowledged_records", "order", "inconsistent_offsets"])
def test_an_acknowledgement_without_its_send_is_left_out_as_the_checker_does(
    name: str, pipeline: Opinions
) -> None:
    told = opinions_of_python({name: PYTHON[name]}, [ORPHAN])
    assert pipeline[name, ORPHAN.run_id] == told[name, ORPHAN.run_id]
    assert pipeline["order", ORPHAN.run_id] == Opinion((), examined=0)


def test_a_check_has_the_name_that_the_checker_gives_it() -> None:
    clean = PLANTED[0].run
    names = {name: judge(clean).check for name, judge in PYTHON.items()}
    merged = {"reads", "replica_equality"}
    told = {name: check.name for name, check in SPARK.items() if name not in merged}
    assert told == {name: check for name, check in names.items() if name not in merged}


def test_each_planted_violation_is_of_a_check_and_each_check_has_one() -> None:
    assert {name for each in PLANTED for name in each.found} == set(SPARK)
