"""The pages that a stranger reads first name all commands and presets that there are."""

from __future__ import annotations

import re

import pytest
import typer.main

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


@pytest.mark.parametrize(
    "page", ["README.md", "ARCHITECTURE.md", "docs/README.md", "docs/explanation/presets.md"]
)
def test_a_page_that_tells_of_presets_names_all_of_them(page: str) -> None:
    text = (project_root() / page).read_text()
    assert [each.value for each in Preset if f"`{each.value}`" not in text] == []
