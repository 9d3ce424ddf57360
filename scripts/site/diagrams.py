"""Mermaid's sequence diagrams, as the project writes them, drawn as SVG: Mermaid itself is no part
of the site, which needs no network and no script for them. Other diagrams stay as their source."""

from __future__ import annotations

import re
from html import escape
from typing import Any

from jinja2 import Environment, PackageLoader

from highwater.report.diagram_svg import drawing_of
from highwater_checker.stories.diagram import Diagram, Step

_COLUMN = re.compile(r"participant (\S+)")
_NOTE = re.compile(r"Note over (\S+): (.+)")
_ARROW = re.compile(r"(\S+?)->>(\S+): (.+)")


def fence(source: str, *_: Any, **__: Any) -> str:
    """Return the HTML of a block of Mermaid (a format of pymdownx.superfences)."""
    drawn = diagram_in(source)
    if drawn is None:
        return f'<pre class="diagram-source"><code>{escape(source)}</code></pre>'
    template = Environment(loader=PackageLoader("highwater.report"), autoescape=True).get_template(
        "drawing.svg.j2"
    )
    svg = template.render(drawing=drawing_of(drawn), is_timed=False)
    # Blank lines would end the block for Markdown.
    lines = (line for line in svg.splitlines() if line.strip())
    return '<div class="drawing">' + "\n".join(lines) + "</div>"


def diagram_in(source: str) -> Diagram | None:
    """Return the sequence diagram; None where the source has anything else."""
    first, *lines = (line.strip() for line in source.strip().splitlines())
    if first != "sequenceDiagram":
        return None
    columns: list[str] = []
    steps: list[Step] = []
    for line in lines:
        text = line.replace("#59;", ";")
        if column := _COLUMN.fullmatch(text):
            columns.append(column[1])
        elif note := _NOTE.fullmatch(text):
            steps.append(Step(0, note[1], note[2], is_verdict=note[1] in ("oracle", "judge")))
        elif arrow := _ARROW.fullmatch(text):
            steps.append(Step(0, arrow[1], arrow[3], arrow[2]))
        else:
            return None
    known = all(each in columns for step in steps for each in (step.who, step.to or step.who))
    return Diagram(tuple(columns), tuple(steps)) if known else None
