"""The faults of a finished run, from its intent log: when each acted, on what, and its proof."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from highwater_chaos import faults as f
from highwater_chaos.words import say_fault
from highwater_checker.run_folder import names
from highwater_checker.run_folder.files import read_whole
from highwater_checker.run_folder.intents import Intent, Phase
from highwater_core.ids import NodeId, node_name


class _AnyFault(msgspec.Struct, frozen=True):
    """A fault of any version: its kind."""

    fault: str


@dataclass(frozen=True, slots=True)
class FaultSpan:
    """A fault that acted. Units: ns from the run's start.

    fault: None of a kind that this version does not know.
    node: None where there are several, or none.
    end_ns: when it was being undone; None of one that was not, or whose end is not known.
    """

    fault: f.Fault | None
    text: str
    node: int | None
    proof: str
    begin_ns: int
    end_ns: int | None

    @property
    def label(self) -> str:
        """The fault's kind, as plans name it."""
        return self.text[:20] if self.fault is None else f.fault_name(self.fault)

    @property
    def deed(self) -> str:
        """The fault and its target."""
        return self.text if self.node is None else f"{self.text} ({node_name(NodeId(self.node))})"


def intents_in(folder: Path) -> list[Intent[Any]]:
    """Return the run's intents, without the lines that are damaged; [] without a log."""
    try:
        lines = read_whole(folder / names.INTENTS).split(b"\n")
    except OSError:
        return []
    decoder = msgspec.json.Decoder(Intent[Any])
    found: list[Intent[Any]] = []
    for line in lines:
        try:
            found.append(decoder.decode(line))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
    return found


def fault_in(told: object) -> tuple[f.Fault | None, str]:
    """Return the fault and its words; of a kind that this version does not know its name alone."""
    try:
        fault: f.Fault = msgspec.convert(told, f.Fault)
    except msgspec.ValidationError:
        pass
    else:
        return fault, say_fault(fault)
    try:
        return None, msgspec.convert(told, _AnyFault).fault
    except msgspec.ValidationError:
        return None, "a fault that cannot be read"


def fault_spans(folder: Path) -> list[FaultSpan]:
    """Return the faults that were proven to act, in the order in which they began to act."""
    return sorted(_spans(intents_in(folder)), key=lambda span: span.begin_ns)


def _spans(intents: Sequence[Intent[Any]]) -> Iterator[FaultSpan]:
    begun = {each.number: each.fault for each in intents if each.phase is Phase.INTENDED}
    ends: dict[int, int] = {}
    for each in intents:
        if each.phase in (Phase.REVERTING, Phase.REVERTED):
            ends.setdefault(each.number, each.at_ns)
    for each in intents:
        if each.phase is not Phase.ACTING or begun.get(each.number) is None:
            continue
        fault, text = fault_in(begun[each.number])
        begin_ns = each.at_ns if each.acted_ns is None else each.acted_ns
        end_ns = ends.get(each.number)
        for_ms = getattr(fault, "for_ms", None)
        if end_ns is None and for_ms is not None:  # simulated runs write no ends
            end_ns = begin_ns + for_ms * 1_000_000
        yield FaultSpan(fault, text, each.node, each.proof, begin_ns, end_ns)
