"""Which values over rounds are a leak: growth of every life, and no noise, step or warm-up."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from highwater.soak.leaks import MOST_ROUNDS, Judgement, Leaking, judge_usage, leaks_in, not_told
from highwater.soak.usage import Sample, read_samples
from highwater_chaos.draw import Draw
from highwater_simulator.rng import SeededRng

MIB = 1 << 20
LEAK, NONE, UNKNOWN = Leaking.LEAK, Leaking.NONE, Leaking.UNKNOWN
Values = Sequence[int]


def life(
    value: str, values: Values, *, node: int = 0, start: int = 1, first: int = 1
) -> list[Sample]:
    return [
        Sample(1, first + place, first + place, node, "broker", start, **{value: each})
        for place, each in enumerate(values)
    ]


def noisy(base: int, per_round: float, noise: float, rounds: int, seed: int = 3) -> list[int]:
    draw = Draw(SeededRng(seed))
    return [
        round(base + per_round * n + noise * (draw.between(0, 2001) - 1000) / 1000)
        for n in range(rounds)
    ]


def judged(samples: Sequence[Sample]) -> Judgement:
    (found,) = judge_usage(samples)
    return found


MEMORY: dict[str, tuple[Values, Leaking]] = {
    "flat": ([40 * MIB] * 20, NONE),
    "noise": (noisy(40 * MIB, 0, 3 * MIB, 40), NONE),
    "growth": (noisy(40 * MIB, MIB, MIB / 2, 20), LEAK),
    "growth under as much noise": (noisy(40 * MIB, MIB, 2 * MIB, 40), LEAK),
    "growth as trace events fill their place": (
        [29 * MIB + min(n * MIB // 10, 6 * MIB) for n in range(59)],
        NONE,
    ),
    "growth of little": (noisy(40 * MIB, MIB / 20, MIB / 100, 20), NONE),
    "growth in caches at first": ([27 * MIB, 38 * MIB, *[43 * MIB] * 18], NONE),
    "growth up to a bound": (
        [min(40 * MIB + n * MIB, 50 * MIB) for n in range(40)],
        NONE,
    ),
    "a step": ([40 * MIB] * 10 + [60 * MIB] * 10, NONE),
    "a step back": ([60 * MIB] * 10 + [40 * MIB] * 10, NONE),
    "a saw": ([40 * MIB + (n % 5) * 4 * MIB for n in range(40)], NONE),
    "too few rounds": (noisy(40 * MIB, MIB, 0, 6), UNKNOWN),
}


@pytest.mark.parametrize("case", MEMORY)
def test_memory(case: str) -> None:
    values, says = MEMORY[case]
    found = judged(life("resident_bytes", values))
    assert found.says is says, found


FILES: dict[str, tuple[Values, Leaking]] = {
    "flat": ([50] * 20, NONE),
    "one more or less": ([50 + n % 2 for n in range(20)], NONE),
    "one a round": (list(range(50, 70)), LEAK),
    "one every third round": ([50 + n // 3 for n in range(20)], LEAK),
    "one in all": ([50] * 10 + [51] * 10, NONE),
    "connections that come at first": ([50, 70, *[75] * 15], NONE),
    "of peers that come and go": (noisy(50, 0, 4, 40), NONE),
}


@pytest.mark.parametrize("value", ["open_files", "threads"])
@pytest.mark.parametrize("case", FILES)
def test_descriptors_and_threads(case: str, value: str) -> None:
    values, says = FILES[case]
    found = judged(life(value, values))
    assert found.says is says, found


def test_each_start_of_a_node_is_compared_with_itself() -> None:
    """A node that is killed begins anew, and one that was killed late has less than its peers."""
    flat = [
        each
        for start in range(1, 6)
        for each in life("open_files", [50 + start] * 8, start=start, first=8 * start)
    ]
    assert judged(flat).says is NONE
    leaking = [
        each
        for start in range(1, 6)
        for each in life("open_files", range(50, 58), start=start, first=8 * start)
    ]
    found = judged(leaking)
    assert (found.says, found.per_round, found.rounds) == (LEAK, 1.0, 5)


@pytest.mark.parametrize(
    ("lives", "rounds", "says"), [(1, 7, UNKNOWN), (1, 8, LEAK), (2, 7, LEAK), (9, 6, UNKNOWN)]
)
def test_short_lives_of_all_nodes_of_a_kind_count_together(
    lives: int, rounds: int, says: Leaking
) -> None:
    samples = [
        each for node in range(lives) for each in life("threads", range(10, 10 + rounds), node=node)
    ]
    assert judged(samples).says is says


def test_a_volume_outlives_the_starts_of_its_node() -> None:
    samples = [
        each
        for start in range(20)
        for each in life("disk_bytes", [start * 9 * MIB], start=start, first=start)
    ]
    assert judged(samples).says is LEAK


def test_one_node_of_many_that_leaks_is_told_by_its_number() -> None:
    others = [each for node in (1, 2) for each in life("threads", [10] * 12, node=node)]
    found = judge_usage([*others, *life("threads", range(10, 22))])
    assert [(each.node, each.says) for each in found] == [(None, NONE), (0, LEAK)]


@pytest.mark.parametrize(
    ("recorded", "leaks"),
    [
        ("usage_of_sound_nodes", []),
        ("usage_with_a_descriptor_kept", [("broker", 1, "open_files")]),
    ],
)
def test_what_nodes_in_containers_took(recorded: str, leaks: list[object]) -> None:
    """Sound: 25 rounds that no node was killed in. The other: each round kept a connection."""
    found = judge_usage(read_samples(Path(__file__).parent / f"{recorded}.jsonl"))
    assert [(e.kind, e.node, e.value) for e in found if e.says is LEAK] == leaks
    assert {each.says for each in found if each.kind == "broker"} <= {NONE, LEAK}


def test_what_no_node_lived_long_enough_for_is_told() -> None:
    """Found: a soak of a few rounds passed without a word that it could show no leak."""
    threads, files = life("threads", [9] * 3), life("open_files", [20] * 20, node=1)
    assert not_told([*threads, *files]) == ("broker threads",)


def test_a_long_life_costs_no_more_than_a_shorter_one_and_says_the_same() -> None:
    found = judged(life("threads", range(10, 1_010)))
    assert (found.says, found.per_round) == (LEAK, 1.0)
    assert found.pairs <= MOST_ROUNDS * (MOST_ROUNDS - 1) // 2
    assert found.rounds > 900


def test_a_leak_is_told_in_a_line() -> None:
    told = leaks_in(life("open_files", range(50, 70)))
    assert tuple(map(str, told)) == (
        "every broker has 1.00 descriptors more after each round: 17.00 descriptors in 17 rounds; "
        "100% more pairs of rounds grow than shrink, of 153",
    )
