"""The judge of a run's files agrees with the oracle, which sees every event as it happens."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from highwater.report.screen import Screen
from highwater.run_folder import RunFolder
from highwater.runs.plans.in_simulator import run_in_simulator
from highwater_chaos.faults import ChangeConfig, Kill, Terminate
from highwater_chaos.plan import (
    Expected,
    Observed,
    Plan,
    PlanTopology,
    Producer,
    Step,
    Topic,
    When,
    Workload,
)
from highwater_checker.judging import judge_evidence, judge_run
from highwater_checker.requirements import OWN_STARTS
from highwater_checker.run_folder import names
from highwater_checker.run_folder.documents import EXCUSED, FILES, REQUIREMENTS, WATCHED
from highwater_checker.run_folder.evidence import read_evidence
from highwater_checker.run_folder.intents import decode_judged, starts_in
from highwater_checker.verdict import Outcome, Verdict, judge
from highwater_core.config import Preset
from highwater_simulator.generate import Family, generate
from highwater_simulator.search import Schedule, schedules_of


def id_of(schedule: Schedule) -> str:
    return f"{schedule.family}-{schedule.seed}"


def judged(plan: Plan, folder: Path) -> Verdict:
    """Run the plan, and return the verdict; judging its folder must give the same."""
    with Screen() as screen:
        result = run_in_simulator(plan, RunFolder(folder), screen)
    assert judge_run(folder) == result.verdict
    return result.verdict


def both(schedule: Schedule, preset: Preset, folder: Path) -> tuple[Verdict, Verdict]:
    """Return the oracle's verdict on the schedule's run, and the judge's on its files."""
    verdict = judged(generate(schedule.seed, preset, schedule.family), folder)
    watched, requirements = WATCHED.read(folder), REQUIREMENTS.read(folder)
    assert watched is not None
    assert requirements is not None
    return judge([watched], requirements), verdict


def by_files_alone(plan: Plan, folder: Path) -> Verdict:
    """Run the plan to its end, past violations that a row explains; judge without the oracle.

    A run ends at its first violation else, before what shows it to a reader of files was traced: a
    leader of the epoch in which an ISR member cut its log.
    """
    with Screen() as screen:
        whole = replace(plan, expected=Expected("fail", "a violation that there is not"))
        run_in_simulator(whole, RunFolder(folder), screen)
    return judge_evidence(dataclasses.replace(read_evidence(folder), watched=None))


@pytest.mark.parametrize("schedule", schedules_of(1, 16, tuple(Family)), ids=id_of)
def test_under_fenced_they_say_the_same(schedule: Schedule, tmp_path: Path) -> None:
    by_oracle, by_judge = both(schedule, Preset.FENCED, tmp_path / "run")
    assert by_judge.outcome is by_oracle.outcome, by_judge.reasons


@pytest.mark.parametrize("schedule", schedules_of(1001, 8, tuple(Family)), ids=id_of)
def test_under_v3_further_findings_of_the_judge_have_their_row(
    schedule: Schedule, tmp_path: Path
) -> None:
    """Traces show a truncation after an unclean election as one by an ISR member (row 1).

    The judge has the oracle's findings among the files: without them it must find some of its own.
    Of a cut in an older epoch than that of the commit it need not, since files tell no order of two
    nodes' events: so it is with disks-1010, one of twenty schedules that fail.
    """
    by_oracle, by_judge = both(schedule, Preset.V3, tmp_path / "run")
    if by_oracle.outcome is Outcome.FAIL:
        assert by_judge.outcome is Outcome.FAIL
        plan = generate(schedule.seed, Preset.V3, schedule.family)
        alone = by_files_alone(plan, tmp_path / "whole")
        assert alone.outcome is Outcome.FAIL, (by_oracle.reasons, alone.reasons)
        return
    found = [finding for check in by_judge.checks for finding in check.findings]
    assert all(finding.rows for finding in found), by_judge.reasons


ONLY_BEHIND = (
    Step(0, Terminate("follower of t-0", 300)),
    Step(50, Kill("leader of t-0"), When(Observed.ISR_IS_LEADER, "t-0", then_after_ms=50)),
    Step(1_200, ChangeConfig("t", "unclean.leader.election.enable", "true")),
)


def test_both_excuse_what_an_allowed_unclean_election_costs(tmp_path: Path) -> None:
    """Found: the judge took records for disordered that got the offsets of the lost ones."""
    settings = {"session_timeout_ms": 400}
    producers = tuple(Producer(rate_per_s=40, idempotent=each) for each in (False, True))
    plan = Plan(
        seed=3,
        topology=PlanTopology(2, 1, broker_settings=settings),
        workload=Workload((Topic(replication_factor=2),), producers),
        steps=ONLY_BEHIND,
        quiet_after_ms=2_500,
    )
    verdict = judged(plan, tmp_path / "run")
    assert verdict.outcome is Outcome.PASS, verdict.reasons
    assert EXCUSED.read(tmp_path / "run")


@pytest.fixture(scope="module")
def sound_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run that passes."""
    folder = tmp_path_factory.mktemp("sound") / "run"
    verdict = judged(Plan(seed=1, steps=(Step(500, Kill("leader of t-0", 300)),)), folder)
    assert verdict.outcome is Outcome.PASS, verdict.reasons
    return folder


@pytest.mark.parametrize(
    "name",
    [names.LOOKS, WATCHED.name, EXCUSED.name, FILES.name, "history/p0.jsonl",
     "history/admin.jsonl", "trace/broker-0-1.jsonl"],
)  # fmt: skip
def test_a_run_without_one_of_its_files_is_unknown(
    name: str, sound_folder: Path, tmp_path: Path
) -> None:
    """Found: without its snapshots.jsonl a simulated run passed, by fewer checks."""
    folder = shutil.copytree(sound_folder, tmp_path / "run")
    (folder / name).unlink()
    verdict = judge_run(folder)
    assert verdict.outcome is Outcome.UNKNOWN
    assert any(f"{name} is missing" in reason for reason in verdict.reasons)


def test_a_run_without_its_producers_sends_is_no_pass(sound_folder: Path, tmp_path: Path) -> None:
    """Found: it passed, since the administrator's one record was acknowledged."""
    folder = shutil.copytree(sound_folder, tmp_path / "run")
    (folder / names.HISTORY / "p0.jsonl").write_bytes(b"")
    verdict = judge_run(folder)
    assert verdict.outcome is Outcome.UNKNOWN
    assert any("history/p0.jsonl: 0 bytes" in reason for reason in verdict.reasons)


def test_a_start_that_a_simulated_run_did_not_make_is_reported(
    sound_folder: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(sound_folder, tmp_path / "run")
    lines = (folder / names.INTENTS).read_bytes().splitlines(keepends=True)
    (killed,) = starts_in(decode_judged(lines))
    others = [line for line in lines if b'"starting"' not in line]
    (folder / names.INTENTS).write_bytes(b"".join(others))
    verdict = judge_run(folder)
    told = f"{OWN_STARTS}: node {killed} was started again 1 times, by the run 0 times"
    assert verdict.outcome is Outcome.UNKNOWN
    assert told in verdict.reasons
