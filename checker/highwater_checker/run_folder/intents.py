"""The log of a run's faults, intent.jsonl: a line for each phase of each fault.

Ordering: the line of a phase is on the disk before the phase begins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from highwater_core.json_lines import decode_lines
from highwater_core.numbers import Int32, Int64

F = TypeVar("F")

NO_FAULT = 0
"""The number of lines that belong to no single fault."""


class Phase(StrEnum):
    """A phase of a fault's life: its first, and the ones that may follow."""

    INTENDED = "intended"
    """Then acting, or not_done."""
    ACTING = "acting"
    """It was done, and is proven. Then reverting."""
    NOT_DONE = "not_done"
    REVERTING = "reverting"
    """Then reverted, or not_reverted."""
    REVERTED = "reverted"
    NOT_REVERTED = "not_reverted"
    NO_HELPERS = "no_helpers"
    """Of no fault, number 0: faults are done without the helpers that they are better with."""
    NOT_RENEWED = "not_renewed"
    """Of no fault, number 0: rules of links were not renewed in time."""
    STARTING = "starting"
    """Of no fault, number 0: the run, or its test, starts a node again."""


class IntendedFault(msgspec.Struct, frozen=True):
    """A fault as far as it is judged: its kind, and its node as the plan names it."""

    fault: str
    node: str | None = None


class Intent(msgspec.Struct, Generic[F], frozen=True, omit_defaults=True):
    """One line of the log.

    Units: at_ns is the run's time.
    number: the fault's, from 1.
    fault: of the phase intended; as highwater_chaos.faults encodes it, whose structure readers give
        as far as they need it.
    node: of the phases acting and starting, None where there are several.
    proof: of the phase acting: how the fault is seen to act.
    acted_ns: of the phase acting: when it began to act, in the run's time; it is proven later.
    why: of a phase that did not succeed.
    seen: of the phase reverted: how the fault is seen to be gone.
    """

    at_ns: Int64
    number: Int32
    phase: Phase
    fault: F | None = None
    node: Int32 | None = None
    proof: str = ""
    why: str = ""
    seen: str = ""
    acted_ns: Int64 | None = None


def encode_intent(intent: Intent[Any]) -> bytes:
    """Return one line of JSON, without its newline."""
    return msgspec.json.encode(intent)


def read_intents(path: Path, fault: Any = Any) -> list[Intent[Any]]:
    """Return the log's lines, in order, with faults of that type.

    An unfinished last line is left out: its phase had not begun.

    Raises:
        OSError: there is no such file.
        msgspec.DecodeError: another line is malformed.
    """
    return decode_intents(path.read_bytes(), fault)


def decode_intents(content: bytes, fault: Any = Any) -> list[Intent[Any]]:
    """Return what read_intents does, of a file's content."""
    decoder: msgspec.json.Decoder[Intent[Any]] = msgspec.json.Decoder(Intent[fault])
    lines = content.split(b"\n")[:-1]  # the last is "", or was not finished
    return [decoder.decode(line) for line in lines]


def decode_judged(lines: Iterable[bytes]) -> list[Intent[IntendedFault]]:
    """Return the contents of complete lines; a torn last line of a killed harness is left out.

    Raises:
        DamagedLines: a line before the last is malformed.
    """
    decoder: msgspec.json.Decoder[Intent[IntendedFault]] = msgspec.json.Decoder(
        Intent[IntendedFault]
    )
    return decode_lines(decoder.decode, lines)


def starts_in(intents: Iterable[Intent[Any]]) -> Mapping[int, int]:
    """Return how often the run started each node again, by node."""
    starts = (each.node for each in intents if each.phase is Phase.STARTING)
    return Counter(node for node in starts if node is not None)
