"""Runs a soak: one drawn plan after another until its time is over, each judged as it ends.

Each plan has a cluster of its own, or all are rounds on one that lives until a round fails or
leaves something behind.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from highwater.checkout import commit_here
from highwater.errors import HarnessError
from highwater.runs.plans.outcome import PlanResult
from highwater.soak.draws import Drawn, SoakSettings, draw
from highwater.soak.folder import SoakFolder
from highwater.soak.leaks import Judgement, leaks_in
from highwater.soak.ledger import Entry, Ledger, Repeat, counts_of, verdict_of
from highwater.soak.pruning import may_be_pruned, prune, size_of
from highwater.soak.status import Doing, Status, read_status, write_status
from highwater.soak.usage import append_samples, read_samples
from highwater.soak.world import CouldNotRun, RoundDone, World
from highwater_chaos.plan import BadPlan, decode_plan
from highwater_checker.requirements import acknowledged_in
from highwater_checker.verdict import Outcome

REASONS_KEPT = 5
REASON_LENGTH = 500
MOST_PAUSE_S = 60.0
"""After a plan that could not be run."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a soak goes on, and what it may take.

    wanted_s: the time that plans may take, over all processes of the soak.
    again: how often a failed plan is run again. keep_bytes: of all run folders together.
    least_free_bytes: with less on the disk no plan is begun.
    """

    wanted_s: float
    until_failure: bool = False
    again: int = 2
    keep_bytes: int = 20 * 2**30
    least_free_bytes: int = 2 * 2**30


@dataclass(slots=True)
class Rounds:
    """The cluster that lives on. name: in the engine, "" while there is none.

    cluster: its number in the soak. round: how many rounds it had.
    """

    name: str = ""
    cluster: int = 0
    round: int = 0


class Soak:
    """One soak in its folder."""

    def __init__(
        self,
        folder: SoakFolder,
        settings: SoakSettings,
        limits: Limits,
        world: World,
        *,
        say: Callable[[str], None],
        ended: Callable[[Entry], None],
    ) -> None:
        """ended: is called with each plan's entry once that is on the disk.

        A finding's entry comes before virtual time and further runs are asked about it, and once
        only, also where the soak is killed in that moment.
        """
        self._folder = folder
        self._settings = settings
        self._limits = limits
        self._world = world
        self._say = say
        self._ended = ended
        self._ledger: Ledger
        self._plan = 0
        self._run = ""
        self._rounds = Rounds()
        self._leaks: tuple[Judgement, ...] = ()
        self._told: set[tuple[str, str]] = set()
        self._not_run = 0
        """How many plans in a row could not be run."""

    @property
    def entries(self) -> list[Entry]:
        return self._ledger.entries

    @property
    def leaks(self) -> tuple[Judgement, ...]:
        """What grew in the nodes of one cluster."""
        return self._leaks

    def untold_leaks(self) -> list[Judgement]:
        """Return the leaks of nodes and values that no earlier call has returned."""
        untold = {(each.who, each.value): each for each in self._leaks}
        new = [each for key, each in untold.items() if key not in self._told]
        self._told.update(untold)
        return new

    def go(self) -> Outcome:
        """Run plans until the time is over; return the verdict of all plans so far.

        Raises:
            HarnessError: the folder is another soak's, or another process runs this one.
        """
        with self._folder.locked():
            self._folder.open(self._settings)
            self._ledger = Ledger(self._folder.ledger)
            self._go_on()
            try:
                why = self._run_and_clean_up()
            except BaseException as error:
                self._write_end(Doing.STOPPED, f"{type(error).__name__} {error}".strip())
                raise
            self._write_end(Doing.STOPPED if why else Doing.DONE, why)
            if why:
                self._say(f"stopped: {why}")
        return verdict_of(self.entries, was_stopped=bool(why), leaks=self._leaks)

    def _go_on(self) -> None:
        """Tell about an earlier process of this soak, and remove what its last run left.

        Raises:
            HarnessError: this version draws other plans than the folder has.
        """
        self._check_draws()
        for damage in self._ledger.damaged:
            where = f"{self._folder.ledger} line {damage.line}"
            self._say(f"{where}: {damage.what}; that plan runs again")
        if self.entries:
            self._say(f"goes on behind {len(self.entries)} plans, {self._ran_s():.0f} s of runs")
        before = read_status(self._folder.status)
        if before is None and self._folder.status.exists():
            self._say(f"{self._folder.status} was torn; the ledger has all that counts")
        if before is not None and before.doing is Doing.RUNNING:
            for left in filter(None, dict.fromkeys((before.run, before.cluster))):
                self._world.remove_leftovers(left)
        samples = read_samples(self._folder.usage)
        clusters = [each.cluster for each in self.entries] + [each.cluster for each in samples]
        self._rounds.cluster = max(clusters, default=0)
        self._leaks = leaks_in(samples)
        self.untold_leaks()  # an earlier process told them
        for entry in self.entries:
            if entry.outcome is Outcome.PASS and entry.run:  # it was killed before it pruned it
                prune(self._folder.runs / entry.run)
            elif not entry.is_told:
                self._tell(entry)

    def _check_draws(self) -> None:
        """Compare the file of the last plan that ended with what this version draws in its place.

        Raises:
            HarnessError: it is another plan, or cannot be read: two soaks would be one.
        """
        if not self.entries:
            return
        number = self.entries[-1].number
        path = self._folder.plan_path(number)
        try:
            is_same = decode_plan(path.read_bytes()) == draw(self._settings, number).plan
        except FileNotFoundError:
            return
        except BadPlan:
            is_same = False
        if not is_same:
            raise HarnessError(
                f"{path} is another plan than this version draws: take another --name"
            )

    def _run_and_clean_up(self) -> str:
        """Run plans, and remove the cluster that lives on, whatever ended them."""
        try:
            return self._run_plans()
        finally:
            self._world.end_cluster(None)
            self._rounds.name = ""

    def _run_plans(self) -> str:
        """Return why the soak ended before its time, "" if it did not."""
        try:
            return self._run_each()
        except OSError as error:  # of the soak's own files: nothing more can be kept
            return f"{type(error).__name__}: {error}"

    def _run_each(self) -> str:
        while self._ran_s() < self._limits.wanted_s:
            if self._limits.until_failure and (self._findings() or self._leaks):
                return ""
            if why := self._make_room():
                return why
            drawn = draw(self._settings, self._ledger.next_number())
            self._folder.write_plan(drawn)
            began_s = self._world.now_s()
            entry = self._entry_of(drawn)
            self._ledger.add(entry)
            if entry.run and entry.outcome is Outcome.PASS:
                prune(self._folder.runs / entry.run)
            self._write(Doing.RUNNING, "")
            entry = self._tell(entry)
            if entry.outcome is Outcome.FAIL:
                entry = self._pursued(drawn, entry, began_s)
                self._ledger.add(entry)
                self._write(Doing.RUNNING, "")
                self._say(say_again(entry))
        return ""

    def _tell(self, entry: Entry) -> Entry:
        """Tell of the plan's end; note on the disk that a finding was told."""
        self._ended(entry)
        if not entry.is_told:
            entry = msgspec.structs.replace(entry, is_told=True)
            self._ledger.add(entry)
        return entry

    # ------------------------------------------------------------ one plan

    def _entry_of(self, drawn: Drawn) -> Entry:
        """Run the plan once, and return its entry."""
        began, began_s = self._world.utc(), self._world.now_s()
        ended = ""
        outcome = Outcome.UNKNOWN
        if self._settings.one_cluster:
            done, why, ended = self._play_round(drawn)
            result = None if done is None else done.result
            outcome = outcome if done is None else done.outcome
        else:
            result, why = self._run_once(drawn)
            outcome = outcome if result is None else result.verdict.outcome
        if result is None:
            self._wait_longer()
        else:
            self._not_run = 0
        entry = entry_of(
            drawn,
            result,
            why,
            run=self._run if (self._folder.runs / self._run).is_dir() else "",
            began=began,
            took_s=self._world.now_s() - began_s,
            load=self._world.load(),
        )
        return msgspec.structs.replace(
            entry,
            outcome=outcome,
            cluster=self._rounds.cluster,
            round=self._rounds.round,
            cluster_ended=ended[:REASON_LENGTH],
        )

    def _wait_longer(self) -> None:
        """Wait a second, then two, up to MOST_PAUSE_S: an engine that refuses is asked in vain."""
        self._world.pause(min(MOST_PAUSE_S, 2.0**self._not_run))
        self._not_run += 1

    def _play_round(self, drawn: Drawn) -> tuple[RoundDone | None, tuple[str, ...], str]:
        """Return the round, its reasons, and why its cluster ended, "" if it did not."""
        rounds = self._rounds
        self._plan, self._run = drawn.number, self._world.new_run_id()
        if not rounds.name:
            rounds.name, rounds.cluster, rounds.round = self._run, rounds.cluster + 1, 0
        rounds.round += 1
        self._write(Doing.RUNNING, "")
        folder = self._folder.runs / self._run
        done: RoundDone | None = None
        why: tuple[str, ...]
        try:
            done = self._world.play_round(drawn, folder, rounds.name, rounds.cluster)
        except CouldNotRun as error:
            why, ended = (str(error),), str(error)
        else:
            why, ended = done.reasons, done.ends_cluster
            append_samples(self._folder.usage, done.samples)
            self._leaks = leaks_in(read_samples(self._folder.usage))
        if ended:
            self._say(f"cluster {rounds.cluster} ends after {rounds.round} rounds: {ended}")
            self._world.end_cluster(folder)
            rounds.name = ""
        return done, why, ended

    def _pursued(self, drawn: Drawn, entry: Entry, began_s: float) -> Entry:
        """Return a failed plan's entry with what virtual time and further runs show.

        Ordering: the entry itself is on the disk before. A kill in between costs no finding.
        """
        simulated = self._world.simulate(drawn)
        again = tuple(self._repeated(drawn) for _ in range(self._limits.again))
        took_s = round(self._world.now_s() - began_s, 1)
        return msgspec.structs.replace(entry, simulated=simulated, again=again, took_s=took_s)

    def _run_once(self, drawn: Drawn) -> tuple[PlanResult | None, tuple[str, ...]]:
        """Return the run's result and reasons; None where it has no verdict."""
        self._plan, self._run = drawn.number, self._world.new_run_id()
        self._write(Doing.RUNNING, "")
        try:
            result = self._world.run(drawn, self._folder.runs / self._run)
        except CouldNotRun as error:
            return None, (str(error),)
        return result, result.verdict.reasons

    def _repeated(self, drawn: Drawn) -> Repeat:
        """Run a failed plan again; the folder stays whole if it fails again."""
        result, _ = self._run_once(drawn)
        outcome = Outcome.UNKNOWN if result is None else result.verdict.outcome
        folder = self._folder.runs / self._run
        if outcome is not Outcome.FAIL and folder.is_dir():
            prune(folder)
        return Repeat(outcome, self._run)

    # ------------------------------------------------------------ the disk, the status

    def _make_room(self) -> str:
        """Prune until the runs fit; return why they cannot, "" where they do."""
        runs = self._folder.runs
        size = size_of(runs)
        for folder in may_be_pruned(runs, self.entries):
            if not self._lacks_room(size):
                break
            size -= size_of(folder)
            prune(folder)
            size += size_of(folder)
        return self._lacks_room(size)

    def _lacks_room(self, size: int) -> str:
        """Return what is too much or too little, "" where there is room. size: of all runs."""
        keep, free = self._limits.keep_bytes, self._world.free_bytes(self._folder.path)
        if free < self._limits.least_free_bytes:
            return f"{free / 2**30:.1f} GiB are free on the disk"
        if size > keep:
            allowed = f"{keep / 2**30:.1f} GiB are allowed"
            return f"failed runs take {size / 2**30:.1f} GiB, and {allowed}"
        return ""

    def _ran_s(self) -> float:
        return sum(entry.took_s for entry in self.entries)

    def _findings(self) -> tuple[int, ...]:
        return tuple(each.number for each in self.entries if each.outcome is Outcome.FAIL)

    def _write_end(self, doing: Doing, why: str) -> None:
        """Write the last status; where the disk is full, the ledger has all that counts."""
        try:
            self._write(doing, why)
        except OSError as error:
            self._say(f"{self._folder.status} cannot be written: {error}")

    def _write(self, doing: Doing, why: str) -> None:
        status = Status(
            doing=doing,
            why=why,
            plan=self._plan,
            run=self._run,
            ran_s=round(self._ran_s(), 1),
            wanted_s=self._limits.wanted_s,
            done=counts_of(self.entries),
            findings=self._findings(),
            updated=self._world.utc(),
            cluster=self._rounds.name,
            leaks=tuple(map(str, self._leaks)),
        )
        write_status(self._folder.status, status)


def entry_of(
    drawn: Drawn,
    result: PlanResult | None,
    why: tuple[str, ...],
    *,
    run: str,
    began: str,
    took_s: float,
    load: float,
) -> Entry:
    """Return the entry of a plan that was run once. result: None where it has no verdict."""
    topology = drawn.plan.topology
    return Entry(
        number=drawn.number,
        seed=drawn.plan.seed,
        preset=topology.preset,
        client=drawn.client,
        brokers=topology.brokers,
        controllers=topology.controllers,
        faults=len(drawn.plan.steps),
        outcome=Outcome.UNKNOWN if result is None else result.verdict.outcome,
        run=run,
        began=began,
        took_s=max(0.1, round(took_s, 1)),
        load=round(load, 1),
        acknowledged=0 if result is None else acknowledged_in(result.verdict.requirements),
        invariants=() if result is None else _invariants(result),
        reasons=_first(why),
        commit=commit_here(),
        is_told=result is None or result.verdict.outcome is not Outcome.FAIL,
    )


def say_again(entry: Entry) -> str:
    """Return what came of a failed plan's further runs, in a sentence."""
    failed = sum(each.outcome is Outcome.FAIL for each in entry.again)
    virtual = f"; in virtual time: {entry.simulated}" if entry.simulated else ""
    return f"plan {entry.number} failed again in {failed} of {len(entry.again)} runs{virtual}"


def _invariants(result: PlanResult) -> tuple[str, ...]:
    return tuple(sorted({finding.invariant for finding in result.verdict.findings}))


def _first(reasons: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(reason[:REASON_LENGTH] for reason in reasons[:REASONS_KEPT])
