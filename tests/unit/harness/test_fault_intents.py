"""The intent log: what was meant is on the disk before it is done."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from highwater.faults.intents import IntentLog
from highwater_chaos import faults as f


def test_each_phase_is_a_line_that_is_synced_when_the_call_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    path = tmp_path / "run" / "intent.jsonl"
    times = iter((5, 7, 9))
    log = IntentLog(path, lambda: next(times))
    first = log.begin(f.Kill("broker-0", 100))
    log.write(first, "acting", node=0, proof="exit code 137")
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
