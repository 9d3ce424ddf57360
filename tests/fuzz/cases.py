"""What a fuzzer is, what it feeds, and what it says when something broke."""

from __future__ import annotations

import base64
import json
import signal
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Protocol

from highwater_core.check import BugFound
from highwater_simulator.kernel import SimulationFailed
from tests.fuzz.draws import Draws

CPU_SECONDS_MAX = 20.0
"""Of one case, on the process's own clock of CPU time: more is a loop without an end."""
_OURS = "/highwater_"
_NOT_THE_PLACE = ("simulator/", "core/check.")


@dataclass(frozen=True, slots=True)
class Step:
    """One input: what is done with it, and its bytes."""

    label: str
    payload: bytes = b""

    def __str__(self) -> str:
        shown = self.payload[:24].hex()
        rest = f"... {len(self.payload)} bytes" if len(self.payload) > 24 else ""
        return f"{self.label} {shown}{rest}".strip()


Case = tuple[Step, ...]
"""Inputs that one cluster, or one folder, is given one after another."""


class Broken(Exception):
    """What every input must leave true is not true any more; `rule` names which."""

    def __init__(self, rule: str, what: str) -> None:
        super().__init__(f"{rule}: {what}")
        self.rule = rule


class Stalled(BaseException):
    """A case took more CPU time than any sound one does; not an Exception: nothing swallows it."""


class Fuzzer(Protocol):
    """Draws cases and runs them; a case that finds nothing returns."""

    name: str

    def draw(self, draws: Draws) -> Case: ...

    def run(self, case: Case) -> None:
        """Run the case.

        Raises:
            Exception, BugFound: what the code under test must not raise, or Broken.
        """
        ...

    def simpler(self, step: Step) -> Iterator[Step]:
        """Yield steps that are simpler than this one, the simplest first."""
        ...


@dataclass(frozen=True, slots=True)
class Failure:
    """What a case broke. Two failures of one signature count as one bug."""

    signature: str
    text: str


def failure_of(fuzzer: Fuzzer, case: Case) -> Failure | None:
    """Run the case and return what it broke, None when nothing."""
    try:
        with cpu_time_limit(CPU_SECONDS_MAX):
            fuzzer.run(case)
    except (Exception, BugFound, Stalled) as error:  # noqa: BLE001 (whatever it is, it is told)
        cause = _cause_of(error)
        return Failure(_signature(cause), "".join(traceback.format_exception(cause)))
    return None


@contextmanager
def cpu_time_limit(seconds: float) -> Iterator[None]:
    """Raise Stalled out of whatever runs once the process has used so much CPU time."""

    def stop(_: int, frame: FrameType | None) -> None:
        raise Stalled(f"more than {seconds:g} s of CPU time")

    former = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds, 0.5)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, former)


def _cause_of(error: BaseException) -> BaseException:
    """Return what a node met, where it is the simulator that tells of it."""
    if isinstance(error, SimulationFailed) and error.__cause__ is not None:
        return error.__cause__
    return error


def _signature(error: BaseException) -> str:
    """Return the error's type and the innermost function of ours that it came through."""
    if isinstance(error, Broken):
        return f"Broken: {error.rule}"
    places = [
        f"{frame.filename.rpartition(_OURS)[2].removesuffix('.py')}.{frame.name}"
        for frame in traceback.extract_tb(error.__traceback__)
        if _OURS in frame.filename
    ]
    places = [place for place in places if not place.startswith(_NOT_THE_PLACE)]
    place = places[-1] if places and not isinstance(error, Stalled) else "the code under test"
    return f"{type(error).__name__} in {place}"


# ---------------------------------------------------------------- cases as files


def case_to_json(fuzzer_name: str, case: Case, note: str) -> str:
    """Return a corpus file's text: one step a line."""
    steps = ",\n".join(
        f"  {json.dumps([step.label, base64.b85encode(step.payload).decode()])}" for step in case
    )
    head = f'{{"fuzzer": {json.dumps(fuzzer_name)},\n"found": {json.dumps(note)},\n"steps": [\n'
    return f"{head}{steps}\n]}}\n"


def case_from_json(text: str) -> tuple[str, Case]:
    """Return the fuzzer's name and the case."""
    found = json.loads(text)
    return found["fuzzer"], tuple(
        Step(label, base64.b85decode(payload)) for label, payload in found["steps"]
    )


def read_case(path: Path) -> tuple[str, Case]:
    return case_from_json(path.read_text(encoding="ascii"))
