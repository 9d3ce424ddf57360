"""A soak over a fake machine: what it runs, keeps, tells, and goes on with after a kill."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from highwater.errors import HarnessError
from highwater.run_folder import RunFolder
from highwater.runs.plans.outcome import PlanResult
from highwater.soak import running
from highwater.soak.draws import Drawn, SoakSettings, topology_of
from highwater.soak.folder import SoakFile, SoakFolder
from highwater.soak.ledger import Entry, read_entries
from highwater.soak.page import write_page
from highwater.soak.pruning import SUMS, is_whole, may_be_pruned, prune
from highwater.soak.running import Limits, Soak
from highwater.soak.status import Doing, read_status
from highwater.soak.usage import Sample, read_samples
from highwater.soak.world import CouldNotRun, RoundDone
from highwater_checker.finding import CheckResult, Finding
from highwater_checker.run_folder.documents import VERDICT
from highwater_checker.verdict import Outcome, Requirement, Verdict

PASS, FAIL, UNKNOWN = Outcome.PASS, Outcome.FAIL, Outcome.UNKNOWN
SETTINGS = SoakSettings(seed=7)
ROUNDS = SoakSettings(seed=7, one_cluster=True)
RUN_S = 30.0
EVIDENCE = 1_000


class Killed(BaseException):
    """Stands for kill -9: nothing is caught."""


class FakeMachine:
    """Gives the verdicts in their order, each after RUN_S; Killed and CouldNotRun are raised."""

    def __init__(self, *outcomes: Outcome | BaseException) -> None:
        self.outcomes = list(outcomes)
        self.plans: list[int] = []
        self.removed: list[str] = []
        self.free = 2**40
        self.free_once_whole: Callable[[], int] = lambda: 0
        """Of whole runs; while there is one, the disk is full."""
        self.pauses: list[float] = []
        self.ended: list[Path | None] = []
        self.rounds: list[tuple[int, str]] = []
        self.ends: dict[int, str] = {}
        """Of one cluster: why it ends after a plan."""
        self.left: dict[int, str] = {}
        """Of one cluster: what a plan left behind."""
        self.open_files = {0: 50, 1: 50}
        self.leaks = 0
        """How many descriptors of node 0 a round leaves open."""
        self._now_s = 0.0
        self._runs = 0

    def run(self, drawn: Drawn, folder: Path) -> PlanResult:
        self.plans.append(drawn.number)
        self._now_s += RUN_S
        outcome = self.outcomes.pop(0) if self.outcomes else PASS
        if isinstance(outcome, BaseException):
            raise outcome
        run = RunFolder(folder)
        run.write_bytes("verdict.json", b"{}")
        run.write_bytes("trace/broker-0.jsonl", bytes(EVIDENCE))
        return PlanResult(folder, verdict(outcome))

    def play_round(self, drawn: Drawn, folder: Path, cluster: str, number: int) -> RoundDone:
        self.rounds.append((number, cluster))
        result = self.run(drawn, folder)
        self.open_files[0] += self.leaks
        own_round = sum(each == (number, cluster) for each in self.rounds)
        samples = [
            Sample(number, own_round, drawn.number, node, "broker", 1, open_files=files)
            for node, files in self.open_files.items()
        ]
        failed = "the round failed" if result.verdict.outcome is FAIL else ""
        left = self.left.get(drawn.number, "")
        ends = left or self.ends.get(drawn.number, failed)
        return RoundDone(result, ends, () if ends else samples, is_at_rest=not left)

    def end_cluster(self, folder: Path | None) -> None:
        self.ended.append(folder)

    def simulate(self, drawn: Drawn) -> str:
        return "nothing"

    def new_run_id(self) -> str:
        self._runs += 1
        return f"soak-{id(self):x}-{self._runs}"

    def remove_leftovers(self, run_id: str) -> None:
        self.removed.append(run_id)

    def now_s(self) -> float:
        return self._now_s

    def utc(self) -> str:
        return "2026-01-31T03:00:00+00:00"

    def load(self) -> float:
        return 1.5

    def free_bytes(self, path: Path) -> int:
        return 0 if self.free_once_whole() else self.free

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self._now_s += seconds


def verdict(outcome: Outcome) -> Verdict:
    findings = (Finding("I1", "is lost <b>"),) if outcome is FAIL else ()
    met = Requirement("the plan was run to its end", outcome is not UNKNOWN, "a fault: missed")
    enough = Requirement("at least 5 records were acknowledged", True, "250")
    return Verdict(outcome, (CheckResult("I1", 1, findings),), (met, enough))


class Story:
    """Soaks in one folder, one process after another."""

    def __init__(self, folder: Path) -> None:
        self.folder = SoakFolder(folder / "soak")
        self.said: list[str] = []
        self.ended: list[Entry] = []

    settings = SETTINGS

    def go(self, machine: FakeMachine, plans: int, **limits: object) -> Outcome:
        """Run for so many plans' time, of all processes together."""
        asked = Limits(wanted_s=RUN_S * plans - 1, **limits)  # type: ignore[arg-type]
        self.soak = Soak(
            self.folder,
            self.settings,
            asked,
            machine,
            say=self.said.append,
            ended=self.ended.append,
        )
        return self.soak.go()

    def status(self) -> tuple[Doing, str]:
        status = read_status(self.folder.status)
        assert status is not None
        return status.doing, status.why

    def whole(self) -> int:
        """Return how many run folders have all their evidence."""
        return len(list(self.folder.runs.glob("*/trace/broker-0.jsonl")))


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story(tmp_path)


def test_it_runs_plans_until_their_time_is_over_and_keeps_their_verdicts_alone(
    story: Story,
) -> None:
    machine = FakeMachine()
    assert story.go(machine, 3) is PASS
    assert machine.plans == [1, 2, 3]
    assert [entry.acknowledged for entry in story.ended] == [250] * 3
    assert story.whole() == 0
    assert len(list(story.folder.runs.glob(f"*/{SUMS}"))) == 3
    assert len(list(story.folder.runs.glob("*/verdict.json"))) == 3
    assert story.status() == (Doing.DONE, "")
    assert sorted(path.name for path in story.folder.plans.glob("*.json")) == [
        "00001.json",
        "00002.json",
        "00003.json",
    ]


def test_a_failed_plan_is_run_again_and_keeps_everything(story: Story) -> None:
    machine = FakeMachine(PASS, FAIL, FAIL, PASS, PASS)
    assert story.go(machine, 5) is FAIL
    assert machine.plans == [1, 2, 2, 2, 3]
    entry = story.soak.entries[1]
    assert (entry.outcome, [each.outcome for each in entry.again]) == (FAIL, [FAIL, PASS])
    assert (entry.invariants, entry.simulated) == (("I1",), "nothing")
    assert is_whole(story.folder.runs / entry.run)
    assert story.whole() == 2  # the run, and the one that repeats it and fails


def test_it_ends_at_the_first_failure_where_that_is_wanted(story: Story) -> None:
    machine = FakeMachine(PASS, FAIL)
    assert story.go(machine, 9, until_failure=True, again=0) is FAIL
    assert machine.plans == [1, 2]
    assert story.go(machine, 9, until_failure=True, again=0) is FAIL
    assert machine.plans == [1, 2], "a soak that found something does not go on by itself"


def test_after_a_kill_it_goes_on_behind_the_last_plan_that_ended(story: Story) -> None:
    with pytest.raises(Killed):
        story.go(FakeMachine(PASS, Killed()), 4)
    killed = read_status(story.folder.status)
    assert killed is not None
    # kill -9 leaves the status of the plan that was running
    running = msgspec.structs.replace(killed, doing=Doing.RUNNING)
    story.folder.status.write_bytes(msgspec.json.encode(running))
    machine = FakeMachine()
    assert story.go(machine, 4) is PASS
    assert machine.plans == [2, 3, 4]
    assert machine.removed == [killed.run]
    assert [entry.number for entry in story.soak.entries] == [1, 2, 3, 4]


def test_a_kill_while_a_failed_plan_is_run_again_costs_no_finding(story: Story) -> None:
    """Found: its entry was written after the repeats, and its evidence then gave way first."""
    with pytest.raises(Killed):
        story.go(FakeMachine(FAIL, Killed()), 4)
    assert story.go(FakeMachine(), 2, keep_bytes=EVIDENCE + 800) is FAIL
    (failed,) = [entry for entry in story.soak.entries if entry.outcome is FAIL]
    assert (failed.number, failed.again) == (1, ())
    assert is_whole(story.folder.runs / failed.run)


def test_a_finding_is_told_before_anything_else_is_asked_about_it_and_once_alone(
    story: Story,
) -> None:
    """Found: a soak that was killed while it ran a failed plan again told nobody of it, ever."""

    class KilledThen(FakeMachine):
        def simulate(self, drawn: Drawn) -> str:
            assert [entry.number for entry in story.ended] == [1]
            raise Killed

    with pytest.raises(Killed):
        story.go(KilledThen(FAIL), 3)
    assert [entry.outcome for entry in story.ended] == [FAIL]
    story.ended.clear()
    assert story.go(FakeMachine(), 3) is FAIL
    assert [entry.number for entry in story.ended] == [2, 3]


def test_a_finding_that_a_kill_left_untold_is_told_by_the_next_process(story: Story) -> None:
    def killed(entry: Entry) -> None:
        raise Killed

    machine = FakeMachine(FAIL)
    limits = Limits(wanted_s=RUN_S)
    soak = Soak(story.folder, SETTINGS, limits, machine, say=story.said.append, ended=killed)
    with pytest.raises(Killed):
        soak.go()
    for _ in range(2):
        story.go(FakeMachine(), 1)
    assert [entry.number for entry in story.ended] == [1]


def test_a_disk_that_fills_stops_it_with_the_reason(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found: a traceback, and the status said for ever that it runs."""

    def full(run: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(run))

    monkeypatch.setattr(running, "prune", full)
    assert story.go(FakeMachine(), 3) is UNKNOWN
    doing, why = story.status()
    assert doing is Doing.STOPPED
    assert "No space left on device" in why
    assert len(story.soak.entries) == 1
    monkeypatch.undo()
    assert story.go(FakeMachine(), 3) is PASS
    assert story.whole() == 0, "the first run is pruned now"


def test_a_status_that_cannot_be_written_at_the_end_costs_no_verdict(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, status: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    machine = FakeMachine()
    machine.free = 0
    monkeypatch.setattr(running, "write_status", full)
    assert story.go(machine, 1) is UNKNOWN
    assert any("status.json cannot be written" in line for line in story.said)


def test_a_soak_of_another_version_is_refused_where_it_draws_other_plans(story: Story) -> None:
    story.go(FakeMachine(), 2)
    newest = story.folder.plan_path(2)
    newest.write_bytes(story.folder.plan_path(1).read_bytes())
    with pytest.raises(HarnessError, match=r"00002\.json is another plan than this version draws"):
        story.go(FakeMachine(), 3)
    newest.write_bytes(b'{"format": 99}')
    with pytest.raises(HarnessError, match="another plan"):
        story.go(FakeMachine(), 3)


def test_an_engine_that_refuses_is_asked_more_and_more_seldom(story: Story) -> None:
    machine = FakeMachine(*[CouldNotRun("address pools are used up")] * 8)
    assert story.go(machine, 14) is UNKNOWN
    assert machine.pauses[:8] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert story.soak.entries[7].took_s == RUN_S + 60, "a pause is the soak's time"


def test_unknown_runs_give_way_to_a_disk_that_is_nearly_full(story: Story) -> None:
    """Found: the soak stopped although it could have made room."""
    machine = FakeMachine(UNKNOWN, PASS)
    assert story.go(machine, 2) is UNKNOWN
    assert story.whole() == 1
    machine.free_once_whole = story.whole
    assert story.go(machine, 4) is PASS
    assert story.whole() == 0


def test_a_failed_run_without_its_line_in_the_ledger_is_not_pruned(story: Story) -> None:
    story.go(FakeMachine(), 1)
    stray = RunFolder(story.folder.runs / "soak-lost")
    stray.write(VERDICT, verdict(FAIL))
    interrupted = RunFolder(story.folder.runs / "soak-interrupted")
    assert may_be_pruned(story.folder.runs, story.soak.entries) == [interrupted.path]


def test_a_prune_that_was_interrupted_goes_on(story: Story, tmp_path: Path) -> None:
    story.go(FakeMachine(UNKNOWN), 1)
    run = story.folder.runs / story.soak.entries[0].run
    (run / SUMS).write_text('{"files": {}, "size_bytes": {}}')
    prune(run)
    assert story.whole() == 0
    assert (run / SUMS).read_text() == '{"files": {}, "size_bytes": {}}'
    prune(tmp_path / "gone")


def test_a_prune_that_was_interrupted_leaves_a_run_that_may_be_pruned(story: Story) -> None:
    """Found: it counted as pruned for ever, and its bytes against the soak's room."""
    story.go(FakeMachine(UNKNOWN), 1)
    run = story.folder.runs / story.soak.entries[0].run
    (run / SUMS).write_text('{"files": {}, "size_bytes": {}}')
    assert may_be_pruned(story.folder.runs, story.soak.entries) == [run]
    prune(run)
    assert may_be_pruned(story.folder.runs, story.soak.entries) == []


def test_the_page_says_that_a_soak_ended_before_its_time_and_that_builds_changed(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "commit_here", lambda: "one")
    machine = FakeMachine()
    story.go(machine, 1)
    monkeypatch.setattr(running, "commit_here", lambda: "another")
    story.go(machine, 2)
    machine.free = 0
    story.go(machine, 3)
    write_page(story.folder, SETTINGS, story.soak.entries)
    page = story.folder.page.read_text("utf-8")
    assert ">unknown</span>" in page
    assert "hours were over: 0.0 GiB are free on the disk." in page
    assert "Several builds ran its plans, in this order: one, another." in page


@pytest.mark.parametrize(
    ("tail", "again"), [(b'{"number": 3, "se', [3]), (b"\xff\n", [3]), (b"{}\n", [3])]
)
def test_a_damaged_line_costs_its_plan_alone(story: Story, tail: bytes, again: list[int]) -> None:
    story.go(FakeMachine(), 2)
    with story.folder.ledger.open("ab") as file:
        file.write(tail)
    machine = FakeMachine()
    assert story.go(machine, 3) is PASS
    assert machine.plans == again
    assert any("done.jsonl line 3" in line for line in story.said) is tail.endswith(b"\n")
    entries, _ = read_entries(story.folder.ledger)
    assert [entry.number for entry in entries] == [1, 2, 3]


def test_a_torn_status_is_told_and_loses_nothing(story: Story) -> None:
    story.go(FakeMachine(), 1)
    story.folder.status.write_bytes(b'{"doing": "runn')
    assert story.go(FakeMachine(), 2) is PASS
    assert any("status.json was torn" in line for line in story.said)


def test_a_plan_without_a_verdict_is_unknown_and_the_rest_goes_on(story: Story) -> None:
    machine = FakeMachine(CouldNotRun("no Docker engine answers"), PASS, PASS)
    assert story.go(machine, 3) is PASS
    first = story.soak.entries[0]
    assert (first.outcome, first.run, first.reasons) == (UNKNOWN, "", ("no Docker engine answers",))


def test_a_soak_that_proves_little_is_unknown(story: Story) -> None:
    assert story.go(FakeMachine(UNKNOWN, PASS), 2) is UNKNOWN


def test_a_full_disk_ends_it_before_a_plan_begins(story: Story) -> None:
    machine = FakeMachine()
    machine.free = 2**30
    assert story.go(machine, 2) is UNKNOWN
    assert machine.plans == []
    assert story.status() == (Doing.STOPPED, "1.0 GiB are free on the disk")


def test_unknown_runs_give_way_and_failed_ones_never(story: Story) -> None:
    machine = FakeMachine(UNKNOWN, FAIL, FAIL, PASS)
    assert story.go(machine, 4, again=0, keep_bytes=2 * EVIDENCE + 500) is FAIL
    assert story.whole() == 2, "the first, which proves nothing, was pruned"
    assert story.go(machine, 9, again=0, keep_bytes=EVIDENCE) is FAIL
    assert story.status()[0] is Doing.STOPPED
    assert "are allowed" in story.status()[1]
    assert story.whole() == 2


def test_another_soaks_folder_and_another_process_are_refused(story: Story) -> None:
    story.go(FakeMachine(), 1)
    other = SoakSettings(seed=8)
    with pytest.raises(HarnessError, match=r'settings: \{"seed":7,"longest_ms":60000,'):
        story.folder.open(other)
    (story.folder.path / "soak.json").write_bytes(b"{")
    with pytest.raises(HarnessError, match="cannot be read"):
        story.folder.open(SETTINGS)
    with story.folder.locked(), pytest.raises(HarnessError, match="another process"):
        story.go(FakeMachine(), 2)


def test_the_page_has_each_finding_with_its_command(story: Story) -> None:
    story.go(FakeMachine(PASS, FAIL, UNKNOWN), 3, again=0)
    write_page(story.folder, SETTINGS, story.soak.entries)
    page = story.folder.page.read_text("utf-8")
    assert "plans/00002.json --world docker" in page
    assert "is lost &lt;b&gt;" in page
    assert page.count("<rect") == 3
    assert "the plan was run to its end" in page
    assert "<a href" not in page, "no run left a page"


def test_the_soaks_page_links_to_the_pages_of_its_runs(story: Story) -> None:
    story.go(FakeMachine(PASS, FAIL, FAIL), 3, again=1)
    failed = story.soak.entries[1]
    repeated = failed.again[0].run
    for run in (failed.run, repeated):
        (story.folder.runs / run / "report.html").write_text("")
    write_page(story.folder, SETTINGS, story.soak.entries)
    page = story.folder.page.read_text("utf-8")
    assert page.count(f'<a href="runs/{failed.run}/report.html">') == 2, "in the strip, and below"
    assert page.count(f'<a href="runs/{repeated}/report.html">fail</a>') == 1


# ---------------------------------------------------------------- one cluster


@pytest.fixture
def rounds(tmp_path: Path) -> Story:
    story = Story(tmp_path)
    story.settings = ROUNDS
    return story


def test_plans_are_rounds_on_one_cluster_which_is_gone_at_the_end(rounds: Story) -> None:
    machine = FakeMachine()
    assert rounds.go(machine, 3) is PASS
    assert len({name for _, name in machine.rounds}) == 1
    assert [(entry.cluster, entry.round) for entry in rounds.ended] == [(1, 1), (1, 2), (1, 3)]
    assert machine.ended == [None]
    assert [each.round for each in read_samples(rounds.folder.usage)] == [1, 1, 2, 2, 3, 3]
    assert rounds.whole() == 0


def test_a_round_that_fails_or_leaves_something_behind_ends_its_cluster(rounds: Story) -> None:
    machine = FakeMachine(PASS, FAIL, UNKNOWN, CouldNotRun("the engine was away"), PASS)
    machine.ends = {3: "broker 1 has t3-0"}
    assert rounds.go(machine, 5, again=0) is FAIL
    told = [(entry.cluster, entry.round, entry.cluster_ended) for entry in rounds.soak.entries]
    assert told == [
        (1, 1, ""),
        (1, 2, "the round failed"),
        (2, 1, "broker 1 has t3-0"),
        (3, 1, "the engine was away"),
        (4, 1, ""),
    ]
    assert len({name for _, name in machine.rounds}) == 4
    runs = [None if each is None else each.name for each in machine.ended]
    assert runs[:2] == [entry.run for entry in rounds.soak.entries[1:3]]
    assert runs[3:] == [None]


def test_a_passed_round_that_leaves_something_behind_is_unknown_and_keeps_its_evidence(
    rounds: Story,
) -> None:
    """Found: such a soak passed, and what the cluster still had was pruned as it was copied."""
    machine = FakeMachine()
    machine.left = {2: "broker 1 has t2-0"}
    assert rounds.go(machine, 3) is PASS
    entry = rounds.soak.entries[1]
    assert (entry.outcome, entry.cluster_ended) == (UNKNOWN, "broker 1 has t2-0")
    assert entry.reasons == ("after the round: broker 1 has t2-0",)
    assert is_whole(rounds.folder.runs / entry.run)
    machine.left = dict.fromkeys(range(4, 9), "broker 1 has a topic's folder")
    assert rounds.go(machine, 8) is UNKNOWN


def test_a_round_that_only_ends_its_cluster_passes(rounds: Story) -> None:
    machine = FakeMachine()
    machine.ends = {2: "its rounds are compared with too many events before them"}
    assert rounds.go(machine, 3) is PASS
    assert [entry.outcome for entry in rounds.soak.entries] == [PASS] * 3


def test_a_failed_round_is_run_again_on_clusters_of_its_own(rounds: Story) -> None:
    machine = FakeMachine(FAIL, PASS, FAIL)
    assert rounds.go(machine, 3, again=2) is FAIL
    assert (machine.plans, len(machine.rounds)) == ([1, 1, 1], 1)


def test_a_killed_soaks_cluster_is_removed_and_the_next_one_has_the_next_number(
    rounds: Story,
) -> None:
    killed = FakeMachine(PASS, PASS, Killed())
    with pytest.raises(Killed):
        rounds.go(killed, 5)
    status = read_status(rounds.folder.status)
    assert status is not None
    assert (status.doing, status.cluster) == (Doing.STOPPED, "")
    _, cluster = killed.rounds[-1]  # kill -9 leaves the status of the round
    status = msgspec.structs.replace(status, doing=Doing.RUNNING, cluster=cluster)
    rounds.folder.status.write_bytes(msgspec.json.encode(status))
    machine = FakeMachine()
    assert rounds.go(machine, 4) is PASS
    assert machine.removed == [status.run, status.cluster]
    assert [(entry.cluster, entry.round) for entry in rounds.soak.entries[1:]] == [
        (1, 2),
        (2, 1),
        (2, 2),
    ]


def test_a_leak_is_a_finding_told_everywhere(rounds: Story) -> None:
    machine = FakeMachine()
    machine.leaks = 1
    assert rounds.go(machine, 9) is FAIL
    (leak,) = rounds.soak.leaks
    assert rounds.soak.untold_leaks() == [leak]
    assert rounds.soak.untold_leaks() == [], "it is told once, however it grows"
    assert str(leak).startswith("broker 0 has 1.00 descriptors more after each round: ")
    status = read_status(rounds.folder.status)
    assert status is not None
    assert status.leaks == (str(leak),)
    write_page(rounds.folder, ROUNDS, rounds.soak.entries)
    page = rounds.folder.page.read_text("utf-8")
    assert "<h3>Leak</h3>" in page
    assert page.count("<polyline") == 3, "two nodes' descriptors, and the machine's load"
    assert rounds.go(FakeMachine(), 99, until_failure=True) is FAIL
    assert len(rounds.soak.entries) == 9


def test_no_leak_is_told_of_few_rounds(rounds: Story) -> None:
    machine = FakeMachine()
    machine.leaks = 1
    assert rounds.go(machine, 6) is PASS
    assert rounds.soak.leaks == ()


def test_one_clusters_topology_is_in_its_settings_file(rounds: Story) -> None:
    rounds.go(FakeMachine(), 1)
    file = rounds.folder.path / "soak.json"
    told = msgspec.json.decode(file.read_bytes(), type=SoakFile)
    assert told.topology == topology_of(ROUNDS)
    assert told.topology is not None
    other = msgspec.structs.replace(told.topology, brokers=5)
    file.write_bytes(msgspec.json.encode(msgspec.structs.replace(told, topology=other)))
    with pytest.raises(HarnessError, match="another topology"):
        rounds.go(FakeMachine(), 2)
