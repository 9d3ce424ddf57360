"""When each packet of a slow or narrow link goes on: in order, and after the given delay."""

from __future__ import annotations

import pytest

from highwater.faults.links.packet_pipes import BUFFER_NS, NEVER_NS, Effect, Pipes
from highwater.faults.links.packet_queue import effect_of

MS = 1_000_000
PIPE, OTHER = 5, 6
LONG_NS = 60_000 * MS


def slow(latency_ms: int, jitter_ms: int = 0, until_ns: int = LONG_NS, seed: str = "") -> Effect:
    return Effect(PIPE, until_ns, latency_ms * MS, jitter_ms * MS, None, seed)


def narrow(kbit_per_s: int, until_ns: int = LONG_NS) -> Effect:
    return Effect(PIPE, until_ns, kbit_per_s=kbit_per_s)


def going(pipes: Pipes, until_ms: int) -> list[tuple[int, int]]:
    """Return the packets released in each millisecond: (ms, packet)."""
    return [(ms, each) for ms in range(until_ms) for each in pipes.due(ms * MS)]


def pipes_with(*effects: Effect) -> Pipes:
    pipes = Pipes()
    pipes.tell(effects)
    return pipes


def test_each_packet_waits_for_the_latency_and_then_goes_on_once() -> None:
    pipes = pipes_with(slow(20))
    for number, at_ms in enumerate((0, 3, 3, 30)):
        assert pipes.arrive(PIPE, number, 100, at_ms * MS)
    assert pipes.next_ns(0) == 20 * MS
    assert going(pipes, 100) == [(20, 0), (23, 1), (23, 2), (50, 3)]
    assert pipes.next_ns(100 * MS) == NEVER_NS


def test_jitter_delays_up_to_its_width_and_never_reorders() -> None:
    pipes = pipes_with(slow(10, 50, seed="1"))
    for number in range(40):
        pipes.arrive(PIPE, number, 100, number * 10 * MS)
    went = going(pipes, 1_000)
    assert [number for _, number in went] == list(range(40))
    waited = [ms - 10 * number for ms, number in went]
    assert all(10 <= each <= 61 for each in waited)
    assert max(waited) - min(waited) > 20


def test_a_seed_repeats_the_jitter_and_another_does_not() -> None:
    def waits(seed: str) -> list[tuple[int, int]]:
        pipes = pipes_with(slow(1, 40, seed=seed))
        for number in range(10):
            pipes.arrive(PIPE, number, 100, 50 * number * MS)
        return going(pipes, 600)

    assert waits("1") == waits("1") != waits("2")


def test_of_two_latencies_the_last_counts_and_the_older_again_once_it_is_over() -> None:
    pipes = pipes_with(slow(50), slow(10, until_ns=100 * MS))
    pipes.arrive(PIPE, 0, 100, 0)
    pipes.arrive(PIPE, 1, 100, 101 * MS)
    assert going(pipes, 200) == [(10, 0), (151, 1)]


def test_held_packets_go_on_at_once_and_in_order_when_the_last_effect_ends() -> None:
    pipes = pipes_with(slow(500, until_ns=100 * MS))
    for number in range(3):
        pipes.arrive(PIPE, number, 100, number * MS)
    assert pipes.next_ns(10 * MS) == 100 * MS
    assert going(pipes, 200) == [(100, 0), (100, 1), (100, 2)]
    pipes.tell([slow(500)])
    pipes.arrive(PIPE, 3, 100, 200 * MS)
    pipes.tell([])
    assert pipes.due(201 * MS) == [3]


def test_packets_without_an_effect_go_on_at_once() -> None:
    pipes = pipes_with(slow(500))
    assert pipes.arrive(OTHER, 7, 100, 0)
    assert pipes.due(0) == [7]


def test_packets_follow_one_another_at_the_pace_of_a_narrow_line() -> None:
    pipes = pipes_with(narrow(80))  # 10 bytes a millisecond
    for number in range(4):
        assert pipes.arrive(PIPE, number, 100, 0)
    assert going(pipes, 100) == [(10, 0), (20, 1), (30, 2), (40, 3)]
    assert pipes.arrive(PIPE, 4, 50, 200 * MS)
    assert [ms + 150 for ms, _ in going(pipes, 100)] == []
    assert pipes.due(205 * MS) == [4]


def test_packets_that_would_wait_too_long_are_dropped_and_take_no_time_of_the_line() -> None:
    pipes = pipes_with(narrow(80))
    taken = [pipes.arrive(PIPE, number, 100, 0) for number in range(40)]
    fitting = BUFFER_NS // (10 * MS) + 1
    assert taken == [True] * fitting + [False] * (40 - fitting)
    assert pipes.arrive(PIPE, 99, 100, 20 * MS)


def test_a_line_is_narrow_behind_the_latency_too() -> None:
    pipes = pipes_with(slow(100), narrow(80))
    for number in range(3):
        assert pipes.arrive(PIPE, number, 100, 0)
    assert going(pipes, 200) == [(110, 0), (120, 1), (130, 2)]


def test_when_latency_ends_on_a_narrow_line_nothing_overtakes_or_hurries() -> None:
    pipes = pipes_with(slow(100), narrow(80))
    pipes.arrive(PIPE, 0, 100, 0)
    pipes.tell([narrow(80)])
    pipes.arrive(PIPE, 1, 100, MS)
    assert going(pipes, 200) == [(110, 0), (120, 1)]


@pytest.mark.parametrize("lasts_ns", [0, 5])
def test_an_effect_lasts_from_the_time_it_is_received(lasts_ns: int) -> None:
    fields = {"pipe": 1, "lasts_ns": lasts_ns, "latency_ns": 3}
    assert effect_of(fields, 100) == Effect(1, 100 + lasts_ns, 3)
    pipes = pipes_with(effect_of({"pipe": 1, "lasts_ns": lasts_ns, "kbit_per_s": 9}, 100))
    assert pipes.end_ns == 100 + lasts_ns
    assert Pipes().end_ns == 0
