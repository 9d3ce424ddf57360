"""The report says what the analysis holds, in pages, texts and tables."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from highwater_checker.verdict import Outcome
from highwater_pipeline.analysis import Analysis, Sample
from highwater_pipeline.report.sections import shown_value
from highwater_pipeline.report.writing import write_report
from highwater_pipeline.tables import Row

NOTHING = Sample((), 0)
VERDICT: Row = {
    "run_id": "run-1", "outcome": "pass", "findings": 0, "vacuous_checks": 0, "quarantined": 0,
    "recorded": "pass",
}  # fmt: skip
RUN: Row = {"run_id": "run-1", "title": "a <b>title</b>", "preset": "fenced"}
FINDING: Row = {
    "run_id": "run-1", "invariant": "I1", "topic": "t", "partition": 0, "offset": 7, "broker": 2,
    "operation": "p0's send 3", "message": "'a|b' was acknowledged; there is nothing",
    "check": "acknowledged records are on every replica (I1)",
}  # fmt: skip
MEDIAN: Row = {
    "split": "detect_ms", "fault": "kill", "preset": "fenced", "count": 9, "median": 2013.4,
    "low": 1900.0, "high": None,
}  # fmt: skip
FAILOVER: Row = {"fault": "kill", "total_ms": 2_500.0}
OUTAGE: Row = {
    "run_id": "run-1", "topic": "t", "partition": 0, "from_ns": 10**9, "to_ns": 3 * 10**9,
    "outage_ms": 2_000.0, "fault": "kill",
}  # fmt: skip


def analysis(**more: object) -> Analysis:
    empty: dict[str, object] = {
        "runs": Sample((RUN,), 1), "verdicts": (VERDICT,), "examined": (), "findings": NOTHING,
        "quarantine": NOTHING, "failovers": NOTHING, "medians": (), "latencies": (),
        "outages": NOTHING, "replication": (),
    }  # fmt: skip
    return Analysis(**{**empty, **more})  # type: ignore[arg-type]


def test_a_report_without_anything_says_none(tmp_path: Path) -> None:
    page = write_report(tmp_path, "run-1", analysis()).read_text()
    assert '<p class="pass">pass: 1 run, 0 violations, 0 leader changes, 0 lines' in page
    assert page.count("<p>None.</p>") == 7
    assert "a &lt;b&gt;title&lt;/b&gt;" in page
    assert "<svg" not in page
    assert "http" not in page.replace("http://www.w3.org", "")  # it needs nothing from elsewhere


def test_violations_and_pictures_are_in_the_page_and_all_of_it_in_files(tmp_path: Path) -> None:
    found = analysis(
        verdicts=({**VERDICT, "outcome": "fail", "findings": 1},),
        findings=Sample((FINDING,), 900),
        medians=(MEDIAN,),
        failovers=Sample((FAILOVER,) * 3, 3),
        outages=Sample((OUTAGE,), 1),
    )
    page = write_report(tmp_path, "run-1", found).read_text()
    assert "The first 1 of 900." in page
    assert page.count("<svg") == 3
    assert "1 of 1 differ from the run&#39;s own verdict" in page
    text = (tmp_path / "report.md").read_text()
    assert "| run-1 | I1 | t | 0 | 7 | 2 |" in text
    assert r"'a\|b' was acknowledged" in text
    with (tmp_path / "report-failovers.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert (row["median"], row["high"]) == ("2013.4", "")


def test_equal_analyses_give_equal_bytes(tmp_path: Path) -> None:
    found = analysis(medians=(MEDIAN,), failovers=Sample((FAILOVER,), 1))
    pages = [write_report(tmp_path / name, "x", found).read_bytes() for name in ("a", "b")]
    assert pages[0] == pages[1]


@pytest.mark.parametrize(
    ("outcomes", "outcome"),
    [
        (("pass", "pass"), Outcome.PASS),
        (("pass", "unknown"), Outcome.UNKNOWN),
        (("unknown", "fail"), Outcome.FAIL),
        ((), Outcome.UNKNOWN),
    ],
    ids=["pass", "unknown", "fail", "none"],
)
def test_many_runs_are_as_good_as_the_worst(outcomes: tuple[str, ...], outcome: Outcome) -> None:
    rows = tuple({**VERDICT, "outcome": each} for each in outcomes)
    assert analysis(verdicts=rows).outcome is outcome


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), ("", "–"), (0, "0"), (12_345, "12,345"), (0.01234, "0.0123"), (2013.4, "2,013")],
    ids=["null", "empty", "zero", "large", "fraction", "milliseconds"],
)
def test_cells_are_short(value: object, text: str) -> None:
    assert shown_value(value) == text
