"""The intent log: the intent is on the disk before the fault is done."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from highwater.faults.intents import IntentLog
from highwater.runs.chaos.acting import acting_faults
from highwater_chaos import faults as f
from highwater_checker.run_folder.intents import Phase


def test_each_phase_is_a_line_that_is_synced_when_the_call_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    path = tmp_path / "run" / "intent.jsonl"
    times = iter((5, 7, 9))
    log = IntentLog(path, lambda: next(times))
    first = log.begin(f.Kill("broker-0", 100))
    log.write(first, Phase.ACTING, node=0, proof="exit code 137")
    assert log.begin(f.Pause("broker-1")) == 2
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(line["at_ns"], line["number"], line["phase"]) for line in lines] == [
        (5, 1, "intended"), (7, 1, "acting"), (9, 2, "intended"),
    ]  # fmt: skip
    assert lines[0]["fault"] == {
        "fault": "kill", "node": "broker-0", "for_ms": 100, "disk": "kept",
    }  # fmt: skip
    assert lines[1]["proof"] == "exit code 137"
    assert len(synced) == 3
    log.close()


def test_a_log_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "intent.jsonl"
    for fault in (f.Kill("broker-0"), f.Kill("broker-1")):
        log = IntentLog(path, lambda: 0)
        log.begin(fault)
        log.close()
    assert len(path.read_text().splitlines()) == 2


@pytest.mark.parametrize("torn", [b"", b'{"at_ns":7,"number":1,"pha', b'{"at_ns":7,"number":9}'])
@pytest.mark.parametrize("whole", [0, 1])
def test_half_a_line_at_the_end_is_cut_off_before_more_is_written(
    tmp_path: Path, whole: int, torn: bytes
) -> None:
    path = tmp_path / "intent.jsonl"
    log = IntentLog(path, lambda: 0)
    for _ in range(whole):
        log.begin(f.Kill("broker-0"))
    log.close()
    with path.open("ab") as file:
        file.write(torn)
    log = IntentLog(path, lambda: 0)
    assert log.begin(f.Kill("broker-1")) == whole + 1
    log.close()
    found = [(each.number, each.fault) for each in acting_faults(path)]
    assert found == [*[(1, f.Kill("broker-0"))] * whole, (whole + 1, f.Kill("broker-1"))]
