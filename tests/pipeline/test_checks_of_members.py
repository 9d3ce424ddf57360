"""Generations (I21) and deliveries (I22) of groups: three judges find planted violations."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from highwater_checker.finding import CheckResult
from highwater_checker.history import HistoryEvent
from highwater_checker.invariants.deliveries import check_deliveries
from highwater_checker.invariants.generations import check_generations, deleted_groups, has_members
from highwater_pipeline.checks.registry import CHECKS
from tests.pipeline.frames import Run
from tests.pipeline.judges import (
    Judges,
    Opinions,
    opinions_of_duckdb,
    opinions_of_python,
    opinions_of_spark,
)
from tests.pipeline.member_histories import generated_runs
from tests.pipeline.member_planted import PLANTED
from tests.pipeline.record_histories import Planted

ENOUGH = 5
"""Of the generated runs, in how many each check must find something, and in how many nothing."""

# ---------------------------------------------------------------- the checker, fed


def _generations(run: Run) -> CheckResult | None:
    events = _events(run)
    if not has_members(events):
        return None
    return check_generations(events, deleted_groups(run.events), run.incomplete)


def _deliveries(run: Run) -> CheckResult | None:
    events = _events(run)
    asked = [ack for ack in run.promised() if not ack.life.is_over]
    logs = sorted(run.replicas, key=lambda log: (log.topic, log.partition, log.broker_id))
    if not has_members(events):
        return None
    return check_deliveries(events, asked, logs, run.incomplete_histories())


def _events(run: Run) -> list[HistoryEvent]:
    return [event for events in run.histories().values() for event in events]


PYTHON: Judges = {"generations": _generations, "deliveries": _deliveries}

# ---------------------------------------------------------------- three judges


@pytest.fixture(scope="module")
def evidence() -> dict[str, Run]:
    planted = [replace(each.run, run_id=each.name) for each in PLANTED]
    return {run.run_id: run for run in (*planted, *generated_runs())}


@pytest.fixture(scope="module")
def python(evidence: dict[str, Run]) -> Opinions:
    return opinions_of_python(PYTHON, evidence.values())


@pytest.fixture(scope="module")
def duckdb(evidence: dict[str, Run]) -> Opinions:
    return opinions_of_duckdb(PYTHON, [*evidence.values()])


@pytest.mark.parametrize("planted", PLANTED, ids=lambda each: each.name)
def test_planted_violations_are_found_and_nothing_else(planted: Planted, duckdb: Opinions) -> None:
    found = {
        name: [(row[1], row[4], row[5]) for row in duckdb[name, planted.name].findings]
        for name in PYTHON
        if (name, planted.name) in duckdb
    }
    assert {name: rows for name, rows in found.items() if rows} == planted.found


def test_duckdb_agrees_with_the_checker_to_the_letter(
    evidence: dict[str, Run], python: Opinions, duckdb: Opinions
) -> None:
    assert duckdb.keys() == python.keys()
    for key, opinion in python.items():
        assert duckdb[key] == opinion, evidence[key[1]]


@pytest.mark.full
def test_spark_agrees_with_the_checker_too(
    spark: SparkSession, evidence: dict[str, Run], python: Opinions
) -> None:
    checks = {name: CHECKS[name] for name in PYTHON}
    pipeline = opinions_of_spark(spark, checks, [*evidence.values()])
    assert pipeline.keys() == python.keys()
    for key, opinion in python.items():
        assert pipeline[key] == opinion, evidence[key[1]]


@pytest.mark.parametrize("name", PYTHON)
def test_generated_runs_are_neither_all_sound_nor_all_broken(name: str, python: Opinions) -> None:
    planted = {each.name for each in PLANTED}
    drawn = [each for (check, run), each in python.items() if check == name and run not in planted]
    assert sum(bool(each.findings) for each in drawn) >= ENOUGH
    assert sum(each.examined > 0 and not each.findings for each in drawn) >= ENOUGH


def test_a_check_has_the_name_that_the_checker_gives_it(evidence: dict[str, Run]) -> None:
    run = evidence["two owners"]
    told = {name: judge(run) for name, judge in PYTHON.items()}
    names = {name: result.check for name, result in told.items() if result is not None}
    assert names == {name: CHECKS[name].name for name in PYTHON}
