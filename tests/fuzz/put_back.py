"""Puts mistakes back that nodes once made, and tells how soon a fuzzer meets them.

    python -m tests.fuzz put-back             a table; exit code 1 when one is not met
    python -m tests.fuzz put-back NAME...

Each is one function of node code or of the judge, as it was or as if its check were not there. The
corpus is not looked at: what is met is met by fresh inputs.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from typing import Any
from unittest import mock

from rich.console import Console
from rich.table import Table

from highwater_adapters import response_writer, running_handlers
from highwater_broker import replica_logs, replica_manager
from highwater_broker.logic import command_faults
from highwater_checker.invariants import acknowledged_records, reads, replica_equality
from highwater_core import znodes
from tests.fuzz.cases import Case, Failure, Fuzzer, failure_of
from tests.fuzz.run import FUZZERS, draw_case, inputs_of

INPUTS_MAX = 15_000
"""So many inputs are tried for one mistake; sound code passes all of them."""
SEED = 1


@dataclass(frozen=True, slots=True)
class Mistake:
    """What the fuzzer is to meet; `parts` are objects, names in them, and what is put there."""

    name: str
    fuzzer: str
    parts: tuple[tuple[Any, str, Any], ...]
    hangs: bool = False
    """Whether it shows as a step that hangs, which takes a minute to tell."""


@dataclass(frozen=True, slots=True)
class Met:
    """How a mistake showed, after so many inputs; signature empty: it did not."""

    inputs: int
    signature: str


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _no_fault(*_: Any) -> str:
    return ""


def _true(*_: Any) -> bool:
    return True


def _goes_on(writer: Any, reason: str) -> None:
    """Mark the connection as closed and leave the piece queued, as before the mend."""
    writer._transport.abort()


MISTAKES = (
    Mistake(
        "any name may become a folder",
        "control",
        ((replica_manager, "can_be_hosted", _true), (replica_logs, "can_be_hosted", _true),
         (command_faults, "find_name_fault", _no_fault)),
    ),
    Mistake(
        "a reader that has gone leaves its file queued",
        "sockets",
        ((response_writer.ResponseWriter, "_abort", _goes_on),
         (response_writer.ResponseWriter, "close", _nothing)),
        hangs=True,
    ),
    Mistake(
        "a handler waits on for a connection that is gone",
        "sockets",
        ((running_handlers.RunningHandlers, "cancel", _nothing),),
    ),
    Mistake(
        "a znode is believed to be what it should be",
        "znodes",
        ((znodes, "MalformedZnode", KeyError),),
    ),
    Mistake(
        "compaction excuses whatever is gone",
        "evidence",
        ((acknowledged_records, "is_succeeded", _true), (reads, "is_succeeded", _true),
         (replica_equality, "is_succeeded", _true)),
    ),
)  # fmt: skip


def look_for(mistake: Mistake) -> Met:
    """Feed the mistake's fuzzer until something breaks that does not without the mistake."""
    fuzzer = FUZZERS[mistake.fuzzer]
    inputs = 0
    for number in count():
        case = draw_case(fuzzer, SEED, number)
        inputs += inputs_of(fuzzer, case)
        failure = _failure_with(mistake, fuzzer, case)
        if failure is not None and failure_of(fuzzer, case) is None:
            return Met(inputs, failure.signature)
        if inputs >= INPUTS_MAX:
            return Met(inputs, "")
    raise AssertionError  # the numbers have no end


def _failure_with(mistake: Mistake, fuzzer: Fuzzer, case: Case) -> Failure | None:
    with ExitStack() as stack:
        for part in mistake.parts:
            stack.enter_context(mock.patch.object(*part))
        return failure_of(fuzzer, case)


def put_back(names: list[str]) -> int:
    """Show how soon each mistake is met."""
    table = Table("mistake", "fuzzer", "inputs", "seen as")
    missed = 0
    for mistake in MISTAKES:
        if names and mistake.name not in names:
            continue
        met = look_for(mistake)
        missed += not met.signature
        sys.stderr.write(f"{mistake.name}: {met.inputs} inputs: {met.signature or 'not met'}\n")
        table.add_row(mistake.name, mistake.fuzzer, f"{met.inputs:,}", met.signature or "not met")
    Console(width=160).print(table)
    return 1 if missed else 0
