"""A long run: the fuzzers take turns, each turn in a process of its own.

So nothing that one leaves behind (memory, a hang) reaches another. What was done is noted after
each turn: a run that was stopped goes on where it was.
"""

from __future__ import annotations

import json
import secrets
import sys
import time
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import count, cycle
from multiprocessing import get_context
from pathlib import Path

from tests.fuzz.cases import Fuzzer, case_to_json
from tests.fuzz.minimise import minimise
from tests.fuzz.run import CORPUS, FUZZERS, Outcome, draw_case, fuzz, reproduction

PROGRESS = Path(".cache/fuzz.json")
TURN_SECONDS = 30.0
CASES_OF_A_TURN = 1_000_000
"""More than any turn has time for: turns of one fuzzer never draw the same cases."""


@dataclass(slots=True)
class Progress:
    """What a run has done so far; it goes on with the same seed and the next case."""

    seed: int
    seconds: float = 0.0
    cases: dict[str, int] = field(default_factory=dict)
    inputs: dict[str, int] = field(default_factory=dict)
    fuzzed_seconds: dict[str, float] = field(default_factory=dict)
    signatures: list[str] = field(default_factory=list)

    def save(self) -> None:
        PROGRESS.parent.mkdir(exist_ok=True)
        fields = {name: getattr(self, name) for name in self.__slots__}
        PROGRESS.write_text(json.dumps(fields), encoding="ascii")


def run_for(names: list[str], minutes: float, jobs: int, seed: int | None) -> int:
    """Fuzz so long, tell on stderr how it goes, and return 1 when something was found."""
    progress = _progress(seed)
    _say(f"seed {progress.seed}, {minutes:g} minutes, {progress.seconds / 60:.1f} of them done")
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), max_tasks_per_child=1)
    turns = cycle(names)
    running: dict[Future[Outcome], str] = {}
    last = time.monotonic()
    with pool:
        while running or progress.seconds < minutes * 60:
            while len(running) < jobs and progress.seconds < minutes * 60:
                name = next(turns)
                first = progress.cases.get(name, 0)
                progress.cases[name] = first + CASES_OF_A_TURN
                running[pool.submit(_turn, name, progress.seed, first)] = name
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for turn in done:
                _note(progress, running.pop(turn), turn.result())
            now = time.monotonic()
            progress.seconds, last = progress.seconds + now - last, now
            progress.save()
    PROGRESS.unlink(missing_ok=True)
    for name in names:
        _say(_rate(progress, name))
    _say(f"{sum(progress.inputs.values())} inputs, {len(progress.signatures)} kinds of failures")
    for signature in progress.signatures:
        _say(f"  {signature}")
    return 1 if progress.signatures else 0


def _progress(seed: int | None) -> Progress:
    if PROGRESS.exists() and seed is None:
        return Progress(**json.loads(PROGRESS.read_text(encoding="ascii")))
    return Progress(secrets.randbelow(2**31) if seed is None else seed)


def _turn(name: str, seed: int, first: int) -> Outcome:
    """Fuzz for a turn, in a process of its own."""
    return fuzz(FUZZERS[name], seed, count(first), seconds=TURN_SECONDS)


def _note(progress: Progress, name: str, outcome: Outcome) -> None:
    fuzzer = FUZZERS[name]
    progress.inputs[name] = progress.inputs.get(name, 0) + outcome.inputs
    progress.fuzzed_seconds[name] = progress.fuzzed_seconds.get(name, 0.0) + outcome.seconds
    _say(f"{progress.seconds / 60:6.1f} min  {_rate(progress, name)}")
    for signature, (number, _, _) in outcome.found.items():
        known = f"{name}: {signature}"
        if known in progress.signatures:
            continue
        progress.signatures.append(known)
        _say(f"FOUND {known}: {reproduction(fuzzer, progress.seed, number)}")
        _say(f"  kept: {keep(fuzzer, progress.seed, number, signature)}")


def _rate(progress: Progress, name: str) -> str:
    inputs = progress.inputs.get(name, 0)
    seconds = progress.fuzzed_seconds.get(name, 0.0)
    return f"{name}: {inputs} inputs, {inputs / max(seconds, 0.001):.0f} a second"


def _say(line: str) -> None:
    sys.stderr.write(f"fuzz: {line}\n")
    sys.stderr.flush()


def keep(fuzzer: Fuzzer, seed: int, number: int, signature: str) -> Path:
    """Make the failing case small, write it into the corpus and return its file."""
    case = minimise(fuzzer, draw_case(fuzzer, seed, number), signature)
    words = "".join(letter if letter.isalnum() else "-" for letter in signature.lower())
    path = CORPUS / f"{fuzzer.name}-{'-'.join(filter(None, words.split('-')))}.json"
    path.write_text(case_to_json(fuzzer.name, case, signature), encoding="ascii")
    return path
