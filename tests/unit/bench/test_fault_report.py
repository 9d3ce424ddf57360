"""The bench of faults: its tables, and that every fault that it times exists."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from bench.fault_report import FaultResult, fault_rows, joined, markdown, run_rows, suite_rows
from bench.fault_times import ACTS_WITH, BARE, FaultTimes
from bench.machine import Machine
from bench.run_cost import PHASES, plan_without_steps
from bench.suite_time import suite_time_of
from highwater.faults.examples import EXAMPLES
from highwater.runs.plans.translation import unsupported
from highwater_chaos.plan import problems_of

MACHINE = Machine("CPU", 2, 24.0, "6.1", "20.10", "3.11", "2.16", 0.5, 1.5)
RESULT = FaultResult(
    date="2026-01-01 10:00 UTC",
    duration_s=120.0,
    machine=MACHINE,
    ours={
        "kill": [FaultTimes(0.1, 0.4, 1.0), FaultTimes(0.3, 0.6, 1.0)],
        "delay_at": [FaultTimes(None, 0.2, 0.1)],
    },
    bare={"kill, start": [(0.25, 0.5), (0.25, 0.5)]},
    bare_calls={"kill": "kill, start"},
    run={"starts": [4.0, 6.0], "all of it": [9.0, 9.0]},
)


def test_a_fault_stands_beside_its_bare_calls_with_the_ratio_of_the_medians() -> None:
    kill, delay = fault_rows(RESULT)
    assert kill == [
        "`kill`", "0.20 (0.30)", "0.50 (0.60)", "1.00 (1.00)",
        "kill, start", "0.25 (0.25)", "2.00×", "0.50 (0.50)", "2.00×",
    ]  # fmt: skip
    assert delay == ["`delay_at`", "–", "0.20 (0.20)", "0.10 (0.10)", "–", "–", "–", "–", "–"]


def test_parts_that_were_measured_one_after_the_other_are_reported_as_one() -> None:
    later = replace(RESULT, ours={"pause": [FaultTimes(0.1, 0.1, 0.1)]}, bare={}, run={})
    both = joined(RESULT, later)
    assert list(both.ours) == ["kill", "delay_at", "pause"]
    assert (both.duration_s, both.run) == (240.0, RESULT.run)
    assert fault_rows(both)[0] == fault_rows(RESULT)[0]
    encoded = msgspec.json.encode(both)
    assert fault_rows(msgspec.json.decode(encoded, type=FaultResult)) == fault_rows(both)


def test_a_runs_phases_are_reported_with_their_number_of_measurements() -> None:
    assert run_rows(RESULT) == [["starts", "5.00 (6.00)"], ["all of it", "9.00 (9.00)"]]
    text = markdown(RESULT)
    assert "median (maximum) of 2, of a run's phases of 2." in text
    assert "| `kill` | 0.20 (0.30) |" in text


JUNIT = """<?xml version="1.0"?>
<testsuites><testsuite name="pytest" tests="3" time="61.5">
<testcase classname="tests.integration.test_a" name="test_1" time="10.5"/>
<testcase classname="tests.integration.test_b" name="test_1" time="40"/>
<testcase classname="tests.integration.test_a" name="test_2" time="2"/>
</testsuite></testsuites>"""


def test_a_suites_time_is_its_wall_time_and_that_of_each_file() -> None:
    suite = suite_time_of(JUNIT)
    assert suite_rows(suite) == [
        ["all 3, wall time", "62"],
        ["`integration.test_b`", "40"],
        ["`integration.test_a`", "12"],
    ]


@pytest.mark.parametrize("text", ["", "<testsuites/>", "<a><testsuite/></a>"])
def test_a_file_that_is_no_junit_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no JUnit file"):
        suite_time_of(text)


def test_bare_calls_and_events_are_of_kinds_that_are_measured() -> None:
    measured = {type(each) for each in EXAMPLES}
    assert set(BARE) <= measured
    assert set(ACTS_WITH) <= measured


def test_the_run_without_steps_is_possible_and_its_phases_are_there_to_be_timed() -> None:
    plan = plan_without_steps()
    assert (problems_of(plan), unsupported(plan), plan.steps) == ([], [], ())
    assert all(callable(getattr(owner, name)) for _, owner, name in PHASES)
