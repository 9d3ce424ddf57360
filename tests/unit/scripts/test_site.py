"""The documentation's site: its navigation, its diagrams, and what it may not load."""

from __future__ import annotations

import pytest

from highwater_checker.stories.diagram import Step
from scripts.site.diagrams import diagram_in, fence
from scripts.site.pages import navigation, outer_addresses

INDEX = """
| | |
|---|---|
| **Learn** | |
| [tutorial.md](tutorial.md) | one demo |
| **Look up** | |
| [bugs/](reference/bugs/README.md) | old ones, see [the list](list.md) |
"""
SEQUENCE = """sequenceDiagram
    participant faults
    participant broker-0
    participant oracle
    faults->>broker-0: kill <it>#59; at once
    Note over broker-0: leads
    Note over oracle: I1: lost
"""


def test_the_navigation_is_the_index_and_then_the_code() -> None:
    paths = [
        "CHANGELOG.md",
        "README.md",
        "docs/README.md",
        "docs/forgotten.md",
        "docs/reference/bugs/KIP-1.md",
        "docs/reference/bugs/README.md",
        "docs/tutorial.md",
        "tests/README.md",
        "tests/mutants.md",
    ]
    bugs = ["docs/reference/bugs/README.md", {"KIP-1": "docs/reference/bugs/KIP-1.md"}]
    code = ["CHANGELOG.md", {"tests/": "tests/README.md"}, {"tests/mutants.md": "tests/mutants.md"}]
    # MkDocs warns of the page that is in no list, and the build fails.
    assert navigation(INDEX, paths) == [
        {"Highwater": ["README.md", "docs/README.md"]},
        {"Learn": ["docs/tutorial.md"]},
        {"Look up": [{"Bugs": bugs}]},
        {"The code": code},
    ]


def test_a_sequence_diagram_is_drawn_without_mermaid() -> None:
    drawn = diagram_in(SEQUENCE)
    assert drawn is not None
    assert drawn.columns == ("faults", "broker-0", "oracle")
    assert drawn.steps == (
        Step(0, "faults", "kill <it>; at once", "broker-0"),
        Step(0, "broker-0", "leads"),
        Step(0, "oracle", "I1: lost", is_verdict=True),
    )
    html = fence(SEQUENCE)
    assert "<svg" in html
    assert "kill &lt;it&gt;; at once" in html
    assert " ms<" not in html
    assert "\n\n" not in html


@pytest.mark.parametrize(
    "source",
    [
        "stateDiagram-v2\n    one --> two: <effect>",
        "sequenceDiagram\n    participant a\n    a->>b: <who is b?>",
        "sequenceDiagram\n    participant a\n    loop <for ever>\n    end",
    ],
)
def test_another_diagram_stays_as_its_source(source: str) -> None:
    html = fence(source)
    assert "<svg" not in html
    assert source.replace("<", "&lt;").replace(">", "&gt;") in html


@pytest.mark.parametrize(
    ("tag", "addresses"),
    [
        ('<script src="https://cdn.example/mermaid.js">', ["https://cdn.example/mermaid.js"]),
        ("<link rel=stylesheet href=//fonts.example/css>", ["//fonts.example/css"]),
        ('<img alt="" src="http://badges.example/a.svg">', ["http://badges.example/a.svg"]),
        ('<img src="images/a.png"><script src="assets/a.js">', []),
        ('<a href="https://issues.apache.org/">', []),
        ('<link rel="canonical" href="https://docs.example/">', []),
    ],
)
def test_what_a_browser_would_load_from_elsewhere(tag: str, addresses: list[str]) -> None:
    assert list(outer_addresses(f"<p>{tag}</p>")) == addresses
