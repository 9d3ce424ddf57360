"""A node that was restarted or removed during a run, and not by it, is reported."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from highwater_checker.judging import judge_run
from highwater_checker.looks import Look
from highwater_checker.run_folder import names
from highwater_checker.run_folder.documents import FINAL_LOOK, PROMISES
from highwater_checker.run_folder.intents import decode_judged, starts_in
from highwater_checker.verdict import Outcome
from highwater_core.events import EventKind, TraceEvent
from highwater_core.traces import encode_event
from tests.support.run_on_disk import broker, write, write_run

OWN = b'{"at_ns":7,"number":0,"phase":"starting","node":1}\n'
OF_ANOTHER = OWN.replace(b'"node":1', b'"node":0')
OF_A_FAULT = b'{"at_ns":7,"number":1,"phase":"acting","node":1,"proof":"exit code 137"}\n'


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run")


def traced(run: Path, incarnation: int) -> None:
    """Have broker 1 be started so often, and trace the first and the last of these starts."""
    if incarnation == 1:
        return
    event = TraceEvent(8, 1, incarnation, 0, EventKind.NODE_STARTED)
    write(run / "trace" / f"broker-1-{incarnation}.jsonl", encode_event(event) + b"\n")


@pytest.mark.parametrize(
    ("incarnation", "intents", "told"),
    [
        (1, b"", ""),
        (2, OWN, ""),
        (2, OWN + OWN, ""),  # of the second start the engine's answer was an error
        (3, OWN + OWN, ""),  # the second start was killed before it traced anything
        (2, b"", "node 1 was started again 1 times, by the run 0 times"),
        (2, OF_ANOTHER, "node 1 was started again 1 times, by the run 0 times"),
        (2, OF_A_FAULT, "node 1 was started again 1 times, by the run 0 times"),
        (3, OWN, "node 1 was started again 2 times, by the run 1 times"),
    ],
)
def test_a_start_that_the_run_did_not_make_makes_its_verdict_unknown(
    run: Path, incarnation: int, intents: bytes, told: str
) -> None:
    """Found: a node that was restarted by other means left the verdict a pass, without a word."""
    traced(run, incarnation)
    write(run / names.INTENTS, intents)
    verdict = judge_run(run)
    expected = [f"every start of a node was the run's own: {told}"] if told else []
    assert list(verdict.reasons) == expected
    assert verdict.outcome is (Outcome.UNKNOWN if told else Outcome.PASS)


def test_without_its_intents_a_run_explains_no_start(run: Path) -> None:
    traced(run, 2)
    assert judge_run(run).outcome is Outcome.UNKNOWN


def test_damaged_intents_are_reported(run: Path) -> None:
    write(run / names.INTENTS, b"{]\n" + OWN)
    verdict = judge_run(run)
    assert verdict.outcome is Outcome.UNKNOWN
    assert any(f"{names.INTENTS}: line 1: " in reason for reason in verdict.reasons)


def test_folders_of_an_earlier_format_do_not_tell_of_starts(run: Path) -> None:
    traced(run, 2)
    promises = PROMISES.read(run)
    assert promises is not None
    write(run / PROMISES.name, PROMISES.encode(replace(promises, format_version=1)))
    assert judge_run(run).outcome is Outcome.PASS


def test_a_node_that_is_silent_at_the_end_is_reported_unless_nodes_may_stay_down(run: Path) -> None:
    look = Look(99, {0: broker(0), 1: broker(1), 1000: None})
    write(run / FINAL_LOOK.name, FINAL_LOOK.encode(look))
    verdict = judge_run(run)
    assert verdict.outcome is Outcome.UNKNOWN
    assert verdict.reasons == ("every node answered at the end: nodes [1000] did not",)
    promises = PROMISES.read(run)
    assert promises is not None
    write(run / PROMISES.name, PROMISES.encode(replace(promises, only_in_sync=True)))
    assert judge_run(run).outcome is Outcome.PASS


def test_only_lines_of_starts_count_and_a_torn_last_one_was_not_made() -> None:
    intents = decode_judged((OWN, OF_A_FAULT, OF_ANOTHER, OWN, OWN[:-9]))
    assert starts_in(intents) == {1: 2, 0: 1}
