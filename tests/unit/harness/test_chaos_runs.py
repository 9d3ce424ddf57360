"""`highwater chaos` without an engine: durations, outlines, open faults, counted verdicts."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner, Result

from highwater.cli import make_app
from highwater.commands import run as run_command
from highwater.commands.chaos import status as status_command
from highwater.errors import HarnessError, NoSuchRun
from highwater.faults.intents import IntentLog
from highwater.runs.chaos.acting import acting_faults, choose_run
from highwater.runs.chaos.outline import outline, problems_in_containers
from highwater.runs.chaos.planning import plan_of
from highwater.runs.chaos.repeating import counted_outcomes, repeat, until_known
from highwater.runs.chaos.single import parse_fault
from highwater.runs.plans.outcome import PlanResult
from highwater_chaos import faults as f
from highwater_chaos.plan import Observed, Plan, Step, Topic, When, Workload, encode_plan
from highwater_chaos.random_kinds import Kind
from highwater_chaos.random_plan import Wanted
from highwater_chaos.words import say_fault
from highwater_checker.run_folder.intents import Phase
from highwater_checker.verdict import Outcome, Verdict, worst_of
from highwater_core.config import Preset


def test_an_outline_has_each_faults_time_and_target() -> None:
    plan = Plan(
        seed=1,
        steps=(
            Step(1_000, f.Kill("leader of t-0", 2_500)),
            Step(5_000, f.Cut("broker-0", "broker-1", "replication", True, 3_000)),
            Step(6_000, f.Pause("broker-2", 100), When(Observed.LEADER_EPOCH, "t-0")),
        ),
        quiet_after_ms=10_000,
    )
    said = "\n".join(outline(plan))
    for expected in (
        "3 brokers, 2 controllers, preset fenced",
        "1.00 s to    3.50 s:  kill leader of t-0, started again after 2500 ms; "
        "acts on whoever is leader of t-0 then",
        "5.00 s to    8.00 s:  cut broker-0 <-> broker-1 on replication for 3000 ms; "
        "acts on what broker-1 receives from broker-0 on replication "
        "and what broker-0 receives from broker-1 on replication",
        "6.00 s or later, once the leader epoch of t-0 is 1:  pause broker-2",
        "at 10000 ms all is healed",
        "the quorum is kept: at most 2 of the brokers and 1 of the controllers are out at once",
    ):
        assert expected in said


def test_every_step_of_a_random_plan_is_in_its_outline_and_containers_can_do_all() -> None:
    for seed in range(10):
        plan = plan_of(Wanted(seed=seed, duration_ms=60_000, is_guarded=seed % 2 == 0))
        said = "\n".join(outline(plan))
        assert all(say_fault(step.do) in said for step in plan.steps)
        assert problems_in_containers(plan) == []


@pytest.mark.parametrize(
    ("kind", "options"),
    [(Kind.BRIDGE, {"brokers": 2}), (Kind.FLAP, {"duration_ms": 10_000})],
)
def test_a_plan_without_room_for_any_wanted_fault_is_refused(
    kind: Kind, options: dict[str, int]
) -> None:
    without = tuple(each for each in Kind if each is not kind)
    wanted = Wanted(**{"seed": 1, "duration_ms": 60_000, "without": without, **options})  # type: ignore[arg-type]
    with pytest.raises(HarnessError, match=f"no fault of these kinds fits .*: {kind}"):
        plan_of(wanted)


def test_problems_with_a_plan_are_listed() -> None:
    plan = Plan(seed=1, steps=(Step(0, f.ClockRate("broker-0", 1)), Step(0, f.Kill("broker-7"))))
    first, then = problems_in_containers(plan)
    assert "there is no node 'broker-7'" in first
    assert "let the timers of broker-0" in then


# ---------------------------------------------------------------- the commands


def highwater(*arguments: str) -> Result:
    return CliRunner().invoke(make_app(arguments[0]), list(arguments))


def chaos(*arguments: str) -> Result:
    return highwater("chaos", *arguments)


def written(tmp_path: Path, *faults: f.Fault) -> str:
    """Return the path of a plan's file with these faults, one after the other."""
    workload = Workload((Topic(min_insync_replicas=2),))
    steps = tuple(Step(number * 1_000, fault) for number, fault in enumerate(faults))
    path = tmp_path / "plan.json"
    path.write_bytes(encode_plan(Plan(seed=1, workload=workload, steps=steps)))
    return str(path)


TWO_DOWN = (f.Kill("broker-0", 5_000), f.Kill("broker-1", 5_000))
NARROW = f.LimitBandwidth("broker-0", "broker-1", "replication", 500, 1_000)


@pytest.mark.parametrize(
    ("faults", "options", "runs"),
    [
        (TWO_DOWN, ["--guard"], False),
        (TWO_DOWN, ["--no-guard"], True),
        (TWO_DOWN, [], True),
        (TWO_DOWN[:1], ["--guard"], True),
    ],
)
def test_a_plans_file_that_breaks_the_quorum_is_refused_under_the_guard(
    faults: tuple[f.Fault, ...],
    options: list[str],
    runs: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran: list[int] = []

    def run_in(*arguments: object) -> PlanResult:
        ran.append(1)
        return result(1, Outcome.PASS)

    monkeypatch.setattr(run_command, "run_in", run_in)
    ended = highwater("run", written(tmp_path, *faults), "--json", *options)
    assert bool(ran) is runs
    assert isinstance(ended.exception, HarnessError) is not runs
    if not runs:
        said = str(ended.exception).splitlines()
        assert said[0] == "the plan breaks the quorum"
        assert said[1].startswith("more are out at 1000 ms than 1 of the brokers")
        assert said[-1] == "without --guard it is run all the same"


def test_a_dry_run_outlines_a_plan_that_breaks_the_quorum(tmp_path: Path) -> None:
    ended = highwater("run", written(tmp_path, *TWO_DOWN), "--dry-run")
    assert ended.exit_code == 0
    assert "kill broker-1" in ended.stdout
    assert "more are out at 1000 ms" in ended.stdout


@pytest.mark.parametrize(
    ("faults", "says", "exit_code"),
    [
        (TWO_DOWN, ["containers and the simulator can run, 2 steps"], 0),
        (
            (NARROW,),
            ["containers can run, and the simulator cannot", "no bandwidth", "quorum is kept"],
            0,
        ),
        ((f.ClockRate("broker-0", 1),), ["containers cannot run it", "the simulator can"], 2),
        (
            (f.ClockRate("broker-0", 1), NARROW),
            ["containers cannot run it", "the simulator cannot either", "no bandwidth"],
            2,
        ),
    ],
)
def test_a_plan_is_validated_for_both_worlds(
    faults: tuple[f.Fault, ...], says: list[str], exit_code: int, tmp_path: Path
) -> None:
    ended = chaos("validate", written(tmp_path, *faults))
    said = ended.stdout if exit_code == 0 else str(ended.exception)
    assert [words for words in says if words not in said] == []
    assert isinstance(ended.exception, HarnessError) is (exit_code == 2)


def test_the_schema_of_plans_has_every_field_fault_and_name() -> None:
    ended = chaos("schema")
    schema = msgspec.json.decode(ended.stdout)
    assert schema["$schema"].startswith("https://json-schema.org/")
    parts = schema["$defs"]
    assert set(parts["Plan"]["properties"]) == set(Plan.__struct_fields__)
    faults = parts["Step"]["properties"]["do"]["discriminator"]["mapping"]
    assert set(faults) == {f.fault_name(kind) for kind in f.FAULTS}
    assert parts["Observed"]["enum"] == sorted(Observed)
    assert parts["Plan"]["additionalProperties"] is False


def test_chaos_heal_is_the_command_heal() -> None:
    helped = [
        CliRunner().invoke(make_app(words[0]), [*words, "--help"]).stdout
        for words in (["chaos", "heal"], ["heal"])
    ]
    assert "--no-start" in helped[0]
    assert helped[0].splitlines()[2:] == helped[1].splitlines()[2:]  # but for the usage


# ---------------------------------------------------------------- faults that act now


@pytest.mark.parametrize(
    ("asked", "up", "expected"),
    [
        ("", ["up-1"], "up-1"),
        ("", [], "chaos-1"),
        ("chaos-0", ["up-1"], "chaos-0"),
        ("chaos-0", ["up-1", "up-2"], "chaos-0"),
    ],
)
def test_the_faults_of_the_cluster_that_is_up_are_meant_else_those_of_the_newest_run(
    asked: str, up: list[str], expected: str, tmp_path: Path
) -> None:
    (tmp_path / "chaos-1").mkdir()
    (tmp_path / "latest").symlink_to("chaos-1")
    assert choose_run(tmp_path, asked, up) == expected


def test_of_several_clusters_that_are_up_one_must_be_named(tmp_path: Path) -> None:
    with pytest.raises(NoSuchRun, match="running: up-1, up-2"):
        choose_run(tmp_path, "", ["up-1", "up-2"])


def test_status_shows_faults_applied_to_the_cluster_that_is_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "latest").symlink_to("chaos-1")
    log = IntentLog(tmp_path / "up-1" / "intent.jsonl", lambda: 0)
    log.begin(f.Pause("broker-0"))
    log.close()
    monkeypatch.setattr(status_command, "_runs_up", lambda: ["up-1"])
    ended = chaos("status", "--runs", str(tmp_path))
    assert (ended.exit_code, ended.exception) == (0, None)
    assert "pause broker-0" in ended.stdout
    assert "'highwater heal --run up-1'" in ended.stdout


def test_faults_without_a_written_end_act(tmp_path: Path) -> None:
    path = tmp_path / "intent.jsonl"
    times = iter(range(100, 200))
    log = IntentLog(path, lambda: next(times))
    numbers = [log.begin(f.Pause(f"broker-{each}", 50)) for each in range(5)]
    for number in numbers[:4]:
        log.write(number, Phase.ACTING, node=number, proof="paused")
    log.write(numbers[1], Phase.REVERTING)
    log.write(numbers[1], Phase.REVERTED, seen="running")
    log.write(numbers[2], Phase.REVERTING)
    log.write(numbers[2], Phase.NOT_REVERTED, why="no answer")
    log.write(0, Phase.NOT_RENEWED, why="a helper did not run")
    refused = log.begin(f.Kill("broker-9"))
    log.write(refused, Phase.NOT_DONE, why="nobody is that now")
    log.close()
    found = acting_faults(path)
    assert [(each.number, each.phase) for each in found] == [
        (1, "acting"), (3, "not_reverted"), (4, "acting"), (5, "intended"),
    ]  # fmt: skip
    assert found[0].fault == f.Pause("broker-0", 50)
    assert (found[0].node, found[0].proof, found[0].since_ns) == (1, "paused", 100)
    assert found[1].why == "no answer"


def test_a_line_that_was_not_finished_tells_nothing(tmp_path: Path) -> None:
    path = tmp_path / "intent.jsonl"
    log = IntentLog(path, lambda: 0)
    log.begin(f.Pause("broker-0"))
    log.close()
    with path.open("ab") as file:
        file.write(b'{"at_ns":3,"number":1,"phase":"rever')
    assert [each.phase for each in acting_faults(path)] == ["intended"]


def test_a_log_that_is_opened_again_goes_on_with_its_numbers(tmp_path: Path) -> None:
    path = tmp_path / "intent.jsonl"
    for number in (1, 2):
        log = IntentLog(path, lambda: 0)
        assert log.begin(f.Pause("broker-0")) == number
        log.close()


# ---------------------------------------------------------------- single faults, repetitions


def test_a_fault_is_read_from_json() -> None:
    text = '{"fault":"pause","node":"broker-0","for_ms":5000}'
    assert parse_fault([text]) == f.Pause("broker-0", 5_000)


@pytest.mark.parametrize("text", ["{}", "pause", '{"fault":"pause"}', '{"fault":"nap"}'])
def test_a_malformed_fault_is_refused(text: str) -> None:
    with pytest.raises(HarnessError, match="no fault"):
        parse_fault([text])


def result(number: int, outcome: Outcome) -> PlanResult:
    return PlanResult(Path(f"run-{number}"), Verdict(outcome, (), ()))


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ([Outcome.PASS, Outcome.PASS], Outcome.PASS),
        ([Outcome.PASS, Outcome.UNKNOWN], Outcome.UNKNOWN),
        ([Outcome.UNKNOWN, Outcome.FAIL, Outcome.PASS], Outcome.FAIL),
    ],
)
def test_repeated_runs_are_as_good_as_their_worst(
    outcomes: list[Outcome], expected: Outcome
) -> None:
    results = repeat(len(outcomes), lambda number: result(number, outcomes[number - 1]))
    assert [each.folder.name for each in results] == [
        f"run-{number}" for number in range(1, len(outcomes) + 1)
    ]
    assert worst_of([each.verdict.outcome for each in results]) is expected
    counts = counted_outcomes(results)
    assert counts == {outcome: outcomes.count(outcome) for outcome in set(outcomes)}
    assert next(iter(msgspec.to_builtins(counts))) == expected.value


PASS, FAIL, UNKNOWN = Outcome.PASS, Outcome.FAIL, Outcome.UNKNOWN


@pytest.mark.parametrize(
    ("outcomes", "tries", "expected", "runs"),
    [
        ([PASS, FAIL], 3, PASS, 1),
        ([FAIL, PASS], 3, FAIL, 1),
        ([UNKNOWN, FAIL, PASS], 3, FAIL, 2),
        ([UNKNOWN, UNKNOWN, PASS], 3, PASS, 3),
        ([UNKNOWN, UNKNOWN, PASS], 2, UNKNOWN, 2),
        ([UNKNOWN, PASS], 1, UNKNOWN, 1),
    ],
)
def test_only_unknown_runs_are_tried_again(
    outcomes: list[Outcome], tries: int, expected: Outcome, runs: int
) -> None:
    coming = iter(enumerate(outcomes, start=1))
    ran: list[int] = []
    said: list[str] = []

    def run() -> PlanResult:
        number, outcome = next(coming)
        ran.append(number)
        return result(number, outcome)

    assert until_known(tries, run, said.append).verdict.outcome is expected
    assert (len(ran), len(said)) == (runs, runs - 1)


@pytest.mark.parametrize("seed", range(1, 6))
def test_a_seeds_plan_for_brokers_that_elect_leaders_themselves_has_no_controller(
    seed: int,
) -> None:
    plan = plan_of(Wanted(seed=seed, duration_ms=30_000, preset=Preset.V2))
    assert plan.steps
    assert "controller" not in "\n".join(outline(plan)).replace("controllers", "")
    assert problems_in_containers(plan) == []
