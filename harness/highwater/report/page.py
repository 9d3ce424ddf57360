"""Writes a run's report.html and junit.xml from its verdict."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, PackageLoader

from highwater.report.again import Again
from highwater.report.alerts import alerts_of
from highwater.report.explained import explain_finding
from highwater.report.failover import Gap
from highwater.report.failover_phases import FailoverPhases, failover_phases
from highwater.report.faults_in_run import FaultSpan
from highwater.report.junit import JUNIT, junit_xml
from highwater.report.operations import operations_of
from highwater.report.timeline import timeline_of
from highwater.report.timeline_drawing import Drawn, draw_timeline
from highwater.report.violation import part_of_violation
from highwater.run_folder import RunFolder
from highwater_checker.run_folder.evidence import Evidence, start_of_run
from highwater_checker.verdict import Verdict
from highwater_core.ids import TopicPartition

PAGE = "report.html"
MOST_FAILOVERS = 100
"""Rows of their table."""


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
    folder.write_bytes(JUNIT, junit_xml(folder.run_id, verdict))
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
    folder.write_bytes(PAGE, page.encode(errors="replace"))  # a path may be no UTF-8


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
    moments_ns = [round(violation_s * 1e9)] if violation_s else [each.begin_ns for each in faults]
    operations = operations_of(evidence.histories, moments_ns, round(timeline.end_s * 1e9))
    return draw_timeline(timeline, faults, violation_s, operations)


def _failovers(
    folder: Path, evidence: Evidence, faults: Sequence[FaultSpan]
) -> list[FailoverPhases]:
    end_ns = evidence.looks[-1].time_ns if evidence.looks else None
    acknowledged, start_wall_ns = evidence.sends.acknowledged, start_of_run(folder)
    return failover_phases(evidence.traces, acknowledged, faults, start_wall_ns, end_ns)
