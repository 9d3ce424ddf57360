"""Runs a fuzzer over numbered cases of a seed, and keeps one of each failure."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz.cases import Case, Failure, Fuzzer, failure_of
from tests.fuzz.control import ControlFuzzer
from tests.fuzz.draws import Draws
from tests.fuzz.evidence import EvidenceFuzzer
from tests.fuzz.files import FilesFuzzer
from tests.fuzz.handlers import HandlersFuzzer
from tests.fuzz.sockets import SocketsFuzzer
from tests.fuzz.znodes import ZnodesFuzzer

FUZZERS: dict[str, Fuzzer] = {
    fuzzer.name: fuzzer
    for fuzzer in (
        HandlersFuzzer(),
        SocketsFuzzer(),
        ControlFuzzer(),
        ZnodesFuzzer(),
        FilesFuzzer(),
        EvidenceFuzzer(),
    )
}
CORPUS = Path(__file__).parent / "corpus"
ONE_INPUT_A_CASE = ("files", "evidence")
"""There a case is one folder; elsewhere each of its steps is an input."""


@dataclass(slots=True)
class Outcome:
    """What some cases came to."""

    cases: int = 0
    inputs: int = 0
    seconds: float = 0.0
    found: dict[str, tuple[int, Case, Failure]] = field(default_factory=dict)
    """By signature: the first case's number, the case, what it broke."""


def draw_case(fuzzer: Fuzzer, seed: int, number: int) -> Case:
    """Return the case of that number: nothing else decides what it is."""
    return fuzzer.draw(Draws(f"{seed}/{fuzzer.name}/{number}"))


def inputs_of(fuzzer: Fuzzer, case: Case) -> int:
    return 1 if fuzzer.name in ONE_INPUT_A_CASE else len(case)


def fuzz(
    fuzzer: Fuzzer,
    seed: int,
    numbers: Iterable[int],
    *,
    inputs: int | None = None,
    seconds: float | None = None,
) -> Outcome:
    """Run cases until so many inputs were fed or so much time has passed."""
    outcome, start = Outcome(), time.monotonic()
    for number in numbers:
        case = draw_case(fuzzer, seed, number)
        failure = failure_of(fuzzer, case)
        outcome.cases += 1
        outcome.inputs += inputs_of(fuzzer, case)
        if failure is not None:
            outcome.found.setdefault(failure.signature, (number, case, failure))
        outcome.seconds = time.monotonic() - start
        is_enough = inputs is not None and outcome.inputs >= inputs
        if is_enough or (seconds is not None and outcome.seconds >= seconds):
            break
    return outcome


def resident_bytes() -> int:
    """Return this process's resident memory, once what is garbage is gone."""
    gc.collect()
    status = Path("/proc/self/statm")
    return int(status.read_text(encoding="ascii").split()[1]) * 4_096 if status.exists() else 0


def reproduction(fuzzer: Fuzzer, seed: int, number: int) -> str:
    """Return the command that runs the case again, alone."""
    return f"python -m tests.fuzz replay {fuzzer.name} --seed {seed} --case {number}"
