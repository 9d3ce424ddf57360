"""Controllers in virtual time, and brokers that register, obey and record their commands."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any

import pytest

from highwater_controller.node import ControllerNode
from highwater_controller.settings import ControllerSettings
from highwater_core import znodes
from highwater_core.check import check
from highwater_core.config import Preset
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import NO_TOPIC_ID, BrokerEpoch, Endpoint, NodeId, StorageId, TopicPartition
from highwater_core.messages import (
    BrokerEndpoints,
    CommandResponse,
    ControlRequest,
    ControlResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    LeaderAndIsrRequest,
    NewTopic,
    UpdateMetadataRequest,
)
from highwater_core.ports import (
    CallFailed,
    CallRefused,
    ConnectionLost,
    ControlPlane,
    Coordination,
    CoordinationFactory,
    MultiOp,
    NodeExists,
    Ports,
    Stat,
)
from highwater_core.topic_znode import encode_topic
from highwater_core.traces import TraceRecorder
from highwater_simulator.calls import Listeners, SimulatedControlPlane, SimulatedTransport
from highwater_simulator.carriage import CONTROL_BY_VALUE
from highwater_simulator.files import Disk, SimulatedFileSystem
from highwater_simulator.kernel import Kernel
from highwater_simulator.network import Network
from highwater_simulator.rng import SeededRng
from highwater_simulator.tasks import NodeRuntime
from highwater_simulator.trace_log import TraceLog
from highwater_simulator.zookeeper import ZooKeeper
from highwater_simulator.zookeeper_session import SimulatedCoordinationFactory

PORT = 9095


class ScriptedBroker:
    """A broker as the controller sees it: registered in ZooKeeper, answering every command.

    `told` has the commands that it received. A partition in `refused` is answered with that error;
    while `is_mute`, commands are received and not answered.
    """

    def __init__(self, cluster: Cluster, broker_id: int, storage_id: str) -> None:
        self.id = NodeId(broker_id)
        self.storage_id = StorageId(storage_id)
        self.name = f"broker-{broker_id}"
        self.told: list[Any] = []
        self.refused: dict[TopicPartition, ErrorCode] = {}
        self.is_mute = False
        self.runtime: NodeRuntime = cluster.kernel.runtime(self.name)
        self._cluster = cluster
        self.control = cluster.control_plane(self.runtime, self.name)
        self.control.serve(self._obey)
        self.session: Coordination | None = None
        self.runtime.start("register", self._register())

    @property
    def endpoints(self) -> BrokerEndpoints:
        return BrokerEndpoints(
            broker_id=self.id,
            broker_epoch=BrokerEpoch(-1),
            client=Endpoint(self.name, 9092),
            client_external=Endpoint(self.name, 9094),
            replication=Endpoint(self.name, 9093),
            control=Endpoint(self.name, PORT),
        )

    async def _register(self) -> None:
        session = await SimulatedCoordinationFactory(self._cluster.zookeeper, self.runtime).open(
            6_000
        )
        await session.ensure_path(znodes.BROKER_IDS)
        data = znodes.encode_broker(self.endpoints, 0, self.storage_id)
        await session.create(znodes.broker_path(self.id), data, ephemeral=True)
        self.session = session

    async def _obey(self, request: ControlRequest) -> CommandResponse:
        self.told.append(request)
        if self.is_mute:
            await self.runtime.sleep(10_000_000)
        listed = () if isinstance(request, UpdateMetadataRequest) else request.partitions
        return CommandResponse(
            ErrorCode.NONE,
            tuple(
                (item.topic_partition, self.refused.get(item.topic_partition, ErrorCode.NONE))
                for item in listed
            ),
        )

    def heard(self, kind: type[Any]) -> list[Any]:
        return [request for request in self.told if isinstance(request, kind)]

    def leaderships(self) -> dict[TopicPartition, Any]:
        """The last LeaderAndIsr of each partition."""
        return {
            item.topic_partition: item
            for request in self.heard(LeaderAndIsrRequest)
            for item in request.partitions
        }

    def die(self) -> None:
        """SIGKILL, and the session's end at once instead of after its timeout."""
        self.runtime.kill()
        self._cluster.close_listeners(self.runtime)
        for session_id in self._cluster.zookeeper.session_ids(self.name):
            self._cluster.zookeeper.expire(session_id)


class Interposed:
    """A session in which something may happen just before a multi that touches a path.

    A multi that touches a path in `lost` has no answer, ever, as one that is too large for its
    server; the session lives on.
    """

    def __init__(self, session: Coordination, hooks: dict[str, Any], lost: set[str]) -> None:
        self._session = session
        self._hooks = hooks
        self._lost = lost

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    async def multi(self, operations: Sequence[MultiOp]) -> list[Stat | None]:
        for operation in operations:
            work = self._hooks.pop(operation.path, None)
            if work is not None:
                await work()
        if any(operation.path in self._lost for operation in operations):
            raise ConnectionLost("no answer")
        return await self._session.multi(operations)


class InterposedFactory:
    def __init__(self, factory: CoordinationFactory, hooks: dict[str, Any], lost: set[str]) -> None:
        self._factory = factory
        self._hooks = hooks
        self._lost = lost

    async def open(self, session_timeout_ms: int) -> Coordination:
        session = await self._factory.open(session_timeout_ms)
        return Interposed(session, self._hooks, self._lost)  # type: ignore[return-value]


class PartlyUnread:
    """A control plane whose peers cannot read the requests for which `is_unread` holds."""

    def __init__(
        self, control: ControlPlane, is_unread: Callable[[Endpoint, ControlRequest], bool]
    ) -> None:
        self._control = control
        self._is_unread = is_unread
        self.serve = control.serve

    async def call(
        self, endpoint: Endpoint, request: ControlRequest, timeout_ms: int
    ) -> ControlResponse:
        if self._is_unread(endpoint, request):
            raise CallRefused("INVALID_ARGUMENT")
        return await self._control.call(endpoint, request, timeout_ms)


class Cluster:
    """ZooKeeper, scripted brokers and real controllers, driven by a test."""

    def __init__(self) -> None:
        self.kernel = Kernel()
        self.rng = SeededRng(7)
        self.network = Network(self.kernel, self.rng.stream("network"))
        self.zookeeper = ZooKeeper(self.kernel, self.network)
        self.trace = TraceLog(self.kernel.now_ns)
        self.brokers: dict[int, ScriptedBroker] = {}
        self.controllers: dict[int, ControllerNode] = {}
        self._runtimes: dict[int, NodeRuntime] = {}
        self._listeners = Listeners()
        self._operator = self.kernel.runtime("operator")
        self._session: Coordination | None = None
        self.multi_hooks: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {}
        self.lost_paths: set[str] = set()
        """The znodes of which a controller's write gets no answer."""
        self.is_unread: Callable[[Endpoint, ControlRequest], bool] = lambda at, request: False
        """Which commands their brokers cannot read."""

    # ------------------------------------------------------------ nodes

    def control_plane(self, runtime: NodeRuntime, host: str) -> SimulatedControlPlane:
        return SimulatedControlPlane(
            runtime, self.network, self._listeners, Endpoint(host, PORT), CONTROL_BY_VALUE
        )

    def close_listeners(self, runtime: NodeRuntime) -> None:
        self._listeners.close(runtime)

    def start_broker(self, broker_id: int, storage_id: str = "") -> ScriptedBroker:
        """Register a broker; storage_id names its logs' contents, none by default."""
        broker = self.brokers[broker_id] = ScriptedBroker(self, broker_id, storage_id)
        self.until(lambda: broker.session is not None, "the broker's registration")
        return broker

    def start_controller(
        self, controller_id: int = 1000, preset: Preset = Preset.FENCED, **settings: Any
    ) -> ControllerNode:
        name = f"controller-{controller_id}"
        runtime = self.kernel.runtime(name)
        ports = Ports(
            runtime=runtime,
            coordination=InterposedFactory(
                SimulatedCoordinationFactory(self.zookeeper, runtime),
                self.multi_hooks,
                self.lost_paths,
            ),
            control=PartlyUnread(
                self.control_plane(runtime, name), lambda at, request: self.is_unread(at, request)
            ),
            transport=SimulatedTransport(runtime, self.network, self._listeners),
            files=SimulatedFileSystem(runtime, Disk(self.rng.stream(f"disk/{name}"))),
            rng=self.rng.stream(name),
            trace=TraceRecorder(runtime, controller_id, runtime.incarnation, self.trace.sink(name)),
            exit_now=runtime.kill,
        )
        node = ControllerNode(
            ControllerSettings(
                node_id=NodeId(controller_id), preset=preset, control_host=name, **settings
            ),
            ports,
        )
        self.controllers[controller_id] = node
        self._runtimes[controller_id] = runtime
        runtime.start("main", node.run())
        return node

    def kill_controller(self, controller_id: int) -> None:
        runtime = self._runtimes[controller_id]
        runtime.kill()
        self._listeners.close(runtime)
        for session_id in self.zookeeper.session_ids(f"controller-{controller_id}"):
            self.zookeeper.expire(session_id)

    def pause_controller(self, controller_id: int = 1000) -> None:
        self._runtimes[controller_id].pause()

    def resume_controller(self, controller_id: int = 1000) -> None:
        self._runtimes[controller_id].resume()

    def expire_session(self, controller_id: int = 1000) -> None:
        for session_id in self.zookeeper.session_ids(f"controller-{controller_id}"):
            self.zookeeper.expire(session_id)

    def active(self) -> ControllerNode | None:
        for node in self.controllers.values():
            if node.snapshot().active_controller:
                return node
        return None

    # ------------------------------------------------------------ time

    def until(self, condition: Callable[[], object], what: str, limit_ms: int = 20_000) -> None:
        self.kernel.run_until(lambda: bool(condition()), limit_ms, what)

    def until_failed_over(self) -> None:
        """Run until the failover of the latest election is through, and its commands answered."""
        self.until(
            lambda: (
                len(self.events(EventKind.FAILOVER_COMPLETED)) > 0
                and len(self.events(EventKind.FAILOVER_COMPLETED))
                == len(self.events(EventKind.CONTROLLER_ELECTED))
            ),
            "the failover",
        )
        self.settle()

    def settle(self, duration_ms: int = 300) -> None:
        """Let everything that is under way come to rest."""
        self.kernel.run_for(duration_ms)

    def events(self, *kinds: EventKind) -> list[TraceEvent]:
        return self.trace.events(*kinds)

    # ------------------------------------------------------------ ZooKeeper, as an operator

    def do(self, work: Callable[[Coordination], Coroutine[Any, Any, Any]]) -> Any:
        """Return the result of the work, done in a session of the test's own."""
        answers: list[Any] = []

        async def run() -> None:
            if self._session is None:
                self._session = await SimulatedCoordinationFactory(
                    self.zookeeper, self._operator
                ).open(60_000)
            answers.append(await work(self._session))

        task = self._operator.start("operator", run())
        self.until(task.is_done, "the operator's work")
        return answers[0]

    def write(self, path: str, data: bytes) -> None:
        """Create or overwrite a znode and its parents."""
        self.do(lambda _: self.put(path, data))

    async def put(self, path: str, data: bytes) -> None:
        check(self._session is not None, "the operator has a session")
        await self._session.ensure_path(path.rpartition("/")[0] or "/")
        try:
            await self._session.create(path, data)  # at once: who watches reads it whole
        except NodeExists:
            await self._session.set(path, data)

    def before_multi(self, path: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do the work once, just before the next multi of a controller that touches the path."""
        self.do(lambda session: session.exists("/"))
        self.multi_hooks[path] = work

    def delete(self, path: str) -> None:
        self.do(lambda session: session.delete(path))

    def data(self, path: str) -> bytes | None:
        found = self.zookeeper.dump().get(path)
        return None if found is None else found[0]

    def state(self, topic: str, partition: int = 0) -> znodes.PartitionLeadership:
        path = znodes.partition_state_path(TopicPartition(topic, partition))
        data = self.data(path)
        assert data is not None, path
        return znodes.decode_partition_state(data, path)

    def write_topic(self, topic: str, *replicas: tuple[int, ...]) -> None:
        """Create a topic as an old tool would: straight in ZooKeeper, without an id."""
        assignment = {
            number: tuple(NodeId(broker) for broker in brokers)
            for number, brokers in enumerate(replicas)
        }
        self.write(znodes.topic_path(topic), encode_topic(assignment, NO_TOPIC_ID))

    # ------------------------------------------------------------ requests, as a broker

    def ask(self, request: Any, controller_id: int = 1000, timeout_ms: int = 40_000) -> Any:
        """Return the controller's answer."""
        answers: list[Any] = []
        self.ask_later(request, answers, controller_id, timeout_ms)
        self.until(lambda: answers, "the controller's answer", 2 * timeout_ms)
        return answers[0]

    def ask_later(
        self, request: Any, answers: list[Any], controller_id: int = 1000, timeout_ms: int = 40_000
    ) -> None:
        """Send the request; the answer, or the CallFailed, is put into `answers`."""
        control = self.control_plane(self._operator, "operator")

        async def call() -> None:
            endpoint = Endpoint(f"controller-{controller_id}", PORT)
            try:
                answers.append(await control.call(endpoint, request, timeout_ms))
            except CallFailed as failure:
                answers.append(failure)

        self._operator.start("call", call())

    def create_topic(
        self, name: str, *replicas: tuple[int, ...], config: dict[str, str] | None = None
    ) -> CreateTopicsResponse:
        assignment = tuple(tuple(NodeId(broker) for broker in brokers) for brokers in replicas)
        topic = NewTopic(name, -1, -1, assignment, tuple((config or {}).items()))
        response: CreateTopicsResponse = self.ask(CreateTopicsRequest((topic,)))
        return response

    def delete_topic(self, name: str, timeout_ms: int = 30_000) -> DeleteTopicsResponse:
        response: DeleteTopicsResponse = self.ask(DeleteTopicsRequest((name,), timeout_ms))
        return response


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    yield made
    made.kernel.close()


@pytest.fixture
def running(cluster: Cluster) -> Cluster:
    """Three brokers and an active controller, preset fenced."""
    for broker_id in range(3):
        cluster.start_broker(broker_id)
    cluster.start_controller()
    cluster.until_failed_over()
    return cluster
