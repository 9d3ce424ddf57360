"""Faults that a test does by calls of its cluster: the intents that explain them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest

from highwater.faults.intents import IntentLog
from highwater.runs.judged.faults_by_hand import FaultsByHand
from highwater_chaos import faults as f


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "intent.jsonl"


@pytest.fixture
def faults(path: Path) -> Iterator[FaultsByHand]:
    clock = count()
    made = FaultsByHand(IntentLog(path, lambda: next(clock)))
    yield made
    made.end()


def lines(path: Path) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]


def phases(path: Path) -> list[tuple[int, str]]:
    return [(line["number"], line["phase"]) for line in lines(path)]


def test_a_fault_is_on_the_disk_before_it_is_done(faults: FaultsByHand, path: Path) -> None:
    with faults.doing(0, f.Kill("broker-0")):
        (intended,) = lines(path)
        assert intended["fault"]["fault"] == "kill"
        assert intended["fault"]["node"] == "broker-0"
    assert phases(path) == [(1, "intended"), (1, "acting")]
    assert lines(path)[1]["node"] == 0
    assert faults.still_act == {0}


def test_a_start_takes_back_the_end_of_that_node_alone(faults: FaultsByHand, path: Path) -> None:
    with faults.doing(0, f.Kill("broker-0")):
        pass
    with faults.doing(1, f.Terminate("broker-1")):
        pass
    with faults.starting(1):
        assert phases(path)[-2:] == [(0, "starting"), (2, "reverting")]
        assert lines(path)[-2]["node"] == 1
    assert phases(path)[-1] == (2, "reverted")
    assert faults.still_act == {0}


def test_a_start_of_a_node_that_ended_by_itself_has_an_intent_too(
    faults: FaultsByHand, path: Path
) -> None:
    with faults.starting(0):
        assert phases(path) == [(0, "starting")]


def test_a_thaw_does_not_take_back_that_a_node_is_cut_off(faults: FaultsByHand) -> None:
    with faults.doing(0, f.Isolate("broker-0")):
        pass
    with faults.undoing(0, f.Pause):
        pass
    assert faults.still_act == {0}


def test_a_fault_whose_doing_failed_may_act(faults: FaultsByHand, path: Path) -> None:
    with pytest.raises(OSError, match="no answer"), faults.doing(0, f.Kill("broker-0")):
        raise OSError("no answer")
    assert phases(path) == [(1, "intended")]


def test_the_stops_at_a_runs_end_are_no_faults(faults: FaultsByHand, path: Path) -> None:
    faults.end()
    with faults.doing(0, f.Terminate("broker-0")):
        pass
    with faults.undoing(0, f.Pause), faults.starting(0):
        pass
    assert lines(path) == []
