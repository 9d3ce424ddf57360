"""Tables and Markdown of a result."""

from __future__ import annotations

import pytest

from bench.machine import Machine
from bench.memory import private_memory
from bench.report import Result, heading, markdown, replace_between, table_rows
from bench.targets import Measure, Outcome

SPEED = Measure("speed", "produce", "MB/s")
MEMORY = Measure("memory", "memory", "MB")
UNMEASURED = Measure("unmeasured", "never", "s")
MACHINE = Machine("CPU", 2, 24.0, "6.1", "20.10", "3.11", "2.16", 0.5, 1.5)


def result(**samples: dict[str, list[float]]) -> Result:
    return Result("2026-01-01 10:00 UTC", 90.0, True, MACHINE, list(samples), samples)


def test_one_system_has_no_ratio() -> None:
    of_one = result(ours={"speed": [100.0, 300.0]})
    assert heading(of_one) == ["measure", "ours"]
    assert table_rows(of_one, [SPEED]) == [["produce, MB/s", "100 / 200 / 300 (2)"]]


def test_two_systems_stand_beside_each_other_with_the_ratio_of_their_medians() -> None:
    of_two = result(ours={"speed": [300.0], "memory": [40.0]}, theirs={"speed": [100.0]})
    assert heading(of_two) == ["measure", "ours", "theirs", "ratio"]
    assert table_rows(of_two, [SPEED, MEMORY]) == [
        ["produce, MB/s", "300 (1)", "100 (1)", "3.00×"],
        ["memory, MB", "40.0 (1)", "–", "–"],
    ]


def test_a_measure_without_values_has_no_row() -> None:
    assert table_rows(result(ours={"speed": [1.0]}), [UNMEASURED]) == []


def test_markdown_has_the_table_the_targets_and_the_machine() -> None:
    text = markdown(result(ours={"speed": [5.0]}), [SPEED], [Outcome("fast", "5.00 MB/s", True)])
    assert "| produce, MB/s | 5.00 (1) |" in text
    assert "| fast | 5.00 MB/s | yes |" in text
    assert "2 cores, 24 GiB" in text
    assert "(quick)" in text


def test_only_the_text_between_the_marks_is_replaced() -> None:
    assert (
        replace_between("a\n<b>\nold\n<e>\nz\n", "<b>", "<e>", "new\n") == "a\n<b>\nnew\n<e>\nz\n"
    )


def test_a_file_without_marks_is_left_alone() -> None:
    with pytest.raises(ValueError, match="no <b>"):
        replace_between("text", "<b>", "<e>", "new")


def test_private_memory_is_read_in_bytes_for_each_process_that_has_it() -> None:
    status = "Name:\tinit\nRssAnon:\t     100 kB\nName:\tkthread\nName:\tjava\nRssAnon:\t 2000 kB\n"
    assert private_memory(status) == [102_400, 2_048_000]
