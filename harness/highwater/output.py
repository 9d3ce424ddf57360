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


def print_json(value: Any) -> None:
    """Print a value (dataclasses too) as indented JSON on stdout."""
    text = msgspec.json.format(msgspec.json.encode(value, enc_hook=str), indent=2)
    sys.stdout.write(text.decode() + "\n")
