"""Comparing two sides of runs: a side that is made slower is found slower, and no other is."""

from __future__ import annotations

import csv
import json
import subprocess
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from highwater_pipeline.comparing.sides import (
    Comparison,
    NoSuchValue,
    compare,
    find_value,
)
from highwater_pipeline.comparing.significance import holm, two_sided
from highwater_pipeline.comparing.values import MEASURES, OF_A_FAULT
from highwater_pipeline.comparing.verdicts import (
    Answer,
    answer_of,
    compared,
    differences,
    sentence,
)
from highwater_pipeline.ingest.store import write
from highwater_pipeline.metrics.confidence import FASTER, NOT_SHOWN, SLOWER, TOO_FEW
from highwater_pipeline.report.comparisons import page_of_comparison
from highwater_pipeline.report.pages import write_page
from highwater_pipeline.tables import EVENTS, FAULTS, OPERATIONS, RUNS, Row, Tables
from tests.pipeline.command import highwater, highwater_without_java
from tests.pipeline.comparing_rows import run_of, store_of
from tests.pipeline.frames import tables_from_rows
from tests.pipeline.run_folders import clean_run

WITHIN_S = 300
RUNS_OF_A_SIDE = 10


# ---------------------------------------------------------------- how sure a difference is


@pytest.mark.parametrize(
    ("given", "adjusted"),
    [
        ([], []),
        ([0.03], [0.03]),
        ([0.01, 0.04, 0.03], [0.03, 0.06, 0.06]),
        ([0.02, 0.02], [0.04, 0.04]),
        ([0.9, 0.001, 0.8], [1.0, 0.003, 1.0]),
    ],
    ids=["none", "one", "never less than the one before", "equal", "at most 1"],
)
def test_of_many_comparisons_each_must_be_surer(given: list[float], adjusted: list[float]) -> None:
    assert holm(given) == pytest.approx(adjusted)


@pytest.mark.parametrize(("z", "p"), [(0, 1), (1.96, 0.05), (-1.96, 0.05), (3.29, 0.001)])
def test_a_z_has_its_two_sided_probability(z: float, p: float) -> None:
    assert two_sided(z) == pytest.approx(p, rel=0.01)


# ---------------------------------------------------------------- the answer of all rows


def side(group: str, measure: str = "total_ms", fault: str = "kill", **more: object) -> Row:
    numbers = {"count": 9, "median": 100.0, "low": 90.0, "high": 110.0, "lacking": 0}
    return {"group": group, "fault": fault, "measure": measure, **numbers, **more}


def outcome(z: float, measure: str = "total_ms", fault: str = "kill", verdict: str = "") -> Row:
    alone = SLOWER if z > 1.96 else FASTER if z < -1.96 else NOT_SHOWN
    return {
        "fault": fault, "measure": measure, "z": z, "b_is_greater": 0.8, "verdict": verdict or alone
    }  # fmt: skip


def test_a_difference_that_one_test_shows_is_not_shown_among_many() -> None:
    measures = [("total_ms", 2.2), *((name, 0.1) for name in OF_A_FAULT[:-1])]
    rows = [side(group, name) for name, _ in measures for group in "ab"]
    tests = [outcome(z, name) for name, z in measures]
    among_many = {row["measure"]: row for row in compared(rows, tests, "a", "b")}
    (alone,) = compared(rows[:2], tests[:1], "a", "b")
    assert (alone["verdict"], alone["p"]) == (SLOWER, pytest.approx(0.0278, rel=0.01))
    assert among_many["total_ms"]["verdict"] == NOT_SHOWN
    assert among_many["total_ms"]["p"] == pytest.approx(5 * 0.0278, rel=0.01)


def test_rows_are_by_fault_and_hold_both_sides_and_no_third() -> None:
    rows = [
        side("b", median=250.0),
        side("c"),
        side("a", lacking=2),
        side("a", "p99_ms", ""),
        side("b", "detect_ms", median=None, count=0),
        side("a", "detect_ms"),
        side("a", "elect_ms", median=0.0),
        side("b", "elect_ms"),
    ]
    found = compared(rows, [outcome(5.0)], "a", "b")
    assert [(row["fault"], row["measure"], row["verdict"], row["ratio"]) for row in found] == [
        ("", "p99_ms", TOO_FEW, None),
        ("kill", "detect_ms", TOO_FEW, None),
        ("kill", "elect_ms", TOO_FEW, None),
        ("kill", "total_ms", SLOWER, 2.5),
    ]
    assert (found[-1]["lacking_a"], found[0]["count_b"], found[0]["median_b"]) == (2, 0, None)


@pytest.mark.parametrize(
    ("verdicts", "answer", "says"),
    [
        (
            {"total_ms": SLOWER, "detect_ms": FASTER},
            Answer.SLOWER,
            "new is slower than old: total_ms after kill (greater in 80% of pairs, the median 2 "
            "times). It is faster: detect_ms after kill (greater in 80% of pairs, the median 2 "
            "times). Compared: 2 of 2.",
        ),
        (
            {"total_ms": NOT_SHOWN, "p50_ms": SLOWER},
            Answer.SLOWER,
            "new is slower than old: p50_ms after kill (greater in 80% of pairs, the median 2 "
            "times). Compared: 2 of 2.",
        ),
        (
            {"total_ms": NOT_SHOWN, "isr_restored_ms": TOO_FEW},
            Answer.NOT_SHOWN,
            "Nothing shows that new is slower than old. Compared: 1 of 2. Too few values: "
            "isr_restored_ms after kill.",
        ),
        (
            {"detect_ms": NOT_SHOWN, "total_ms": TOO_FEW},
            Answer.NOT_ENOUGH,
            "There is not enough to tell whether new is slower to fail over than old: total_ms "
            "takes 8 runs with one kind of fault on each side, and no more runs without one on new "
            "than on old. Compared: 1 of 2. Too few values: total_ms after kill.",
        ),
        (
            {},
            Answer.NOT_ENOUGH,
            "There is not enough to tell whether new is slower to fail over than old: total_ms "
            "takes 8 runs with one kind of fault on each side, and no more runs without one on new "
            "than on old. Compared: 0 of 0.",
        ),
    ],
    ids=["slower", "one measure alone", "not shown", "only a part of it", "nothing"],
)
def test_all_comparisons_are_one_sentence(
    verdicts: dict[str, str], answer: Answer, says: str
) -> None:
    rows = [
        {
            "fault": "kill", "measure": name, "verdict": each, "ratio": 2.0, "b_is_greater": 0.8,
            "lacking_a": 0, "count_a": 9, "lacking_b": 0, "count_b": 9,
        }
        for name, each in verdicts.items()
    ]  # fmt: skip
    assert answer_of(rows) is answer
    assert sentence(rows, "old", "new") == says


@pytest.mark.parametrize(
    ("of_a", "of_b", "answer"),
    [
        ((0, 9), (0, 9), Answer.NOT_SHOWN),
        ((0, 9), (1, 9), Answer.NOT_ENOUGH),
        ((1, 9), (2, 18), Answer.NOT_SHOWN),
        ((2, 9), (1, 9), Answer.NOT_SHOWN),
        ((0, 9), (9, 0), Answer.NOT_ENOUGH),
    ],
    ids=["none lack", "b lacks one", "the same share", "a lacks more", "b has none"],
)
def test_a_side_that_lacks_more_failovers_is_not_called_as_fast(
    of_a: tuple[int, int], of_b: tuple[int, int], answer: Answer
) -> None:
    sides = {
        f"{name}_{side}": number
        for side, numbers in (("a", of_a), ("b", of_b))
        for name, number in zip(("lacking", "count"), numbers, strict=True)
    }
    whole: Row = {"measure": "total_ms", "fault": "kill", "verdict": NOT_SHOWN, **sides}
    assert answer_of([whole]) is answer
    says = f"More runs of new than of old lack: total_ms after kill ({of_b[0]})."
    assert (says in sentence([whole], "old", "new")) is (answer is Answer.NOT_ENOUGH)


def test_other_columns_in_which_the_sides_differ_are_reported() -> None:
    a: list[Row] = [
        {"preset": "v3", "world": "sim", "commit": None},
        {"preset": "v3", "world": "docker"},
    ]
    b = [{"preset": "v3", "world": "docker", "commit": f"c{number}"} for number in range(5)]
    a[1]["commit"] = "c9"
    assert differences(a, b, ["preset", "world", "commit"]) == [
        "world (docker, sim; docker)",
        "commit (none, c9; c0, c1, c2 and 2 more)",
    ]


BUILDS: list[Row] = [
    {"commit": "abc1", "preset": "fenced", "brokers": 3},
    {"commit": "abd2", "preset": None, "brokers": 31},
    {"commit": "abd2-dirty", "preset": "fenced", "brokers": 31},
    {"commit": "abd2-dirty", "preset": "fenced", "brokers": 31},
]


@pytest.mark.parametrize(
    ("by", "wanted", "found"),
    [
        ("commit", "abc1", "abc1"),
        ("commit", "abc", "abc1"),
        ("commit", "abd2", "abd2"),
        ("commit", "abd2-", "abd2-dirty"),
        ("commit", "ac", None),
        ("commit", "", None),
        ("preset", "fen", None),
        ("preset", "", ""),
        ("brokers", "3", "3"),
    ],
)
def test_a_side_is_a_value_that_runs_have(by: str, wanted: str, found: str | None) -> None:
    if found is not None:
        assert find_value(BUILDS, by, wanted) == found
        return
    there = {
        "commit": r"abc1 \(1\), abd2 \(1\), abd2-dirty \(2\)",
        "preset": r"none \(1\), fenced \(3\)",
    }
    with pytest.raises(NoSuchValue, match=f"no run has the {by} .*; there are: {there[by]}$"):
        find_value(BUILDS, by, wanted)


@pytest.mark.parametrize(
    ("wanted", "begin_so"),
    [
        ("abd", r"abd2 \(1\), abd2-dirty \(2\)"),
        ("ab", r"abc1 \(1\), abd2 \(1\), abd2-dirty \(2\)"),
    ],
)
def test_a_commit_of_which_several_are_meant_is_ambiguous(wanted: str, begin_so: str) -> None:
    says = f"the commit {wanted} is ambiguous; so begin: {begin_so}$"
    with pytest.raises(NoSuchValue, match=says):
        find_value(BUILDS, "commit", wanted)


# ---------------------------------------------------------------- over tables


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> Tables:
    """Give runs of four presets: base, slow by a second, alike, and one with few runs."""
    runs = [
        run_of(f"{preset}-{n}", start_ms + 20 * n, partitions=2, preset=preset, commit="c")
        for preset, start_ms, count in (
            ("base", 2_000, RUNS_OF_A_SIDE),
            ("slow", 3_000, RUNS_OF_A_SIDE),
            ("alike", 2_001, RUNS_OF_A_SIDE),
            ("few", 9_000, 5),
        )
        for n in range(count)
    ]
    runs += [run_of(f"broken-{n}", None, preset="broken", commit="c") for n in range(8)]
    runs.append(run_of("slow-lacking", None, preset="slow", commit="c", fault="pause"))
    return tables_from_rows(spark, store_of(runs))


@pytest.fixture(scope="module")
def slower(tables: Tables) -> Comparison:
    return compare(tables, "preset", "base", "slow")


def row_of(found: Comparison, measure: str, fault: str = "kill") -> Row:
    (row,) = (row for row in found.rows if (row["fault"], row["measure"]) == (fault, measure))
    return row


def test_a_side_that_is_slower_is_found_slower_where_it_is(slower: Comparison) -> None:
    assert slower.answer is Answer.SLOWER
    assert (slower.runs_a, slower.runs_b, slower.differences) == (10, 11, ())
    total, detect = row_of(slower, "total_ms"), row_of(slower, "detect_ms")
    # Two partitions, a millisecond apart, are one value of the run.
    assert (total["count_a"], total["median_a"], total["median_b"]) == (10, 2_090.5, 3_090.5)
    assert (total["low_a"], total["high_a"]) == (2_000.5, 2_180.5)
    assert (total["verdict"], total["b_is_greater"]) == (SLOWER, 1.0)
    assert total["ratio"] == pytest.approx(3_090.5 / 2_090.5)
    assert (detect["verdict"], detect["median_a"], detect["z"]) == (NOT_SHOWN, 500.0, 0.0)
    outage = row_of(slower, "longest_outage_ms", fault="")
    assert (outage["verdict"], outage["median_a"]) == (SLOWER, 2_090.5 + 0.5 + 100)
    assert row_of(slower, "p99_ms", fault="")["verdict"] == NOT_SHOWN
    said = "total_ms after kill (greater in 100% of pairs, the median 1.48 times)"
    assert said in slower.sentence


def test_a_failover_without_acknowledgement_is_lacking(slower: Comparison) -> None:
    lost = row_of(slower, "total_ms", fault="pause")
    assert (lost["count_b"], lost["lacking_b"], lost["lacking_a"]) == (0, 1, 0)
    assert lost["verdict"] == TOO_FEW


def test_a_side_that_never_comes_back_is_slower(tables: Tables) -> None:
    found = compare(tables, "preset", "base", "broken")
    assert found.answer is Answer.SLOWER
    outage = row_of(found, "longest_outage_ms", fault="")
    assert (outage["count_b"], outage["verdict"], outage["median_b"]) == (8, SLOWER, 59_100.0)
    assert row_of(found, "total_ms")["lacking_b"] == 8
    assert "More runs of preset broken than of preset base lack: " in found.sentence


def test_a_side_that_is_alike_is_not_found_slower(tables: Tables) -> None:
    found = compare(tables, "preset", "base", "alike")
    assert found.answer is Answer.NOT_SHOWN
    assert {row["verdict"] for row in found.rows} == {NOT_SHOWN}
    assert {row["measure"] for row in found.rows} == set(MEASURES)


def test_few_runs_are_not_enough_and_one_fault_leaves_whole_runs_out(tables: Tables) -> None:
    found = compare(tables, "preset", "base", "few", fault="kill")
    assert found.answer is Answer.NOT_ENOUGH
    assert {row["measure"] for row in found.rows} == set(OF_A_FAULT)
    none = "no leader changed after the fault cut; proven were: kill, pause"
    with pytest.raises(NoSuchValue, match=none):
        compare(tables, "preset", "base", "few", fault="cut")


# ---------------------------------------------------------------- as a page, as it is typed


def test_a_page_shows_names_of_runs_as_they_are_and_runs_nothing(tmp_path: Path) -> None:
    name = "<script>alert(1)</script>|*`"
    rows = compared([side("a"), side(name)], [outcome(5.0)], "a", name)
    found = Comparison(
        "title", "a", name, 1, 1, None, answer_of(rows), sentence(rows, "a", name),
        (f"commit ({name}; none)",), rows,
    )  # fmt: skip
    page = write_page(tmp_path, page_of_comparison(found))
    text, plain = page.read_text(), (tmp_path / "compare.md").read_text()
    assert page.name == "compare.html"
    assert "<script" not in text + plain
    assert '<p class="fail">&lt;script&gt;' in text
    assert r"&lt;script&gt;alert(1)&lt;/script&gt;\|\*\`" in plain
    with (tmp_path / "compare-comparisons.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert (row["verdict"], row["count_a"], row["median_b"]) == (SLOWER, "9", "100.0")
    assert write_page(tmp_path, page_of_comparison(found)).read_text() == text


def pipeline(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return highwater("pipeline", *arguments, cwd=cwd, within_s=WITHIN_S, **environment)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ("compare", "--by", "colour", "--a", "x", "--b", "y"),
            "runs are told apart by commit, preset, title, world, planted, brokers, controllers, "
            "not by 'colour'",
        ),
        (("compare", "--by", "preset", "--a", "x", "--b", "x"), "both sides are the preset x"),
        (("compare", "--by", "preset", "--a", "x", "--b", "y"), "there are no runs in runs/tables"),
        (("trend", "--by", "colour"), "not by 'colour'"),
        (("trend",), "there are no runs in runs/tables"),
    ],
    ids=["no column", "one side", "no store", "trend by no column", "trend of no store"],
)
def test_a_comparison_that_cannot_be_made_is_refused_before_spark_starts(
    tmp_path: Path, arguments: tuple[str, ...], says: str
) -> None:
    done = highwater_without_java("pipeline", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("highwater: ")
    assert says in done.stderr


@pytest.mark.full
def test_a_store_is_compared_as_it_is_typed(tables: Tables, tmp_path: Path) -> None:
    for table in (RUNS, EVENTS, FAULTS, OPERATIONS):
        write(tables[table], table, tmp_path / "tables")
    sides = ("compare", "--store", "tables", "--out", "out", "--by", "preset", "--a", "base")
    slower = pipeline(*sides, "--b", "slow", "--json", cwd=tmp_path)
    assert (slower.returncode, json.loads(slower.stdout)["answer"]) == (1, "b is slower")
    assert "preset slow is slower than preset base" in (tmp_path / "out/compare.html").read_text()
    unknown = pipeline(*sides, "--b", "nonsense", cwd=tmp_path)
    assert unknown.returncode == 2
    there = (
        "no run has the preset nonsense; there are: "
        "alike (10), base (10), broken (8), few (5), slow (11)"
    )
    assert unknown.stderr.endswith(f"highwater: {there}\n")  # after Java's output
    assert "Traceback" not in unknown.stderr


@pytest.mark.full
def test_folders_are_taken_in_first(tmp_path: Path) -> None:
    clean_run(tmp_path / "runs" / "run-1")
    done = pipeline("trend", "runs/run-1", "--by", "preset", cwd=tmp_path)
    assert done.returncode == 2
    assert "1 ingested" in done.stderr
    assert "There is one build alone, preset " in done.stdout
    assert (tmp_path / "runs" / "pipeline" / "trend.html").exists()
