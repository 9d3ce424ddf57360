"""What commands print: progress to stderr, results to stdout as text or JSON."""

from __future__ import annotations

import sys
from typing import Any

import msgspec
from rich.console import Console

PROGRESS = Console(stderr=True, highlight=False)
RESULTS = Console(highlight=False)


def say(text: str) -> None:
    """Print a line of progress."""
    PROGRESS.print(text, markup=False, soft_wrap=True)


def printable(text: str) -> str:
    """Return the text with control characters, such as ESC, written as escapes: \\x1b.

    Texts of a run may have any: a terminal would obey them.
    """
    return "".join(each if each.isprintable() else _escaped(each) for each in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def print_json(value: Any) -> None:
    """Print a value (dataclasses too) as indented JSON on stdout."""
    text = msgspec.json.format(msgspec.json.encode(value, enc_hook=str), indent=2)
    sys.stdout.write(text.decode() + "\n")
