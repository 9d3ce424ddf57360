"""What each row of the table came to when it last ran: a line of JSON in runs.jsonl.

docs/reference/clients.md is made from these lines; `make clients` runs the rows and writes them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from highwater.project import project_root

FAILURE_CHARACTERS = 300
RUNS = Path(__file__).with_name("runs.jsonl")
PASSED = "pass"


class Row(NamedTuple):
    """A row of the table by its names."""

    client: str
    killed: str


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A row's last run."""

    client: str
    killed: str
    version: str
    preset: str
    outcome: Literal["pass", "fail", "not here"]
    """`not here`: the machine had not the client."""
    seconds: float = 0.0
    """What the run took, without what it took to have the client."""
    codecs: tuple[str, ...] = ()
    """The codecs that the client has."""
    steps: Mapping[str, str] = {}
    """Each step that was tried: PASSED, or what went wrong."""
    notes: tuple[str, ...] = ()
    """What the client's program told of, and why the client is not here."""

    @property
    def row(self) -> Row:
        return Row(self.client, self.killed)


def with_run(runs: Iterable[Run], run: Run, rows: Sequence[Row]) -> list[Run]:
    """Return the runs with this one for its row, in the order of the rows; others' rows are gone.

    A client that is not here leaves the line of a machine that had it.
    """
    last = {each.row: each for each in runs}
    if run.outcome != "not here" or run.row not in last:
        last[run.row] = run
    return [last[row] for row in rows if row in last]


def decoded(text: str) -> list[Run]:
    return [msgspec.json.decode(line, type=Run) for line in text.splitlines()]


def encoded(runs: Iterable[Run]) -> str:
    return "".join(f"{msgspec.json.encode(run).decode()}\n" for run in runs)


def read_runs() -> list[Run]:
    return decoded(RUNS.read_text()) if RUNS.exists() else []


def shortened(run: Run) -> Run:
    """Return the run with the ends of its failures alone, which say most, and no folder's name."""
    root = f"{project_root()}/"
    steps = {
        step: why
        if why == PASSED
        else " ".join(why.replace(root, "").split())[-FAILURE_CHARACTERS:]
        for step, why in run.steps.items()
    }
    return msgspec.structs.replace(run, steps=steps)


def keep_run(run: Run, rows: Sequence[Row]) -> None:
    """Write the run's line, where the tests were told to (HIGHWATER_RECORD_CLIENTS=1)."""
    if os.environ.get("HIGHWATER_RECORD_CLIENTS") == "1":
        RUNS.write_text(encoded(with_run(read_runs(), shortened(run), rows)))
