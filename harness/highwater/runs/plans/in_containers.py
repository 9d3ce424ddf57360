"""Runs a plan on containers: cluster, the plan's clients, its steps, healing, and the verdict."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from highwater.cluster.cluster import UP, Cluster
from highwater.cluster.labels import Lease
from highwater.cluster.looking import how_to_look
from highwater.cluster.settling import (
    await_active_controller,
    await_full_isr,
    await_replicated,
    await_written_isr,
)
from highwater.cluster.stacks import write_stacks
from highwater.cluster.topology import Topology
from highwater.errors import ClusterStartFailed, HarnessError, ImageBuildFailed
from highwater.faults.healing import baseline_problems
from highwater.faults.intents import IntentLog
from highwater.faults.kinds import KINDS
from highwater.faults.links.acting import NotProven
from highwater.faults.links.namespaces import NotInNamespace
from highwater.faults.means import Means
from highwater.faults.on_containers import ContainerFaults
from highwater.report.observation import Change
from highwater.report.screen import Screen, cluster_table
from highwater.run_folder import RunFolder
from highwater.runs.build import write_build, write_mixed_builds
from highwater.runs.clock import RunClock
from highwater.runs.observer import Observer
from highwater.runs.plans.leader_changes import takeovers
from highwater.runs.plans.load_process import LoadFailed, LoadProcess
from highwater.runs.plans.outcome import PlanResult, conclude, write_plan
from highwater.runs.plans.promises import promises_of
from highwater.runs.plans.schedule import Schedule, StepDone, out_of_order
from highwater.runs.plans.trace_watch import TraceWatch
from highwater.runs.plans.translation import builds_of, differences, topology_of, unsupported
from highwater.runs.probing import Prober, ProberDied
from highwater.runs.stock.libraries import ClientKind, differences_of, played_by
from highwater.waiting import NeverHappened
from highwater_chaos import faults as f
from highwater_chaos.plan import Observed, Plan
from highwater_chaos.words import say_step
from highwater_checker.looks import Look, leaderships
from highwater_checker.requirements import PLAYED_TO_ITS_END
from highwater_checker.run_folder import names
from highwater_checker.run_folder.documents import (
    FINAL_LOOK,
    PROMISES,
    REQUIREMENTS,
    STEPS,
    TOPOLOGY,
    RunTopology,
)
from highwater_checker.verdict import Outcome, Requirement
from highwater_client.load_job import LoadJob
from highwater_core.events import TraceEvent
from highwater_core.ids import NodeId, TopicPartition

CREATED_WITHIN_S = 60.0
SETTLE_WITHIN_S = 60.0
SETTLE_BROKEN_WITHIN_S = 15.0
"""For a cluster with a planted bug, which may never settle; it is judged by its evidence alone."""
WRITE_ON_S = 0.4
"""How long clients go on writing once all faults are undone, as in the simulator."""
STOP_MARGIN_S = 20.0
READ_WITHIN_S = 60.0
LEAST_SHARE_ACKNOWLEDGED = 0.1
"""Of the records that a run without faults would acknowledge; with fewer a run proves little."""

OWN_ZOOKEEPER = "every start of ZooKeeper was the run's own"
_STOPPED_BY = (
    NeverHappened, LoadFailed, ProberDied, ImageBuildFailed, NotInNamespace, NotProven,
)  # fmt: skip
"""Errors that end a run early: its verdict is unknown, and names the error."""


class Unsupported(HarnessError):
    """Containers cannot do a step of the plan."""


def check_supported(plan: Plan) -> Topology:
    """Return the cluster that the plan needs.

    Raises:
        Unsupported: the plan has something that containers cannot do.
    """
    problems = unsupported(plan)
    if problems:
        raise Unsupported("\n".join(problems))
    return topology_of(plan)


def run_in_containers(
    plan: Plan,
    folder: RunFolder,
    screen: Screen,
    client: ClientKind = ClientKind.OWN,
    *,
    keeps_failed: bool = False,
) -> PlanResult:
    """Run the plan, and return its verdict; the cluster is removed afterwards.

    client: the library of producers and consumers; only Highwater's own has a plan's groups.
    keeps_failed: it stays up where the verdict is fail. Nobody removes the cluster of a process
        that is killed, then.

    Raises:
        Unsupported: the plan has something that containers cannot do; nothing was started.
    """
    topology = check_supported(plan)
    plan, notes = _written(plan, folder, screen, client)
    folder.write(TOPOLOGY, RunTopology.of(topology))
    needs = {means for step in plan.steps for means in KINDS[type(step.do)].needs}
    with Cluster(
        topology,
        run_id=folder.run_id,
        lease=Lease.KEPT if keeps_failed else Lease.OWNED,
        planted=plan.planted,
        sized_disks=Means.SIZED_DISKS in needs,
        faulty_disks=Means.FAULTY_DISKS in needs,
        movable_clocks=Means.MOVABLE_CLOCKS in needs,
        images=builds_of(plan, topology),
    ) as cluster:
        cluster.start()
        screen.say(f"the cluster is up, clients connect to {cluster.bootstrap}")
        run = _Run(plan, folder, screen, cluster, client)
        try:
            run.play()
        finally:
            screen.end_live()
            screen.say("stopping the nodes and copying their logs and traces")
            were_up = [node for node in cluster.node_ids if cluster.status(node) in UP]
            cluster.collect(folder.path)
            write_mixed_builds(folder, cluster)
        if keeps_failed:
            return left_up_if_failed(cluster, were_up, run.conclude(notes), screen)
    return run.conclude(notes)


@dataclass(frozen=True, slots=True)
class Round:
    """The result of a plan on a cluster that lives on.

    unmet: what did not happen, or was not undone; then nobody knows the cluster's state.
    """

    result: PlanResult
    unmet: tuple[str, ...]


def run_on_cluster(
    cluster: Cluster,
    plan: Plan,
    folder: RunFolder,
    screen: Screen,
    client: ClientKind,
    copy_evidence: Callable[[RunFolder], None],
) -> Round:
    """Run the plan on a running cluster, which it leaves up, and return its verdict.

    copy_evidence: copies the nodes' files into the folder while they run.

    Raises:
        Unsupported: the plan has something that containers cannot do; nothing was done.
    """
    check_supported(plan)
    plan, notes = _written(plan, folder, screen, client)
    folder.write(TOPOLOGY, RunTopology.of(cluster.topology))
    run = _Run(plan, folder, screen, cluster, client)
    try:
        run.play()
    finally:
        screen.end_live()
    screen.say("copying the nodes' logs and traces")
    copy_evidence(folder)
    unmet = run.unmet
    return Round(run.conclude(notes), unmet)


def _written(
    plan: Plan, folder: RunFolder, screen: Screen, client: ClientKind
) -> tuple[Plan, tuple[str, ...]]:
    """Write the plan and its promises; return the plan of these clients, and the differences."""
    notes = (*differences(plan), *differences_of(client, plan))
    plan = played_by(client, plan)
    write_plan(folder, plan)
    folder.write(PROMISES, promises_of(plan, LEAST_SHARE_ACKNOWLEDGED))
    for note in notes:
        screen.say(f"unlike the plan: {note}", style="yellow")
    return plan, notes


def left_up_if_failed(
    cluster: Cluster, were_up: Sequence[NodeId], result: PlanResult, screen: Screen
) -> PlanResult:
    """Start the nodes of a failed run again, which were stopped for their files, and leave them."""
    if result.verdict.outcome is not Outcome.FAIL:
        return result
    screen.say("the run failed: its nodes are started again, and stay up")
    for node in were_up:
        cluster.start_node(node)
    try:
        cluster.wait_until_ready()
    except ClusterStartFailed as error:  # its own fault, perhaps
        screen.say(str(error), style="bold yellow")
    cluster.leave_up()
    return dataclasses.replace(result, left_up=how_to_look(cluster))


class _Run:
    """One plan on a running cluster, with the evidence for its verdict."""

    def __init__(
        self, plan: Plan, folder: RunFolder, screen: Screen, cluster: Cluster, client: ClientKind
    ) -> None:
        self._plan = plan
        self._folder = folder
        self._screen = screen
        self._cluster = cluster
        self._client = client
        write_build(folder, client.value)
        self._clock = RunClock.begin(folder)
        self._names = {
            spec.name: int(spec.node_id)
            for spec in cluster.topology.nodes()
            if spec.node_id in cluster.node_ids
        }
        self._observer = Observer(
            node_ids=cluster.node_ids,
            snapshot_of=cluster.try_snapshot,
            now_ns=self._clock.now_ns,
            path=folder.path / names.LOOKS,
            listener=self._on_look,
        )
        self._load: LoadProcess | None = None
        self._requirements: list[Requirement] = []
        self._steps: list[StepDone] = []
        self._looks: list[Look] = []
        self._final_look = Look(0, {})
        self._begin_s = 0.0
        self._acknowledged, self._acknowledged_ns = 0, 0

    @property
    def unmet(self) -> tuple[str, ...]:
        """What did not happen so far, or was not undone, in words."""
        return tuple(f"{each.name}: {each.evidence}" for each in self._requirements if not each.met)

    # ------------------------------------------------------------ phases

    def play(self) -> None:
        """Do all of the plan; an error becomes an unmet requirement."""
        job = LoadJob(
            bootstrap=tuple(
                self._cluster.external_endpoint(b) for b in self._cluster.topology.broker_ids
            ),
            workload=self._plan.workload,
            seed=self._plan.seed,
            start_ns=self._clock.start_monotonic_ns,
            history_folder=str(self._folder.path / names.HISTORY),
        )
        with LoadProcess(job, self._folder.path, self._client) as load:
            self._load = load
            self._observer.start()
            try:
                load.await_done("create", CREATED_WITHIN_S)
                self._await_full_isrs(SETTLE_WITHIN_S)
                with self._prober():
                    self._do_faults(load)
                    self._settle(load)
                self._require(PLAYED_TO_ITS_END, True, "")
            except _STOPPED_BY as error:
                self._screen.say(str(error), style="bold yellow")
                self._require(PLAYED_TO_ITS_END, False, str(error))
                if isinstance(error, NeverHappened):
                    stacks = write_stacks(self._cluster, self._folder.path)
                    self._screen.say(f"where the nodes' threads and tasks are: {stacks}")
            finally:
                self._final_look = self._observer.look_once()
                self._looks, _ = self._observer.stop()

    def _do_faults(self, load: LoadProcess) -> None:
        intents = IntentLog(self._folder.path / names.INTENTS, self._clock.now_ns)
        faults = ContainerFaults(self._cluster, intents, load)
        try:
            faults.get_ready(step.do for step in self._plan.steps)
            self._do_steps(load, faults)
            self._said("all is healed")
        finally:
            problems = faults.heal_all()
            strange = faults.strange_start_of_zookeeper()
            intents.close()
            self._require(OWN_ZOOKEEPER, not strange, strange)
            self._require("every fault was undone", not problems, "; ".join(problems))
        wrong = baseline_problems(self._cluster)
        self._require("every node is as it was before the faults", not wrong, "; ".join(wrong))

    def _do_steps(self, load: LoadProcess, faults: ContainerFaults) -> None:
        watch = self._watch_traces(faults.heard)
        self._begin_s = self._now_s()
        load.do("start", STOP_MARGIN_S)
        schedule = Schedule(
            self._plan.steps,
            self._names,
            faults.apply,
            self._observer.latest,
            watch.news if watch is not None else _no_news,
            self._said,
            lead_ms=faults.lead_ms,
        )
        try:
            schedule.run_until(self._plan.quiet_after_ms)
        finally:
            if watch is not None:
                watch.stop()
            self._steps = schedule.steps

    def _prober(self) -> Prober:
        brokers = self._cluster.topology.broker_ids
        return Prober(
            {int(broker): self._cluster.external_endpoint(broker) for broker in brokers},
            [
                TopicPartition(topic.name, partition)
                for topic in self._plan.workload.topics
                for partition in range(topic.partitions)
            ],
            self._folder.path / names.PROBES,
            self._observer.latest,
            self._clock.now_ns,
        )

    def _watch_traces(self, heard: Callable[[TraceEvent], None]) -> TraceWatch | None:
        """Return a watch over all nodes, if a step waits for an event or arms a fail-point."""
        waits = any(
            (step.when is not None and step.when.state is Observed.EVENT)
            or isinstance(step.do, f.CrashAt | f.DelayAt)
            for step in self._plan.steps
        )
        if not waits:
            return None
        watch = TraceWatch(
            {int(node): self._cluster.control_endpoint(node) for node in self._cluster.node_ids},
            heard,
        )
        watch.start()
        watch.await_all()
        watch.news()
        return watch

    def _settle(self, load: LoadProcess) -> None:
        time.sleep(WRITE_ON_S)
        longest_ms = max((p.delivery_timeout_ms for p in self._plan.workload.producers), default=0)
        told = load.do("stop", longest_ms / 1000 + STOP_MARGIN_S)
        self._screen.say(
            f"the clients have written: {told.acknowledged} acknowledged, {told.failed} failed, "
            f"{told.unknown} unknown",
            time_s=self._now_s(),
        )
        within_s = SETTLE_BROKEN_WITHIN_S if _is_to_break(self._plan) else SETTLE_WITHIN_S
        if self._cluster.topology.controller_ids:
            await_active_controller(self._cluster, within=within_s)
        self._await_full_isrs(within_s)
        for name, least in self._partition_counts():
            await_replicated(self._cluster, name, least, within=within_s, everyone=True)
        topics = [topic.name for topic in self._plan.workload.topics]
        await_written_isr(self._cluster, topics, within=within_s)
        load.do("read", READ_WITHIN_S)

    def _await_full_isrs(self, within_s: float) -> None:
        for name, least in self._partition_counts():
            await_full_isr(self._cluster, name, least, within=within_s)

    def _partition_counts(self) -> Iterator[tuple[str, int]]:
        """Yield each topic, and how many partitions it has at least after the steps so far."""
        for topic in self._plan.workload.topics:
            added = [
                done.step.do.partitions
                for done in self._steps
                if isinstance(done.step.do, f.ExpandTopic)
                and done.step.do.topic == topic.name
                and done.has_fired
            ]
            yield topic.name, max([topic.partitions, *added])

    # ------------------------------------------------------------ verdict

    def conclude(self, notes: tuple[str, ...]) -> PlanResult:
        """Judge the run's evidence, and write the verdict and the report."""
        folder = self._folder
        self._screen.say("judging the run from its files")  # a million records take minutes
        for done in self._steps:
            self._require(f"done: {say_step(done.step)}", done.has_fired, str(done))
        if self._plan.expected is not None:  # its situation needs the order
            swapped = out_of_order(self._steps)
            self._require("the steps acted in the order of their times", not swapped, swapped)
        session_timeout_ms = self._cluster.topology.session_timeout_ms
        required = takeovers(
            self._plan, self._steps, self._looks, round(self._begin_s * 1e9), session_timeout_ms
        )
        self._requirements += [*required, self._clock.kept_time()]
        folder.write(REQUIREMENTS, tuple(self._requirements))
        folder.write(FINAL_LOOK, self._final_look)
        folder.write(STEPS, tuple(done.outcome() for done in self._steps))
        steps = tuple(str(each) for each in self._steps)
        return conclude(folder, self._plan, False, notes, steps)

    # ------------------------------------------------------------ helpers

    def _now_s(self) -> float:
        return self._clock.now_ns() / 1e9

    def _said(self, text: str) -> None:
        self._screen.say(text, time_s=self._now_s(), style="bold")

    def _require(self, name: str, met: bool, evidence: str) -> None:
        self._requirements.append(Requirement(name, met, evidence))

    def _on_look(self, look: Look, changes: list[Change]) -> None:
        for change in changes:
            self._screen.say(change.text, time_s=change.time_ns / 1e9)
        if self._load is not None and leaderships(look):
            told = self._load.latest
            if told.acknowledged > self._acknowledged:
                self._acknowledged, self._acknowledged_ns = told.acknowledged, look.time_ns
            silence_s = (look.time_ns - self._acknowledged_ns) / 1e9
            footer = (
                f"{told.sent} sent, {told.acknowledged} acknowledged, {told.read} read, last "
                f"acknowledgement {silence_s:.1f} s ago"
            )
            self._screen.show_live(cluster_table(look, (footer,)))


def _no_news() -> tuple[TraceEvent, ...]:
    return ()


def _is_to_break(plan: Plan) -> bool:
    return plan.expected is not None and plan.expected.verdict == "fail"
