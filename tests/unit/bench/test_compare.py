"""Results of the bench are compared, and a trend is kept of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from bench.compare import common_second, compared_measures, read_results, told_busy
from bench.machine import Machine
from bench.quietness import Quietness
from bench.report import Result
from bench.targets import BRING_UP, FAST_FAILOVER, LATENCY_P50, REQUESTS
from bench.trend import TrendLine, add_line, draw, line_of, ratios, read_lines
from highwater.errors import HarnessError

MACHINE = Machine("CPU", 2, 24.0, "6.1", "20.10", "3.11", "2.16", 0.5, 1.5)
KAFKA = "Apache Kafka 3.9.1"
STEADY = [100.0, 101.0, 99.0, 100.5, 99.5, 100.2]


def result(date: str = "2026-01-01 10:00 UTC", **ours: list[float]) -> Result:
    return Result(date, 90.0, False, MACHINE, ["Highwater"], {"Highwater": ours})


def beside_kafka(ours: list[float], theirs: list[float], key: str = REQUESTS.key) -> Result:
    samples = {"Highwater": {key: ours}, KAFKA: {key: theirs}}
    return Result("2026-01-02 10:00 UTC", 90.0, False, MACHINE, ["Highwater", KAFKA], samples)


def times(factor: float, samples: list[float] = STEADY) -> list[float]:
    return [factor * each for each in samples]


@pytest.mark.parametrize(
    ("key", "factor", "begins", "is_worse"),
    [
        (REQUESTS.key, 1.1, "better: ", False),
        (REQUESTS.key, 0.9, "worse: ", True),
        (BRING_UP.key, 1.1, "worse: ", True),
        (BRING_UP.key, 0.9, "better: ", False),
        (BRING_UP.key, 1.001, "unchanged: ", False),
    ],
)
def test_a_change_is_better_or_worse_by_the_measures_direction(
    key: str, factor: float, begins: str, is_worse: bool
) -> None:
    (found,) = compared_measures([result(**{key: STEADY})], [result(**{key: times(factor)})], "")
    assert found.in_words().startswith(begins)
    assert found.is_worse == is_worse


def test_noisy_samples_and_few_ones_tell_nothing() -> None:
    noisy = [50.0, 150.0, 90.0, 120.0, 70.0, 110.0]
    (found,) = compared_measures([result(requests=noisy)], [result(requests=times(1.1, noisy))], "")
    assert found.in_words().startswith("cannot be told: ")
    (few,) = compared_measures([result(requests=[1.0] * 3)], [result(requests=[2.0] * 3)], "")
    assert (few.in_words(), few.is_worse) == ("too few samples", False)


def test_beside_another_system_the_hours_own_speed_drops_out() -> None:
    old, slow_hour = beside_kafka(STEADY, STEADY), beside_kafka(times(0.5), times(0.5))
    assert common_second([old], [slow_hour]) == KAFKA
    (found,) = compared_measures([old], [slow_hour], KAFKA)
    assert found.in_words().startswith("unchanged: ")
    assert common_second([old], [result(requests=STEADY)]) == ""


def test_a_measure_that_the_second_system_lacks_is_compared_by_itself() -> None:
    old, new = (
        replace(each, samples={**each.samples, "Highwater": {FAST_FAILOVER.key: times(factor)}})
        for each, factor in ((beside_kafka([], []), 0.004), (beside_kafka([], []), 0.06))
    )
    (found,) = compared_measures([old], [new], KAFKA)
    assert (found.measure, found.is_ratio, found.is_worse) == (FAST_FAILOVER, False, True)


def test_a_small_change_is_told_and_is_no_failure() -> None:
    (found,) = compared_measures([result(requests=STEADY)], [result(requests=times(0.96))], "")
    assert found.in_words().startswith("worse: ")
    assert not found.is_worse


def test_several_results_are_read_from_a_folder_and_bad_ones_are_told(tmp_path: Path) -> None:
    for number in (1, 2):
        each = result(requests=STEADY)
        (tmp_path / f"{number}.json").write_bytes(msgspec.json.encode(each))
    found = read_results(tmp_path)
    assert [len(each.samples["Highwater"]["requests"]) for each in found] == [6, 6]
    (compared,) = compared_measures(found, found[:1], "")
    assert (len(compared.before), len(compared.after)) == (12, 6)
    (tmp_path / "3.json").write_text('{"date": 3}')
    with pytest.raises(HarnessError, match=r"3\.json is no result of the bench"):
        read_results(tmp_path)
    for systems in ([], ["Highwater", KAFKA]):
        bad = replace(result(), systems=systems)
        (tmp_path / "3.json").write_bytes(msgspec.json.encode(bad))
        with pytest.raises(HarnessError, match="a system has no samples"):
            read_results(tmp_path)
    with pytest.raises(HarnessError, match="No such file"):
        read_results(tmp_path / "none.json")


def test_a_busy_machines_result_is_told() -> None:
    busy = replace(result(), quietness=Quietness(0.5, 0.0, 0.0))
    assert told_busy(busy).startswith("2026-01-01 10:00 UTC: A busy machine")
    assert told_busy(result()) == told_busy(replace(busy, quietness=Quietness(0, 0, 0))) == ""


def test_a_trend_has_a_line_a_bench_and_times_better_whatever_the_unit(tmp_path: Path) -> None:
    file = tmp_path / "trend.jsonl"
    quiet = replace(beside_kafka([0.4], [0.8], LATENCY_P50.key), quietness=Quietness(0, 0, 0))
    for each in (quiet, beside_kafka([30.0], [10.0]), result(requests=[5.0])):
        add_line(file, line_of(each, "abc"))
    lines = read_lines(file)
    assert [(line.commit, line.is_quiet) for line in lines] == [
        ("abc", None), ("abc", True), ("abc", None)
    ]  # fmt: skip
    assert [value for _, value in ratios(lines, LATENCY_P50)] == [2.0]
    assert [value for _, value in ratios(lines, REQUESTS)] == [3.0]
    picture = tmp_path / "trend.png"
    draw([(REQUESTS, ratios(lines, REQUESTS)), (BRING_UP, [])], picture)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_quick_bench_is_in_no_trend_and_a_bad_line_is_told(tmp_path: Path) -> None:
    line = TrendLine("2026-01-01", {"a": {"requests": 2.0}, "b": {"requests": 1.0}}, "CPU", 2)
    assert ratios([msgspec.structs.replace(line, quick=True)], REQUESTS) == []
    file = tmp_path / "trend.jsonl"
    file.write_text("{}\n")
    with pytest.raises(HarnessError, match="line 1"):
        read_lines(file)
