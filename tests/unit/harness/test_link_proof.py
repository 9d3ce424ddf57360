"""Canaries as proof of a fault on links, and the limits of that proof."""

from __future__ import annotations

import pytest

from highwater.faults.links.asked import LATE_NS, NEVER_NS, Asked, State
from highwater.faults.links.proof import (
    LEAST_CANARIES,
    Measured,
    Paced,
    Stream,
    measure,
    pace_of,
    problem_with,
    problem_with_pace,
)
from highwater.faults.links.rules import (
    ALL_PORTS,
    ALWAYS,
    Direction,
    Drop,
    Hold,
    Lose,
    Narrow,
    Slow,
    canaries_of,
)
from highwater.faults.links.seen import NotProven, prove_links
from highwater.faults.links.watch import Shown

MS = 1_000_000
A = Direction("10.0.0.10", 1, 9093)
SLOW = Asked(latency_ms=100, jitter_ms=20)


def lost(percent: int) -> Asked:
    return Asked(lost_percent=percent)


def test_canaries_are_counted_by_when_they_were_sent() -> None:
    sent = range(0, 100, 10)
    found = measure("a", Asked(), sent, {20: 22, 90: 91}, 20, 90)
    assert found == Measured("a", Asked(), sent=7, received=1, median_ms=2 / MS)


@pytest.mark.parametrize(
    ("asked_percent", "sent", "received", "is_proven"),
    [
        (100, 50, 0, True),
        (100, 50, 1, False),
        (100, LEAST_CANARIES - 1, 0, False),
        (0, 50, 50, True),
        (0, 50, 49, False),
        (30, 100, 70, True),
        (30, 100, 55, True),
        (30, 100, 100, False),
        (30, 100, 40, False),
        (30, 100, 0, False),
    ],
)
def test_a_wrong_share_of_lost_canaries_is_reported(
    asked_percent: int, sent: int, received: int, *, is_proven: bool
) -> None:
    problem = problem_with(Measured("a", lost(asked_percent), sent, received))
    assert (problem is None) is is_proven


@pytest.mark.parametrize(
    ("asked", "median_ms", "early", "says"),
    [
        (SLOW, 100.0, 0, None),
        (SLOW, 120 + LATE_NS / MS, 0, None),
        (SLOW, 121 + LATE_NS / MS, 0, "late at the median"),
        (SLOW, 110.0, 1, "1 arrived before 100 ms"),
        (Asked(), 0.2, 0, None),
        (Asked(), 1 + LATE_NS / MS, 0, "late at the median"),
        (Asked(kbit_per_s=100), 250.0, 0, None),
    ],
)
def test_a_wrong_delay_is_reported(
    asked: Asked, median_ms: float, early: int, says: str | None
) -> None:
    problem = problem_with(Measured("a", asked, 50, 50, median_ms, early))
    assert problem is None if says is None else says in str(problem)


def test_a_canary_is_early_unless_the_latency_ended_while_it_was_under_way() -> None:
    sent = [0, 10 * MS, 50 * MS]
    arrived = {0: 99 * MS, 10 * MS: 110 * MS, 50 * MS: 140 * MS}
    assert measure("a", SLOW, sent, arrived, 0, NEVER_NS).early == 2
    ends = Asked(latency_ms=100, slow_until_ns=140 * MS)
    assert measure("a", ends, sent, arrived, 0, NEVER_NS).early == 1


# ---------------------------------------------------------------- bandwidth


def stream(every_ns: int, arrive_every_ns: int, count: int = 100) -> Stream:
    """Datagrams of 100 bytes on the wire."""
    sent = [number * every_ns for number in range(count)]
    return Stream(72, sent, [number * arrive_every_ns for number in range(count)])


def test_the_pace_is_that_of_all_streams_of_a_pipe_in_bits_of_whole_packets() -> None:
    twice = [stream(MS, 2 * MS)] * 2
    paced = pace_of("a", Asked(kbit_per_s=800), twice, 0, 100 * MS)
    assert paced.offered_kbit_per_s == pytest.approx(1_600)
    assert paced.kbit_per_s == pytest.approx(808, rel=0.01)
    assert problem_with_pace(paced) is None


@pytest.mark.parametrize(
    ("asked", "offered", "arrived", "packets", "says"),
    [
        (Asked(kbit_per_s=500), 1_000.0, 500.0, 50, None),
        (Asked(kbit_per_s=500), 1_000.0, 300.0, 50, None),
        (Asked(kbit_per_s=500), 1_000.0, 560.0, 50, "more than the line should"),
        (Asked(kbit_per_s=500), 1_000.0, 240.0, 50, "less than canaries should"),
        (Asked(kbit_per_s=500), 550.0, 500.0, 50, "too little was sent"),
        (Asked(kbit_per_s=500), 1_000.0, 0.0, 3, "only 3 canaries"),
        (Asked(kbit_per_s=500, lost_percent=50), 1_000.0, 250.0, 50, None),
        (Asked(kbit_per_s=500, lost_percent=ALWAYS), 1_000.0, 0.0, 0, None),
        (Asked(), 1_000.0, 1_000.0, 50, None),
    ],
)
def test_a_pace_that_does_not_show_the_bandwidth_is_reported(
    asked: Asked, offered: float, arrived: float, packets: int, says: str | None
) -> None:
    problem = problem_with_pace(Paced("a", asked, offered, arrived, packets))
    assert problem is None if says is None else says in str(problem)


# ---------------------------------------------------------------- active faults


def test_of_two_of_a_kind_the_last_counts_and_different_kinds_add_up() -> None:
    holds = [Hold(A, Slow(50), 90), Hold(A, Narrow(64), 80), Hold(A, Slow(100, 20), 70)]
    state = State([Drop(A, 30, NEVER_NS), Drop(A, 50, NEVER_NS)], holds)
    asked, until_ns = state.asked_of(A, 10)
    assert asked == Asked(65, 100, 20, 64, 70)
    assert until_ns == 70
    assert state.asked_of(A, 75) == (Asked(65, 50, 0, 64, 90), 80)
    assert state.asked_of(Direction("10.0.0.11", 1, 9093), 0) == (Asked(), NEVER_NS)


def test_a_loss_ends_sooner_for_canaries_that_travel_long() -> None:
    state = State([Drop(A, 30, 500 * MS)], [Hold(A, Slow(100), NEVER_NS)])
    _, until_ns = state.asked_of(A, 0)
    assert until_ns == 400 * MS - LATE_NS


# ---------------------------------------------------------------- proof


def shown(asked: Asked, received: int, before: int = 50) -> tuple[Shown, Shown]:
    canaries = canaries_of([Direction(A.source, A.target, ALL_PORTS)])
    was = {each: Measured(each.name, Asked(), 50, before) for each in canaries}
    now = {each: Measured(each.name, asked, 50, received) for each in canaries}
    return Shown(was, {}), Shown(now, {})


def prove(does: Lose | None, asked: Asked, received: int, before: int = 50) -> str:
    was, now = shown(asked, received, before)
    return str(prove_links(does, 7, list(was.measured), was, now, unmeasured=0))


def test_a_proof_shows_how_it_was_before_too() -> None:
    assert prove(Lose(ALWAYS), lost(100), 0) == (
        "10.0.0.10>1:to:0: 100 % of 50 lost (before: 0 % of 50 lost)"
    )


def test_a_link_that_was_broken_before_proves_nothing() -> None:
    with pytest.raises(NotProven, match=r"before: .*6 % of 50 lost, not 0 %"):
        prove(Lose(ALWAYS), lost(100), 0, before=47)


def test_a_cut_is_proven_though_a_busy_machine_lost_some_before_and_a_lossy_link_is_not() -> None:
    assert "100 % of 50 lost (before: 4 % of 50 lost)" in prove(Lose(ALWAYS), lost(100), 0, 48)
    with pytest.raises(NotProven, match=r"before: .*4 % of 50 lost, not 0 %"):
        prove(Lose(20), lost(20), 40, before=48)
    with pytest.raises(NotProven, match=r"4 % of 50 lost, not 0 %"):
        prove(None, Asked(), 48)


def test_a_fault_that_was_over_before_canaries_saw_it_is_not_proven() -> None:
    with pytest.raises(NotProven, match="it was over before"):
        prove(Lose(ALWAYS), lost(0), 50)
    assert prove(None, lost(0), 50)


def test_too_few_canaries_before_are_no_proof_against_it() -> None:
    was, now = shown(lost(100), 0)
    few = {each: Measured(each.name, Asked(), LEAST_CANARIES - 1, 0) for each in was.measured}
    proof = prove_links(Lose(ALWAYS), 7, list(few), Shown(few, {}), now, unmeasured=2)
    assert proof.before == ()
    assert "2 directions without canaries" in str(proof)
