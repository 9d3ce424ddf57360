"""Links between the repository's Markdown files lead somewhere, and lists of pages are whole.

`make lint` holds the same against the site (scripts/make-site), which takes longer.
"""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def pages() -> list[Path]:
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    found = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [ROOT / name for name in found.splitlines() if (ROOT / name).is_file()]


def without_code(text: str) -> str:
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", lambda code: re.sub(r"[\[\]()#]", "", code[0]), text)


def links_in(text: str) -> Iterator[str]:
    """Yield the targets of links and pictures that are in the repository."""
    targets = re.findall(r"\]\(([^()\s]+)\)", without_code(text))
    yield from (target for target in targets if "://" not in target)


def anchors_in(text: str) -> set[str]:
    """Return the names that Git hosts give to the headings."""
    seen: Counter[str] = Counter()
    anchors = set()
    for heading in re.findall(r"^#+ +(.+)$", without_code(text), re.MULTILINE):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", shown.strip().lower()).replace(" ", "-")
        anchors.add(f"{name}-{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return anchors


def problem_of(page: Path, link: str) -> str | None:
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.is_file():
        # The site has files; a folder is linked by its README.md.
        return "no such file"
    if anchor and anchor not in anchors_in(target.read_text()):
        return "no such heading"
    return None


def test_every_link_leads_to_a_file_and_every_anchor_to_a_heading() -> None:
    problems = [
        f"{page.relative_to(ROOT)}: {link}: {problem}"
        for page in pages()
        for link in links_in(page.read_text())
        if (problem := problem_of(page, link))
    ]
    assert problems == []


def test_every_page_of_the_docs_is_in_the_list_of_its_folder_or_of_the_docs() -> None:
    docs = ROOT / "docs"
    listed = {
        (folder / link.partition("#")[0]).resolve()
        for folder in (docs, docs / "decisions", docs / "reference" / "bugs")
        for link in links_in((folder / "README.md").read_text())
    }
    missing = [page for page in pages() if docs in page.parents and page not in listed]
    assert missing == [docs / "README.md"]


@pytest.mark.parametrize(
    ("link", "problem"),
    [
        ("other.md", None),
        ("other.md#two-words-v3", None),
        ("other.md#two-words-v3-1", None),
        ("#here", None),
        ("other.md#here", "no such heading"),
        ("other.md#in-code", "no such heading"),
        ("nobody.md", "no such file"),
        (".", "no such file"),
    ],
)
def test_what_a_link_is_held_to(tmp_path: Path, link: str, problem: str | None) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Here\n\n[a link]({link}), `[no](link)`\n")
    headings = "## Two words, `v3`\n## [Two](page.md) words, v3\n```\n# In code\n```\n"
    (tmp_path / "other.md").write_text(headings)
    assert list(links_in(page.read_text())) == [link]
    assert problem_of(page, link) == problem
