"""Builds in their order, their medians, and the last one beside the one before."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from highwater_pipeline.comparing.sides import NoSuchValue
from highwater_pipeline.comparing.verdicts import Answer
from highwater_pipeline.report.comparisons import page_of_trend
from highwater_pipeline.report.pages import write_page
from highwater_pipeline.report.trend_plot import medians_by_build
from highwater_pipeline.trend import Trend, builds_of, trend
from tests.pipeline.comparing_rows import START_NS, run_of, store_of
from tests.pipeline.frames import tables_from_rows

DAY_NS = 86_400 * 10**9


def run(commit: str | None, start_wall_ns: int | None) -> dict[str, object]:
    return {"commit": commit, "start_wall_ns": start_wall_ns}


@pytest.mark.parametrize(
    ("runs", "builds"),
    [
        ([], []),
        ([run("b", 1), run("a", 2)], [("b", 1, 1), ("a", 1, 2)]),
        ([run("b", 5), run("a", 2), run("b", 1)], [("b", 2, 1), ("a", 1, 2)]),
        ([run("b", 5), run("a", 5)], [("a", 1, 5), ("b", 1, 5)]),
        ([run("b", None), run("b", 7), run("a", None)], [("b", 2, 7)]),
        ([run(None, 1), run("", 1)], []),
    ],
    ids=["none", "in order", "by the first run", "by name", "without a clock", "of no build"],
)
def test_builds_are_in_the_order_of_their_first_runs(
    runs: list[dict[str, object]], builds: list[tuple[str, int, int]]
) -> None:
    assert [tuple(build.values()) for build in builds_of(runs, "commit")] == builds


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> Trend:
    """Give the trend of three builds, the last of which is slower; by name they are in no order."""
    builds = (("c-first", 2_000), ("a-second", 2_001), ("b-last", 4_000))
    runs = [
        run_of(
            f"{build}-{number}",
            total_ms + 20 * number,
            commit=build,
            start_wall_ns=START_NS + day * DAY_NS,
        )
        for day, (build, total_ms) in enumerate(builds)
        for number in range(8)
    ]
    runs.append(run_of("of no build", 1_000))
    return trend(tables_from_rows(spark, store_of(runs)), "commit")


def test_each_build_has_its_medians_and_the_last_is_compared(found: Trend) -> None:
    assert [build["build"] for build in found.builds] == ["c-first", "a-second", "b-last"]
    assert found.left_out == 1
    totals = [row for row in found.rows if row["measure"] == "total_ms"]
    assert [(row["build"], row["count"], row["median"]) for row in totals] == [
        ("c-first", 8, 2_070.0), ("a-second", 8, 2_071.0), ("b-last", 8, 4_070.0),
    ]  # fmt: skip
    assert {row["measure"] for row in found.rows} == {"total_ms", "p99_ms"}
    last = found.comparison
    assert last is not None
    assert (last.a, last.b, last.answer) == ("a-second", "b-last", Answer.SLOWER)


def test_a_trend_is_a_page_with_three_pictures(found: Trend, tmp_path: Path) -> None:
    text = write_page(tmp_path, page_of_trend(found)).read_text()
    assert text.count("<svg") == 3
    assert "commit b-last is slower than commit a-second: " in text
    assert "1 runs are left out" in text
    assert "2023-11-15 22:13:20 UTC" in text  # the second build's first run
    assert (tmp_path / "trend.md").read_text().startswith("# 3 builds, by commit\n")
    names = {path.name for path in tmp_path.glob("*.csv")}
    assert names == {"trend-trend.csv", "trend-builds.csv", "trend-last-build.csv"}


def test_one_build_has_no_trend(spark: SparkSession, found: Trend) -> None:
    alone = Trend("commit", None, found.builds[:1], found.rows[:1], 0, None)
    page = page_of_trend(alone)
    assert (page.tone, page.lead) == (
        "unknown", "There is one build alone, commit c-first: no trend.",
    )  # fmt: skip
    with pytest.raises(NoSuchValue, match="no leader changed after the fault cut; proven were: k"):
        trend(tables_from_rows(spark, store_of([run_of("r", 1, commit="c")])), "commit", "cut")
    with pytest.raises(NoSuchValue, match="none of 1 runs tells both its commit and when it began"):
        trend(tables_from_rows(spark, store_of([run_of("r", 1)])), "commit")


def test_names_are_drawn_as_they_are() -> None:
    builds = ["<b>&", "$x^{", "3"]
    rows = [
        {"build": name, "fault": "$\\frac", "median": 9.0, "low": None, "high": 10.0}
        for name in builds
    ]
    drawn = medians_by_build(rows, builds, "s")
    assert "&lt;b&gt;&amp;" in drawn
    assert "$x^{" in drawn
    assert "$\\frac" in drawn
    assert medians_by_build(rows, builds, "s") == drawn
    assert medians_by_build([], builds, "s") == ""
