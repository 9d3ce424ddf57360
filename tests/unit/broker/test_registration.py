"""A broker registers despite any answer of ZooKeeper, and its announcement fits a request."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from highwater_broker import isr_change_notifier
from highwater_broker.current_session import CurrentSession
from highwater_broker.isr_change_notifier import IsrChangeNotifier
from highwater_broker.registration import Registration
from highwater_broker.settings import BrokerSettings
from highwater_broker.topic_settings import TopicSettings
from highwater_core import znodes
from highwater_core.config import Preset, resolve_toggles
from highwater_core.events import EventKind
from highwater_core.fail_points import BROKER_FAIL_POINTS, FailPoints
from highwater_core.ids import NO_STORAGE_ID, NodeId, StorageId, TopicPartition
from highwater_core.ports import (
    ConnectionLost,
    Coordination,
    CoordinationError,
    CoordinationEvent,
    CoordinationEventKind,
    NoNode,
    NotEmpty,
    Ports,
    SessionExpired,
    TooLarge,
)
from highwater_core.request_sizes import MAX_REQUEST_BYTES, size_of_create
from highwater_core.traces import TraceRecorder
from highwater_simulator.kernel import Kernel
from highwater_simulator.network import Network
from highwater_simulator.rng import SeededRng
from highwater_simulator.trace_log import TraceLog
from highwater_simulator.zookeeper import ZooKeeper
from highwater_simulator.zookeeper_session import SimulatedCoordinationFactory

ME = NodeId(1)


class Faulty:
    """A session whose first calls of a method fail."""

    def __init__(self, session: Coordination, faults: dict[str, list[CoordinationError]]) -> None:
        self._session = session
        self._faults = faults

    def __getattr__(self, name: str) -> Any:
        faults = self._faults.get(name)
        if not faults:
            return getattr(self._session, name)
        fault = faults.pop(0)

        async def fail(*_: Any, **__: Any) -> None:
            raise fault

        return fail


@dataclass
class Stored:
    """What a broker keeps beside its logs."""

    storage_id: StorageId = NO_STORAGE_ID
    cluster_id: str = ""

    async def join(self, cluster_id: str) -> None:
        self.cluster_id = self.cluster_id or cluster_id


class Scene:
    """One broker's registration over the simulator's ZooKeeper."""

    def __init__(self) -> None:
        self.kernel = Kernel()
        self.runtime = self.kernel.runtime("broker-1")
        network = Network(self.kernel, SeededRng(1).stream("network"))
        self.zookeeper = ZooKeeper(self.kernel, network)
        self.trace = TraceLog(self.kernel.now_ns)
        self.recorder = TraceRecorder(self.runtime, 1, 1, self.trace.sink("broker-1"))
        self.faults: dict[str, list[CoordinationError]] = {}
        self.settings = BrokerSettings(node_id=ME)
        self.current = CurrentSession()

    async def open(self, session_timeout_ms: int) -> Any:
        session = await SimulatedCoordinationFactory(self.zookeeper, self.runtime).open(
            session_timeout_ms
        )
        return Faulty(session, self.faults)

    def registration(self, storage: Stored | None = None) -> Registration:
        ports = Ports(
            runtime=self.runtime,
            coordination=self,
            trace=self.recorder,
            control=None,  # type: ignore[arg-type]
            transport=None,  # type: ignore[arg-type]
            files=None,  # type: ignore[arg-type]
            rng=SeededRng(1),
            exit_now=lambda: None,
        )
        points = FailPoints(self.runtime, self.recorder, ports.exit_now, BROKER_FAIL_POINTS)
        toggles = resolve_toggles(Preset.FENCED)
        return Registration(
            self.settings,
            toggles,
            ports,
            self.current,
            lambda event: None,
            points,
            storage,  # type: ignore[arg-type]
        )

    def put(self, path: str, data: bytes) -> None:
        async def write() -> None:
            session = await SimulatedCoordinationFactory(self.zookeeper, self.runtime).open(6_000)
            await session.ensure_path(path)
            await session.set(path, data)

        task = self.runtime.start("put", write())
        self.kernel.run_until(task.is_done, 5_000, "the write")


@pytest.fixture
def scene() -> Iterator[Scene]:
    made = Scene()
    yield made
    made.kernel.close()


@pytest.mark.parametrize("method", ["ensure_path", "create", "exists"])
@pytest.mark.parametrize("error", [NoNode, NotEmpty, TooLarge, CoordinationError, ConnectionLost])
def test_the_broker_tries_again_after_any_error_of_zookeeper(
    scene: Scene, method: str, error: type[CoordinationError]
) -> None:
    """The parent of the registration may be removed just when it is needed (NoNode)."""
    scene.faults = {method: [error("odd"), error("odd")]}
    registration = scene.registration()
    scene.runtime.start("registration", registration.run())
    scene.kernel.run_until(registration.registered.is_set, 10_000, "the registration")
    assert znodes.broker_path(ME) in scene.zookeeper.dump()
    told = scene.trace.events(EventKind.REQUEST_REFUSED)
    expected = [] if error is ConnectionLost else [error.__name__]
    assert [event.detail["error"] for event in told] == expected


def run_beside(scene: Scene, cluster_id: str) -> tuple[Registration, Stored]:
    """Register with that cluster's id stored beside the logs, until it succeeds or is refused."""
    stored = Stored(cluster_id=cluster_id)
    registration = scene.registration(stored)
    scene.runtime.start("registration", registration.run())
    scene.kernel.run_until(
        lambda: registration.registered.is_set() or bool(registration.refusal), 10_000, "an end"
    )
    return registration, stored


def test_the_first_broker_gives_zookeeper_an_id_that_all_brokers_keep(scene: Scene) -> None:
    _, stored = run_beside(scene, "")
    data, _ = scene.zookeeper.dump()[znodes.CLUSTER_ID]
    assert znodes.decode_cluster_id(data) == stored.cluster_id != ""


@pytest.mark.parametrize(
    ("there", "registers"),
    [(b'{"version":"1","id":"ours"}', True), (b"odd", True), (b'{"version":"1","id":"no"}', False)],
)
def test_a_broker_registers_with_its_own_cluster_alone(
    scene: Scene, there: bytes, registers: bool
) -> None:
    scene.put(znodes.CLUSTER_ID, there)
    registration, stored = run_beside(scene, "ours")
    assert stored.cluster_id == "ours"
    assert registration.registered.is_set() is registers
    refusal = "of cluster ours, and ZooKeeper is of cluster no"
    assert (refusal in registration.refusal) is not registers
    assert (znodes.broker_path(ME) in scene.zookeeper.dump()) is registers


def test_a_registration_whose_znode_goes_registers_again_though_its_parent_is_gone(
    scene: Scene,
) -> None:
    registration = scene.registration()
    scene.runtime.start("registration", registration.run())
    scene.kernel.run_until(registration.registered.is_set, 10_000, "the registration")
    first = registration.broker_epoch

    async def remove() -> None:
        session = await SimulatedCoordinationFactory(scene.zookeeper, scene.runtime).open(6_000)
        await session.delete(znodes.broker_path(ME))
        await session.delete(znodes.BROKER_IDS)

    scene.runtime.start("operator", remove())
    scene.kernel.run_until(lambda: registration.broker_epoch > first, 10_000, "the next one")
    assert znodes.broker_path(ME) in scene.zookeeper.dump()


def test_sessions_that_end_at_once_are_not_opened_all_the_time(scene: Scene) -> None:
    """A server may send answers that its client cannot decode, and so end each session."""
    scene.faults = {"ensure_path": [SessionExpired("at once")] * 1_000}
    scene.runtime.start("registration", scene.registration().run())
    scene.kernel.run_for(10_000)
    assert 10 <= len(scene.trace.events(EventKind.SESSION_OPENED)) <= 21


@pytest.mark.parametrize("error", [None, ConnectionLost, CoordinationError])
def test_other_contents_are_registered_anew_in_the_same_session(
    scene: Scene, error: type[CoordinationError] | None
) -> None:
    """Something turned out to be lost: controllers must hear of it before anything is cut."""
    contents = Stored(StorageId("a" * 32))
    registration = scene.registration(contents)
    scene.runtime.start("registration", registration.run())
    scene.kernel.run_until(registration.registered.is_set, 10_000, "the registration")
    first = registration.broker_epoch
    session_id = scene.current.get().session_id
    contents.storage_id = StorageId("b" * 32)
    scene.faults["delete"] = [error("odd")] if error else []
    answers: list[bool] = []

    async def ask() -> None:
        answers.append(await registration.names(StorageId("a" * 32)))
        while not await registration.names(contents.storage_id):
            answers.append(False)
            await scene.runtime.sleep(1_000)

    task = scene.runtime.start("ask", ask())
    scene.kernel.run_until(task.is_done, 30_000, "the next registration")
    assert answers == [True] + [False] * (2 if error else 1)
    assert registration.broker_epoch > first
    assert scene.current.get().session_id == session_id
    data, _ = scene.zookeeper.dump()[znodes.broker_path(ME)]
    assert znodes.decode_storage_id(data, ME) == "b" * 32


# ---------------------------------------------------------------- other znodes of a broker


def test_the_largest_announcement_of_isr_changes_fits_a_request() -> None:
    name = znodes.PartitionName("t" * 249, 2**31 - 1)
    data = znodes.encode(znodes.PartitionsZnode([name] * isr_change_notifier.MAX_ANNOUNCED))
    path = f"{znodes.ISR_CHANGE_NOTIFICATION}/{znodes.ISR_CHANGE_PREFIX}"
    assert size_of_create(path, data) < MAX_REQUEST_BYTES


def test_many_changed_isrs_are_announced_a_part_at_a_time(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isr_change_notifier, "MAX_ANNOUNCED", 2)
    scene.put(znodes.ISR_CHANGE_NOTIFICATION, b"")
    notifier = IsrChangeNotifier(scene.settings, scene.runtime, scene.current)

    async def announce() -> None:
        scene.current.put(await scene.open(6_000))
        for number in range(5):
            notifier.changed(TopicPartition("t", number))
        await notifier.run()

    scene.runtime.start("notifier", announce())
    scene.kernel.run_for(60_000)
    dump = scene.zookeeper.dump()
    announced = [
        [item.partition for item in znodes.decode(znodes.PartitionsZnode, data, path).partitions]
        for path, (data, _) in dump.items()
        if path.startswith(f"{znodes.ISR_CHANGE_NOTIFICATION}/")
    ]
    assert announced == [[0, 1], [2, 3], [4]]


@pytest.mark.parametrize("name", ["..", "../../secret", "a/b", "", "a b", "x" * 300])
def test_a_config_change_of_a_topic_with_an_invalid_name_is_traced_and_skipped(
    scene: Scene, name: str
) -> None:
    scene.put(
        f"{znodes.CONFIG_CHANGES}/config_change_0",
        b'{"version":2,"entity_path":"topics/%s"}' % name.encode(),
    )
    scene.put(znodes.topic_config_path("t"), b'{"version":1,"config":{"retention.ms":"5"}}')
    scene.put(f"{znodes.CONFIG_CHANGES}/config_change_1", b'{"version":2,"entity_path":"topics/t"}')
    read: list[str | None] = []
    topics = TopicSettings(
        scene.settings, scene.runtime, scene.recorder, scene.current, read.append
    )

    async def follow() -> None:
        scene.current.put(await scene.open(6_000))
        topics.on_event(CoordinationEvent(CoordinationEventKind.SESSION_ESTABLISHED))
        await topics.load("t")
        read.clear()
        scene.put(znodes.topic_config_path("t"), b'{"version":1,"config":{"retention.ms":"6"}}')
        await topics.run()

    scene.runtime.start("topic-settings", follow())
    scene.kernel.run_for(2_000)
    assert read == ["t"]
    assert topics.log_config("t").retention_ms == 6
    (told,) = scene.trace.events(EventKind.BAD_INPUT_MET)
    assert told.detail["where"] == f"{znodes.CONFIG_CHANGES}/config_change_0"


def test_broker_configs_set_by_hand_act_and_garbage_leaves_the_known_ones(
    scene: Scene,
) -> None:
    read: list[str | None] = []
    topics = TopicSettings(
        scene.settings, scene.runtime, scene.recorder, scene.current, read.append
    )
    every, own = (
        f"{znodes.BROKER_CONFIGS}/{name}" for name in ("<default>", scene.settings.node_id)
    )
    minimums: list[int] = []

    async def set_by_hand(number: int, path: str, content: str) -> None:
        scene.put(path, content.encode())
        entity_path = path.removeprefix("/config/")
        scene.put(
            f"{znodes.CONFIG_CHANGES}/config_change_{number}",
            f'{{"version":2,"entity_path":"{entity_path}"}}'.encode(),
        )
        topics.on_event(
            CoordinationEvent(CoordinationEventKind.CHILDREN_CHANGED, znodes.CONFIG_CHANGES)
        )
        await scene.runtime.sleep(500)
        minimums.append(topics.min_insync_replicas("t"))

    async def operate() -> None:
        topics.on_event(CoordinationEvent(CoordinationEventKind.SESSION_ESTABLISHED))
        await topics.load("t")
        setting = '{"version":1,"config":{"min.insync.replicas":"%s"}}'
        await set_by_hand(0, every, setting % 3)
        await set_by_hand(1, own, setting % 2)
        await set_by_hand(2, own, "garbage")
        await set_by_hand(3, own, '{"version":1,"config":{}}')

    async def follow() -> None:
        scene.current.put(await scene.open(6_000))
        scene.put(znodes.CONFIG_CHANGES, b"")
        scene.runtime.start("operator", operate())
        await topics.run()

    scene.runtime.start("topic-settings", follow())
    scene.kernel.run_for(5_000)
    assert minimums == [3, 2, 2, 3]
    assert None in read
    (told,) = scene.trace.events(EventKind.BAD_INPUT_MET)
    assert told.detail["where"] == own
