"""The first design's decisions, as tables against the source document's pseudo-code."""

from __future__ import annotations

import pytest

from highwater_broker.logic.first_design import (
    catching_up,
    get_new_epoch,
    in_sync,
    is_taken_over,
    may_run,
    replicas_to_start,
)


@pytest.mark.parametrize(
    ("broker", "isr", "live", "anyone", "may"),
    [
        (1, (), (1,), False, True),
        (1, (0, 1), (1,), False, True),
        (2, (0, 1), (1, 2), False, False),
        (2, (0, 1), (2,), False, False),
        (2, (0, 1), (2,), True, True),
        (2, (0, 1), (1, 2), True, False),
        (7, (), (7,), True, False),
    ],
)
def test_a_replica_runs_if_it_is_in_the_isr_or_there_is_none(broker, isr, live, anyone, may):
    assert may_run(broker, (0, 1, 2), isr, live, anyone=anyone) is may


@pytest.mark.parametrize(
    ("written", "known", "new"), [(-1, -1, 0), (0, -1, 1), (4, 4, 5), (2, 5, 6), (6, 5, 7)]
)
def test_a_new_epoch_is_above_the_written_and_the_known_one(written, known, new):
    assert get_new_epoch(written, known) == new


@pytest.mark.parametrize(
    ("followers", "live", "waited_ms", "is_over"),
    [
        ({}, (0,), 0, True),
        ({1: 10, 2: 12}, (0, 1, 2), 0, True),
        ({1: 10, 2: 9}, (0, 1, 2), 0, False),
        ({1: 10, 2: 9}, (0, 1), 0, True),
        ({1: -1, 2: 9}, (0, 1, 2), 999, False),
        ({1: -1, 2: 9}, (0, 1, 2), 1_000, True),
    ],
)
def test_a_take_over_ends_when_the_live_replicas_caught_up_or_the_time_passed(
    followers, live, waited_ms, is_over
):
    assert is_taken_over(10, followers, live, waited_ms, 1_000) is is_over


def test_the_replicas_that_caught_up_are_the_isr_and_the_others_cur():
    isr = in_sync(1, 10, {0: 10, 2: 9, 3: 11})
    assert isr == (1, 0, 3)
    assert catching_up((0, 1, 2, 3), isr) == (2,)


def test_a_reassignment_starts_the_added_replicas():
    assert replicas_to_start((4, 1, 5), (0, 1, 2)) == (4, 5)
