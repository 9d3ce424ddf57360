"""JUnit's XML of a soak, for a CI's list of tests: a case for each plan, and what nodes leak."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from highwater.report.junit import Case, Ended, encode_suite
from highwater.soak.folder import SoakFolder
from highwater.soak.hooks import command_again
from highwater.soak.leaks import Judgement
from highwater.soak.ledger import Entry
from highwater_checker.verdict import Outcome

_ENDED = {Outcome.FAIL: Ended.FAILURE, Outcome.UNKNOWN: Ended.SKIPPED}
"""An unknown plan proves nothing; what too many of them make of the soak, its own case says."""


def soak_junit_xml(
    folder: SoakFolder, entries: Sequence[Entry], leaks: Sequence[Judgement], verdict: Outcome
) -> bytes:
    """Return a case a plan, a failed one for each leak, and one of the soak's own verdict."""
    return encode_suite(f"highwater {folder.path.name}", _cases_of(folder, entries, leaks, verdict))


def _cases_of(
    folder: SoakFolder, entries: Sequence[Entry], leaks: Sequence[Judgement], verdict: Outcome
) -> Iterator[Case]:
    for entry in entries:
        name = f"plan {entry.number}, seed {entry.seed}, {entry.preset.value}, {entry.client.value}"
        reasons = entry.reasons or (entry.outcome.value,)
        if entry.outcome is Outcome.PASS:
            yield Case("plans", name, took_s=entry.took_s)
            continue
        run = f"run: {folder.runs / entry.run}" if entry.run else "it left no run"
        lines = (*reasons, run, f"again: {command_again(folder.path, entry)}")
        yield Case("plans", name, _ENDED[entry.outcome], reasons[0], lines, entry.took_s)
    for leak in leaks:
        yield Case("leaks", f"{leak.kind} {leak.value}", Ended.FAILURE, str(leak))
    whole = None if verdict is not Outcome.UNKNOWN else Ended.ERROR
    told = "it ended before its time, or no more plans passed than proved nothing"
    yield Case(folder.of, "the plans prove something", whole, told if whole else "")
