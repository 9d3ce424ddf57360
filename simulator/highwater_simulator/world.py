"""A whole cluster in virtual time: controllers, brokers, ZooKeeper, disks, links, clients.

A run depends on (seed, topology, links, the story) alone.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import replace
from typing import Any, Protocol

from highwater_broker.node import BrokerNode
from highwater_broker.partition import Partition
from highwater_broker.settings import BrokerSettings
from highwater_chaos.builds import build_of
from highwater_chaos.plan import Network as Links
from highwater_chaos.plan import PlanTopology
from highwater_checker.stories.entries import STARTED
from highwater_controller.node import ControllerNode
from highwater_controller.settings import ControllerSettings
from highwater_core import znodes
from highwater_core.check import check
from highwater_core.config import Preset
from highwater_core.events import TraceEvent
from highwater_core.fail_points import FailPoints
from highwater_core.ids import FIRST_CONTROLLER_ID, Endpoint, NodeId, TopicPartition, node_name
from highwater_core.messages import ControlRequest, NodeSnapshot, ReplicaSnapshot
from highwater_core.ports import CannotStart, CoordinationFactory, Ports
from highwater_core.traces import TraceRecorder
from highwater_core.znodes import PartitionLeadership
from highwater_simulator.calls import (
    Carriage,
    Listener,
    Listeners,
    SimulatedControlPlane,
    SimulatedTransport,
)
from highwater_simulator.carriage import (
    CONTROL_BY_CODEC,
    CONTROL_BY_VALUE,
    kafka_carriage,
)
from highwater_simulator.client import SimulatedClient
from highwater_simulator.clocks import Stamps
from highwater_simulator.failed_folders import FailureReports
from highwater_simulator.files import Disk, SimulatedFileSystem
from highwater_simulator.kernel import Kernel, LimitPassed
from highwater_simulator.network import Network, Plane, latency_of
from highwater_simulator.rng import SeededRng
from highwater_simulator.tasks import NodeRuntime
from highwater_simulator.trace_log import TraceLog
from highwater_simulator.unread import Sender
from highwater_simulator.zookeeper import ZooKeeper
from highwater_simulator.zookeeper_session import SimulatedCoordinationFactory
from highwater_wire.kafka.messages import KafkaAnswer, KafkaRequest, KafkaResponse

CLIENT_PORT, REPLICATION_PORT, EXTERNAL_PORT, CONTROL_PORT = 9092, 9093, 9094, 9095
POLL_MS = 10
"""How often a story's condition is checked."""


class Node(Protocol):
    """The world's interface to a node."""

    @property
    def fail_points(self) -> FailPoints: ...

    async def run(self) -> None: ...

    def request_stop(self) -> None: ...

    def snapshot(self) -> NodeSnapshot: ...


class NodeHandle:
    """One node through all its incarnations: its disk stays, the rest is made anew."""

    def __init__(self, name: str, node_id: NodeId, disk: Disk, preset: Preset) -> None:
        self.name = name
        self.node_id = node_id
        self.disk = disk
        self.preset = preset
        """Of its next start."""
        self.runtime: NodeRuntime | None = None
        self.node: Node | None = None
        self.is_asked_to_stop = False

    @property
    def is_running(self) -> bool:
        return self.runtime is not None and self.runtime.is_alive


class World:
    """The cluster, and the actions of a story on it."""

    def __init__(
        self, seed: int, topology: PlanTopology | None = None, links: Links | None = None
    ) -> None:
        self.topology = topology or PlanTopology()
        self._links = links or Links()
        self.seed = seed
        self.rng = SeededRng(seed)
        self.kernel = Kernel(ties=self.rng.stream("ties") if self._links.shuffles_ties else None)
        self.network = Network(self.kernel, self.rng.stream("network"), latency_of(self._links))
        self.zookeeper = ZooKeeper(self.kernel, self.network)
        self.trace = TraceLog(self.kernel.now_ns)
        self.failure_reports = FailureReports()
        self.stamps = Stamps(self.kernel.now_ns)
        """The times in all clients' histories, and of the events that are compared with them."""
        self.on_event: Callable[[TraceEvent], None] | None = None
        """Called with every trace event of a node."""
        self.on_start: Callable[[int], None] | None = None
        """Called with every node that starts, before its first step."""
        self.on_request: Callable[[KafkaRequest], None] | None = None
        """Called with every request on the data plane when it arrives at a broker."""
        self.on_reply: Callable[[int, KafkaRequest, KafkaAnswer], None] | None = None
        """Called with every broker's answer on the data plane when it leaves."""
        self.on_read: Callable[[int, KafkaRequest, KafkaResponse], None] | None = None
        """Called with every answer on the data plane that was read from files as it arrived."""
        self.on_command: Callable[[int, ControlRequest], None] | None = None
        """Called with every request that arrives at a broker's control port."""
        self.external_port = EXTERNAL_PORT
        """The port of the listener whose requests and answers go through the codecs."""
        self.client_names: list[str] = []
        self._story = self.kernel.runtime("story")
        self._listeners = Listeners()
        brokers = range(self.topology.brokers)
        count = self.topology.controller_count
        controllers = range(FIRST_CONTROLLER_ID, FIRST_CONTROLLER_ID + count)
        self.brokers = {i: self._handle(node_name(i), i) for i in brokers}
        self.controllers = {i: self._handle(node_name(i), i) for i in controllers}
        for handle in self.brokers.values():
            for port, plane in (
                (CLIENT_PORT, Plane.CLIENT),
                (EXTERNAL_PORT, Plane.CLIENT),
                (REPLICATION_PORT, Plane.REPLICATION),
            ):
                self._listeners.declare(Endpoint(handle.name, port), plane)

    def _handle(self, name: str, node_id: int) -> NodeHandle:
        names = str(self.topology.settings_of_brokers.get("log_folders", "")).split(",")
        preset = build_of(name, self.topology.builds).preset or self.topology.preset
        disk = Disk(self.rng.stream(f"disk/{name}"), names)
        return NodeHandle(name, NodeId(node_id), disk, preset)

    # ------------------------------------------------------------ nodes

    def start_all(self) -> None:
        for node_id in (*self.controllers, *self.brokers):
            self.start(node_id)

    def handle(self, node_id: int) -> NodeHandle:
        return self.brokers[node_id] if node_id in self.brokers else self.controllers[node_id]

    def start(self, node_id: int) -> None:
        """Start the node's next incarnation."""
        handle = self.handle(node_id)
        runtime = self.kernel.runtime(handle.name)
        self.trace.note(handle.name, STARTED, incarnation=runtime.incarnation)
        handle.runtime, handle.is_asked_to_stop = runtime, False
        if node_id in self.brokers:
            handle.node = self._make_broker(handle, runtime)
        else:
            handle.node = self._make_controller(handle, runtime)
        if self.on_start is not None:
            self.on_start(node_id)
        runtime.start("main", self._run_node(handle, runtime, handle.node))

    def kill(self, node_id: int) -> None:
        """SIGKILL: the node stops at once; its disk keeps the page cache."""
        handle = self.handle(node_id)
        check(handle.is_running, f"{handle.name} does not run")
        self.trace.note(handle.name, "killed")
        self._end(handle)

    def request_stop(self, node_id: int) -> None:
        """SIGTERM: the node shuts down cleanly."""
        handle = self.handle(node_id)
        check(handle.node is not None and handle.is_running, f"{handle.name} does not run")
        self.trace.note(handle.name, "asked to stop")
        handle.is_asked_to_stop = True
        handle.node.request_stop()  # type: ignore[union-attr]

    def pause(self, node_id: int) -> None:
        """SIGSTOP."""
        self.trace.note(self.handle(node_id).name, "paused")
        self._runtime(node_id).pause()

    def resume(self, node_id: int) -> None:
        """SIGCONT."""
        self.trace.note(self.handle(node_id).name, "resumed")
        self._runtime(node_id).resume()

    def cut(self, a: str, b: str, plane: Plane) -> None:
        """Cut both directions between two hosts on one plane; one way: network.cut."""
        self.trace.note(a, "cut off", peer=b, plane=plane)
        self.network.cut_both_ways(a, b, plane)

    def heal_all(self) -> None:
        """Heal every cut."""
        self.trace.note("network", "healed")
        self.network.heal_all()

    def snapshot(self, node_id: int) -> NodeSnapshot | None:
        """Return the node's own view of its state, None while it does not run."""
        handle = self.handle(node_id)
        return handle.node.snapshot() if handle.node is not None and handle.is_running else None

    def _runtime(self, node_id: int) -> NodeRuntime:
        runtime = self.handle(node_id).runtime
        check(runtime is not None and runtime.is_alive, f"node {node_id} does not run")
        return runtime  # type: ignore[return-value]

    async def _run_node(self, handle: NodeHandle, runtime: NodeRuntime, node: Node) -> None:
        try:
            await node.run()
        except CannotStart as error:
            self.trace.note(handle.name, "cannot start", why=str(error))
        runtime.soon(lambda: self._stopped(handle, runtime))

    def _stopped(self, handle: NodeHandle, runtime: NodeRuntime) -> None:
        if runtime.is_alive:
            self.trace.note(handle.name, "stopped")
            self._end(handle)

    def _exit_now(self, handle: NodeHandle, runtime: NodeRuntime) -> None:
        """Kill the node within one of its own steps: fence it now, drop it after the step."""
        self.trace.note(handle.name, "exited at a fail-point")
        runtime.is_alive = False
        runtime.pause()
        handle.node = None
        runtime.soon(lambda: self._drop(runtime))

    def _end(self, handle: NodeHandle) -> None:
        if handle.runtime is not None:
            self._drop(handle.runtime)
        handle.node = None

    def _drop(self, runtime: NodeRuntime) -> None:
        runtime.kill()
        runtime.resume()
        self.network.close_all(runtime)
        self._listeners.close(runtime)

    # ------------------------------------------------------------ ports and settings

    def _make_broker(self, handle: NodeHandle, runtime: NodeRuntime) -> BrokerNode:
        host = handle.name
        settings: dict[str, Any] = {
            "node_id": handle.node_id,
            "preset": handle.preset,
            "toggles": self.topology.toggles,
            "incarnation": runtime.incarnation,
            "client_host": host,
            "external_host": host,
            "replication_host": host,
            "control_host": host,
            "offsets_topic_replication_factor": min(3, self.topology.brokers),
            **self.topology.settings_of_brokers,
        }
        node = BrokerNode(BrokerSettings(**settings), self._ports(handle, runtime))
        sender = Sender(handle.disk, self._links.sends_file_from_bytes)
        for listener_name, port, plane in (
            ("CLIENT", CLIENT_PORT, Plane.CLIENT),
            ("EXTERNAL", EXTERNAL_PORT, Plane.CLIENT),
            ("REPLICATION", REPLICATION_PORT, Plane.REPLICATION),
        ):
            self._listeners.listen(
                Endpoint(host, port),
                Listener(
                    runtime,
                    plane,
                    self._kafka_handler(handle.node_id, node, listener_name),
                    kafka_carriage(
                        sender, through_codecs=self._links.through_codecs or port == EXTERNAL_PORT
                    ),
                    answers_in_order=True,
                    has_read=functools.partial(self._has_read, handle.node_id),
                ),
            )
        return node

    def _kafka_handler(
        self, broker_id: int, node: BrokerNode, listener_name: str
    ) -> Callable[[KafkaRequest], Awaitable[KafkaAnswer]]:
        async def handle(request: KafkaRequest) -> KafkaAnswer:
            if self.on_request is not None:
                self.on_request(request)
            response = await node.handle_kafka(request, listener_name)
            if self.on_reply is not None:
                self.on_reply(broker_id, request, response)
            return response

        return handle

    def _has_read(self, broker_id: int, request: KafkaRequest, response: KafkaResponse) -> None:
        if self.on_read is not None:
            self.on_read(broker_id, request, response)

    def _make_controller(self, handle: NodeHandle, runtime: NodeRuntime) -> ControllerNode:
        settings: dict[str, Any] = {
            "node_id": handle.node_id,
            "preset": handle.preset,
            "toggles": self.topology.toggles,
            "incarnation": runtime.incarnation,
            "control_host": handle.name,
            **self.topology.controller_settings,
        }
        return ControllerNode(ControllerSettings(**settings), self._ports(handle, runtime))

    def _ports(self, handle: NodeHandle, runtime: NodeRuntime) -> Ports:
        by_codec = self._links.through_codecs
        carriage: Carriage = CONTROL_BY_CODEC if by_codec else CONTROL_BY_VALUE
        if handle.node_id in self.brokers:
            carriage = replace(
                carriage, request=functools.partial(self._arrived, handle.node_id, carriage.request)
            )
        endpoint = Endpoint(handle.name, CONTROL_PORT)
        sink = self.trace.sink(handle.name)
        return Ports(
            runtime=runtime,
            coordination=SimulatedCoordinationFactory(self.zookeeper, runtime),
            control=SimulatedControlPlane(
                runtime, self.network, self._listeners, endpoint, carriage
            ),
            transport=SimulatedTransport(runtime, self.network, self._listeners),
            files=SimulatedFileSystem(runtime, handle.disk),
            rng=self.rng.stream(f"node/{handle.name}/{runtime.incarnation}"),
            trace=TraceRecorder(
                runtime,
                handle.node_id,
                runtime.incarnation,
                functools.partial(self._traced, runtime, sink),
            ),
            exit_now=functools.partial(self._exit_now, handle, runtime),
            boot_id=f"{handle.name}-{handle.disk.power_losses}",
        )

    def _arrived(
        self, broker_id: int, read: Callable[[ControlRequest], ControlRequest], sent: ControlRequest
    ) -> ControlRequest:
        request = read(sent)
        if self.on_command is not None:
            self.on_command(broker_id, request)
        return request

    def _traced(
        self, runtime: NodeRuntime, sink: Callable[[TraceEvent], None], event: TraceEvent
    ) -> None:
        if runtime.is_alive:
            sink(event)
            self.failure_reports.event_traced(event)
            if self.on_event is not None:
                self.on_event(event)

    # ------------------------------------------------------------ state

    def broker_node(self, broker_id: int) -> BrokerNode | None:
        """Return the running broker, None while it does not run."""
        handle = self.brokers[broker_id]
        node = handle.node if handle.is_running else None
        return node if isinstance(node, BrokerNode) else None

    def partition_state(self, topic_partition: TopicPartition) -> PartitionLeadership | None:
        """Return the partition's state znode, None while there is none."""
        path = znodes.partition_state_path(topic_partition)
        found = self.zookeeper.data(path)
        return None if found is None else znodes.decode_partition_state(found[0], path)

    def registration(self, broker_id: int) -> int:
        """Return the broker's epoch in ZooKeeper, -1 while it is not registered."""
        found = self.zookeeper.data(znodes.broker_path(NodeId(broker_id)))
        return -1 if found is None else found[1].czxid

    def replica(self, broker_id: int, topic_partition: TopicPartition) -> ReplicaSnapshot | None:
        """Return the broker's replica, None where there is none."""
        hosted = self.hosted(broker_id, topic_partition)
        return None if hosted is None else hosted.snapshot()

    def fail_points(self, node_id: int) -> FailPoints | None:
        """Return the running node's fail-points, None while it does not run."""
        handle = self.handle(node_id)
        return handle.node.fail_points if handle.node is not None and handle.is_running else None

    def hosted(self, broker_id: int, topic_partition: TopicPartition) -> Partition | None:
        """Return the hosted replica object, None where there is none; it must not be changed."""
        node = self.broker_node(broker_id)
        return None if node is None else node.replicas.get(topic_partition)

    def active_controller(self) -> int | None:
        """Return the active controller, None when there is none or more than one."""
        active = [
            node_id
            for node_id in self.controllers
            if (snapshot := self.snapshot(node_id)) is not None and snapshot.active_controller
        ]
        return active[0] if len(active) == 1 else None

    def is_replicated(self, topic_partition: TopicPartition, broker_ids: Iterable[int]) -> bool:
        """Return whether these brokers are the ISR and have equally long, committed logs."""
        wanted = sorted(broker_ids)
        state = self.partition_state(topic_partition)
        replicas = [self.replica(broker_id, topic_partition) for broker_id in wanted]
        if state is None or sorted(state.isr) != wanted or any(r is None for r in replicas):
            return False
        found = [replica for replica in replicas if replica is not None]
        ends = {
            offset
            for replica in found
            for offset in (replica.log_end_offset, replica.high_watermark)
        }
        leaders = [replica for replica in found if replica.role == "leader"]
        return (
            len(ends) == 1
            and len(leaders) == 1
            and leaders[0].leader_epoch == state.leader_epoch
            and sorted(leaders[0].isr) == wanted
        )

    # ------------------------------------------------------------ clients and stories

    def client(self, name: str) -> SimulatedClient:
        """Return a client outside the cluster that knows every broker's client listener.

        With a used name it is the client's next incarnation, on the same host; the last one is
        dead.
        """
        runtime = self.kernel.runtime(name)
        if name not in self.client_names:
            self.client_names.append(name)
        return SimulatedClient(
            runtime,
            SimulatedTransport(runtime, self.network, self._listeners),
            [Endpoint(handle.name, CLIENT_PORT) for handle in self.brokers.values()],
            functools.partial(self.trace.note, name),
            self.stamps.next_ns,
        )

    def coordination(self, client: SimulatedClient) -> CoordinationFactory:
        """Return a factory of ZooKeeper sessions for the client, as operators' tools have them."""
        return SimulatedCoordinationFactory(self.zookeeper, client.runtime)

    def kill_client(self, client: SimulatedClient) -> None:
        """SIGKILL: the client stops at once."""
        self.trace.note(client.runtime.node_name, "killed")
        self._drop(client.runtime)

    def run(self, story: Coroutine[Any, Any, None], limit_ms: int) -> None:
        """Run a story to its end.

        Raises:
            LimitPassed: the story did not end in time; the message has the await of every task.
            SimulationFailed: the story or a node met an error.
        """
        task = self._story.start("story", story)
        self.kernel.run_until(task.is_done, limit_ms, "the story's end")

    async def eventually(self, condition: Callable[[], bool], within_ms: int, what: str) -> None:
        """Return once the condition holds; for stories.

        Raises:
            LimitPassed: within_ms went by.
        """
        deadline_ms = self._story.now_ms() + within_ms
        while not condition():
            if self._story.now_ms() >= deadline_ms:
                message = f"{what}: not within {within_ms} ms of virtual time"
                raise LimitPassed(f"{message}\n{self.kernel.describe()}")
            await self._story.sleep(POLL_MS)

    async def sleep(self, duration_ms: int) -> None:
        """Run the world for this time; for stories."""
        await self._story.sleep(duration_ms)

    def close(self) -> None:
        """Drop every task; the trace stays."""
        self.kernel.close()
