"""A search's verdict and its report."""

from __future__ import annotations

import io
from collections import Counter
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace as with_other
from rich.console import Console

from highwater.search.hunting import Hunt, markdown, reports_of
from highwater.search.options import Families, SearchOptions
from highwater.search.pool import Lost
from highwater.search.progress import SearchProgress
from highwater.search.report import print_report, report_of
from highwater.search.searching import Search, keep_plan, replay_command
from highwater_chaos.plan import Expected, Plan, decode_plan, encode_plan
from highwater_checker.verdict import Outcome
from highwater_core.config import Preset
from highwater_simulator.generate import Family
from highwater_simulator.oracle.violation import Violation
from highwater_simulator.search import Found, Schedule, Summary

OPTIONS = SearchOptions(schedules=10)


def summary_of(
    seed: int,
    family: Family = Family.PROCESSES,
    found: Found | None = None,
    is_excused: bool = False,
    is_mutant: bool = False,
) -> Summary:
    return Summary(
        schedule=Schedule(seed, family),
        found=found,
        events=1_000,
        simulated_ns=4_000_000_000,
        cpu_ns=100_000_000,
        acknowledged=50,
        is_excused=is_excused,
        flagged=Counter(),
        fired=Counter(kill=1),
        missed=Counter(),
        not_reached=Counter(pause=1),
        marks=Counter(became_leader=2),
        plan=b"{}" if found else b"",
        is_mutant=is_mutant,
    )


LOSS = Found(Violation("I1", "a record is lost", 5, "t", 0, 7))
NAMED = Found(
    Violation("I1", "a record is lost", 5, "t", 0, 7),
    rows=(1,),
    ids=("KAFKA-1211",),
    evidence="truncated to 5",
    is_documented=True,
)
LOST = Lost(Schedule(8, Family.DISKS), "", "it did not end within 60 s\nFile ...")


def search_of(*outcomes: Summary | Lost, interrupted: bool = False) -> Search:
    found = Search(OPTIONS, was_interrupted=interrupted, wall_s=6.0)
    for outcome in outcomes:
        if isinstance(outcome, Lost):
            found.lost.append(outcome)
        else:
            found.totals.add(outcome)
    return found


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (search_of(summary_of(1)), Outcome.PASS),
        (search_of(summary_of(1, found=NAMED)), Outcome.PASS),
        (search_of(summary_of(1, found=LOSS)), Outcome.FAIL),
        (search_of(summary_of(1, found=LOSS), LOST, interrupted=True), Outcome.FAIL),
        (search_of(summary_of(1), LOST), Outcome.UNKNOWN),
        (search_of(summary_of(1), interrupted=True), Outcome.UNKNOWN),
        (search_of(), Outcome.UNKNOWN),
    ],
)
def test_only_failures_fail_and_missing_outcomes_leave_it_unknown(
    found: Search, verdict: Outcome
) -> None:
    assert found.outcome is verdict


@pytest.mark.parametrize(
    ("excused", "schedules", "verdict"),
    [(9, 200, Outcome.PASS), (10, 200, Outcome.UNKNOWN), (50, 199, Outcome.PASS)],
)
def test_a_search_with_too_much_excused_proves_nothing(
    excused: int, schedules: int, verdict: Outcome
) -> None:
    found = search_of(
        *(summary_of(n, Family.DISKS, is_excused=n < excused) for n in range(schedules))
    )
    assert found.outcome is verdict
    assert found.excused_percent == 100 * excused / schedules


@pytest.mark.parametrize("family", list(Family))
def test_a_share_excused_is_of_the_schedules_in_which_disks_may_lose(family: Family) -> None:
    found = search_of(summary_of(1, family), summary_of(2, Family.DISKS, is_excused=True))
    assert found.excused_percent == (50 if family.may_lose else 100)


def test_the_report_has_rates_and_each_kind_of_violation() -> None:
    found = search_of(summary_of(3, found=LOSS), summary_of(2, found=NAMED), summary_of(1), LOST)
    report = report_of(found, Path("plans"))
    assert report.schedules_per_minute == 30
    assert report.simulated_s_per_cpu_s == 40
    assert report.events_per_cpu_s == 10_000
    assert report.faults[0].fault == "kill"
    assert "controller_elected" in report.marks_never_reached
    assert [(each.rows, each.is_documented, each.first_seed) for each in report.violations] == [
        ((), False, 3),
        ((1,), True, 2),
    ]
    assert report.violations[0].replay == "highwater sim replay 3 --family processes"
    assert msgspec.json.decode(msgspec.json.encode(report))["lost"][0]["seed"] == 8


def test_the_printed_report_says_how_to_see_each_violation_again() -> None:
    text = io.StringIO()
    found = search_of(summary_of(3, found=LOSS), summary_of(2, found=NAMED), LOST)
    print_report(report_of(found, Path("plans")), Console(file=text, width=100))
    printed = text.getvalue()
    for expected in (
        "I1 t-0 @7: a record is lost",
        "highwater sim replay 3 --family processes",
        "plans/seed-3-processes.json",
        "KAFKA-1211",
        "[truncated to 5]",
        "seed 8, disks: it did not end within 60 s",
        "verdict: fail",
    ):
        assert expected in printed


@pytest.mark.parametrize(
    ("summary", "options", "command"),
    [
        (summary_of(7, Family.DISKS), OPTIONS, "sim replay 7 --family disks"),
        (
            summary_of(7),
            SearchOptions(1, preset=Preset.V3, bug="b"),
            "sim replay 7 --family processes --preset v3 --planted b",
        ),
        (summary_of(7, is_mutant=True), OPTIONS, "run plans/seed-7-processes.json --events"),
    ],
)
def test_a_replay_command_names_all_that_the_schedule_depends_on(
    summary: Summary, options: SearchOptions, command: str
) -> None:
    plan_file = Path("plans/seed-7-processes.json")
    assert replay_command(summary, options, plan_file) == f"highwater {command}"


def test_plans_of_failures_are_kept_and_no_others_with_all_that_they_depend_on(
    tmp_path: Path,
) -> None:
    plan = Plan(seed=2, title="two")
    for outcome in (
        summary_of(1),
        replace(summary_of(2, found=NAMED), plan=encode_plan(plan)),
        LOST,
    ):
        keep_plan(tmp_path / "plans", outcome, "a_bug", "c0ffee-dirty")
    (kept,) = tmp_path.rglob("*.json")
    assert kept.name == "seed-2-processes.json"
    expected = Expected("fail", "I1", (1,), planted="a_bug")
    assert decode_plan(kept.read_bytes()) == with_other(
        plan, commit="c0ffee-dirty", expected=expected
    )


def test_progress_without_a_terminal_prints_each_kind_of_violation_once() -> None:
    text = io.StringIO()
    with SearchProgress(4, Console(file=text, width=100)) as progress:
        found = search_of()
        for outcome in (summary_of(1, found=LOSS), summary_of(2, found=LOSS), LOST):
            if isinstance(outcome, Summary):
                found.totals.add(outcome)
            progress.show(found, outcome)
    printed = text.getvalue()
    assert printed.count("a record is lost") == 1
    assert "2 of 4 schedules, 20 a minute, 2 failing" in printed
    assert "seed 8, disks: it did not end within 60 s" in printed


def hunt_of(schedules: int, invariant: str) -> Hunt:
    return Hunt("truncate_nothing", 1, schedules, schedules * 500_000_000, invariant)


def test_a_bug_that_most_hunts_do_not_find_has_no_median() -> None:
    (found,) = reports_of([hunt_of(4, "I3"), hunt_of(20, ""), hunt_of(6, "I2")])
    assert (found.found, found.hunts, found.median_schedules, found.median_cpu_s) == (2, 3, 6, 3)
    assert found.most_schedules == 20
    assert found.by == {"I3": 1, "I2": 1}
    (not_found,) = reports_of([hunt_of(4, "I3"), hunt_of(20, ""), hunt_of(20, "")])
    assert not_found.median_schedules is None
    header, rule, row = markdown([found])
    assert header.count("|") == rule.count("|") == row.count("|")
    assert "| truncate_nothing | 6 | 20 | 3.0 | 2 of 3 |" in row


def test_a_hunt_counts_lost_schedules_and_ends_with_its_findings() -> None:
    hunt = Hunt("truncate_nothing", 1)
    not_its_own = replace(summary_of(9, found=LOSS), fails_anyway=True)
    for outcome in (not_its_own, LOST):
        hunt.add(outcome)
    assert hunt.invariant == ""
    assert hunt.not_its_own == ["seed 9, processes: I1 t-0 @7: a record is lost"]
    assert not hunt.is_over(3)
    assert hunt.is_over(2), "it has given up"
    hunt.add(summary_of(2, found=LOSS))
    assert hunt.is_over(500)
    assert (hunt.schedules, hunt.cpu_ns, hunt.invariant) == (3, 200_000_000, "I1")
    assert hunt.found_by == "seed 2, processes"
    assert len(hunt.lost) == 1


def test_families_are_named_as_the_generator_names_them() -> None:
    assert {each.value for each in Families} == {*(each.value for each in Family), "all"}
