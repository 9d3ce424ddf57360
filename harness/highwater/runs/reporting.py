"""Writes a finished run's picture and pages from the files in its folder alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from highwater.errors import HarnessError
from highwater.report.again import again_of, plan_of
from highwater.report.explained import explain_finding
from highwater.report.failover import Gap
from highwater.report.faults_in_run import FaultSpan, fault_spans
from highwater.report.page import write_report
from highwater.report.perfetto import TracedRun, trace_of
from highwater.report.picture import Fault, RunPicture, draw
from highwater.run_folder import RunFolder, is_run, was_on_containers
from highwater.runs.plans.leader_changes import leader_changes, longest_session_timeout_ms
from highwater.runs.plans.schedule import StepDone
from highwater_chaos import faults as f
from highwater_chaos.plan import Plan, Step
from highwater_checker.judging import judge_evidence
from highwater_checker.looks import leaderships
from highwater_checker.run_folder.documents import TOPOLOGY, RunTopology
from highwater_checker.run_folder.evidence import Evidence, read_evidence, start_of_run
from highwater_checker.run_folder.files import text_of
from highwater_checker.run_folder.small_files import read_document
from highwater_checker.verdict import Verdict
from highwater_core.ids import TopicPartition

PICTURE = "run.png"
_MS = 1_000_000


def report_run(
    path: Path, trace: Path | None = None, first: Sequence[TopicPartition] = ()
) -> Verdict:
    """Judge the run of the folder, write its picture, page and JUnit file, and return the verdict.

    trace: where the run is written as a trace for Perfetto, None for nowhere.
    first: the partitions that the page shows before others.

    Raises:
        HarnessError: the folder is no run's, or one of the partitions is not in it.
        OSError: the folder, or the trace's, cannot be written to.
    """
    if not is_run(path):
        raise HarnessError(f"{path} is no run's folder: nothing is written there")
    evidence = read_evidence(path)
    if strangers := [str(at) for at in first if not _is_led(at, evidence)]:
        raise HarnessError(f"{path}: nobody led {', '.join(strangers)} in this run")
    verdict = judge_evidence(evidence)
    gaps = write_pages(RunFolder.existing(path), evidence, verdict, first)
    if trace is not None:
        trace.write_bytes(trace_of(_traced_run(path, evidence, verdict, gaps)))
    return verdict


def _is_led(at: TopicPartition, evidence: Evidence) -> bool:
    return any(at in leaderships(look) for look in evidence.looks)


def _traced_run(path: Path, evidence: Evidence, verdict: Verdict, gaps: Sequence[Gap]) -> TracedRun:
    violation = None
    if verdict.findings:
        told = explain_finding(path, evidence, verdict)
        violation = None if told.seen_s is None else (told.seen_s, str(told.finding))
    return TracedRun(
        name=text_of(path.resolve().name),
        evidence=evidence,
        start_wall_ns=start_of_run(path),
        faults=fault_spans(path),
        gaps=gaps,
        first=[TopicPartition(each.topic, each.partition) for each in verdict.findings],
        violation=violation,
    )


def write_pages(
    folder: RunFolder,
    evidence: Evidence,
    verdict: Verdict,
    first: Sequence[TopicPartition] = (),
) -> tuple[Gap, ...]:
    """Write the run's picture, page and JUnit file; return the pauses by changes of leaders.

    first: the partitions that are shown before others.
    """
    spans = fault_spans(folder.path)
    plan = plan_of(folder.path)
    topology = read_document(TOPOLOGY, folder.path, []) or RunTopology()
    gaps = tuple(_gaps(evidence, spans, topology))
    marks = [Fault(span.begin_ns / 1e9, span.deed) for span in spans]
    where = "on containers" if was_on_containers(folder.path) else "in virtual time"
    preset = "" if topology.preset is None else f", preset {topology.preset}"
    picture = draw(
        RunPicture(
            title=f"Highwater {text_of(folder.run_id)}{preset}, {where}: {verdict.outcome.value}",
            topic_partition=next(iter(first), _shown_partition(plan, evidence, verdict)),
            looks=evidence.looks,
            acknowledged=evidence.sends.acknowledged,
            faults=marks,
            gaps=gaps,
        )
    )
    folder.write_bytes(PICTURE, picture)
    again = again_of(folder.path)
    write_report(folder, verdict, gaps, spans, evidence, again, first)
    return gaps


def _shown_partition(plan: Plan | None, evidence: Evidence, verdict: Verdict) -> TopicPartition:
    """Return the partition of the first finding that has one, else the plan's, else the first."""
    for finding in verdict.findings:
        if finding.topic and finding.partition >= 0:
            return TopicPartition(finding.topic, finding.partition)
    if plan is not None and plan.workload.topics:
        return TopicPartition(plan.workload.topics[0].name, 0)
    for topic in evidence.promises.topics:
        return TopicPartition(topic.name, 0)
    led = (at for look in evidence.looks for at in leaderships(look))
    return next(led, TopicPartition("t", 0))


def _gaps(evidence: Evidence, spans: Sequence[FaultSpan], topology: RunTopology) -> Iterator[Gap]:
    """Yield, for each fault that must have changed a leader, the pause without acknowledgements."""
    end_ms = evidence.looks[-1].time_ns // _MS if evidence.looks else 0
    steps = [_step_of(span, span.fault) for span in spans if span.fault is not None]
    timeout_ms = _session_timeout_ms(topology)
    for change in leader_changes(steps, evidence.looks, 0, timeout_ms, end_ms):
        gap = change.gap(evidence.sends.acknowledged)
        if gap is not None:
            yield gap


def _step_of(span: FaultSpan, fault: f.Fault) -> StepDone:
    """Return the fault as a step of a plan whose time is the run's, and that lasted as it did."""
    if span.end_ns is not None and hasattr(fault, "for_ms"):
        fault = msgspec.structs.replace(fault, for_ms=(span.end_ns - span.begin_ns) // _MS)
    begin_ms = span.begin_ns // _MS
    return StepDone(
        Step(begin_ms, fault), begin_ms, begin_ms, begin_ms, begin_ms, span.node, span.proof, ""
    )


def _session_timeout_ms(topology: RunTopology) -> int:
    """Return the longest session timeout of the run's nodes."""
    if topology.session_timeout_ms is not None:
        return topology.session_timeout_ms
    return longest_session_timeout_ms(topology.broker_settings, topology.controller_settings)
