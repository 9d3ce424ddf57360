"""Leader uniqueness, ISR correctness, truncation to the high watermark and empty fetches in
[HW, LEO) hold when the leader is killed, paused or cut off.

Every test brings about conditions under which they could break, and fails without these: records
that only the leader has, and a successor whose high watermark is below one that a consumer got.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from highwater.cluster.cluster import Cluster
from highwater.cluster.settling import await_full_isr, await_leader, await_replicated
from highwater.cluster.wire_client import WireClient, record_batch
from highwater.faults.intents import IntentLog
from highwater.faults.on_containers import ContainerFaults
from highwater.run_folder import RunFolder
from highwater.runs.observer import Observer
from highwater.runs.plans.load_process import LoadProcess
from highwater.runs.probing import Prober
from highwater.runs.stock.recording import HistoryFile
from highwater.waiting import eventually
from highwater_chaos import faults as f
from highwater_chaos.plan import Consumer, Producer, Topic, Workload
from highwater_checker.finding import CheckResult
from highwater_checker.history import HistoryEvent, OperationType
from highwater_checker.invariants.committed_before import CHECK as COMMITTED_BEFORE
from highwater_checker.invariants.empty_fetches import CHECK, STOOD_ABOVE, STOOD_BETWEEN
from highwater_checker.judging import judge_evidence
from highwater_checker.looks import leaderships
from highwater_checker.run_folder.documents import (
    FINAL_LOOK,
    PROMISES,
    REQUIREMENTS,
    PromisedConsumer,
    PromisedProducer,
    PromisedTopic,
    Promises,
)
from highwater_checker.run_folder.evidence import Evidence, read_evidence
from highwater_checker.run_folder.names import INTENTS, PROBES
from highwater_checker.verdict import Outcome, Requirement, judge
from highwater_client.load_job import LoadJob
from highwater_core.config import Preset, has_controllers
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.ids import NodeId, TopicPartition
from highwater_core.messages import ReplicaSnapshot
from tests.integration.conftest import often_checkpointed, running
from tests.support.clusters import whole_look

pytestmark = pytest.mark.docker

BROKERS = 0, 1, 2
NAMES = {f"broker-{number}": number for number in BROKERS}
WITHIN_S = 90.0
LATE_MS = 3_000
PROPERTIES = (
    "one leader per leader epoch (I7)",
    "the ISR is within the assignment (I6)",
    "every ISR member has what its leader called committed (I4)",
    "no log is cut below its high watermark (I11)",
    CHECK,
)


@dataclass(frozen=True, slots=True)
class Case:
    """A fault of the leader. is_alone: its followers cannot fetch from it any more."""

    fault: Callable[[str], f.Fault]
    is_alone: bool = True


CASES = {
    "killed": Case(f.Kill),
    "paused": Case(f.Pause),
    "cut off from everyone": Case(f.Isolate),
    "cut off from ZooKeeper": Case(
        lambda name: f.Cut(name, "zookeeper", "zookeeper", both_ways=True), is_alone=False
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_four_properties_hold(
    sturdy: Cluster, case: Case, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    hold_the_properties(sturdy, case, new_topic, tmp_path)


@pytest.fixture(scope="module")
def without_controllers() -> Iterator[Cluster]:
    yield from running(often_checkpointed(Preset.V2, session_timeout_ms=12_000))


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(CASES[name], marks=pytest.mark.full if name != "killed" else ())
        for name in CASES
    ],
    ids=CASES,
)
def test_the_four_properties_hold_where_brokers_elect_leaders_themselves(
    without_controllers: Cluster, case: Case, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    hold_the_properties(without_controllers, case, new_topic, tmp_path)


def hold_the_properties(
    cluster: Cluster, case: Case, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = new_topic(cluster, config={"min.insync.replicas": "2"})
    with Story(cluster, topic, RunFolder(tmp_path / "run")) as story:
        if not (case.is_alone and has_controllers(cluster.topology.preset)):
            story.hide_records_for_a_while()
        if case.is_alone:
            story.let_the_successor_lag()
            story.let_the_other_be_late()
            story.append_what_only_the_leader_has()
        story.break_the_leader(case.fault)
        story.let_the_successor_lead()
        story.heal()
    evidence = story.collect()
    found = judge_evidence(evidence)
    # Under v3 a follower may truncate records and fetch them again (KAFKA-1211, row 1).
    preset = cluster.topology.preset
    is_fenced = preset is Preset.FENCED
    checks = [each for each in found.checks if is_fenced or each.check != COMMITTED_BEFORE]
    wanted = tuple(requirements(evidence, checks, case, story.roles, preset))
    verdict = judge(checks, (*found.requirements, *wanted), found.idle)
    assert verdict.outcome is Outcome.PASS, "\n".join(verdict.reasons)
    assert {check.check for check in verdict.checks} >= set(PROPERTIES)


def requirements(
    evidence: Evidence, checks: Sequence[CheckResult], case: Case, roles: Roles, preset: Preset
) -> Iterator[Requirement]:
    """Yield the events without which the properties could not have broken.

    Under v2 nobody stands above a new leader's high watermark: it is the end of its log.
    """
    noted = dict(next(check for check in checks if check.check == CHECK).noted)
    yield Requirement("a consumer " + STOOD_BETWEEN, noted[STOOD_BETWEEN] > 0, str(noted))
    led = [
        (event.leader_epoch, event.node)
        for event in evidence.traces
        if event.kind is EventKind.BECAME_LEADER
    ]
    yield Requirement("the leader changed", len({node for _, node in led}) > 1, str(led))
    if case.is_alone and has_controllers(preset):
        yield Requirement("a consumer " + STOOD_ABOVE, noted[STOOD_ABOVE] > 0, str(noted))
    if case.is_alone:
        cuts = [
            (event.node, event.detail["from_offset"], event.offset)
            for event in evidence.traces
            if event.kind is EventKind.LOG_TRUNCATED
        ]
        cut = any(node == roles.leader for node, _, _ in cuts)
        yield Requirement("the old leader cut its tail", cut, str(cuts))


@dataclass(frozen=True, slots=True)
class Roles:
    """The topic's brokers: who leads at first, who is to lead next, and the third."""

    leader: int
    successor: int
    other: int

    @classmethod
    def under(cls, leader: int) -> Roles:
        return cls(leader, *(each for each in BROKERS if each != leader))


class Story:
    """One topic's clients, observer and prober, and the faults of its brokers."""

    def __init__(self, cluster: Cluster, topic: str, folder: RunFolder) -> None:
        self._cluster = cluster
        self._topic = topic
        self._key = TopicPartition(topic, 0)
        self._folder = folder
        self._start_ns = time.monotonic_ns()
        led = leaderships(whole_look(cluster))[self._key]
        self._epoch = led.leader_epoch
        self.roles = Roles.under(int(led.leader))
        self._recorder = HistoryFile(folder.path / "history" / "w0.jsonl", self._start_ns)
        self._written = 0
        self._paused: list[int] = []
        self._observer = Observer(
            node_ids=cluster.node_ids,
            snapshot_of=cluster.try_snapshot,
            now_ns=self._now_ns,
            path=folder.path / "snapshots.jsonl",
            listener=lambda look, changes: None,
        )
        self._prober = Prober(
            {broker: cluster.external_endpoint(broker) for broker in BROKERS},
            [self._key],
            folder.path / PROBES,
            self._observer.latest,
            self._now_ns,
        )
        self._intents = IntentLog(folder.path / INTENTS, self._now_ns)
        self._faults = ContainerFaults(cluster, self._intents)
        workload = Workload((Topic(topic),), (Producer(topic, rate_per_s=40),), (Consumer(topic),))
        endpoints = tuple(cluster.external_endpoint(broker) for broker in BROKERS)
        history = str(folder.path / "history")
        job = LoadJob(endpoints, workload, 1, self._start_ns, history)
        self._load = LoadProcess(job, folder.path)

    def __enter__(self) -> Story:
        try:
            self._begin()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _begin(self) -> None:
        self._load.await_done("create", WITHIN_S)
        self._load.do("start", WITHIN_S)
        self._observer.start()
        self._prober.start()
        self._await("30 acknowledged records", lambda: self._load.latest.acknowledged >= 30)

    def __exit__(self, *error: object) -> None:
        self._unpause()
        self._faults.heal_all()
        self._intents.close()
        self._load.quit()
        self._looks = tuple(self._observer.stop()[0])
        self._recorder.close()
        self._prober.stop()

    # ------------------------------------------------------------ what is done

    def let_the_successor_lag(self) -> None:
        """Have the successor hold committed records above its own high watermark."""
        self._pause(self.roles.other)
        self._append(3)
        self._await("the leader knows that the successor has all", self._is_level)
        self._pause(self.roles.successor)
        held = self._known_of_the_successor(self._leader())
        self._append(1)  # this ends the successor's waiting fetch, with the present high watermark
        self._unpause(self.roles.other)
        self._await(
            f"a consumer was told {held}, which the successor holds",
            lambda: self._prober.told(self._key) >= held,
        )

    def hide_records_for_a_while(self) -> None:
        """Have records above the high watermark until consumers have tried to fetch them."""
        self._pause(self.roles.other)
        self._append(3)
        self._await_answers(self.roles.leader)
        self._unpause()

    def let_the_other_be_late(self) -> None:
        """Delay the other follower's first fetch from the next leader."""
        late = f.DelayAt(f"broker-{self.roles.other}", "before_first_fetch", LATE_MS)
        self._faults.apply(late, NAMES.get)

    def append_what_only_the_leader_has(self) -> None:
        self._pause(self.roles.other)
        self._append(3)

    def break_the_leader(self, make: Callable[[str], f.Fault]) -> None:
        """Do the fault, with its proof. Only faults of one link need more than the engine."""
        fault = make(f"broker-{self.roles.leader}")
        if isinstance(fault, f.Cut):
            self._faults.get_ready([fault])
        self._faults.apply(fault, NAMES.get)

    def let_the_successor_lead(self) -> None:
        """Return when the successor leads and has answered fetches above its high watermark.

        The old leader's session ends now instead of at its timeout. Where brokers elect leaders
        themselves, the other one must not be the first: it is held still meanwhile.
        """
        if has_controllers(self._cluster.topology.preset):
            self._unpause()
        elif self._paused:
            self._unpause(*(each for each in self._paused if each != self.roles.other))
        else:
            self._pause(self.roles.other)
        self._faults.apply(f.ExpireSession(f"broker-{self.roles.leader}"), NAMES.get)
        led = await_leader(self._cluster, self._key, above_epoch=self._epoch, within=WITHIN_S)
        assert led.leader == self.roles.successor, led
        self._await_answers(self.roles.successor)
        self._unpause()

    def heal(self) -> None:
        """Undo all faults, and return when all records are replicated and read."""
        assert self._faults.heal_all() == []
        self._load.do("stop", WITHIN_S)
        await_full_isr(self._cluster, self._topic, within=WITHIN_S)
        await_replicated(self._cluster, self._topic, within=WITHIN_S)
        self._load.do("read", WITHIN_S)
        self._final_look = self._observer.look_once()

    # ------------------------------------------------------------ evidence

    def collect(self) -> Evidence:
        """Return the evidence of the story's topic; the nodes go on running."""
        for node in self._cluster.node_ids:
            self._cluster.collect_node(node, self._folder.path)
        topic = PromisedTopic(self._topic, 1, 3)
        producers = PromisedProducer("p0", max_in_flight=1), PromisedProducer("w0", acks=1)
        consumers = (PromisedConsumer("c0", self._topic),)
        self._folder.write(PROMISES, Promises((topic,), producers, consumers))
        self._folder.write(REQUIREMENTS, ())
        self._folder.write(FINAL_LOOK, self._final_look)
        found = read_evidence(self._folder.path)
        own = tuple(each for each in found.traces if each.topic == self._topic)
        return replace(found, traces=own)

    # ------------------------------------------------------------ helpers

    def _now_ns(self) -> int:
        return time.monotonic_ns() - self._start_ns

    def _await(self, what: str, predicate: Callable[[], bool]) -> None:
        eventually(predicate, within=WITHIN_S, what=what, state=self._cluster.describe)

    def _await_answers(self, broker: int) -> None:
        enough = self._prober.answers(broker) + 20
        self._await(
            f"20 more answers of broker {broker}", lambda: self._prober.answers(broker) >= enough
        )

    def _leader(self) -> ReplicaSnapshot:
        (found,) = [
            each
            for each in self._cluster.snapshot(NodeId(self.roles.leader)).replicas
            if each.topic_partition == self._key
        ]
        return found

    def _is_level(self) -> bool:
        """Return whether the leader knows that the successor has its whole log."""
        leader = self._leader()
        return self._known_of_the_successor(leader) == leader.log_end_offset

    def _known_of_the_successor(self, leader: ReplicaSnapshot) -> int:
        successor = self.roles.successor
        (known,) = [each for each in leader.followers if each.broker_id == successor]
        return int(known.log_end_offset)

    def _pause(self, broker: int) -> None:
        self._cluster.pause(broker)
        self._paused.append(broker)

    def _unpause(self, *brokers: int) -> None:
        """Unpause these brokers, or all paused ones if none is given."""
        for broker in brokers or tuple(self._paused):
            self._paused.remove(broker)
            self._cluster.unpause(broker)

    def _append(self, count: int) -> None:
        """Write count records to the leader with acks=1, and record the history."""
        with WireClient(self._cluster.external_endpoint(self.roles.leader)) as client:
            for _ in range(count):
                value = f"w0-{self._written:06}"
                self._record(OperationType.INVOKE, value)
                batch = record_batch([value.encode()])
                answer = client.produce(self._topic, 0, batch, acks=1)
                assert answer.error is ErrorCode.NONE, answer
                self._record(OperationType.OK, value, int(answer.base_offset))
                self._written += 1

    def _record(self, kind: OperationType, value: str, offset: int = -1) -> None:
        event = HistoryEvent(
            self._now_ns(), kind, self._written, "w0", "send", self._topic, 0, value, offset,
            tries=1,
        )  # fmt: skip
        self._recorder.record(event)
