"""No input ends a node, hangs it, or makes it forget what it was given: seconds of each fuzzer.

First what was found before (corpus/), then a fixed number of fresh inputs of a fixed seed.
HIGHWATER_FUZZ_SEED draws others, HIGHWATER_FUZZ_INPUTS more or fewer of them.
"""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path

import pytest

from tests.fuzz.cases import failure_of, read_case
from tests.fuzz.minimise import minimise
from tests.fuzz.put_back import MISTAKES, Mistake, look_for
from tests.fuzz.run import CORPUS, FUZZERS, fuzz, reproduction, resident_bytes

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
"""A case that fails leaves tasks and sockets in the middle of what they did."""

SEED = int(os.environ.get("HIGHWATER_FUZZ_SEED", "1"))
INPUTS = {
    "handlers": 5_000,
    "sockets": 2_500,
    "control": 2_500,
    "znodes": 3_500,
    "files": 3_500,
    "evidence": 120,
}
"""About six seconds of each on a quiet machine; `make fuzz` goes on for an hour."""
MEMORY_GROWTH_BYTES_MAX = 256 << 20
MINIMISED = 3
"""Of the failures of one fuzzer, those that are made small to be shown."""
TRIES = 60


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.json")), ids=lambda path: path.stem)
def test_what_was_found_before_does_no_harm(path: Path) -> None:
    name, case = read_case(path)
    failure = failure_of(FUZZERS[name], case)
    assert failure is None, f"python -m tests.fuzz replay {path}\n{failure.text}"


@pytest.mark.parametrize("name", FUZZERS)
def test_no_input_does_harm(name: str) -> None:
    fuzzer = FUZZERS[name]
    inputs = int(os.environ.get("HIGHWATER_FUZZ_INPUTS", INPUTS[name]))
    fuzz(fuzzer, SEED, range(2))  # what is made once is no growth
    before = resident_bytes()
    outcome = fuzz(fuzzer, SEED, count(), inputs=inputs)
    growth = resident_bytes() - before
    print(f"{name}: {outcome.inputs} inputs, {outcome.inputs / outcome.seconds:.0f} a second")
    shown = []
    for signature, (number, case, failure) in outcome.found.items():
        shown.append(f"{signature}\n  {reproduction(fuzzer, SEED, number)}")
        if len(shown) <= MINIMISED:
            small = minimise(fuzzer, case, signature, TRIES)
            shown += [f"  {step}" for step in small[:8]] + [failure.text[-1_500:]]
    assert not shown, f"{len(outcome.found)} kinds of failures\n" + "\n".join(shown)
    assert growth <= MEMORY_GROWTH_BYTES_MAX, f"{growth >> 20} MiB more than before"


@pytest.mark.parametrize(
    "mistake",
    [pytest.param(each, marks=pytest.mark.full if each.hangs else ()) for each in MISTAKES],
    ids=lambda mistake: mistake.name.replace(" ", "_"),
)
def test_a_mistake_that_is_put_back_is_met(mistake: Mistake) -> None:
    assert look_for(mistake).signature
