"""The demo: a cluster, a stock producer, two kills, and the proof that nothing was lost."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from highwater.cluster.cluster import KILLED_EXIT_CODE, Cluster
from highwater.cluster.engine import connect_engine
from highwater.cluster.topology import Topology
from highwater.report.failover import Gap, longest_gap
from highwater.report.page import write_report
from highwater.report.picture import RunPicture, draw
from highwater.report.screen import Screen
from highwater.run_folder import RunFolder, new_run_id
from highwater.runs.build import write_build
from highwater.runs.clock import RunClock
from highwater.runs.demo_acts import (
    BROKERS,
    CONTROLLERS,
    KILLED_PARTITION,
    TOPIC,
    DemoActs,
    DemoSettings,
)
from highwater.runs.observer import Observer
from highwater.runs.workload import HistoryRecorder, ProducerWorkload, Progress
from highwater.waiting import NeverHappened, eventually
from highwater_checker.history import Sends
from highwater_checker.judging import judge_evidence
from highwater_checker.looks import Look
from highwater_checker.run_folder import names
from highwater_checker.run_folder.documents import (
    FINAL_LOOK,
    PROMISES,
    REQUIREMENTS,
    PromisedProducer,
    PromisedTopic,
    Promises,
)
from highwater_checker.run_folder.evidence import read_evidence
from highwater_checker.verdict import Verdict
from highwater_core.ids import NodeId


@dataclass(frozen=True, slots=True)
class DemoResult:
    folder: Path
    verdict: Verdict
    gaps: tuple[Gap, ...]
    progress: Progress
    world: str = "docker"
    """"docker", or "sim" when it was played in virtual time."""


def run_demo(settings: DemoSettings, screen: Screen) -> DemoResult:
    """Play the whole demo and return its verdict; the cluster is gone afterwards, come what may."""
    engine = connect_engine()  # first: without one no empty run becomes the latest
    topology = Topology(
        brokers=BROKERS,
        controllers=CONTROLLERS,
        preset=settings.preset,
        session_timeout_ms=settings.session_timeout_ms,
    )
    folder = RunFolder.create(settings.runs_root, new_run_id("demo"))
    folder.write_json(names.TOPOLOGY, topology)
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


class _Acts(DemoActs):
    """The demo's acts upon a running cluster."""

    def __init__(
        self, settings: DemoSettings, screen: Screen, folder: RunFolder, cluster: Cluster
    ) -> None:
        super().__init__(settings, screen, folder)
        self._cluster = cluster
        write_build(folder)
        self._recorder = HistoryRecorder(
            folder.path / "history" / "producer-0.jsonl",
            RunClock.begin(folder).start_monotonic_ns,
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
            path=folder.path / names.LOOKS,
            listener=self._on_look,
        )

    @property
    def progress(self) -> Progress:
        return self._workload.progress()

    def _begin(self) -> None:
        create_topic(self._cluster.bootstrap, TOPIC, self._settings.partition_count)
        self._observer.start()

    def _start_writing(self) -> None:
        self._workload.start()

    def _stop_writing(self) -> None:
        self._workload.stop()

    def _stop_at_once(self) -> None:
        self._workload.stop()

    def _end(self) -> None:
        self.final_look = self._observer.look_once()
        self.looks, _ = self._observer.stop()
        self._screen.end_live()

    def _kill_node(self, node_id: int) -> str:
        self._cluster.kill(NodeId(node_id))
        exit_code = self._cluster.exit_code(NodeId(node_id))
        proof = f"exit code {exit_code}"
        self._require(f"node {node_id} died of SIGKILL", exit_code == KILLED_EXIT_CODE, proof)
        return proof

    def _start_node(self, node_id: int) -> None:
        self._cluster.start_node(NodeId(node_id))

    def _look(self) -> Look:
        return self._observer.latest()

    def _look_now(self) -> Look:
        return self._observer.look_once()

    def _now_ns(self) -> int:
        return self._recorder.now_ns()

    def _await(self, what: str, predicate: Callable[[], bool]) -> None:
        eventually(predicate, within=self._settings.recovery_s, what=what, state=self._look)

    def _go_on(self) -> None:
        time.sleep(self._settings.steady_s)


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
    settings: DemoSettings, folder: RunFolder, acts: DemoActs, world: str = "docker"
) -> DemoResult:
    """Judge what a demo left in its folder, and write the verdict, the picture and the report."""
    acts.close()
    topic = PromisedTopic(TOPIC, settings.partition_count, BROKERS)
    producer = PromisedProducer("producer-0")
    kept = (names.LOOKS, names.INTENTS)
    promises = Promises((topic,), (producer,), least_acknowledged=1_000, kept=kept)
    folder.write(PROMISES, promises)
    folder.write(REQUIREMENTS, tuple(acts.timeline.requirements))
    folder.write(FINAL_LOOK, acts.final_look)
    evidence = read_evidence(folder.path)
    verdict = judge_evidence(evidence)
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
    folder.write_json(names.VERDICT, verdict)
    write_report(folder, verdict, gaps, acts.timeline.faults, evidence)
    return DemoResult(folder.path, verdict, gaps, acts.progress, world)


def _gaps(sends: Sends, acts: DemoActs) -> tuple[Gap, ...]:
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
