"""Writes a report: report.html, report.md, and a CSV file a section."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from jinja2 import Environment, PackageLoader

from highwater_pipeline.analysis import Analysis
from highwater_pipeline.report.sections import Section, sections_of


def write_report(folder: Path, title: str, analysis: Analysis) -> Path:
    """Write the report's files into the folder, and return the page's path."""
    folder.mkdir(parents=True, exist_ok=True)
    sections = sections_of(analysis)
    environment = Environment(
        loader=PackageLoader("highwater_pipeline.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    template = environment.get_template("report.html.j2")
    page = folder / "report.html"
    page.write_text(template.render(title=title, analysis=analysis, sections=sections, zip=zip))
    (folder / "report.md").write_text("\n".join(markdown(title, analysis, sections)) + "\n")
    for section in sections:
        (folder / f"{_file_name(section)}.csv").write_text(_csv(section))
    return page


def markdown(title: str, analysis: Analysis, sections: Sequence[Section]) -> Iterator[str]:
    """Yield the report's lines in Markdown, without its pictures."""
    yield f"# {title}: {analysis.outcome}"
    for section in sections:
        yield ""
        yield f"## {section.title}"
        yield ""
        if section.note:
            yield f"{section.note}\n"
        if not section.rows:
            yield "None."
            continue
        yield f"| {' | '.join(section.columns)} |"
        rules = ("---:" if column in section.numbers else "---" for column in section.columns)
        yield f"| {' | '.join(rules)} |"
        for row in section.cells:
            cells = (cell.replace("|", r"\|") for cell in row)
            yield f"| {' | '.join(cells)} |"


def _csv(section: Section) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(section.columns)
    writer.writerows([row[column] for column in section.columns] for row in section.rows)
    return text.getvalue()


def _file_name(section: Section) -> str:
    return re.sub(r"\W+", "-", section.title.lower())
