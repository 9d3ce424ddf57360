"""The demo in virtual time: the same acts, evidence and verdict where no Docker engine is."""

from __future__ import annotations

from collections.abc import Callable

from highwater.demo import KILLED_PARTITION, TOPIC, DemoResult, DemoSettings, Timeline, conclude
from highwater.eventually import NeverHappened
from highwater.observation import Look, active_controller, changes_between, leaderships, replicas_of
from highwater.picture import Fault
from highwater.run_folder import RunFolder, new_run_id
from highwater.screen import Screen, cluster_table
from highwater.workload import Progress
from highwater_checker.history import HistoryEvent, OperationType, encode
from highwater_checker.verdict import Requirement
from highwater_client.producer import Producer
from highwater_client.settings import ProducerSettings
from highwater_core.events import TraceEvent
from highwater_core.traces import encode_event
from highwater_simulator.tasks import SimulatedTask
from highwater_simulator.world import Topology, World

SEED = 7
BROKERS, CONTROLLERS = 3, 2
LOOK_EVERY_MS = 100
CREATE_WITHIN_MS = 20_000


def run_simulated_demo(settings: DemoSettings, screen: Screen) -> DemoResult:
    """Play the whole demo in virtual time and return its verdict."""
    folder = RunFolder.create(settings.runs_root, new_run_id("demo-sim"))
    session = {"session_timeout_ms": settings.session_timeout_ms}
    topology = Topology(
        BROKERS,
        CONTROLLERS,
        settings.preset,
        broker_settings=session,
        controller_settings=session,
    )
    folder.write_json("topology.json", topology)
    screen.say(f"run folder {folder.path}")
    world = World(SEED, topology)
    acts = _SimulatedActs(settings, screen, world)
    try:
        acts.play()
    except NeverHappened as error:
        acts.give_up(error)
    finally:
        screen.end_live()
        _write_evidence(folder, world, acts.history)
        world.close()
    return conclude(settings, folder, acts, world="sim")


class _SimulatedActs:
    """The demo's acts upon a world, with what they left for the verdict."""

    def __init__(self, settings: DemoSettings, screen: Screen, world: World) -> None:
        self._settings = settings
        self._screen = screen
        self._world = world
        self._client = world.client("producer-0")
        self._admin = world.client("admin")
        self._producer = Producer(
            self._client.runtime,
            self._client.transport,
            self._client.bootstrap,
            ProducerSettings(
                TOPIC,
                partition_count=settings.partition_count,
                rate_per_s=settings.records_per_second,
                linger_ms=2,
                batch_max_records=50,
                max_in_flight=5,
                request_timeout_ms=1_500,
                delivery_timeout_ms=60_000,
            ),
            world.rng.stream("client/producer-0"),
            process="producer-0",
            on_event=self._count,
        )
        self._writing: SimulatedTask | None = None
        self._counts = dict.fromkeys(OperationType, 0)
        self._last_acknowledged_ns = 0
        self.timeline = Timeline()
        self.looks: list[Look] = []
        self.final_look = Look(0, {})

    @property
    def history(self) -> list[HistoryEvent]:
        return self._producer.history

    @property
    def progress(self) -> Progress:
        return Progress(
            sent=self._counts[OperationType.INVOKE],
            acknowledged=self._counts[OperationType.OK],
            failed=self._counts[OperationType.FAIL],
            unknown=self._counts[OperationType.INFO],
            last_acknowledged_ns=self._last_acknowledged_ns,
        )

    @progress.setter
    def progress(self, value: Progress) -> None:
        raise AttributeError("it follows from the history")

    # ------------------------------------------------------------ acts

    def play(self) -> None:
        """Create the topic, write, kill the leader, kill the controller, heal, settle."""
        self._world.start_all()
        self._admin.runtime.start("create topic", self._create_topic())
        self._await("a leader of every partition", self._every_partition_is_full)
        self._writing = self._client.runtime.start("Producer", self._producer.run())
        self._go_on()
        leader = self._kill_leader()
        self._go_on()
        controller = self._kill_controller()
        self._go_on()
        for node in (leader, controller):
            self._do(f"start node {node} again")
            self._world.start(node)
        self._await("a full ISR", self._every_partition_is_full)
        self._go_on()
        self._stop_writing()
        counts = self.progress
        self._screen.say(
            f"the producer has ended: {counts.acknowledged} acknowledged, "
            f"{counts.failed} failed, {counts.unknown} unknown"
        )
        self._await("HW = LEO on every replica", self._everything_is_replicated)
        self.final_look = self._look()

    def give_up(self, error: Exception) -> None:
        """End early; what was recorded until now is still judged, and never as a pass."""
        self._screen.say(str(error), time_s=self._now_s(), style="bold yellow")
        self._require("the demo ran to its end", False, str(error))
        self.final_look = self._look()

    async def _create_topic(self) -> None:
        configs = (("min.insync.replicas", "2"),)
        await self._admin.create_topic(
            TOPIC, self._settings.partition_count, BROKERS, CREATE_WITHIN_MS, configs
        )

    def _stop_writing(self) -> None:
        self._producer.stop()
        writing = self._writing
        self._await("the producer's end", lambda: writing is not None and writing.is_done())

    def _kill_leader(self) -> int:
        before = leaderships(self._look())[KILLED_PARTITION]
        start_ns = self._world.kernel.now_ns()
        self._kill(int(before.leader), f"SIGKILL broker {before.leader}")
        acknowledged = self.progress.acknowledged

        def took_over() -> bool:
            now = leaderships(self._look()).get(KILLED_PARTITION)
            return now is not None and now.leader_epoch > before.leader_epoch

        self._await("a new leader", took_over)
        self._await("new acknowledgements", lambda: self.progress.acknowledged > acknowledged + 100)
        self.timeline.windows.append((start_ns, self._world.kernel.now_ns()))
        after = leaderships(self._look())[KILLED_PARTITION]
        self._require(
            "another broker led after the kill",
            after.leader != before.leader,
            f"{before.leader} at leader_epoch {before.leader_epoch}, then {after.leader} at "
            f"{after.leader_epoch}",
        )
        return int(before.leader)

    def _kill_controller(self) -> int:
        before = active_controller(self._look())
        if before is None:
            raise NeverHappened("no controller is active, so none can be killed")
        node = int(before.node_id)
        self._kill(node, f"SIGKILL controller {node}, the active one")

        def took_over() -> bool:
            now = active_controller(self._look())
            return now is not None and now.controller_epoch > before.controller_epoch

        self._await("a new active controller", took_over)
        after = active_controller(self._look())
        self._require(
            "another controller was active after the kill",
            after is not None and after.node_id != node,
            f"{node} at controller_epoch {before.controller_epoch}, then "
            f"{after.node_id if after else 'nobody'}",
        )
        return node

    def _kill(self, node: int, text: str) -> None:
        self._do(text)
        self._world.kill(node)
        has_ended = not self._world.handle(node).is_running
        self._require(f"node {node} was killed", has_ended, "its tasks are gone")

    def _do(self, text: str) -> None:
        self.timeline.faults.append(Fault(self._now_s(), text))
        self._screen.say(
            text, time_s=self._now_s(), style="bold red" if "SIGKILL" in text else "bold"
        )

    def _require(self, name: str, met: bool, evidence: str) -> None:
        self.timeline.requirements.append(Requirement(name, met, evidence))

    # ------------------------------------------------------------ time

    def _now_s(self) -> float:
        return self._world.kernel.now_ns() / 1e9

    def _go_on(self) -> None:
        """Let the workload run undisturbed for a while."""
        for _ in range(int(self._settings.steady_s * 1000) // LOOK_EVERY_MS):
            self._advance()

    def _await(self, what: str, predicate: Callable[[], bool]) -> None:
        for _ in range(int(self._settings.recovery_s * 1000) // LOOK_EVERY_MS):
            if predicate():
                return
            self._advance()
        if not predicate():
            within = f"{self._settings.recovery_s:g} s of virtual time"
            raise NeverHappened(f"not within {within}: {what}\nlast seen: {self._look()!r}")

    def _advance(self) -> None:
        """Let the world go on until the next look, and tell what has changed."""
        self._world.kernel.run_for(LOOK_EVERY_MS)
        before = self.looks[-1] if self.looks else Look(0, dict.fromkeys(self._nodes))
        look = self._look()
        self.looks.append(look)
        for change in changes_between(before, look):
            self._screen.say(change.text, time_s=change.time_ns / 1e9)
        counts = self.progress
        silence_s = max(0, look.time_ns - counts.last_acknowledged_ns) / 1e9
        footer = (
            f"{counts.sent} sent, {counts.acknowledged} acknowledged, "
            f"last acknowledgement {silence_s:.2f} s of virtual time ago",
        )
        self._screen.show_live(cluster_table(look, footer))

    # ------------------------------------------------------------ what is seen

    @property
    def _nodes(self) -> tuple[int, ...]:
        return (*self._world.brokers, *self._world.controllers)

    def _look(self) -> Look:
        nodes = {node: self._world.snapshot(node) for node in self._nodes}
        return Look(self._world.kernel.now_ns(), nodes)

    def _every_partition_is_full(self) -> bool:
        found = leaderships(self._look())
        return len(found) == self._settings.partition_count and all(
            len(leadership.isr) == BROKERS for leadership in found.values()
        )

    def _everything_is_replicated(self) -> bool:
        look = self._look()
        for topic_partition, leadership in leaderships(look).items():
            replicas = replicas_of(look, topic_partition).values()
            ends = {(replica.high_watermark, replica.log_end_offset) for replica in replicas}
            if len(replicas) != BROKERS or ends != {(leadership.log_end_offset,) * 2}:
                return False
        return True

    def _count(self, event: HistoryEvent) -> None:
        self._counts[event.type] += 1
        if event.type is OperationType.OK:
            self._last_acknowledged_ns = event.time_ns


def _write_evidence(folder: RunFolder, world: World, history: list[HistoryEvent]) -> None:
    """Write history, traces and segments where a run on containers has them."""
    lines = b"".join(encode(event) + b"\n" for event in history)
    folder.write_bytes("history/producer-0.jsonl", lines)
    traces: dict[str, list[bytes]] = {}
    for entry in world.trace.entries:
        if isinstance(entry.event, TraceEvent):
            name = f"{entry.who}-{entry.event.incarnation}"
            traces.setdefault(name, []).append(encode_event(entry.event) + b"\n")
    for name, events in traces.items():
        folder.write_bytes(f"trace/{name}.jsonl", b"".join(events))
    for broker in world.brokers.values():
        for topic_partition in sorted(_hosted_partitions(world)):
            place = folder.path / "segments" / broker.name / topic_partition
            place.mkdir(parents=True, exist_ok=True)
            for path in broker.disk.paths(topic_partition):
                folder.write_bytes(
                    f"segments/{broker.name}/{path}", bytes(broker.disk.content(path) or b"")
                )


def _hosted_partitions(world: World) -> set[str]:
    """Return the names of the partitions that any broker hosts."""
    return {
        str(replica.topic_partition)
        for broker in world.brokers
        if (snapshot := world.snapshot(broker)) is not None
        for replica in snapshot.replicas
    }
