"""The report of an analysis as a page: report.html, report.md, and a CSV file a section."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from highwater_checker.verdict import Outcome
from highwater_pipeline.analysis import Analysis
from highwater_pipeline.report.pages import Page, write_page
from highwater_pipeline.report.sections import sections_of


def write_report(
    folder: Path, title: str, analysis: Analysis, links: Mapping[str, str] | None = None
) -> Path:
    """Write the report's files into the folder, and return the page's path.

    links: the addresses of runs' pages, relative to the folder, by run.
    """
    return write_page(
        folder,
        Page(
            name="report",
            title=title,
            tone=analysis.outcome,
            lead=f"{analysis.outcome}: {_summary(analysis)}",
            notes=(),
            sections=tuple(sections_of(analysis)),
            links=links or {},
        ),
    )


def _summary(analysis: Analysis) -> str:
    outcomes = Counter(row["outcome"] for row in analysis.verdicts)
    runs = ", ".join(f"{outcomes[each]:,} {each}" for each in Outcome if outcomes[each])
    counts = {
        "violation": analysis.findings.total,
        "leader change": analysis.failovers.total,
        "line": analysis.quarantine.total,
    }
    words = [f"{count:,} {what}{'' if count == 1 else 's'}" for what, count in counts.items()]
    total = analysis.runs.total
    of_runs = f"{total:,} run{'' if total == 1 else 's'}"
    return f"{of_runs}{f' ({runs})' if total > 1 else ''}, {', '.join(words)} in quarantine"
