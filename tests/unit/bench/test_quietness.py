"""Whether the machine was quiet while the bench measured."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.quietness import Quietness, Ticks, Watch, read_ticks

LINE = "cpu  100 0 50 800 20 5 5 20 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n"


def test_ticks_are_of_all_cores_without_guests_twice() -> None:
    assert read_ticks(LINE) == Ticks(all=1000, idle=820, stolen=20)
    assert read_ticks("cpu 1 2 3 4\n") == Ticks(all=10, idle=4, stolen=0)  # of an old kernel


def stats(*each: tuple[int, int, int]) -> Iterator[str]:
    """Yield the file's content with so much busy, idle and stolen time."""
    for busy, idle, stolen in each:
        yield f"cpu  {busy} 0 0 {idle} 0 0 0 {stolen}\n"


def test_others_count_before_and_after_and_stolen_time_between() -> None:
    told = stats(
        (0, 0, 0), (50, 550, 0), (50, 550, 0), (1000, 550, 50), (1000, 550, 50), (1300, 850, 50)
    )
    slept: list[float] = []
    watch = Watch(lambda: next(told), slept.append)
    found = watch.end()
    assert found is not None
    assert (found.others_before, found.others_after, found.stolen) == (0.083, 0.5, 0.05)
    assert slept == [3.0, 3.0]
    assert not found.is_quiet
    assert str(found) == (
        "A busy machine: other processes took 8% of the cores before and 50% after it, "
        "other machines 5% meanwhile."
    )


@pytest.mark.parametrize(
    ("quietness", "is_quiet"),
    [
        (Quietness(0.1, 0.05, 0.02), True),
        (Quietness(0.11, 0.0, 0.0), False),
        (Quietness(0.0, 0.11, 0.0), False),
        (Quietness(0.0, 0.0, 0.021), False),
    ],
)
def test_a_quiet_machine_has_little_else_to_do(quietness: Quietness, is_quiet: bool) -> None:
    assert quietness.is_quiet == is_quiet


def test_a_machine_without_the_file_is_not_judged() -> None:
    def missing() -> str:
        raise FileNotFoundError("/proc/stat")

    assert Watch(missing, lambda _: None).end() is None
