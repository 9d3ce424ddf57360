"""The part of a failed run's page that tells its first finding; reads the run's clock alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from highwater.report.diagram_svg import drawing_of
from highwater.report.explained import Explained, kinds_of
from highwater.report.explained_text import shown_lines
from highwater.report.faults_in_run import FaultSpan
from highwater.report.messages import messages_of
from highwater.report.messages_svg import MessageDrawing, draw_messages
from highwater.report.offsets_svg import OffsetsDrawing, draw_offsets
from highwater.report.replica_offsets import as_told, of_logs
from highwater_checker.catalogue.rows import CATALOGUE
from highwater_checker.run_folder.evidence import Evidence, start_of_run
from highwater_checker.stories.diagram import diagram_of
from highwater_checker.verdict import Verdict
from highwater_core.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class OffsetsThen:
    """A drawing of the replicas, and in words of when it is."""

    when: str
    drawing: OffsetsDrawing


def part_of_violation(
    folder: Path,
    told: Explained,
    verdict: Verdict,
    evidence: Evidence,
    faults: Sequence[FaultSpan],
) -> dict[str, object]:
    """Return what the page's part on the first finding needs."""
    return {
        "told": told,
        "headline": _headline(told),
        "cause": told.finding.cause,
        "rows": [row for row in CATALOGUE if row.number in told.finding.rows],
        "lines": list(told.story.pieces()),
        "drawing": drawing_of(diagram_of(told.story)),
        "is_timed": True,
        "messages": _messages(folder, told, evidence, faults),
        "offsets": list(_offsets(told, evidence)),
        "evidence": list(shown_lines(told.evidence)),
        "kinds": kinds_of(verdict.findings),
    }


def _headline(told: Explained) -> str:
    """Return the finding in one sentence with its time; its cause is told beside it."""
    at = "" if told.seen_s is None else f" ({told.seen_s:.3f} s from the run's start)"
    return f"{replace(told.finding, cause='')}{at}"


def _partition(told: Explained) -> TopicPartition | None:
    finding = told.finding
    return TopicPartition(finding.topic, finding.partition) if finding.partition >= 0 else None


def _messages(
    folder: Path, told: Explained, evidence: Evidence, faults: Sequence[FaultSpan]
) -> MessageDrawing | None:
    start_ns = start_of_run(folder)
    if start_ns is None or told.seen_s is None:
        return None
    return draw_messages(
        messages_of(evidence.traces),
        evidence.traces,
        faults,
        _partition(told),
        told.story.entries[-1].at_ns,
        start_ns,
    )


def _offsets(told: Explained, evidence: Evidence) -> Iterator[OffsetsThen]:
    """Yield the replicas as their brokers told them up to the finding, and their logs at the end.

    Of two that show the same the later one.
    """
    at = _partition(told)
    if at is None:
        return
    found = []
    if told.seen_s is not None:
        until_ns = told.story.entries[-1].at_ns
        when = f"as each broker told it last, up to {told.seen_s:.1f} s"
        found.append((when, as_told(evidence.looks, at, until_ns)))
    logs = evidence.logs.by_partition.get(at, ())
    if logs:
        found.append(("in the logs at the end of the run", of_logs(logs)))
    for when, compared in found:
        drawing = draw_offsets(compared, told.finding.offset)
        if drawing is not None:
            yield OffsetsThen(when, drawing)
