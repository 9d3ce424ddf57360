"""Files of a run's folder that no verdict is made from: steps, intents, ZooKeeper's tree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from highwater_chaos import faults as f
from highwater_checker.run_folder.documents import (
    STEPS,
    UNREACHABLE,
    ZNODES,
    BadDocument,
    StepOutcome,
    Znode,
)
from highwater_checker.run_folder.intents import Intent, Phase, encode_intent, read_intents


def test_an_outcome_of_a_step_is_read_as_it_was_written(tmp_path: Path) -> None:
    step = {"at_ms": 300, "do": {"fault": "kill", "node": "leader of t-0"}}
    done = StepOutcome(msgspec.Raw(msgspec.json.encode(step)), True, 0, 300, 290, 305, 310, 5, "x")
    (tmp_path / STEPS.name).write_bytes(STEPS.encode((done,)))
    (read,) = STEPS.read(tmp_path) or ()
    assert msgspec.json.decode(read.step) == step
    assert (read.fired, read.node, read.drift_ms, read.proof, read.missed) == (True, 0, 5, "x", "")


def test_a_step_without_an_outcome_is_malformed(tmp_path: Path) -> None:
    (tmp_path / STEPS.name).write_bytes(b'[{"step":{}}]')
    with pytest.raises(BadDocument, match="fired"):
        STEPS.read(tmp_path)


def test_zookeepers_tree_is_read_as_it_was_written_or_why_there_is_none(tmp_path: Path) -> None:
    for tree in (
        {"/controller": Znode("/controller", {"brokerid": 1000}, 0, 5, 5, 77)},
        {UNREACHABLE: "ZooKeeper at 10.0.0.5:2181: no answer"},
    ):
        (tmp_path / ZNODES.name).write_bytes(ZNODES.encode(tree))
        assert ZNODES.read(tmp_path) == tree


@pytest.mark.parametrize(("kind", "fault"), [(f.Fault, f.Kill("broker-0")), (Any, None)])
def test_readers_of_intents_say_how_much_of_a_fault_they_read(
    kind: Any, fault: f.Fault | None, tmp_path: Path
) -> None:
    written: Intent[f.Fault] = Intent(5, 1, Phase.INTENDED, f.Kill("broker-0"))
    acting: Intent[f.Fault] = Intent(7, 1, Phase.ACTING, node=0, proof="exit code 137")
    lines = b"\n".join((encode_intent(written), encode_intent(acting), b'{"at_ns":9,"nu'))
    (tmp_path / "intent.jsonl").write_bytes(lines)
    first, second = read_intents(tmp_path / "intent.jsonl", kind)
    assert fault in (first.fault, None)
    assert second == acting


def test_a_phase_that_no_fault_has_is_malformed(tmp_path: Path) -> None:
    (tmp_path / "intent.jsonl").write_bytes(b'{"at_ns":5,"number":1,"phase":"asleep"}\n')
    with pytest.raises(msgspec.ValidationError, match="phase"):
        read_intents(tmp_path / "intent.jsonl")
