"""Searches over several processes: their findings depend on the seeds alone."""

from __future__ import annotations

import multiprocessing
import multiprocessing.spawn
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from highwater.search.pool import Lost, Pool, WorkersCannotStart, run_here
from highwater_core.config import Preset
from highwater_simulator.generate import Family
from highwater_simulator.search import Chunk, Summary, chunks_of, schedules_of

SCHEDULES = schedules_of(1, 4, tuple(Family))
DIGESTS = """
from highwater_core.config import Preset
from highwater_simulator.generate import Family, generate
from highwater_simulator.runner import run_plan

for seed in (2, 3):
    for preset in (Preset.V3, Preset.FENCED):
        for family in Family:
            print(seed, preset, family, run_plan(generate(seed, preset, family)).digest())
"""


def digests_in_a_process(hash_seed: str) -> list[str]:
    environment = os.environ | {"PYTHONHASHSEED": hash_seed}
    run = subprocess.run(
        [sys.executable, "-c", DIGESTS], env=environment, capture_output=True, text=True, check=True
    )
    return run.stdout.splitlines()


def test_equal_seeds_give_equal_runs_under_any_hash_seed() -> None:
    first, second = digests_in_a_process("1"), digests_in_a_process("2")
    assert first == second
    assert len({line.split()[-1] for line in first}) == 2 * 2 * len(Family)


def summaries(jobs: int, model: Chunk, length: int) -> list[Summary]:
    """Return the summaries in order of their schedules, without CPU times."""
    chunks = chunks_of(SCHEDULES, model, length)
    if jobs == 0:
        outcomes = [outcome for _, outcome in run_here(chunks)]
    else:
        with Pool(jobs) as pool:
            outcomes = [outcome for _, outcome in pool.run(chunks)]
    found = [replace(each, cpu_ns=0) for each in outcomes if isinstance(each, Summary)]
    assert len(found) == len(outcomes)
    return sorted(found, key=lambda summary: summary.schedule)


def test_one_process_and_two_workers_give_equal_summaries() -> None:
    model = Chunk((), Preset.V3)
    assert summaries(0, model, 4) == summaries(2, model, 1)


def test_feedback_depends_on_the_chunk_alone() -> None:
    model = Chunk((), has_feedback=True)
    here, again = summaries(0, model, 4), summaries(1, model, 4)
    assert here == again
    assert [summary.schedule for summary in here] == sorted(SCHEDULES)


def test_a_schedule_that_hangs_costs_its_worker_and_names_its_seed() -> None:
    with Pool(1, schedule_within_s=0.01) as pool:
        outcomes = [outcome for _, outcome in pool.run([Chunk(tuple(SCHEDULES[:2]))])]
    assert [each.schedule for each in outcomes] == SCHEDULES[:2]
    for lost in outcomes:
        assert isinstance(lost, Lost)
        what, *stack = lost.why.splitlines()
        assert what == "it did not end within 0.01 s"
        assert any("summaries" in line or "File" in line for line in stack)


def test_an_exception_of_a_schedule_is_reported_and_the_worker_goes_on() -> None:
    with Pool(1) as pool:
        outcomes = [
            outcome for _, outcome in pool.run([Chunk(tuple(SCHEDULES[:2]), bug="no such bug")])
        ]
    assert [each.schedule for each in outcomes] == SCHEDULES[:2]
    assert all(isinstance(each, Lost) and "KeyError" in each.why for each in outcomes)


def test_workers_that_cannot_start_end_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multiprocessing.spawn, "get_executable", lambda: b"/bin/false")
    with Pool(1) as pool, pytest.raises(WorkersCannotStart, match="exit code 1"):
        list(pool.run([Chunk(tuple(SCHEDULES))]))


def test_the_end_of_a_pool_ends_its_workers() -> None:
    with Pool(1) as pool:
        first = next(iter(pool.run([Chunk(tuple(SCHEDULES))])))
        workers = multiprocessing.active_children()
        assert len(workers) == 1
    assert isinstance(first[1], Summary)
    assert multiprocessing.active_children() == []
