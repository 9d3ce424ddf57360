"""Campaigns: the rows that a search gives, each kept once despite kills, and failing schedules."""

from __future__ import annotations

import functools
import gc
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from highwater.runs.plans.replaying import replay
from highwater.search import schedule_rows
from highwater.search.campaign_report import Sums, search_of, totals_of
from highwater.search.campaign_session import RUN_ON, SHIPPED
from highwater.search.campaigns import (
    MAKE_ROWS,
    Asked,
    name_of,
    report_on,
    run_in,
    settings_of,
)
from highwater.search.options import Families
from highwater.search.plans import read_simulated_plan
from highwater.search.report import print_report, report_of
from highwater_checker.verdict import Outcome
from highwater_core.config import Preset
from highwater_pipeline.campaign import sums
from highwater_pipeline.campaign.running import RowsMissing, Work, read_rows, run_groups
from highwater_pipeline.campaign.shipping import digest_of, is_here, zip_of
from highwater_pipeline.campaign.state import (
    CannotGoOn,
    Group,
    GroupReceipt,
    Settings,
    differences,
    group_receipts,
    open_campaign,
)
from highwater_pipeline.campaign.tables import DATA_VERSION, SCHEDULES
from highwater_pipeline.ingest.decoding import Row
from highwater_simulator.generate import Family
from highwater_simulator.search import Chunk, Kind, schedules_of, total
from tests.pipeline.command import highwater_without_java

WITHIN_S = 300


def settings(seeds: int = 2, *, group_length: int = 4, preset: str = "fenced") -> Settings:
    return Settings(
        first_seed=1,
        seeds=seeds,
        families=tuple(str(family) for family in Family),
        preset=preset,
        planted="",
        code="c",
        data_version=DATA_VERSION,
        group_length=group_length,
    )


def heard_nothing(receipt: GroupReceipt) -> None:
    pass


def numbers_in(spark: SparkSession, store: Path) -> list[int]:
    rows = read_rows(spark, store, SCHEDULES, "c").select("number", "group").collect()
    assert all(row["group"] == row["number"] // 4 for row in rows)
    return sorted(row["number"] for row in rows)


# ---------------------------------------------------------------- schedules


def test_rows_and_sums_are_those_of_a_search_without_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    own = settings(3, group_length=6, preset="v3")
    schedules = schedules_of(1, 9, tuple(Family))
    summaries = list(Chunk(tuple(schedules), Preset.V3).summaries(lambda: 0))
    receipts: list[GroupReceipt] = []
    work = Work(functools.partial(schedule_rows.rows_of, own))
    run_groups(spark, tmp_path, "c", own, work, receipts.append)
    frame = read_rows(spark, tmp_path, SCHEDULES, "c").orderBy("number").cache()
    rows = [row.asDict() for row in frame.collect()]
    assert [row["number"] for row in rows] == list(range(9))
    for row, summary in zip(rows, summaries, strict=True):
        expected = schedule_rows.row_of(summary, own)
        expected["cpu_ns"] = row["cpu_ns"]
        assert {name: row[name] for name in expected} == expected
        assert row["cpu_ns"] > 0
    assert [(receipt.group, receipt.schedules) for receipt in receipts] == [(0, 6), (1, 3)]
    assert sum(receipt.events for receipt in receipts) == sum(each.events for each in summaries)

    summed = Sums(sums.by_family(frame), sums.by_entry(frame), sums.chosen(frame, 1), [], [])
    frame.unpersist()
    totals, searched = totals_of(summed), total(summaries)
    for name in ("failing", "excused", "events", "simulated_ns", "acknowledged", "flagged"):
        assert getattr(totals, name) == getattr(searched, name), name
    for name in ("fired", "missed", "not_reached", "by_family", "reached", "kinds"):
        assert getattr(totals, name) == getattr(searched, name), name
    assert searched.kinds, "these seeds break nothing under v3 any more: the test needs others"
    firsts = {kind: summary.schedule for kind, summary in searched.first.items()}
    assert {kind: summary.schedule for kind, summary in totals.first.items()} == firsts


def test_a_planted_bug_is_found_and_shrunk_and_its_plans_fail_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    asked = Asked(
        seeds=2,
        first_seed=3,
        preset=Preset.FENCED,
        families=Families.PROCESSES,
        planted="truncate_nothing",
        name="planted",
        store=tmp_path / "tables",
        out=tmp_path / "out",
        master="local[2]",
        group_length=512,
        shrink_runs=12,
    )
    with open_campaign(asked.store, asked.name, settings_of(asked)) as own:
        found = run_in(spark, asked, asked.store, asked.name, own)
        report = report_on(asked, asked.store, asked.name, own, found, 0)
    assert report.verdict is Outcome.FAIL
    assert report.search.violations
    plans = [Path(each.plan) for each in report.search.violations]
    plans += [Path(each.plan) for each in report.shrunk]
    assert len(plans) > len(report.search.violations)
    for path in plans:
        replayed = replay(read_simulated_plan(path))
        assert replayed.bug == "truncate_nothing"
        assert replayed.exit_code == 1, path
        expected = replayed.result.plan.expected
        assert expected is not None
        assert replayed.found is not None
        assert replayed.found.violation.invariant == expected.invariant
    for each in report.shrunk:
        assert (each.steps_after or 0) <= (each.steps_before or 0)
    text = (tmp_path / "out" / "planted" / "campaign.md").read_text()
    failing = sum(each.schedules for each in report.search.violations)
    assert f"fail: {failing} of 2 schedules" in text
    assert (tmp_path / "out" / "planted" / "campaign-coverage.csv").read_text().count("\n") > 20
    assert json.loads((tmp_path / "out" / "planted" / "search.json").read_text())["schedules"] == 2


def test_a_schedule_that_hangs_is_lost_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"campaign": "c", "group": 0, "first": 0, "after": 2}
    run = schedule_rows._outcome_of
    monkeypatch.setattr(schedule_rows, "SCHEDULE_WITHIN_CPU_S", 0.01)
    first, second = schedule_rows.rows_of(settings(), given)
    for row in (first, second):
        assert row["outcome"] == "lost"
        assert row["message"].startswith("TookTooLong: it did not end within 0.01 s of CPU time")
        assert row["marks"] == []
    monkeypatch.setattr(schedule_rows, "SCHEDULE_WITHIN_CPU_S", 60.0)
    schedule = schedule_rows.schedule_of(settings(), 0)
    assert run(schedule, settings())["outcome"] == "pass"


DESTROYED_LATE = """
import time

class Destroyed:
    def __del__(self):
        until_ns = time.process_time_ns() + 100_000_000
        while time.process_time_ns() < until_ns:
            pass

def hang():
    Destroyed()
    while True:
        pass
"""


def as_ours(code: str) -> dict[str, Any]:
    """Return the names that the code defines, in a module of our name: the signal looks at it."""
    ours: dict[str, Any] = {"__name__": f"{schedule_rows.OURS}_hanging"}
    exec(code, ours)  # noqa: S102
    return ours


def test_a_schedule_that_takes_too_long_in_a_destructor_is_ended_after_it() -> None:
    ours = as_ours(DESTROYED_LATE)
    with pytest.raises(schedule_rows.TookTooLong), schedule_rows.within_cpu(0.01):
        ours["hang"]()


HANGING = """
async def work():
    pass

def hang(coroutine):
    while True:
        pass
"""


def test_a_schedule_may_be_cut_between_the_making_of_a_coroutine_and_its_first_step() -> None:
    ours = as_ours(HANGING)
    with pytest.raises(schedule_rows.TookTooLong), schedule_rows.within_cpu(0.01):
        ours["hang"](ours["work"]())
    gc.collect()


@pytest.mark.parametrize("kind", [Kind("I1"), Kind("I11", (1,)), Kind("a b (c)", (4, 12))])
def test_a_kind_is_read_back_from_its_text(kind: Kind) -> None:
    assert schedule_rows.kind_of(str(kind)) == kind


def test_a_campaigns_schedules_are_a_searchs() -> None:
    own = settings(4)
    assert [schedule_rows.schedule_of(own, number) for number in range(own.schedules)] == (
        schedules_of(1, 12, tuple(Family))
    )


# ---------------------------------------------------------------- kept rows


def counting(folder: Path, lacking: int = -1) -> Callable[[Row], Iterable[Row]]:
    """Return rows of nothing in particular, whose making leaves a file each.

    A function in a function, which Spark sends whole: workers cannot import the tests.
    """

    def rows_of(given: Row) -> Iterator[Row]:
        for number in range(given["first"], given["after"]):
            path = folder / f"{number}-{len(list(folder.glob(f'{number}-*')))}"
            path.touch(exist_ok=False)
            if number != lacking:
                kept = {"campaign": given["campaign"], "group": given["group"], "number": number}
                yield kept | {"outcome": "pass", "events": 1, "cpu_ns": 1}

    return rows_of


class Killed(Exception):
    pass


def test_a_killed_campaign_runs_just_the_schedules_without_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    own, store, ran = settings(4), tmp_path / "tables", tmp_path / "ran"
    ran.mkdir()

    def killed(receipt: GroupReceipt) -> None:
        raise Killed

    with pytest.raises(Killed):
        run_groups(spark, store, "c", own, Work(counting(ran)), killed)
    assert list(group_receipts(store, "c")) == [0]
    # Half of the second group, as a kill between a write and its receipt leaves it.
    table = store / SCHEDULES.name / "campaign=c"
    shutil.copytree(table / "group=0", table / "group=1")
    for path in ran.iterdir():
        path.unlink()

    run_groups(spark, store, "c", own, Work(counting(ran)), heard_nothing)
    assert sorted(path.name for path in ran.iterdir()) == sorted(f"{n}-0" for n in range(4, 12))
    assert numbers_in(spark, store) == list(range(12))
    run_groups(
        spark, store, "c", own, Work(counting(ran)), killed
    )  # no group is left to be reported


def test_a_group_that_lacks_a_schedule_is_not_done(spark: SparkSession, tmp_path: Path) -> None:
    own, ran = settings(1), tmp_path / "ran"
    ran.mkdir()
    with pytest.raises(RowsMissing, match="group 0 came back with 2 schedules in 2 rows, not 3"):
        run_groups(spark, tmp_path, "c", own, Work(counting(ran, lacking=1)), heard_nothing)
    assert group_receipts(tmp_path, "c") == {}


def test_a_group_with_a_schedule_twice_in_place_of_another_is_not_done(
    spark: SparkSession, tmp_path: Path
) -> None:
    def rows_of(given: Row) -> Iterator[Row]:
        for number in (0, 0, 2):
            yield {"campaign": "c", "group": 0, "number": number, "outcome": "pass"}

    with pytest.raises(RowsMissing, match="group 0 came back with 2 schedules in 3 rows, not 3"):
        run_groups(spark, tmp_path, "c", settings(1), Work(rows_of), heard_nothing)
    assert group_receipts(tmp_path, "c") == {}


def test_a_group_without_rows_is_not_done(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(RowsMissing, match="group 0 came back with 0 schedules in 0 rows, not 3"):
        run_groups(spark, tmp_path, "c", settings(1), Work(lambda given: ()), heard_nothing)


def test_a_receipt_counts_the_rows_of_the_table(spark: SparkSession, tmp_path: Path) -> None:
    def rows_of(given: Row) -> Iterator[Row]:
        for number in range(given["first"], given["after"]):
            row = {"campaign": "c", "group": given["group"], "number": number}
            outcome = ("pass", "fail", "lost", "fail")[number]
            yield row | {"outcome": outcome, "events": 10 + number, "cpu_ns": 100 * number}

    own = Settings(1, 4, ("disks",), "fenced", "", "c", DATA_VERSION, 4)
    heard: list[GroupReceipt] = []
    run_groups(spark, tmp_path, "c", own, Work(rows_of), heard.append)
    (receipt,) = heard
    assert (receipt.schedules, receipt.failing, receipt.lost) == (4, 2, 1)
    assert (receipt.events, receipt.cpu_ns) == (46, 600)
    assert group_receipts(tmp_path, "c") == {0: receipt}


def test_groups_cover_the_schedules_once() -> None:
    assert settings(3).groups() == [Group(0, 0, 4), Group(1, 4, 8), Group(2, 8, 9)]


def test_a_campaign_goes_on_with_its_own_settings_alone(tmp_path: Path) -> None:
    own = settings()
    assert opened(tmp_path, "c", own) == own
    assert opened(tmp_path, "c", own) == own
    with pytest.raises(CannotGoOn, match="begun with seeds 2, not 3: use the same settings"):
        opened(tmp_path, "c", settings(3))
    (tmp_path / "_campaigns" / "c" / "settings.json").write_text("{}")
    with pytest.raises(CannotGoOn, match="begun by another version"):
        opened(tmp_path, "c", own)
    with pytest.raises(CannotGoOn, match="no campaign's name"):
        opened(tmp_path, "../c", own)


def opened(store: Path, name: str, asked: Settings) -> Settings:
    with open_campaign(store, name, asked) as kept:
        return kept


def test_one_process_at_a_time_runs_a_campaign(tmp_path: Path) -> None:
    command = ("campaign", "--seeds", "1", "--store", "tables", "--name")
    with open_campaign(tmp_path / "tables", "c", settings()):
        second = highwater_without_java(*command, "c", cwd=tmp_path)
        another = highwater_without_java(*command, "d", cwd=tmp_path)
    assert second.returncode == 2
    assert "campaign c is being run: another process is at work in " in second.stderr
    assert "wait until it has ended" in second.stderr
    assert "Traceback" not in second.stderr
    assert "install a JRE" in another.stderr


def test_settings_differ_by_the_values_that_decide_rows() -> None:
    own = settings()
    other = Settings(2, 2, ("disks",), "fenced", "flush_lies", "d", DATA_VERSION, 4, "commit")
    assert differences(own, own) == []
    assert differences(own, other) == [
        "first_seed 1, not 2",
        "families processes+disks+joins, not disks",
        "planted none, not flush_lies",
        "code c, not d",
    ]


# ---------------------------------------------------------------- reports


def test_of_many_lost_schedules_the_first_are_listed_and_all_are_counted() -> None:
    numbers = dict.fromkeys(("excused", "events", "simulated_ns", "cpu_ns", "acknowledged"), 9)
    family = {"family": "disks", "schedules": 300, "lost": 120, "pass": 180, "fail": 0} | numbers
    lost = [{"seed": seed, "family": "disks", "message": "no\nwhere"} for seed in range(100)]
    found = search_of(settings(), Families.DISKS, Sums([family], [], [], lost, []), 1.0)
    report = report_of(found)
    assert (report.lost_schedules, len(report.lost)) == (120, 100)
    assert report.reasons[-1] == "20 more schedules have no outcome"
    assert report.verdict is Outcome.UNKNOWN
    printed = Console(record=True, width=100)
    print_report(report, printed)
    assert "20 more schedules have no outcome" in printed.export_text()


# ---------------------------------------------------------------- shipped modules


@pytest.mark.parametrize(
    ("master", "here"),
    [
        ("local", True),
        ("local[*]", True),
        ("local[2]", True),
        ("local-cluster[1,1,1024]", False),
        ("spark://host:7077", False),
    ],
)
def test_workers_of_a_cluster_are_sent_the_code(master: str, here: bool) -> None:
    assert is_here(master) is here


FROM_ZIP = """
import sys
sys.path.insert(0, sys.argv[1])
from highwater.search import schedule_rows as rows
from highwater_simulator import runner, tasks
assert sys.argv[1] in runner.__file__ and sys.argv[1] in rows.__file__, runner.__file__
own = rows.Settings(1, 1, ("processes",), "v3", "", "c", 1)
(row,) = rows.rows_of(own, {"campaign": "c", "group": 0, "first": 0, "after": 1})
print(row["outcome"], row["events"], row["message"])
"""


def test_schedules_run_from_the_zip_as_they_do_here(tmp_path: Path) -> None:
    shipped = zip_of(SHIPPED, tmp_path)
    written = shipped.read_bytes()
    assert zip_of(SHIPPED, tmp_path).read_bytes() == written
    said = subprocess.run(
        [sys.executable, "-c", FROM_ZIP, str(shipped)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=True,
    ).stdout
    (summary,) = Chunk(tuple(schedules_of(1, 1, (Family.PROCESSES,))), Preset.V3).summaries(int)
    row = schedule_rows.row_of(summary, settings(preset="v3"))
    assert said == f"{row['outcome']} {row['events']} {row['message']}\n"


def test_the_name_tells_equal_commands_on_other_code_apart() -> None:
    asked = Asked(
        10, 1, Preset.FENCED, Families.ALL, "flush_lies", "", Path("t"), Path("o"), "local", 512, 0
    )
    own = settings_of(asked)
    assert own.code == digest_of((*RUN_ON, *MAKE_ROWS))
    assert own.code != digest_of(RUN_ON)
    assert name_of(asked, own) == f"fenced-all-1-10-flush_lies-{own.code[:8]}"


LOADED_FOR_ROWS = """
import sys
import highwater.search.schedule_rows, highwater_pipeline.campaign.tables
for name, module in list(sys.modules.items()):
    if name.startswith("highwater") and not hasattr(module, "__path__"):
        print(name)
"""


def test_the_digest_is_of_all_our_code_that_makes_rows() -> None:
    said = subprocess.run(
        [sys.executable, "-c", LOADED_FOR_ROWS],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=True,
    ).stdout
    loaded = {name for name in said.split() if name.partition(".")[0] not in RUN_ON}
    from_pyspark_on = {"highwater_pipeline.tables"}  # the columns of tables, not the rows' values
    assert loaded - from_pyspark_on == set(MAKE_ROWS)


def test_a_digest_is_of_modules_as_of_packages(tmp_path: Path) -> None:
    one, other = "highwater.search.judging", "highwater.search.shrinking"
    assert len({digest_of([one]), digest_of([other]), digest_of([one, other])}) == 3
    assert digest_of([one, other]) == digest_of([other, one])
    with pytest.raises(ModuleNotFoundError, match="no_such"):
        digest_of(["highwater.no_such"])


# ---------------------------------------------------------------- the command


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "install a JRE"),
        (("--planted", "nothing_such"), "there is no planted bug 'nothing_such'"),
        (("--name", "a/b"), "no campaign's name"),
    ],
)
def test_a_campaign_that_cannot_begin_ends_with_the_reason(
    tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    done = highwater_without_java("campaign", "--seeds", "1", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
