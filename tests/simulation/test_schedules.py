"""Seeded schedules that must run clean: a fixed hundred of each preset and fresh ones in CI.

HIGHWATER_SCHEDULES: the number of schedules from the first seed on. HIGHWATER_FRESH_SCHEDULES: the
number from HIGHWATER_FRESH_SEED on, which `make test` derives from the commit. Under `v3` every
violation must be a documented flaw, which the catalogue names from the trace.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from highwater_broker.isr_writer import ConditionalWriter
from highwater_broker.partition import Partition
from highwater_broker.roles import IsrProposal
from highwater_chaos.plan import decode_plan
from highwater_core.config import Preset
from highwater_core.znodes import PartitionLeadership
from highwater_simulator.generate import Family
from highwater_simulator.runner import run_plan
from highwater_simulator.search import Chunk, Schedule, chunks_of, find, schedules_of
from tests.support.presets import CONTROLLED

COUNT = int(os.environ.get("HIGHWATER_SCHEDULES", "24"))
FRESH_COUNT = int(os.environ.get("HIGHWATER_FRESH_SCHEDULES", "0"))
FRESH_SEED = int(os.environ.get("HIGHWATER_FRESH_SEED", "1"))
CHUNK_LENGTH = 10
CHUNKS = [
    chunk
    for preset in CONTROLLED
    for first_seed, count in ((1, COUNT), (FRESH_SEED, FRESH_COUNT))
    for chunk in chunks_of(
        schedules_of(first_seed, count, tuple(Family)), Chunk((), preset), CHUNK_LENGTH
    )
]

FOUND_PLANS = sorted((Path(__file__).parent / "found").glob("*.json"))
"""Plans of seeds that give other plans by now, and shrunk plans."""


def name_of(chunk: Chunk) -> str:
    return f"{chunk.preset}-from-{chunk.schedules[0].seed}"


FOUND_BUGS = (
    # A follower's log diverged below its leader's start, which retention had moved up.
    Schedule(2055, Family.PROCESSES),
    # A log was opened late, and closed again: the disk refused to write its topic's id.
    Schedule(800_309, Family.DISKS),
)
CHUNKS.append(Chunk(FOUND_BUGS, Preset.FENCED))


@pytest.mark.parametrize("chunk", CHUNKS, ids=name_of)
def test_schedules_show_nothing_but_documented_flaws_of_their_preset(chunk: Chunk) -> None:
    summaries = list(chunk.summaries(time.process_time_ns))
    failing = [
        f"{summary.found.violation}: highwater sim replay {summary.schedule.seed} "
        f"--family {summary.schedule.family} --preset {chunk.preset}"
        for summary in summaries
        if summary.found is not None and summary.fails
    ]
    assert failing == []
    assert sum(summary.acknowledged for summary in summaries) > 0, "nothing was tried"


@pytest.mark.parametrize("path", FOUND_PLANS, ids=lambda path: path.stem)
def test_plans_that_once_showed_a_bug_run_clean(path: Path) -> None:
    assert run_plan(decode_plan(path.read_bytes(), path)).violation is None


def test_an_isr_that_was_written_and_given_up_lets_its_leader_commit_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The bug put back; it cannot be a planted bug, since only v3 has that writer."""
    reread = ConditionalWriter._reread

    async def give_up(
        self: ConditionalWriter,
        partition: Partition,
        proposal: IsrProposal,
        mine: PartitionLeadership,
    ) -> bool:
        is_done = await reread(self, partition, proposal, mine)
        if is_done and partition.proposal() is proposal:
            partition.withdraw_proposal(proposal)
        return is_done

    monkeypatch.setattr(ConditionalWriter, "_reread", give_up)
    path = Path(__file__).parent / "found" / "an_expansion_that_was_written_is_given_up.json"
    found = find(run_plan(decode_plan(path.read_bytes(), path)))
    assert found is not None
    assert (found.violation.invariant, found.rows) == ("I2", ())
