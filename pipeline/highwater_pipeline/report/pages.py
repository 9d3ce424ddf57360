"""Writes one page of sections: <name>.html, <name>.md, and a CSV file a section."""

from __future__ import annotations

import csv
import html
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jinja2 import Environment, PackageLoader

from highwater_checker.verdict import Outcome
from highwater_pipeline.report.sections import Section
from highwater_pipeline.tables import Row

LONG = frozenset({"check", "message", "named", "plan", "replay", "title"})
"""Columns whose cells run over several lines."""
RUN = "run_id"
"""The column whose cells lead to runs' pages."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page. name: of its files. lead: the answer, at the top. tone: the answer's colour.

    links: the addresses of runs' pages, relative to this one, by run; of those that are at hand.
    """

    name: str
    title: str
    tone: Outcome
    lead: str
    notes: tuple[str, ...]
    sections: tuple[Section, ...]
    links: Mapping[str, str] = field(default_factory=dict)

    @property
    def shown(self) -> tuple[Section, ...]:
        """The sections with something in them, and those whose emptiness is an answer."""
        return tuple(each for each in self.sections if each.is_shown)

    @property
    def left_out(self) -> str:
        """A sentence with the sections that are not shown, "" where all are."""
        names = [each.title for each in self.sections if not each.is_shown]
        return f"There is nothing to show of: {', '.join(names)}." if names else ""

    def link_of(self, column: str, row: Row) -> str:
        """Return the address that a cell leads to, "" for none."""
        return self.links.get(str(row[column]), "") if column == RUN else ""

    def rows_of(self, section: Section) -> Iterator[Sequence[tuple[str, str, str]]]:
        """Yield a section's rows for people: each cell's column, text and address."""
        for row, cells in zip(section.table, section.cells, strict=True):
            yield [
                (column, cell, self.link_of(column, row))
                for column, cell in zip(section.columns, cells, strict=True)
            ]


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
    path.write_text(template.render(page=page, long=LONG))
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
    for section in page.shown:
        yield f"\n## {section.title}\n"
        if section.note:
            yield f"{_plain(section.note)}\n"
        if not section.table:
            yield "None."
            continue
        yield f"| {' | '.join(section.columns)} |"
        rules = ("---:" if column in section.numbers else "---" for column in section.columns)
        yield f"| {' | '.join(rules)} |"
        for row in page.rows_of(section):
            yield f"| {' | '.join(_cell(text, link) for _, text, link in row)} |"
    if page.left_out:
        yield f"\n{_plain(page.left_out)}"


def _cell(text: str, link: str) -> str:
    return f"[{_plain(text)}]({link})" if link else _plain(text)


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
