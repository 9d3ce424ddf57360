"""A failover under both presets; a seed gives the same run in every process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from highwater_chaos.plan import Network, PlanTopology
from highwater_checker.stories.display import display
from highwater_core.config import Preset
from highwater_core.events import EventKind
from tests.support.failover_story import RECORDS_PER_PHASE, run_failover_story
from tests.support.presets import each_preset


@pytest.mark.parametrize("preset", each_preset())
@pytest.mark.parametrize("seed", [7, 8])
def test_nothing_acknowledged_is_lost_when_the_leader_is_killed_and_returns(
    preset: Preset, seed: int
) -> None:
    result = run_failover_story(seed, PlanTopology(preset=preset))
    assert result.problems == ()
    assert result.acknowledged == 3 * RECORDS_PER_PHASE
    led = [e.leader_epoch for e in result.world.trace.events(EventKind.BECAME_LEADER)]
    assert led == [0, 1]


@pytest.mark.parametrize("preset", each_preset())
def test_copies_through_the_codecs_give_the_same_run_as_the_values_themselves(
    preset: Preset,
) -> None:
    by_value = run_failover_story(3, PlanTopology(preset=preset))
    by_codec = run_failover_story(3, PlanTopology(preset=preset), Network(through_codecs=True))
    assert by_codec.problems == ()
    assert by_codec.digest == by_value.digest


DIGEST = """
import sys
from tests.support.failover_story import run_failover_story
from tests.support.presets import each_preset
print(run_failover_story(int(sys.argv[1])).digest)
"""


def digest_in_a_process(seed: int, hash_seed: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", DIGEST, str(seed)],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.strip()


def test_one_seed_gives_equal_traces_in_two_processes_and_another_seed_another() -> None:
    first, second = digest_in_a_process(7, "1"), digest_in_a_process(7, "2")
    assert len(first) == 64
    assert first == second
    assert digest_in_a_process(8, "1") != first


def test_display_has_a_line_for_each_event() -> None:
    result = run_failover_story(7)
    lines = list(display(result.world.trace.entries))
    assert len(lines) == len(result.world.trace.entries)
    assert any("broker-" in line and "* killed" in line for line in lines)
    assert not any("\n" in line for line in lines)
