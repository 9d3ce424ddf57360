"""The report of an analysis as a page: report.html, report.md, and a CSV file a section."""

from __future__ import annotations

from pathlib import Path

from highwater_pipeline.analysis import Analysis
from highwater_pipeline.report.pages import Page, write_page
from highwater_pipeline.report.sections import sections_of


def write_report(folder: Path, title: str, analysis: Analysis) -> Path:
    """Write the report's files into the folder, and return the page's path."""
    return write_page(
        folder,
        Page(
            name="report",
            title=title,
            tone=analysis.outcome,
            lead=f"{analysis.outcome}: {_summary(analysis)}",
            notes=(),
            sections=tuple(sections_of(analysis)),
        ),
    )


def _summary(analysis: Analysis) -> str:
    counts = {
        "run": analysis.runs.total,
        "violation": analysis.findings.total,
        "leader change": analysis.failovers.total,
    }
    words = [f"{count} {what}{'' if count == 1 else 's'}" for what, count in counts.items()]
    lines = analysis.quarantine.total
    return f"{', '.join(words)}, {lines} line{'' if lines == 1 else 's'} in quarantine"
