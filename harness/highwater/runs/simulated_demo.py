"""The demo in virtual time: the same acts, evidence and verdict where no Docker engine is."""

from __future__ import annotations

from collections.abc import Callable

from highwater.report.observation import changes_between
from highwater.report.screen import Screen
from highwater.run_folder import RunFolder, new_run_id
from highwater.runs.demo import DemoResult, conclude
from highwater.runs.demo_acts import BROKERS, CONTROLLERS, TOPIC, DemoActs, DemoSettings
from highwater.runs.simulated_evidence import (
    look_at,
    write_clock,
    write_histories,
    write_looks,
    write_segments,
    write_traces,
)
from highwater.runs.workload import Progress
from highwater.waiting import NeverHappened
from highwater_checker.history import HistoryEvent, OperationType
from highwater_checker.looks import Look
from highwater_checker.run_folder import names
from highwater_client.producer import Producer
from highwater_client.settings import ProducerSettings
from highwater_simulator.tasks import SimulatedTask
from highwater_simulator.world import Topology, World

SEED = 7
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
    folder.write_json(names.TOPOLOGY, topology)
    screen.say(f"run folder {folder.path}")
    world = World(SEED, topology)
    acts = _SimulatedActs(settings, screen, folder, world)
    try:
        acts.play()
    except NeverHappened as error:
        acts.give_up(error)
    finally:
        screen.end_live()
        write_histories(folder, acts.history)
        write_traces(folder, world.trace.entries)
        write_clock(folder)
        write_looks(folder, [*acts.looks, look_at(world)])
        write_segments(folder, world)
        world.close()
    return conclude(settings, folder, acts, world="sim")


class _SimulatedActs(DemoActs):
    """The demo's acts upon a world."""

    seconds = "s of virtual time"

    def __init__(
        self, settings: DemoSettings, screen: Screen, folder: RunFolder, world: World
    ) -> None:
        super().__init__(settings, screen, folder)
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

    def _count(self, event: HistoryEvent) -> None:
        self._counts[event.type] += 1
        if event.type is OperationType.OK:
            self._last_acknowledged_ns = event.time_ns

    # ------------------------------------------------------------ acts

    def _begin(self) -> None:
        self._world.start_all()
        self._admin.runtime.start("create topic", self._create_topic())

    async def _create_topic(self) -> None:
        configs = (("min.insync.replicas", "2"),)
        await self._admin.create_topic(
            TOPIC, self._settings.partition_count, BROKERS, CREATE_WITHIN_MS, configs
        )

    def _start_writing(self) -> None:
        self._writing = self._client.runtime.start("Producer", self._producer.run())

    def _stop_writing(self) -> None:
        self._producer.stop()
        writing = self._writing
        self._await("the producer's end", lambda: writing is not None and writing.is_done())

    def _stop_at_once(self) -> None:
        self._producer.stop()

    def _end(self) -> None:
        self.final_look = self._look()

    def _kill_node(self, node_id: int) -> str:
        self._world.kill(node_id)
        has_ended = not self._world.handle(node_id).is_running
        proof = "its tasks are gone" if has_ended else "it runs"
        self._require(f"node {node_id} was killed", has_ended, proof)
        return proof

    def _start_node(self, node_id: int) -> None:
        self._world.start(node_id)

    # ------------------------------------------------------------ time and looks

    def _now_ns(self) -> int:
        return self._world.kernel.now_ns()

    def _go_on(self) -> None:
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
        nodes = (*self._world.brokers, *self._world.controllers)
        before = self.looks[-1] if self.looks else Look(0, dict.fromkeys(nodes))
        look = self._look()
        self.looks.append(look)
        self._on_look(look, changes_between(before, look))

    def _look(self) -> Look:
        return look_at(self._world)

    def _look_now(self) -> Look:
        return self._look()
