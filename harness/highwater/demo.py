"""The demo: a cluster, a stock producer, two kills, and the proof that nothing was lost."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from highwater.cluster import Cluster
from highwater.engine import connect_engine
from highwater.eventually import NeverHappened, eventually
from highwater.evidence import check_everything, read_evidence
from highwater.failover import Gap, longest_gap
from highwater.observation import Change, Look, active_controller, leaderships, replicas_of
from highwater.observer import Observer
from highwater.picture import Fault, RunPicture, draw
from highwater.report import write_report
from highwater.run_folder import RunFolder, new_run_id
from highwater.screen import Screen, cluster_table
from highwater.topology import Topology
from highwater.workload import HistoryRecorder, ProducerWorkload, Progress
from highwater_checker.history import Sends
from highwater_checker.verdict import Requirement, Verdict, judge
from highwater_core.config import Preset
from highwater_core.ids import NodeId, TopicPartition

TOPIC = "demo"
KILLED_PARTITION = TopicPartition(TOPIC, 0)


@dataclass(frozen=True, slots=True)
class DemoSettings:
    """How the demo runs; steady_s is the time of undisturbed writing between its acts."""

    runs_root: Path
    preset: Preset = Preset.FENCED
    session_timeout_ms: int = 2000
    partition_count: int = 3
    records_per_second: int = 1000
    steady_s: float = 3.0

    @property
    def recovery_s(self) -> float:
        """The bound on every wait for a new leader or controller."""
        return self.session_timeout_ms / 1000 + 15.0


@dataclass(frozen=True, slots=True)
class DemoResult:
    folder: Path
    verdict: Verdict
    gaps: tuple[Gap, ...]
    progress: Progress
    world: str = "docker"
    """"docker", or "sim" when it was played in virtual time."""


@dataclass(slots=True)
class Timeline:
    """What was done when, and what must have come of it."""

    faults: list[Fault] = field(default_factory=list)
    windows: list[tuple[int, int]] = field(default_factory=list)
    requirements: list[Requirement] = field(default_factory=list)


class Played(Protocol):
    """A demo that has been played, in either world, with what it left for the verdict."""

    timeline: Timeline
    looks: list[Look]
    final_look: Look
    progress: Progress


def run_demo(settings: DemoSettings, screen: Screen) -> DemoResult:
    """Play the whole demo and return its verdict; the cluster is gone afterwards, come what may."""
    engine = connect_engine()  # first: without one no empty run becomes the latest
    topology = Topology(
        brokers=3,
        controllers=2,
        preset=settings.preset,
        session_timeout_ms=settings.session_timeout_ms,
    )
    folder = RunFolder.create(settings.runs_root, new_run_id("demo"))
    folder.write_json("topology.json", topology)
    screen.say(f"run folder {folder.path}")
    with Cluster(topology, run_id=folder.run_id, engine=engine) as cluster:
        started = time.monotonic()
        cluster.start()
        screen.say(
            f"ZooKeeper, {topology.controllers} controllers and {topology.brokers} brokers are up "
            f"after {time.monotonic() - started:.1f} s, clients connect to {cluster.bootstrap}"
        )
        acts = _Acts(settings, screen, folder, cluster)
        try:
            acts.play()
        except (NeverHappened, KafkaException) as error:
            acts.give_up(error)
        finally:
            screen.end_live()
            screen.say("stopping the nodes and copying their logs and traces")
            cluster.collect(folder.path)
    return conclude(settings, folder, acts)


class _Acts:
    """The demo's acts upon a running cluster, with what they left for the verdict."""

    def __init__(
        self, settings: DemoSettings, screen: Screen, folder: RunFolder, cluster: Cluster
    ) -> None:
        self._settings = settings
        self._screen = screen
        self._cluster = cluster
        self._recorder = HistoryRecorder(
            folder.path / "history" / "producer-0.jsonl", time.monotonic_ns()
        )
        self._workload = ProducerWorkload(
            bootstrap=cluster.bootstrap,
            topic=TOPIC,
            partition_count=settings.partition_count,
            records_per_second=settings.records_per_second,
            recorder=self._recorder,
        )
        self._observer = Observer(
            node_ids=cluster.node_ids,
            snapshot_of=cluster.try_snapshot,
            now_ns=self._recorder.now_ns,
            path=folder.path / "snapshots.jsonl",
            listener=self._on_look,
        )
        self.timeline = Timeline()
        self.looks: list[Look] = []
        self.final_look: Look
        self.progress: Progress

    def play(self) -> None:
        """Create the topic, write, kill the leader, kill the controller, heal, settle."""
        create_topic(self._cluster.bootstrap, TOPIC, self._settings.partition_count)
        self._observer.start()
        self._await("a leader of every partition", self._every_partition_is_full)
        self._workload.start()
        self._pause()
        leader = self._kill_leader()
        self._pause()
        controller = self._kill_controller()
        self._pause()
        for node_id in (leader, controller):
            self._do(f"start node {node_id} again", partial(self._cluster.start_node, node_id))
        self._await("a full ISR", self._every_partition_is_full)
        self._pause()
        self.progress = self._workload.stop()
        self._screen.say(
            f"the producer has ended: {self.progress.acknowledged} acknowledged, "
            f"{self.progress.failed} failed, {self.progress.unknown} unknown"
        )
        self._await("HW = LEO on every replica", self._everything_is_replicated)
        self._end()

    def give_up(self, error: Exception) -> None:
        """End early; what was recorded until now is still judged, and never as a pass."""
        self._screen.say(str(error), time_s=self._recorder.now_ns() / 1e9, style="bold yellow")
        self._require("the demo ran to its end", False, str(error))
        self.progress = self._workload.stop()
        self._end()

    def _end(self) -> None:
        self.final_look = self._observer.look_once()
        self.looks, _ = self._observer.stop()
        self._screen.end_live()

    def _kill_leader(self) -> NodeId:
        before = leaderships(self._look())[KILLED_PARTITION]
        start_ns = self._recorder.now_ns()
        self._do(f"SIGKILL broker {before.leader}", lambda: self._cluster.kill(before.leader))
        self._require_killed(before.leader)
        acknowledged = self._workload.progress().acknowledged

        def took_over() -> bool:
            now = leaderships(self._look()).get(KILLED_PARTITION)
            return now is not None and now.leader_epoch > before.leader_epoch

        self._await("a new leader", took_over)
        self._await(
            "new acknowledgements",
            lambda: self._workload.progress().acknowledged > acknowledged + 100,
        )
        self.timeline.windows.append((start_ns, self._recorder.now_ns()))
        after = leaderships(self._look())[KILLED_PARTITION]
        self._require(
            "another broker led after the kill",
            after.leader != before.leader,
            f"{before.leader} at leader_epoch {before.leader_epoch}, then {after.leader} at "
            f"{after.leader_epoch}",
        )
        return before.leader

    def _kill_controller(self) -> NodeId:
        before = active_controller(self._look())
        if before is None:
            raise NeverHappened("no controller is active, so none can be killed")
        self._do(
            f"SIGKILL controller {before.node_id}, the active one",
            lambda: self._cluster.kill(before.node_id),
        )
        self._require_killed(before.node_id)

        def took_over() -> bool:
            now = active_controller(self._look())
            return now is not None and now.controller_epoch > before.controller_epoch

        self._await("a new active controller", took_over)
        after = active_controller(self._look())
        self._require(
            "another controller was active after the kill",
            after is not None and after.node_id != before.node_id,
            f"{before.node_id} at controller_epoch {before.controller_epoch}, then "
            f"{after.node_id if after else 'nobody'}",
        )
        return before.node_id

    def _do(self, text: str, action: Callable[[], None]) -> None:
        now_s = self._recorder.now_ns() / 1e9
        self.timeline.faults.append(Fault(now_s, text))
        self._screen.say(text, time_s=now_s, style="bold red" if "SIGKILL" in text else "bold")
        action()

    def _require(self, name: str, met: bool, evidence: str) -> None:
        self.timeline.requirements.append(Requirement(name, met, evidence))

    def _require_killed(self, node_id: int) -> None:
        exit_code = self._cluster.exit_code(node_id)
        self._require(f"node {node_id} died of SIGKILL", exit_code == 137, f"exit code {exit_code}")

    def _look(self) -> Look:
        return self._observer.latest()

    def _await(self, what: str, predicate: Callable[[], bool]) -> None:
        eventually(predicate, within=self._settings.recovery_s, what=what, state=self._look)

    def _pause(self) -> None:
        """Let the workload run undisturbed for a while; nothing is awaited here."""
        time.sleep(self._settings.steady_s)

    def _every_partition_is_full(self) -> bool:
        found = leaderships(self._look())
        return len(found) == self._settings.partition_count and all(
            len(leadership.isr) == 3 for leadership in found.values()
        )

    def _everything_is_replicated(self) -> bool:
        look = self._observer.look_once()
        for topic_partition, leadership in leaderships(look).items():
            replicas = replicas_of(look, topic_partition).values()
            ends = {(replica.high_watermark, replica.log_end_offset) for replica in replicas}
            if len(replicas) != 3 or ends != {(leadership.log_end_offset,) * 2}:
                return False
        return True

    def _on_look(self, look: Look, changes: list[Change]) -> None:
        for change in changes:
            self._screen.say(change.text, time_s=change.time_ns / 1e9)
        progress = self._workload.progress()
        silence_s = max(0, look.time_ns - progress.last_acknowledged_ns) / 1e9
        footer = (
            f"{progress.sent} sent, {progress.acknowledged} acknowledged, "
            f"last acknowledgement {silence_s:.2f} s ago",
        )
        self._screen.show_live(cluster_table(look, footer))


def create_topic(bootstrap: str, topic: str, partition_count: int) -> None:
    """Create the topic with three replicas and min.insync.replicas 2.

    Raises:
        KafkaException: it was refused or not answered within 20 s.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    new = NewTopic(topic, partition_count, 3, config={"min.insync.replicas": "2"})
    for future in admin.create_topics([new], operation_timeout=15, request_timeout=20).values():
        future.result(20)


def conclude(
    settings: DemoSettings, folder: RunFolder, acts: Played, world: str = "docker"
) -> DemoResult:
    """Judge what a demo left in its folder, and write the verdict, the picture and the report."""
    evidence = read_evidence(folder.path, acts.final_look, [TOPIC])
    requirements = [
        *acts.timeline.requirements,
        Requirement(
            "at least 1,000 records were acknowledged",
            len(evidence.sends.acknowledged) >= 1000,
            str(len(evidence.sends.acknowledged)),
        ),
        Requirement(
            "every replica of every partition was read",
            len(evidence.replicas) == settings.partition_count and not evidence.unread_replicas(),
            f"{len(evidence.replicas)} partitions, not read: {evidence.unread_replicas()}",
        ),
    ]
    verdict = judge(check_everything(evidence), requirements)
    gaps = _gaps(evidence.sends, acts)
    in_virtual_time = ", in virtual time" if world == "sim" else ""
    draw(
        RunPicture(
            title=f"Highwater {folder.run_id}, preset {settings.preset.value}, session timeout "
            f"{settings.session_timeout_ms} ms{in_virtual_time}: {verdict.outcome.value}",
            topic_partition=KILLED_PARTITION,
            looks=acts.looks,
            acknowledged=evidence.sends.acknowledged,
            faults=acts.timeline.faults,
            gaps=gaps,
        ),
        folder.path / "run.png",
    )
    folder.write_json("verdict.json", verdict)
    write_report(folder, verdict, gaps, acts.timeline.faults, evidence)
    return DemoResult(folder.path, verdict, gaps, acts.progress, world)


def _gaps(sends: Sends, acts: Played) -> tuple[Gap, ...]:
    found = (
        longest_gap(
            sends.acknowledged,
            KILLED_PARTITION.topic,
            KILLED_PARTITION.partition,
            start_ns=start_ns,
            end_ns=end_ns,
        )
        for start_ns, end_ns in acts.timeline.windows
    )
    return tuple(gap for gap in found if gap is not None)
