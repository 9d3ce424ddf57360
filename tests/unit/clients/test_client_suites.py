"""How clients' own suites are counted: whose outcome is a surprise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.client_suites import of_kafka_python, of_librdkafka
from tests.client_suites.of_librdkafka import LIBRDKAFKA
from tests.client_suites.suite import PASSED, SKIPPED, Outcomes, surprises

SUMMARY = """\
[36m[0012_produce_consume / 1.002s] Sent 3 messages
TEST 20261127080303 (bare, scenario default) SUMMARY
#==================================================================#
|\x1b[32m <MAIN> |     PASSED |  60.000s \x1b[0m|
|\x1b[32m 0012_produce_consume |     PASSED |   1.013s \x1b[0m|
|\x1b[31m 0052_msg_timestamps | FAILED | 3.1s \x1b[0m| \x1b[31mmain_0052():31: odd | even\x1b[0m
|\x1b[36m 0061_consumer_lag |    SKIPPED |   0.000s \x1b[0m|\x1b[36m no cluster\x1b[0m
|\x1b[35m 0070_null_empty |    RUNNING |   9.000s \x1b[0m|
|\x1b[33m 0004_conf |        DNS |   0.000s \x1b[0m| local
#==================================================================#
"""
JUNIT = """\
<testsuites><testsuite>
<testcase name="test_a"/>
<testcase name="test_b"><failure message="first line&#10;second"/></testcase>
<testcase name="test_c"><skipped/></testcase>
<testcase name="test_d"><error/></testcase>
</testsuite></testsuites>
"""


def test_librdkafkas_outcomes_are_in_its_summary() -> None:
    assert of_librdkafka.outcomes(SUMMARY) == {
        "0012_produce_consume": PASSED,
        "0052_msg_timestamps": "main_0052():31: odd | even",
        "0061_consumer_lag": SKIPPED,
        "0070_null_empty": "running",
    }


def test_kafka_pythons_outcomes_are_in_a_junit_file(tmp_path: Path) -> None:
    path = tmp_path / "junit.xml"
    path.write_text(JUNIT)
    assert of_kafka_python.outcomes(path) == {
        "test_a": PASSED,
        "test_b": "first line",
        "test_c": SKIPPED,
        "test_d": "failed",
    }


@pytest.mark.parametrize(
    ("found", "odd"),
    [
        ({"a": PASSED, "b": "no offset"}, {}),
        ({"a": SKIPPED, "b": SKIPPED}, {}),
        ({"a": "late", "b": "no offset"}, {"a": "late"}),
        ({"a": PASSED, "b": PASSED}, {"b": "passes, and is known to fail"}),
        ({"a": PASSED}, {"b": "it did not run"}),
    ],
    ids=["as known", "left out", "a new failure", "one that passes", "one that did not run"],
)
def test_surprises_are_new_failures_and_known_ones_that_pass(
    found: Outcomes, odd: Outcomes
) -> None:
    assert surprises(replace(LIBRDKAFKA, fails={"b": "not supported"}), found) == odd
