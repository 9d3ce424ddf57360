"""Schedules that show a violation which is understood and not mended: each must show it still.

Whoever mends one takes its row out. The table is empty when nothing is known to be wrong.
"""

from __future__ import annotations

import time

import pytest

from highwater_core.config import Preset
from highwater_simulator.generate import Family
from highwater_simulator.search import Chunk, Schedule

RETENTION_OVER_A_DIVERGED_LOG = Schedule(2055, Family.PROCESSES)
"""A deposed leader's log goes on to 167 in epoch 1, its successor's epoch 2 begins at 97, and
retention then takes what is below 144. Asked where epoch 1 ends, the successor answers with its
first known epoch's start, 144, as Kafka does. So the follower keeps what it wrote from 97 to 144,
under the records that it copies, until it takes the leader's log start over: before it may join
the ISR. Would it be killed before that start is checkpointed, and be elected, consumers could read
those records."""

OPEN = [(RETENTION_OVER_A_DIVERGED_LOG, Preset.FENCED, "I3")]


@pytest.mark.parametrize(("schedule", "preset", "invariant"), OPEN)
def test_an_open_schedule_shows_what_is_told_of_it(
    schedule: Schedule, preset: Preset, invariant: str
) -> None:
    (summary,) = Chunk((schedule,), preset).summaries(time.process_time_ns)
    assert summary.fails
    assert summary.found is not None
    assert summary.found.violation.invariant == invariant
