"""The commands that pages tell a reader to type exist, with their options."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import typer.main

from highwater.cli import make_app
from highwater.project import project_root

COMMAND = typer.main.get_command(make_app(""))
PAGES = sorted(
    [
        project_root() / "README.md",  # CHANGELOG.md tells of former commands too
        *(project_root() / "docs").rglob("*.md"),
        *(project_root() / "examples").rglob("*.md"),
    ]
)


def commands_in(text: str) -> Iterator[str]:
    """Yield what stands as code and begins with the command, in a block or within a line."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    yield from (
        line.strip()
        for block in blocks
        for line in block.replace("\\\n", " ").splitlines()
        if line.strip().removeprefix(".venv/bin/").startswith("highwater ")
    )
    outside = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    yield from re.findall(r"`((?:\.venv/bin/)?highwater [^`]+)`", outside)


def problem_of(line: str) -> str | None:
    """Return which command or option is none, None of a line that may be typed."""
    try:
        words = shlex.split(re.split(r"\s[|>&]|\s2>|;", line)[0], comments=True)
    except ValueError:
        words = line.split()
    found: click.Command = COMMAND  # type: ignore[assignment]
    options = _options_of(found)
    for word in words[1:]:
        if word.startswith("--"):
            if word.partition("=")[0].rstrip(".,") not in options | {"--help", "--version"}:
                return f"no option {word} of highwater {found.name}"
        elif hasattr(found, "commands"):
            if not re.fullmatch(r"[a-z][a-z-]*", word):
                return None  # COMMAND, ...
            if word not in found.commands:
                return f"no command {word}"
            found = found.commands[word]
            options = _options_of(found)
    return None


def _options_of(command: click.Command) -> set[str]:
    return {name for each in command.params for name in (*each.opts, *each.secondary_opts)}


@pytest.mark.parametrize(
    "page", PAGES, ids=lambda page: page.relative_to(project_root()).as_posix()
)
def test_every_command_of_a_page_exists(page: Path) -> None:
    found = [(line, problem_of(line)) for line in commands_in(page.read_text())]
    assert [f"{line}: {problem}" for line, problem in found if problem] == []


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("highwater run plan.json --events", None),
        ("highwater sim replay 7 --digest-only   # the digest", None),
        ("highwater down --all; highwater up", None),
        ("highwater COMMAND --help", None),
        ("highwater run plan.json --digest-only", "no option --digest-only of highwater run"),
        ("highwater sim walk 7", "no command walk"),
        ("highwater trace", "no command trace"),
    ],
)
def test_what_a_command_is_held_to(line: str, problem: str | None) -> None:
    text = f"Type `{line}`:\n```\n{line}\nsomething else\n```\n"
    assert list(commands_in(text)) == [line, line]
    assert problem_of(line) == problem
