"""Seeded schedules that must run clean: 1,000 of each preset in CI, a few by default.

HIGHWATER_SCHEDULES says how many, HIGHWATER_FIRST_SEED where to begin. Under `v3` what breaks must
be a documented flaw, which the catalogue names from the trace.
"""

from __future__ import annotations

import os
import time

import pytest

from highwater_core.config import Preset
from highwater_simulator.generate import Family
from highwater_simulator.search import Chunk, Summary, chunks_of, schedules_of

COUNT = int(os.environ.get("HIGHWATER_SCHEDULES", "24"))
FIRST_SEED = int(os.environ.get("HIGHWATER_FIRST_SEED", "1"))
CHUNK_LENGTH = 10
CHUNKS = [
    chunk
    for preset in Preset
    for chunk in chunks_of(
        schedules_of(FIRST_SEED, COUNT, tuple(Family)), Chunk((), preset), CHUNK_LENGTH
    )
]

OPEN = {
    (Preset.V3, Family.JOINS, 86): "I11",
    (Preset.V3, Family.JOINS, 206): "I11",
    (Preset.V3, Family.JOINS, 305): "I11",
    (Preset.V3, Family.DISKS, 199): "I15",
}
"""Found and not settled: in the first three a late command has a member of the ISR, whose high
watermark a power loss took, cut its log, which is no row's trigger yet; the last one's epoch file
may lack an epoch below the recovery point. Each must show it still."""


def name_of(chunk: Chunk) -> str:
    return f"{chunk.preset}-from-{chunk.schedules[0].seed}"


def _key(chunk: Chunk, summary: Summary) -> tuple[Preset, Family, int]:
    return chunk.preset, summary.schedule.family, summary.schedule.seed


@pytest.mark.parametrize("chunk", CHUNKS, ids=name_of)
def test_schedules_show_nothing_but_documented_flaws_of_their_preset(chunk: Chunk) -> None:
    summaries = list(chunk.summaries(time.process_time_ns))
    failing = [
        f"{summary.found.violation}: highwater sim replay {summary.schedule.seed} "
        f"--family {summary.schedule.family} --preset {chunk.preset}"
        for summary in summaries
        if summary.found is not None and summary.fails and _key(chunk, summary) not in OPEN
    ]
    assert failing == []
    shown = {
        _key(chunk, summary): summary.found.violation.invariant
        for summary in summaries
        if summary.found is not None
    }
    is_open = [_key(chunk, summary) for summary in summaries if _key(chunk, summary) in OPEN]
    assert {key: shown.get(key) for key in is_open} == {key: OPEN[key] for key in is_open}
    assert sum(summary.acknowledged for summary in summaries) > 0, "nothing was tried"
