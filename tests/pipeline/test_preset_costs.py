"""Presets side by side: what they lose and cost over the schedules that all of them finished."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from highwater.cli import make_app
from highwater.errors import HarnessError
from highwater.report.preset_comparisons import comparison_of_campaigns
from highwater_pipeline.campaign.state import Settings
from highwater_pipeline.campaign.tables import DATA_VERSION, SCHEDULES
from highwater_pipeline.comparing.presets import (
    CannotCompare,
    PresetCosts,
    bugs_of,
    compare_presets,
    costs_of,
    share_between,
)
from highwater_pipeline.report.pages import write_page
from highwater_pipeline.report.presets import page_of_presets


def settings(preset: str, *, seeds: int = 4, code: str = "c", planted: str = "") -> Settings:
    return Settings(1, seeds, ("disks",), preset, planted, code, DATA_VERSION)


def schedule(preset: str, seed: int, invariant: str | None = None, **told: Any) -> dict[str, Any]:
    """Return a row of SCHEDULES; one with an invariant has a violation."""
    outcome = "pass" if invariant is None else "documented"
    return {
        **dict.fromkeys(SCHEDULES.columns),
        "campaign": preset,
        "preset": preset,
        "seed": seed,
        "family": "disks",
        "outcome": outcome,
        "invariant": invariant,
        "rows": None if invariant is None else [1],
        "fired": ["kill", "pause"],
        "leader_changes": 2,
        "control_calls": 30,
        "zookeeper_requests": 50,
        "unavailable_ns": 1_000_000_000,
        **told,
    }


def compared(spark: SparkSession, rows: Sequence[dict[str, Any]], *of: Settings) -> PresetCosts:
    frame = spark.createDataFrame(
        [tuple(row[name] for name in SCHEDULES.columns) for row in rows], SCHEDULES.schema
    )
    return compare_presets(frame, {each.preset: each for each in of})


def test_presets_are_compared_over_the_schedules_that_all_finished(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = [
        schedule("v3", 1, "I4", rows=[1, 10], unavailable_ns=3_000_000_000),
        schedule("v3", 2, "L4", rows=[6]),
        schedule("v3", 3),
        schedule("v3", 4, "I1"),
        schedule("fenced", 1),
        schedule("fenced", 2, fired=["kill"]),
        schedule("fenced", 3, "I11", leader_changes=0, control_calls=6),
        schedule("fenced", 4, outcome="lost"),
    ]
    found = compared(spark, rows, settings("v3"), settings("fenced", code="d"))
    v3, fenced = found.rows
    assert found.schedules == v3["schedules"] == fenced["schedules"] == 3
    assert (v3["losing"], v3["cutting"], v3["violating"]) == (1, 0, 2)
    assert (fenced["losing"], fenced["cutting"], fenced["violating"]) == (0, 1, 1)
    assert 0 < fenced["cutting_low"] < fenced["cutting_per_1000"] < fenced["cutting_high"]
    assert v3["unavailable_ms_per_fault"] == 5000 / 6
    assert fenced["unavailable_ms_per_fault"] == 3000 / 5
    assert fenced["control_calls_per_leader_change"] == 66 / 4
    assert found.bugs == (
        {"row": 1, "v3": 1, "fenced": 1},
        {"row": 6, "v3": 1, "fenced": 0},
        {"row": 10, "v3": 1, "fenced": 0},
    )
    other_code, fewer = found.notes
    assert "other code (v3 c, fenced d)" in other_code
    assert "3 schedules that all finished" in fewer
    page = write_page(tmp_path, page_of_presets(found)).read_text()
    assert page.count("<svg") == 1
    assert "KAFKA-1211" in page


def test_the_page_of_two_clean_presets_shows_no_bug(spark: SparkSession) -> None:
    rows = [schedule("v3", 1), schedule("fenced", 1)]
    found = compared(spark, rows, settings("v3", seeds=1), settings("fenced", seeds=1))
    assert (found.bugs, found.notes) == ((), ())


def test_campaigns_of_other_seeds_have_nothing_in_common(spark: SparkSession) -> None:
    with pytest.raises(CannotCompare, match="take the same seeds"):
        compared(
            spark, [schedule("v3", 1), schedule("fenced", 2)], settings("v3"), settings("fenced")
        )


@pytest.mark.parametrize(
    ("campaigns", "says"),
    [
        ([settings("v3")], "at least two"),
        ([settings("v3"), settings("v3")], "2 of the campaigns are of preset v3"),
        ([settings("v3"), settings("fenced", planted="flush_lies")], "planted bug flush_lies"),
        (
            [settings("v3"), replace(settings("fenced"), data_version=1)],
            "of another version: run it again",
        ),
    ],
)
def test_campaigns_that_cannot_be_compared_are_refused(
    spark: SparkSession, campaigns: Sequence[Settings], says: str
) -> None:
    frame = spark.createDataFrame([], SCHEDULES.schema)
    named = {str(number): each for number, each in enumerate(campaigns)}
    with pytest.raises(CannotCompare, match=says):
        compare_presets(frame, named)


def test_a_campaign_that_is_not_there_is_told_before_spark_starts(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=r"no campaign 'v3' in .*; there are: none"):
        comparison_of_campaigns(["v3", "fenced"], tmp_path, tmp_path, "local[1]", as_json=False)


@pytest.mark.parametrize(
    ("count", "of", "low", "high"),
    [(0, 100, 0.0, 0.0370), (100, 100, 0.9630, 1.0), (5, 10, 0.2366, 0.7634)],
)
def test_a_share_has_the_interval_of_wilson(count: int, of: int, low: float, high: float) -> None:
    assert share_between(count, of) == pytest.approx((low, high), abs=1e-4)


def test_a_preset_without_faults_and_changes_has_no_figures_for_them() -> None:
    names = ("losing", "cutting", "violating", "failing", "faults", "leader_changes")
    none = dict.fromkeys((*names, "control_calls", "zookeeper_requests", "unavailable_ns"), 0)
    costs = costs_of({"preset": "v3", "schedules": 1} | none)
    assert costs["unavailable_ms_per_fault"] is None
    assert costs["control_calls_per_leader_change"] is None
    assert bugs_of([], ["v3"]) == ()


@pytest.mark.parametrize(
    "options",
    [
        ["--by", "title", "--campaign", "v3"],
        ["--by", "preset", "--campaign", "v3", "--a", "v3"],
        ["--by", "preset"],
        ["--by", "preset", "--a", "v3"],
    ],
)
def test_options_that_do_not_go_together_are_refused(options: list[str]) -> None:
    result = CliRunner().invoke(make_app(), ["pipeline", "compare", *options])
    assert isinstance(result.exception, HarnessError)
