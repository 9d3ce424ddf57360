"""`--only`: a part of the bench is measured without the others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from bench import measures, rounds
from bench.__main__ import bench
from bench.rounds import measure_all
from bench.targets import Part, Repetitions, make_repetitions, rows

QUICK = make_repetitions(quick=True)


class Fake:
    """A system that starts, is killed and measured at once."""

    name = "fake"
    bootstrap = "127.0.0.1:1"

    def __init__(self) -> None:
        self.starts = 0

    def start(self, session_timeout_ms: int) -> dict[str, float]:
        self.starts += 1
        return {"network": 0.1}

    def stop(self) -> None:
        pass

    def broker_memory_bytes(self) -> list[int]:
        return [40_000_000]


@pytest.fixture(name="calls")
def _calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replace what measures, and return the names of what was called."""
    calls: list[str] = []
    speed = SimpleNamespace(megabytes_per_second=9.0, records_per_second=9_000.0)
    latency = SimpleNamespace(p50_ms=1.0, p99_ms=2.0)
    results: dict[str, Any] = {
        "create_topic": "t",
        "new_topic": "t",
        "delete_topic": None,
        "produce_one": None,
        "produce_throughput": speed,
        "consume_throughput": speed,
        "one_at_a_time": latency,
        "one_record_requests": 5_000.0,
    }

    def call(name: str) -> Any:
        calls.append(name)
        return results[name]

    for name in results:
        monkeypatch.setattr(measures, name, lambda *_, name=name: call(name))
    monkeypatch.setattr(rounds, "measure_failover", lambda *_: call("produce_one") or 2.0)
    return calls


def measured(parts: frozenset[Part], repetitions: Repetitions = QUICK) -> set[str]:
    found = measure_all([Fake()], repetitions, lambda _: None, parts, Fake())  # type: ignore[list-item, arg-type]
    return {*found.values.get("fake", {})}


@pytest.mark.parametrize(
    ("part", "begins"),
    [
        (Part.START, ("bring_up",)),
        (Part.FAILOVER, ("failover_",)),
        (Part.PRODUCE, ("produce_",)),
        (Part.CONSUME, ("consume_",)),
        (Part.LATENCY, ("latency_",)),
        (Part.REQUESTS, ("requests",)),
        (Part.MEMORY, ("memory_",)),
    ],
)
def test_a_part_has_its_own_measures_alone(
    part: Part, begins: tuple[str, ...], calls: list[str]
) -> None:
    found = measured(frozenset({part}))
    assert found
    assert [key for key in found if not key.startswith(begins)] == []
    is_load = part in (Part.PRODUCE, Part.CONSUME, Part.MEMORY)
    assert ("produce_throughput" in calls) == is_load
    assert ("consume_throughput" in calls) == (part in (Part.CONSUME, Part.MEMORY))


def test_all_parts_together_have_every_row_and_are_the_default(calls: list[str]) -> None:
    phases = {"bring_up_images", "bring_up_containers", "bring_up_ready"}  # that the fake lacks
    assert measured(frozenset(Part)) == {each.key for each in rows(QUICK)} - phases
    assert calls


def test_tables_and_trend_are_of_a_whole_bench() -> None:
    app = typer.Typer()
    app.command()(bench)
    result = CliRunner().invoke(app, ["--only", "consume", "--trend", "trend.jsonl"])
    assert "not with --only" in str(result.exception)
