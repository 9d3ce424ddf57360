"""The alerts and verdicts that a watch has printed: a line for each, once, also after restarts.

Spark may run a batch again that it had finished and not yet noted. A line is on the disk before
anybody hears of it, so that what comes again is known.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from pathlib import Path

import msgspec

from highwater_checker.finding import Finding
from highwater_checker.verdict import Outcome
from highwater_pipeline.watching.live_checks import key_of

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
        return ("alert", self.run, self.invariant, self.topic, self.partition, key_of(self.finding))

    @property
    def finding(self) -> Finding:
        return Finding(
            self.invariant,
            self.message,
            self.topic,
            self.partition,
            self.offset,
            self.broker,
            self.operation,
        )


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
        """Read the file's alerts and verdicts; a last line that was not finished is removed.

        Raises:
            DecodeError: another line is damaged.
            OSError: the file cannot be read.
        """
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
        """Append the alerts and verdicts that the file does not have; return those, in their order.

        Ordering: they are synced before this returns.

        Raises:
            OSError: they could not be written; nothing of them stays.
        """
        with self._lock:
            new: dict[Place, Told] = {}
            for each in told:
                if each.key not in self._told:
                    new.setdefault(each.key, each)
            if new:
                lines = b"".join(msgspec.json.encode(each) + b"\n" for each in new.values())
                _append(self._path, lines)
                self._told |= new
            return list(new.values())


def _append(path: Path, lines: bytes) -> None:
    """Append the lines and sync them, or leave the file as it was: a torn line would be joined."""
    with path.open("ab", buffering=0) as file:
        size, left = file.seek(0, os.SEEK_END), memoryview(lines)
        try:
            while left:
                left = left[file.write(left) :]
            os.fsync(file.fileno())
        except OSError:
            file.truncate(size)
            raise


def outcome_of(told: Iterable[Told]) -> Outcome:
    """Return fail with an alert or a failed run; else unknown with an unknown run, or without any
    run that has ended; else pass."""
    outcomes = {Outcome.FAIL if isinstance(each, ToldAlert) else each.outcome for each in told}
    if Outcome.FAIL in outcomes:
        return Outcome.FAIL
    return Outcome.PASS if outcomes == {Outcome.PASS} else Outcome.UNKNOWN
