"""Writes a run's report.html and junit.xml from its verdict."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

from jinja2 import Environment, PackageLoader

from highwater.report.again import Again
from highwater.report.alerts import alerts_of
from highwater.report.explained import explain_finding
from highwater.report.failover import Gap
from highwater.report.failover_phases import FailoverPhases, failover_phases
from highwater.report.faults_in_run import FaultSpan
from highwater.report.timeline import timeline_of
from highwater.report.timeline_drawing import Drawn, draw_timeline
from highwater.report.violation import part_of_violation
from highwater.run_folder import RunFolder
from highwater_checker.finding import CheckResult
from highwater_checker.run_folder.evidence import Evidence, start_of_run
from highwater_checker.verdict import Verdict
from highwater_core.ids import TopicPartition

PAGE = "report.html"
MOST_FAILOVERS = 100
"""Rows of their table."""
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""The characters that no XML document may have. Source: XML 1.0, "Char"."""


def write_report(
    folder: RunFolder,
    verdict: Verdict,
    gaps: Sequence[Gap],
    faults: Sequence[FaultSpan],
    evidence: Evidence,
    again: Again,
    first: Sequence[TopicPartition] = (),
) -> None:
    """Write both files; the page contains the picture, when there is one, and the timeline.

    A failed run's page begins with its first finding: in words, how it is seen again, its story.
    first: the partitions that the timeline shows before those of findings.
    """
    folder.write_bytes("junit.xml", junit_xml(folder.run_id, verdict))
    picture = folder.path / "run.png"
    environment = Environment(loader=PackageLoader("highwater.report"), autoescape=True)
    told = explain_finding(folder.path, evidence, verdict) if verdict.findings else None
    violation_s = None if told is None else told.seen_s
    page = environment.get_template("report.html.j2").render(
        run_id=folder.run_id,
        verdict=verdict,
        gaps=gaps,
        faults=faults,
        sends=evidence.sends,
        replicas=evidence.logs.by_partition,
        alerts=alerts_of(evidence.traces),
        picture=base64.b64encode(picture.read_bytes()).decode() if picture.exists() else "",
        again=again,
        timeline=_timeline(faults, evidence, verdict, violation_s, first),
        failovers=_failovers(folder.path, evidence, faults),
        most_failovers=MOST_FAILOVERS,
        violation_s=violation_s,
        **({} if told is None else part_of_violation(folder.path, told, verdict, evidence, faults)),
    )
    folder.write_bytes(PAGE, page.encode())


def _timeline(
    faults: Sequence[FaultSpan],
    evidence: Evidence,
    verdict: Verdict,
    violation_s: float | None,
    first: Sequence[TopicPartition],
) -> Drawn | None:
    """Return the run's timeline; None of a run that nobody looked at."""
    if not evidence.looks:
        return None
    found = [TopicPartition(each.topic, each.partition) for each in verdict.findings]
    timeline = timeline_of(evidence.looks, evidence.sends, (*first, *found))
    return draw_timeline(timeline, faults, violation_s)


def _failovers(
    folder: Path, evidence: Evidence, faults: Sequence[FaultSpan]
) -> list[FailoverPhases]:
    end_ns = evidence.looks[-1].time_ns if evidence.looks else None
    acknowledged, start_wall_ns = evidence.sends.acknowledged, start_of_run(folder)
    return failover_phases(evidence.traces, acknowledged, faults, start_wall_ns, end_ns)


def junit_xml(run_id: str, verdict: Verdict) -> bytes:
    """Return one test case a check and a requirement.

    Checks that are vacuous or could not read all, and unmet requirements, are errors.
    """
    suite = ET.Element("testsuite", name=f"highwater {run_id}")
    for check in verdict.checks:
        case = ET.SubElement(suite, "testcase", classname="checks", name=_in_xml(check.check))
        if check.findings:
            _add(case, "failure", str(check.findings[0]), _lines_of(check))
        elif check.unread:
            _add(case, "error", check.unread[0], check.unread)
        elif check.examined == 0:
            _add(case, "error", "nothing to examine")
    for requirement in verdict.requirements:
        name = _in_xml(requirement.name)
        case = ET.SubElement(suite, "testcase", classname="requirements", name=name)
        if not requirement.met:
            _add(case, "error", requirement.evidence)
    suite.set("tests", str(len(suite)))
    suite.set("failures", str(len(suite.findall("testcase/failure"))))
    suite.set("errors", str(len(suite.findall("testcase/error"))))
    return bytes(ET.tostring(suite, encoding="utf-8", xml_declaration=True))


def _add(case: ET.Element, kind: str, message: str, lines: Iterable[str] = ()) -> None:
    """Add a failure or an error to the test case."""
    found = ET.SubElement(case, kind, message=_in_xml(message))
    found.text = _in_xml("\n".join(lines)) or None


def _lines_of(check: CheckResult) -> Iterator[str]:
    """Yield each finding, followed by the records about its offset."""
    for finding in check.findings:
        yield str(finding)
        yield from finding.around


def _in_xml(text: str) -> str:
    return _NOT_IN_XML.sub("\ufffd", text)
