"""The plans that a soak has run, one JSON line each, in the order in which they ended.

A line is on the disk before the next plan begins, so that a soak goes on behind it after kill -9.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from highwater.runs.stock.libraries import ClientKind
from highwater_checker.verdict import Outcome
from highwater_core.config import Preset


class Repeat(msgspec.Struct, frozen=True):
    """A failed plan's run that repeats it. run: its folder's name."""

    outcome: Outcome
    run: str


class Entry(msgspec.Struct, frozen=True):
    """A plan that was run to its verdict, or could not be.

    run: its folder's name, "" without one.
    began: UTC. took_s: with the runs that repeat it. load: the machine's load average at its end.
    invariants: those that were violated. reasons: the verdict's first ones.
    simulated: what the same plan showed in virtual time, "" where it was not run there.
    cluster, round: of a soak with one cluster: which cluster of it, and which plan on that one.
    cluster_ended: why that cluster lived on no longer, "" if it did.
    commit: of the code that ran it; "" in ledgers of earlier versions, or without a checkout.
    is_told: whether a finding was told to the webhook and the command; of others it is True.
    """

    number: int
    seed: int
    preset: Preset
    client: ClientKind
    brokers: int
    controllers: int
    faults: int
    outcome: Outcome
    run: str
    began: str
    took_s: float
    load: float
    acknowledged: int = 0
    invariants: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    again: tuple[Repeat, ...] = ()
    simulated: str = ""
    cluster: int = 0
    round: int = 0
    cluster_ended: str = ""
    commit: str = ""
    is_told: bool = True


@dataclass(frozen=True, slots=True)
class Damage:
    """A line that is no entry. Its plan is run again."""

    line: int
    what: str


def read_entries(path: Path) -> tuple[list[Entry], list[Damage]]:
    """Return the entries by number, each plan's last one, and the damaged lines.

    A last line without its end was being written when the soak was killed: it is no damage.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return [], []
    found: dict[int, Entry] = {}
    damaged: list[Damage] = []
    for number, line in enumerate(_whole_lines(data), 1):
        try:
            entry = msgspec.json.decode(line, type=Entry)
        except (msgspec.DecodeError, ValueError) as fault:  # ValueError: no UTF-8
            damaged.append(Damage(number, str(fault)))
        else:
            found[entry.number] = entry
    return [found[number] for number in sorted(found)], damaged


def _whole_lines(data: bytes) -> Iterator[bytes]:
    *whole, _ = data.split(b"\n")
    yield from whole


class Ledger:
    """Appends entries; each is on the disk when `add` returns."""

    def __init__(self, path: Path) -> None:
        """Go on behind the last whole line."""
        self._path = path
        self.entries, self.damaged = read_entries(path)
        data = path.read_bytes() if path.exists() else b""
        self._keep(data[: data.rfind(b"\n") + 1], len(data))

    def _keep(self, whole: bytes, length: int) -> None:
        if length > len(whole):
            with self._path.open("r+b") as file:
                file.truncate(len(whole))
                os.fsync(file.fileno())

    def add(self, entry: Entry) -> None:
        with self._path.open("ab") as file:
            file.write(msgspec.json.encode(entry) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self.entries = [each for each in self.entries if each.number != entry.number]
        self.entries.append(entry)
        self.entries.sort(key=lambda each: each.number)

    def next_number(self) -> int:
        """Return the first plan without an entry."""
        done = {each.number for each in self.entries}
        number = 1
        while number in done:
            number += 1
        return number


def counts_of(entries: Sequence[Entry]) -> dict[Outcome, int]:
    """Return how many plans had each verdict."""
    return {outcome: sum(each.outcome is outcome for each in entries) for outcome in Outcome}


def verdict_of(
    entries: Sequence[Entry], *, was_stopped: bool = False, leaks: Sequence[object] = ()
) -> Outcome:
    """Return FAIL if a plan failed or nodes leak, else PASS where most plans proved something.

    More plans must have passed than prove nothing. A soak that ended before its time is unknown.
    """
    counts = counts_of(entries)
    if counts[Outcome.FAIL] or leaks:
        return Outcome.FAIL
    if was_stopped or counts[Outcome.PASS] <= counts[Outcome.UNKNOWN]:
        return Outcome.UNKNOWN
    return Outcome.PASS
