"""The pages that a stranger reads first name all commands and presets that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer.main

from highwater.checkout import version_here
from highwater.cli import make_app
from highwater.project import project_root
from highwater_core.config import Preset


def test_the_readme_lists_every_command() -> None:
    command = typer.main.get_command(make_app(""))
    names = set(getattr(command, "commands"))  # noqa: B009 - only a group has them
    text = (project_root() / "README.md").read_text()
    (listed,) = re.findall(r"^The commands are (.+?); each has", text, re.MULTILINE)
    told = re.findall(r"`(?:highwater )?([a-z-]+)`", listed)
    assert sorted(told) == sorted(names)


def test_no_page_installs_the_other_project_of_this_name() -> None:
    """On the package index highwater is not ours."""
    root = project_root()
    by_name = re.compile(
        r"^highwater\b|pip install (-\S+ )*['\"]?highwater(?!\S*whl)", re.MULTILINE
    )
    pages = [*root.glob("*.md"), *root.glob("docs/**/*.md"), *root.glob("examples/**/*.md")]
    installing = [line for page in pages for line in _lines_with_pip(page)]
    requirements = (root / "examples/orders/requirements.txt").read_text().splitlines()
    assert [line for line in (*installing, *requirements) if by_name.search(line)] == []


def _lines_with_pip(page: Path) -> list[str]:
    return [line for line in page.read_text().splitlines() if "pip install" in line]


def test_the_examples_requirements_name_this_versions_wheel() -> None:
    text = (project_root() / "examples/orders/requirements.txt").read_text()
    assert f"./wheels/highwater-{version_here()}-py3-none-any.whl" in text.splitlines()


@pytest.mark.parametrize(
    "page", ["README.md", "ARCHITECTURE.md", "docs/README.md", "docs/explanation/presets.md"]
)
def test_a_page_that_tells_of_presets_names_all_of_them(page: str) -> None:
    text = (project_root() / page).read_text()
    assert [each.value for each in Preset if f"`{each.value}`" not in text] == []
