"""What commands print: progress to stderr, results to stdout as text or JSON."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from highwater_checker.verdict import Outcome

Cell = Callable[[Any], str]

STYLES = {Outcome.PASS: "bold green", Outcome.FAIL: "bold red", Outcome.UNKNOWN: "bold yellow"}
"""The colour of each verdict."""
_WIDE = 150
"""Columns of a table that is printed whole."""
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


def table_of_columns(rows: Sequence[Mapping[str, Any]], head: str, cell: Cell) -> Table:
    """Return a table with a column for each row: there are few rows, and many values of each.

    head: the name of the value above a column. cell: returns a value's text.
    """
    table = Table(box=None)
    table.add_column("")
    for row in rows:
        table.add_column(str(row[head]), justify="right")
    for name in rows[0] if rows else ():
        if name != head:
            table.add_row(name.replace("_", " "), *(cell(row[name]) for row in rows))
    return table


def print_whole(table: Table) -> None:
    """Print a table with whole cells, however narrow the terminal: numbers must not be cut."""
    RESULTS.print(table, width=max(RESULTS.width, _WIDE), crop=False)


def print_json(value: Any) -> None:
    """Print a value (dataclasses too) as indented JSON on stdout."""
    text = msgspec.json.format(msgspec.json.encode(value, enc_hook=str), indent=2)
    sys.stdout.write(text.decode() + "\n")
