"""A run's picture and pages are written from its evidence alone."""

from __future__ import annotations

from math import isnan
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from highwater.report.failover import Gap
from highwater.report.faults_in_run import FaultSpan
from highwater.report.junit import junit_xml
from highwater.report.page import Again, write_report
from highwater.report.picture import Fault, RunPicture, _apart, _lags, _peaks, draw
from highwater.report.timeline import timeline_of
from highwater.report.timeline_drawing import draw_timeline
from highwater.run_folder import RunFolder
from highwater_checker.finding import CheckResult, Finding
from highwater_checker.history import Acknowledged, Sends
from highwater_checker.looks import Look
from highwater_checker.run_folder.evidence import read_evidence
from highwater_checker.verdict import Requirement, Verdict, judge
from highwater_core.ids import TopicPartition
from tests.support.evidence_makers import AT, look, replica

AGAIN = Again("runs/run-1", False, 7, "fenced", "", "0123456", builds=("broker-0: a -> b",))


def failed_verdict() -> Verdict:
    return judge(
        [CheckResult("sound", 3, ()), CheckResult("broken", 3, (Finding("I1", "lost <b>"),))],
        [Requirement("a leader changed", False, "never")],
    )


def test_junit_counts_failures_and_errors() -> None:
    suite = ET.fromstring(junit_xml("run-1", failed_verdict()))  # noqa: S314 - our own bytes
    counts = (suite.get("tests"), suite.get("failures"), suite.get("errors"))
    assert counts == ("3", "1", "1")


def test_junit_has_an_error_for_a_check_that_could_not_read_all() -> None:
    """Found: of a run that was unknown for its damaged evidence JUnit was green."""
    check = CheckResult("torn", 3, (), unread=("p0.jsonl: line 1: it is cut", "t-0: no folder"))
    suite = ET.fromstring(junit_xml("run-1", judge([check], [])))  # noqa: S314 - our own bytes
    assert (suite.get("failures"), suite.get("errors")) == ("0", "1")
    (error,) = suite.iter("error")
    assert error.get("message") == "p0.jsonl: line 1: it is cut"
    assert error.text == "p0.jsonl: line 1: it is cut\nt-0: no folder"


def test_junit_is_xml_with_any_characters_of_a_run() -> None:
    """Found: the characters of a colour in a message, and no reader of JUnit took the file."""
    found = CheckResult("broken", 1, (Finding("I1", "\x1b[31m\x00lost", around=("\ufffe",)),))
    suite = ET.fromstring(junit_xml("run-1", judge([found], [])))  # noqa: S314 - our own bytes
    (failure,) = suite.iter("failure")
    assert failure.get("message") == "I1: \ufffd[31m\ufffdlost"


def test_a_report_escapes_its_texts_and_has_the_picture(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "run-1")
    look = Look(0, {0: None, 1000: None})
    acknowledged = (Acknowledged("t", 0, 0, "v", 0, 100_000_000),)
    gap = Gap("t", 0, 0.1, 0.4)
    picture = draw(
        RunPicture(
            "t $^$",
            TopicPartition("t", 0),
            [look, Look(10**9, look.nodes)],
            acknowledged,
            [Fault(0.2, "kill")],
            [gap],
        )
    )
    folder.write_bytes("run.png", picture)
    evidence = read_evidence(folder.path)
    span = FaultSpan(None, "kill <i>", 0, "dead <i>", 200_000_000, None)
    write_report(folder, failed_verdict(), [gap], [span], evidence, AGAIN)
    page = (folder.path / "report.html").read_text()
    assert "lost &lt;b&gt;" in page
    assert "kill &lt;i&gt; (broker-0)" in page
    assert "dead &lt;i&gt;" in page
    assert "broker-0: a -&gt; b" in page
    assert "data:image/png;base64," in page
    assert (tmp_path / "latest" / "junit.xml").exists()


@pytest.mark.parametrize("count", [12, 60, 500])
def test_a_picture_of_many_faults_numbers_them_and_lists_their_texts(
    count: int,
) -> None:
    """Found: a list of sixty left no room for the axes."""
    faults = [Fault(float(at), f"fault {at} " + "of many words " * 9) for at in range(count)]
    picture = RunPicture("many", TopicPartition("t", 0), (), (), faults, ())
    assert len(draw(picture)) > 10_000  # a warning of the layout's would be an error


@pytest.mark.parametrize("time_ns", [-(10**15), 10**17, 2**63 - 1])
def test_a_picture_of_impossible_times_is_drawn(time_ns: int) -> None:
    """Found: it took all memory, or ended in a traceback."""
    looks = [Look(0, {0: None}), Look(time_ns, {0: None})]
    sends = (Acknowledged("t", 0, 0, "v", time_ns - 5, time_ns),)
    assert draw(RunPicture("t", TopicPartition("t", 0), looks, sends, [], []))
    draw_timeline(timeline_of(looks, Sends(sends, (), ()), ()), (), None)


def test_bars_beyond_the_picture_that_stand_side_by_side_have_one_number() -> None:
    rates = [1.0, 9.0, 12.0, 1.0, 8.0]
    assert list(_peaks([0.0, 1.0, 2.0, 3.0, 4.0], rates, 5.0)) == [(2.0, 12.0), (4.0, 8.0)]


def test_of_peaks_that_are_near_each_other_the_highest_is_named() -> None:
    assert _apart([(1.0, 5.0), (1.4, 9.0), (3.0, 2.0)], 0.5) == [(1.0, 9.0), (3.0, 2.0)]
    assert _apart([], 0.5) == []


def test_lags_are_counted_from_the_furthest_log_end_and_a_silent_broker_has_none() -> None:
    looks = (
        look(1, replica("leader", 8, 10), replica("follower", 7, 7)),
        look(2, replica("leader", 12, 12), None),
    )
    lags = _lags(RunPicture("t", AT, looks, (), (), ()))
    assert lags[0] == [(1e-9, 0, 2), (2e-9, 0, 0)]
    assert lags[1][0] == (1e-9, 3, 3)
    assert all(map(isnan, lags[1][1][1:]))
