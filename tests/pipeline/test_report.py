"""The report shows the whole analysis, in pages, texts and tables."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from highwater.report.pipeline_runs import links_to
from highwater_checker.verdict import Outcome
from highwater_pipeline.analysis import Analysis, Sample
from highwater_pipeline.comparing.sides import Comparison
from highwater_pipeline.comparing.verdicts import Answer, sentence
from highwater_pipeline.metrics.confidence import NOT_SHOWN, SLOWER, TOO_FEW
from highwater_pipeline.report import plots
from highwater_pipeline.report.campaign import CampaignRows, page_of_campaign
from highwater_pipeline.report.comparisons import page_of_comparison, page_of_trend
from highwater_pipeline.report.sections import Section, sections_of, shown_value
from highwater_pipeline.report.writing import write_report
from highwater_pipeline.tables import Row
from highwater_pipeline.trend import Trend

NOTHING = Sample((), 0)
VERDICT: Row = {
    "run_id": "run-1", "outcome": "pass", "findings": 0, "vacuous_checks": 0, "quarantined": 0,
    "recorded": "pass", "by_tables": "pass", "reasons": "",
}  # fmt: skip
OF_RUN: Row = {"preset": "fenced", "topology": "3 brokers, 1 controllers", "version": None}
RUN: Row = {"run_id": "run-1", "title": "a <b>title</b>", "preset": "fenced"}
FINDING: Row = {
    "run_id": "run-1", "invariant": "I1", "topic": "t", "partition": 0, "offset": 7, "broker": 2,
    "operation": "p0's send 3", "message": "'a|b' was acknowledged; there is nothing",
    "check": "acknowledged records are on every replica (I1)",
}  # fmt: skip
MEDIAN: Row = {
    "split": "detect_ms", "fault": "kill", "count": 9, "median": 2013.4, "low": 1900.0,
    "high": None, **OF_RUN,
}  # fmt: skip
FAILOVER: Row = {"run_id": "run-1", "fault": "kill", "total_ms": 2_500.0, **OF_RUN}
OUTAGE: Row = {
    "run_id": "run-1", "topic": "t", "partition": 0, "from_ns": 10**9, "to_ns": 3 * 10**9,
    "outage_ms": 2_000.0, "fault": "kill",
}  # fmt: skip


def analysis(**more: object) -> Analysis:
    empty: dict[str, object] = {
        "runs": Sample((RUN,), 1), "verdicts": (VERDICT,), "examined": (), "findings": NOTHING,
        "quarantine": NOTHING, "failovers": NOTHING, "medians": (), "latencies": (), "fetches": (),
        "outages": NOTHING, "replication": (), "lag_over_time": NOTHING,
        "alerts": NOTHING,
    }  # fmt: skip
    return Analysis(**{**empty, **more})  # type: ignore[arg-type]


def test_a_report_without_anything_has_verdicts_and_says_that_nothing_was_violated(
    tmp_path: Path,
) -> None:
    page = write_report(tmp_path, "run-1", analysis()).read_text()
    assert '<p class="pass">pass: 1 run, 0 violations, 0 leader changes, 0 lines' in page
    assert re.findall("<h2>(.*)</h2>", page) == ["Verdicts", "Violations"]
    assert page.count("<p>None.</p>") == 1
    left_out = "There is nothing to show of: Checks, Failovers, Outages, Alerts, Latency and"
    assert left_out in page
    text = (tmp_path / "report.md").read_text()
    assert left_out in text
    assert "## Alerts" not in text
    assert (tmp_path / "report-alerts.csv").exists(), "programs find it empty"
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
    assert "1 of 1 differ from the verdict that was recorded." in page
    assert "1 of 1 differ by the tables alone" in page
    text = (tmp_path / "report.md").read_text()
    what = r"'a\|b' was acknowledged; there is nothing"
    assert f"| run-1 | I1 | {what} | t-0, offset 7, broker 2 | p0's send 3 |" in text
    with (tmp_path / "report-violations.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert (row["topic"], row["offset"], row["check"]) == ("t", "7", FINDING["check"])
    with (tmp_path / "report-failovers.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert (row["median"], row["high"]) == ("2013.4", "")


def test_runs_whose_pages_are_at_hand_lead_to_them_and_have_their_presets(tmp_path: Path) -> None:
    found = analysis(
        verdicts=(VERDICT, {**VERDICT, "run_id": "run-2"}), findings=Sample((FINDING,), 1)
    )
    links = {"run-1": "../runs/run-1/report.html"}
    page = write_report(tmp_path, "2 runs", found, links).read_text()
    assert page.count('<a href="../runs/run-1/report.html">run-1</a>') == 2
    assert page.count("<a ") == 2
    text = (tmp_path / "report.md").read_text()
    assert text.count("[run-1](../runs/run-1/report.html)") == 2
    first, second = sections(verdicts=found.verdicts)["Verdicts"].table
    assert (first["preset"], second["preset"]) == ("fenced", ""), "the second is not among the runs"


def test_the_address_of_a_runs_page_leads_there_from_the_report(tmp_path: Path) -> None:
    for name in ("a b", "without"):
        (tmp_path / "runs" / name).mkdir(parents=True)
    (tmp_path / "runs" / "a b" / "report.html").write_text("")
    (tmp_path / "latest").symlink_to(tmp_path / "runs" / "a b")
    out = tmp_path / "pipeline" / "of today"
    folders = [tmp_path / "latest", tmp_path / "runs" / "without"]
    assert links_to(folders, out) == {"a b": "../../runs/a%20b/report.html"}


def test_equal_analyses_give_equal_bytes(tmp_path: Path) -> None:
    found = analysis(medians=(MEDIAN,), failovers=Sample((FAILOVER,), 1))
    pages = [write_report(tmp_path / name, "x", found).read_bytes() for name in ("a", "b")]
    assert pages[0] == pages[1]


def sections(**more: object) -> dict[str, Section]:
    return {section.title: section for section in sections_of(analysis(**more))}


def test_failed_runs_come_before_measurements() -> None:
    runs = tuple(
        {**VERDICT, "run_id": f"run-{number}", "outcome": outcome}
        for number, outcome in enumerate(("pass", "fail", "unknown", "fail"))
    )
    found = sections(verdicts=runs)
    assert list(found)[:3] == ["Verdicts", "Violations", "Checks"]
    assert [row["run_id"] for row in found["Verdicts"].rows] == ["run-1", "run-3", "run-2", "run-0"]


def test_the_first_line_counts_runs_by_their_outcome(tmp_path: Path) -> None:
    runs = tuple({**VERDICT, "outcome": outcome} for outcome in ("unknown", "fail", "pass", "fail"))
    many = analysis(runs=Sample((RUN,), 4), verdicts=runs, findings=Sample((), 27_276))
    page = write_report(tmp_path, "4 runs", many).read_text()
    assert "fail: 4 runs (1 pass, 2 fail, 1 unknown), 27,276 violations, 0 leader" in page


def test_checks_that_found_something_come_first() -> None:
    looked = ("log start <= HW", 3, 0), (FINDING["check"], 0, 900)
    examined = tuple(
        {"run_id": "run-1", "check": name, "examined": number, "found": found}
        for name, number, found in looked
    )
    checks = sections(examined=examined, findings=Sample((FINDING,), 900))["Checks"]
    assert [(row["check"], row["vacuous"], row["violations"]) for row in checks.rows] == [
        (FINDING["check"], 1, 900), ("log start <= HW", 0, 0),
    ]  # fmt: skip


def test_a_violation_of_no_place_names_none() -> None:
    nowhere = {**FINDING, "topic": "", "partition": -1, "offset": -1, "broker": -1}
    (row,) = sections(findings=Sample((nowhere,), 1))["Violations"].table
    assert row["place"] == ""


def test_failovers_of_a_fault_and_preset_are_one_row() -> None:
    whole = {**MEDIAN, "split": "total_ms", "count": 7, "median": 2_100.0, "high": 2_600.0}
    failovers = sections(medians=(MEDIAN, whole, {**MEDIAN, "preset": None}))["Failovers"]
    assert [row["preset"] for row in failovers.table] == ["", "fenced"]
    row = failovers.table[1]
    assert (row["failovers"], row["total_ms"], row["detect_ms"]) == (
        9,
        "2,100 (1,900–2,600)",
        "2,013",
    )
    assert failovers.rows == (MEDIAN, whole, {**MEDIAN, "preset": None})


def test_groups_are_named_by_the_columns_that_differ() -> None:
    larger = {**MEDIAN, "topology": "5 brokers, 3 controllers"}
    alike, of_two = (
        sections(medians=medians)["Failovers"] for medians in ((MEDIAN,), (MEDIAN, larger))
    )
    assert list(alike.table[0])[:3] == ["fault", "preset", "failovers"]
    assert [row["topology"] for row in of_two.table] == [MEDIAN["topology"], larger["topology"]]
    assert "kill / fenced / 5 brokers, 3 controllers" in of_two.svg
    builds = [{**MEDIAN, "version": commit} for commit in COMMITS.values()]
    versions = [row["version"] for row in sections(medians=tuple(builds))["Failovers"].table]
    assert versions == ["ac3478d69a3c", "c1dfd96eea8c-dirty"]


def test_leader_changes_without_a_fault_are_reported() -> None:
    without = {**FAILOVER, "fault": None, "total_ms": None}
    some = sections(failovers=Sample((FAILOVER, without), 2))["Failovers"]
    assert "Before 1 of 2 leader changes no fault was proven" in some.note
    none = sections(failovers=Sample((without,), 1))["Failovers"]
    assert "Before all leader changes no fault was proven" in none.note
    assert "no fault was proven" not in sections(failovers=Sample((FAILOVER,), 1))["Failovers"].note


def test_rows_of_pictures_go_downwards_and_names_are_no_formulas() -> None:
    many = tuple(
        {**OUTAGE, "run_id": f"run-{number:02}-$x_1$", "outage_ms": 1_000.0 + number}
        for number in range(42)
    )
    picture = plots.outages_by_run(many)
    names = re.findall(r"run-(\d\d)-\$x_1\$", re.sub("<!--.*?-->", "", picture))
    assert names == [f"{number:02}" for number in range(2, 42)]  # without the two shortest
    heights = [float(y) for y in re.findall(r' y="([\d.]+)"[^>]*>run-', picture)]
    assert len(heights) == 40
    assert heights == sorted(heights)
    assert "the 40 runs with most of it" in picture


def test_lag_is_drawn_of_the_runs_that_lagged_most() -> None:
    stretches = [
        {"run_id": f"run-{number:02}", "from_ns": at * 10**9, "log_lag": number * at,
         "high_watermark_lag": 0}
        for number in range(12)
        for at in range(3)
    ]  # fmt: skip
    picture = plots.lag_over_time(stretches)
    names = re.findall(r"run-(\d\d)", re.sub("<!--.*?-->", "", picture))
    assert names == [f"{number:02}" for number in range(4, 12)]
    assert "the 8 runs that lagged most" in picture
    assert plots.lag_over_time([{**row, "log_lag": 0} for row in stretches]) == ""


def points(picture: str) -> list[tuple[float, float]]:
    """Return the places of the markers, in the order in which they were drawn."""
    found = re.findall(r'<use xlink:href="#\w+" x="([\d.]+)" y="([\d.]+)"', picture)
    return [(float(x), float(y)) for x, y in found]


def test_a_median_is_a_dot_with_the_interval_that_holds_it() -> None:
    failovers = [{"group": "kill", "fault": "kill", "total_ms": float(ms)} for ms in (1, 2, 6)]
    told = {"group": "kill", "split": "total_ms", "median": 2.0, "low": 1.0, "high": 6.0}
    with_interval = points(plots.failovers_by_fault(failovers, [told]))
    without = points(plots.failovers_by_fault(failovers, []))
    assert set(without) < set(with_interval)
    ends = [x for x, _ in sorted(set(with_interval) - set(without))]
    zero, six = min(x for x, _ in without), max(x for x, _ in without)
    assert ends == pytest.approx([zero + (six - zero) / 6, six]), "from 1 to 6"
    assert plots.failovers_by_fault([{**failovers[0], "fault": None}], [told]) == ""


def test_two_sides_have_a_dot_each_and_a_missing_median_has_none() -> None:
    row = compared_row("kill", NOT_SHOWN)
    lacking = {**row, "fault": "pause", "median_b": None, "low_b": None, "high_b": None}
    picture = plots.sides_beside([row, lacking], ["build $x_1$", "build b"])
    assert "a: build $x_1$" in re.sub("<!--.*?-->", "", picture)
    assert "pause: total_ms" in picture
    assert plots.sides_beside([{**lacking, "median_a": None}], ["a", "b"]) == ""
    alone = plots.sides_beside([lacking], ["a", "b"])
    assert len(points(picture)) > len(points(alone)) > 0


def test_medians_far_apart_are_on_a_logarithmic_axis() -> None:
    row = compared_row("kill", NOT_SHOWN)
    small = {**row, "fault": "", "measure": "p99_ms", "median_a": 9.0, "low_a": None}
    assert "0.01</text>" in plots.sides_beside([row, small], ["a", "b"])
    assert "0.01</text>" not in plots.sides_beside([row], ["a", "b"])


# ---------------------------------------------------------------- other pages

COMMITS = {"a": "ac3478d69a3c81fa62e60f5c3696165a4e5e6ac4", "b": f"{'c1dfd96eea8c' * 3}1256-dirty"}


def compared_row(fault: str, verdict: str) -> Row:
    row: Row = {"fault": fault, "measure": "total_ms", "verdict": verdict}
    for side in COMMITS:
        told = {"count": 8, "median": 2_820.4, "low": 2_745.0, "high": None, "lacking": 0}
        row |= {f"{name}_{side}": value for name, value in told.items()}
    return row | {"high_b": 2_949.0, "lacking_b": 1, "ratio": 1.0, "b_is_greater": 0.5, "p": 1.0}


def comparison() -> Comparison:
    rows = (
        compared_row("isolate", TOO_FEW), compared_row("kill", NOT_SHOWN),
        compared_row("pause", SLOWER),
    )  # fmt: skip
    names = [f"commit {commit}" for commit in COMMITS.values()]
    return Comparison(
        "commit", COMMITS["a"], COMMITS["b"], 8, 9, None, Answer.SLOWER, sentence(rows, *names),
        (), rows,
    )  # fmt: skip


def test_a_comparison_answers_first_and_gives_its_reasons_apart() -> None:
    page = page_of_comparison(comparison())
    assert page.lead.startswith("commit c1dfd96eea8c-dirty is slower than commit ac3478d69a3c: tot")
    assert page.lead.endswith("1 times).")
    assert page.notes[0].startswith("More runs of commit c1dfd96eea8c-dirty")
    assert COMMITS["a"] not in str((page.title, page.lead, page.notes))


def test_the_slower_measure_is_the_first_row_with_both_sides_in_it() -> None:
    (section,) = page_of_comparison(comparison()).sections
    assert [row["fault"] for row in section.table] == ["pause", "kill", "isolate"]
    assert section.cells[0] == (
        "pause", "total_ms", "b is slower", "2,820", "2,820 (2,745–2,949)", "1", "0.5", "1", "8, 8",
        "0, 1",
    )  # fmt: skip
    assert section.rows[0]["fault"] == "isolate"  # as they were, for programs


def test_a_trend_has_a_row_a_build() -> None:
    rows = tuple(
        {"fault": fault, "measure": measure, "build": build, "count": 8, "median": 70.0,
         "low": 60.0, "high": 80.0, "lacking": 0}
        for fault, measure in (("kill", "total_ms"), ("", "p99_ms"))
        for build in COMMITS.values()
    )  # fmt: skip
    builds = tuple({"build": build, "runs": 8, "first_ns": 0} for build in COMMITS.values())
    page = page_of_trend(Trend("commit", None, builds, rows, 0, comparison()))
    assert [section.title for section in page.sections] == ["Trend", "Last build", "Builds"]
    assert page.sections[0].table == [
        {"build": name, "kill total_ms": "70 (60–80)", "p99_ms": "70 (60–80)"}
        for name in ("ac3478d69a3c", "c1dfd96eea8c-dirty")
    ]
    assert "c1dfd96eea8c-dirty</text>" in page.sections[0].svg


def test_a_campaign_shows_undocumented_failures_first_and_how_to_replay_them() -> None:
    kind: Row = {
        "invariant": "I4", "rows": "", "named": "", "schedules": 2, "first_seed": 4711,
        "family": "joins", "message": "m", "plan": "p.json", "replay": "sim replay",
    }  # fmt: skip
    found = [{**kind, "outcome": "documented"}, {**kind, "outcome": "fail"}]
    shrunk = [{"seed": 12_345, "is_minimal": True, "steps": 12_345}]
    rows = CampaignRows(found, shrunk, (), (), (), (), 2)
    of_found, of_shrunk = page_of_campaign("c", Outcome.FAIL, "fail", (), rows).sections[:2]
    assert [row["outcome"] for row in of_found.table] == ["fail", "documented"]
    assert of_found.table[0]["replay"] == "sim replay"
    assert of_shrunk.cells == [("12345", "yes", "12,345")]
    assert of_shrunk.numbers == ("seed", "steps")


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
