"""Writes one page of sections: <name>.html, <name>.md, and a CSV file a section."""

from __future__ import annotations

import csv
import html
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, PackageLoader

from highwater_checker.verdict import Outcome
from highwater_pipeline.report.sections import Section

LONG = frozenset({"check", "message", "named", "plan", "replay", "title"})
"""Columns whose cells run over several lines."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page. name: of its files. lead: the answer, at the top. tone: the answer's colour."""

    name: str
    title: str
    tone: Outcome
    lead: str
    notes: tuple[str, ...]
    sections: tuple[Section, ...]


def write_page(folder: Path, page: Page) -> Path:
    """Write the page's files into the folder, and return the path of the HTML."""
    folder.mkdir(parents=True, exist_ok=True)
    environment = Environment(
        loader=PackageLoader("highwater_pipeline.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    path = folder / f"{page.name}.html"
    template = environment.get_template("page.html.j2")
    path.write_text(template.render(page=page, long=LONG, zip=zip))
    (folder / f"{page.name}.md").write_text("\n".join(markdown(page)) + "\n")
    for section in page.sections:
        part = re.sub(r"\W+", "-", section.title.lower())
        (folder / f"{page.name}-{part}.csv").write_text(_csv(section))
    return path


def markdown(page: Page) -> Iterator[str]:
    """Yield the page's lines in Markdown, without its pictures."""
    yield f"# {_plain(page.title)}"
    for text in (page.lead, *page.notes):
        yield ""
        yield _plain(text)
    for section in page.sections:
        yield f"\n## {section.title}\n"
        if section.note:
            yield f"{_plain(section.note)}\n"
        if not section.table:
            yield "None."
            continue
        yield f"| {' | '.join(section.columns)} |"
        rules = ("---:" if column in section.numbers else "---" for column in section.columns)
        yield f"| {' | '.join(rules)} |"
        for row in section.cells:
            yield f"| {' | '.join(map(_plain, row))} |"


def _plain(text: str) -> str:
    """Return the text on one line, with the characters of Markdown and HTML escaped."""
    return re.sub(r"([\\`*_\[\]|])", r"\\\1", html.escape(" ".join(text.split()), quote=False))


def _csv(section: Section) -> str:
    text = io.StringIO()
    columns = list(section.rows[0]) if section.rows else []
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(section.rows)
    return text.getvalue()
