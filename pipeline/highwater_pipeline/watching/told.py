"""What a watch has told: one line an alert or a verdict, each once, whatever was restarted.

Spark may run a batch again that it had finished and not yet noted. A line is on the disk before
anybody hears of it, so that what comes again is known.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from pathlib import Path

import msgspec

from highwater_checker.verdict import Outcome

Place = tuple[object, ...]


class ToldAlert(msgspec.Struct, frozen=True, tag="alert", tag_field="kind"):
    """A finding in a run that went on. time_s: in the run's time; file: whose line shows it."""

    run: str
    invariant: str
    topic: str
    partition: int
    offset: int
    broker: int
    operation: str
    message: str
    time_s: float
    file: str

    @property
    def key(self) -> Place:
        return (
            "alert", self.run, self.invariant, self.topic, self.partition, self.offset,
            self.broker, self.operation, self.message,
        )  # fmt: skip


class ToldVerdict(msgspec.Struct, frozen=True, tag="verdict", tag_field="kind"):
    """The verdict of a run that has ended.

    outcome, by_tables, recorded, findings, reasons: as in highwater_pipeline.judging.verdicts.
    was_pruned: its evidence was gone; outcome is what its own verdict.json has, by_tables is "".
    """

    run: str
    outcome: Outcome
    by_tables: str
    recorded: str
    findings: int
    reasons: str
    was_pruned: bool = False

    @property
    def key(self) -> Place:
        return ("verdict", self.run)


Told = ToldAlert | ToldVerdict
_DECODER = msgspec.json.Decoder(Told)


class Ledger:
    """The file with a line for each. Several threads may add to it."""

    def __init__(self, path: Path) -> None:
        """Read what was told before; a last line that was not finished is taken away."""
        self._path = path
        self._lock = threading.Lock()
        data = path.read_bytes() if path.exists() else b""
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):
            os.truncate(path, len(whole))
        self._told = {each.key: each for each in map(_DECODER.decode, whole.splitlines())}

    @property
    def all(self) -> tuple[Told, ...]:
        with self._lock:
            return tuple(self._told.values())

    def has_verdict(self, run: str) -> bool:
        with self._lock:
            return ("verdict", run) in self._told

    def add(self, told: Iterable[Told]) -> list[Told]:
        """Return those that are new, once they are on the disk, in their order."""
        with self._lock:
            new = {each.key: each for each in told if each.key not in self._told}
            if new:
                lines = b"".join(msgspec.json.encode(each) + b"\n" for each in new.values())
                with self._path.open("ab") as file:
                    file.write(lines)
                    file.flush()
                    os.fsync(file.fileno())
                self._told |= new
            return list(new.values())


def outcome_of(told: Iterable[Told]) -> Outcome:
    """Return fail with an alert or a failed run; else unknown with an unknown run, or without any
    run that has ended; else pass."""
    outcomes = {Outcome.FAIL if isinstance(each, ToldAlert) else each.outcome for each in told}
    if Outcome.FAIL in outcomes:
        return Outcome.FAIL
    return Outcome.PASS if outcomes == {Outcome.PASS} else Outcome.UNKNOWN
