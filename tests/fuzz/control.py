"""Fuzzes the control port of brokers and controller: hostile names, numbers, epochs, duplicates.

Whoever can send commands may take partitions away; no command may end a node, go without an
answer, reach outside a broker's folder, or keep a broker from starting again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from highwater_broker.log.folders import parse_partition_folder
from highwater_core.admin_messages import (
    AlterReassignmentsRequest,
    CreatePartitionsRequest,
    ElectionType,
    ElectLeadersRequest,
    ListReassignmentsRequest,
    NewPartitions,
    ReassignmentItem,
)
from highwater_core.ids import (
    FIRST_CONTROLLER_ID,
    BrokerEpoch,
    ControllerEpoch,
    Endpoint,
    LeaderEpoch,
    NodeId,
    PartitionEpoch,
    TopicId,
    TopicPartition,
)
from highwater_core.messages import (
    AlterPartitionItem,
    AlterPartitionRequest,
    BrokerEndpoints,
    ControlledShutdownRequest,
    ControlRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    FailPointAction,
    InspectRequest,
    IsrMember,
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    NewTopic,
    PartitionMetadata,
    SetFailPointRequest,
    StopReplicaPartition,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from highwater_simulator.files import Disk, FolderNode
from highwater_wire.control import (
    MalformedControlMessage,
    decode_control_request,
    decode_control_response,
    encode_control_request,
    encode_control_response,
)
from tests.fuzz.cases import Broken, Case, Step
from tests.fuzz.clusters import FuzzedCluster
from tests.fuzz.draws import Draws
from tests.fuzz.kafka_frames import CONFIG_NAMES, CONFIG_VALUES, simpler_values

STEPS = 60
BETWEEN_STEPS_MS = 5
ANSWERED_WITHIN_MS = 60_000
MANY = 2_000
TOPIC_IDS = ("", "a" * 32, "0" * 32, "../x", "x" * 5_000)


class ControlFuzzer:
    """Commands to brokers and requests to the controller, as bytes of their gRPC methods."""

    name = "control"

    def draw(self, draws: Draws) -> Case:
        return tuple(_draw_step(draws) for _ in range(STEPS))

    def run(self, case: Case) -> None:
        _Run(case).run()

    def simpler(self, step: Step) -> Iterator[Step]:
        _, path = step.label.split(" ")
        try:
            request = decode_control_request(path, step.payload)
        except MalformedControlMessage:
            return
        for simpler in simpler_values(request):
            try:
                yield Step(step.label, encode_control_request(simpler)[1])
            except Exception:  # noqa: BLE001, S112 (our own encoder has no form for it)
                continue


# ---------------------------------------------------------------- requests


def _draw_step(draws: Draws) -> Step:
    while True:
        request = draws.one_of(_MAKERS)(draws)
        try:
            path, message = encode_control_request(request)
        except Exception:  # noqa: BLE001, S112 (our own encoder has no form for it)
            continue
        break
    if draws.chance(5):
        message = draws.damaged(message)
    to_controller = "ControllerControl" in path
    if draws.chance(5):
        to_controller = not to_controller
    target = FIRST_CONTROLLER_ID if to_controller else draws.below(3)
    return Step(f"{target} {path}", message)


def _some(draws: Draws, make: Callable[[], Any], most: int = 3) -> tuple[Any, ...]:
    found = tuple(make() for _ in range(draws.count(most)))
    if found and draws.chance(2):
        found += (found[0],) * draws.between(10, MANY)
    return found


def _partition(draws: Draws) -> TopicPartition:
    topic = f"n{draws.below(5)}" if draws.chance(30) else draws.name(40)
    return TopicPartition(topic, draws.mostly(draws.below(3), draws.int32(), 90))


def _ids(draws: Draws) -> tuple[NodeId, ...]:
    if draws.chance(60):
        return (NodeId(0), NodeId(1), NodeId(2))
    return _some(draws, lambda: NodeId(draws.mostly(draws.below(3), draws.int32(), 70)))


def _epoch(draws: Draws) -> LeaderEpoch:
    return LeaderEpoch(draws.mostly(draws.between(0, 3), draws.int32(), 85))


def _topic_id(draws: Draws) -> TopicId:
    return TopicId(draws.one_of(TOPIC_IDS))


def _header(draws: Draws) -> dict[str, Any]:
    return {
        "controller_id": NodeId(draws.mostly(FIRST_CONTROLLER_ID, draws.int32(), 90)),
        "controller_epoch": ControllerEpoch(draws.mostly(draws.between(1, 2), draws.int32(), 95)),
        "broker_epoch": BrokerEpoch(draws.one_of((-1, -1, 2**62, draws.int64()))),
        "correlation_id": draws.mostly(draws.between(100, 100_000), draws.int32(), 90),
    }


def _leader_and_isr(draws: Draws) -> ControlRequest:
    def entry() -> LeaderAndIsrPartition:
        ids = _ids(draws)
        return LeaderAndIsrPartition(
            _partition(draws),
            NodeId(draws.mostly(draws.below(3), draws.int32(), 90)),
            _epoch(draws),
            draws.one_of((ids, _ids(draws))),
            PartitionEpoch(draws.mostly(draws.below(3), draws.int32())),
            ids,
            draws.chance(50),
            _topic_id(draws),
        )

    entries, leaders = _some(draws, entry), _some(draws, lambda: _broker(draws))
    return LeaderAndIsrRequest(
        **_header(draws), is_init=draws.chance(15), partitions=entries, live_leaders=leaders
    )


def _stop_replica(draws: Draws) -> ControlRequest:
    def entry() -> StopReplicaPartition:
        return StopReplicaPartition(
            _partition(draws), draws.chance(50), _epoch(draws), _topic_id(draws)
        )

    return StopReplicaRequest(**_header(draws), partitions=_some(draws, entry))


def _broker(draws: Draws) -> BrokerEndpoints:
    def endpoint() -> Endpoint:
        host = draws.one_of(("broker-0", "broker-1", "nowhere", "x" * 300, "é"))
        return Endpoint(host, draws.one_of((1, 9092, 9093, 65_535)))

    broker_id = NodeId(draws.mostly(draws.below(3), draws.int32()))
    epoch = BrokerEpoch(draws.int64())
    return BrokerEndpoints(broker_id, epoch, endpoint(), endpoint(), endpoint(), endpoint())


def _update_metadata(draws: Draws) -> ControlRequest:
    def entry() -> PartitionMetadata:
        return PartitionMetadata(
            _partition(draws),
            NodeId(draws.mostly(draws.below(3), draws.int32())),
            _epoch(draws),
            _ids(draws),
            _ids(draws),
            PartitionEpoch(draws.int32()),
            _topic_id(draws),
        )

    brokers, entries = _some(draws, lambda: _broker(draws)), _some(draws, entry)
    return UpdateMetadataRequest(
        **_header(draws), live_brokers=brokers, partitions=entries, is_full=draws.chance(20)
    )


def _create_topics(draws: Draws) -> ControlRequest:
    def entry() -> NewTopic:
        return NewTopic(
            f"n{draws.below(30)}" if draws.chance(50) else draws.name(10),
            draws.mostly(draws.between(1, 3), draws.int32(), 90),
            draws.mostly(draws.between(1, 3), draws.int32(), 90),
            _some(draws, lambda: _ids(draws)) if draws.chance(30) else (),
            tuple(
                (draws.one_of(CONFIG_NAMES), draws.one_of(CONFIG_VALUES) or "")
                for _ in range(draws.count(2))
            ),
        )

    return CreateTopicsRequest(_some(draws, entry), draws.chance(30), _timeout(draws))


def _delete_topics(draws: Draws) -> ControlRequest:
    names = _some(draws, lambda: f"n{draws.below(30)}" if draws.chance(60) else draws.name(10))
    return DeleteTopicsRequest(names, _timeout(draws))


def _create_partitions(draws: Draws) -> ControlRequest:
    def entry() -> NewPartitions:
        assignment = _some(draws, lambda: _ids(draws)) if draws.chance(30) else ()
        count = draws.mostly(draws.between(1, 5), draws.int32(), 90)
        return NewPartitions(_partition(draws).topic, count, assignment)

    return CreatePartitionsRequest(_some(draws, entry), draws.chance(30), _timeout(draws))


def _some_or_all(draws: Draws) -> tuple[TopicPartition, ...] | None:
    return None if draws.chance(20) else _some(draws, lambda: _partition(draws))


def _elect_leaders(draws: Draws) -> ControlRequest:
    election_type = draws.one_of(list(ElectionType))
    return ElectLeadersRequest(election_type, _some_or_all(draws), _timeout(draws))


def _alter_reassignments(draws: Draws) -> ControlRequest:
    def entry() -> ReassignmentItem:
        return ReassignmentItem(_partition(draws), None if draws.chance(30) else _ids(draws))

    return AlterReassignmentsRequest(_some(draws, entry), _timeout(draws))


def _list_reassignments(draws: Draws) -> ControlRequest:
    return ListReassignmentsRequest(_some_or_all(draws), _timeout(draws))


def _timeout(draws: Draws) -> int:
    return draws.one_of((-1, 0, 100, 30_000, -(2**31)))


def _shutdown(draws: Draws) -> ControlRequest:
    return ControlledShutdownRequest(
        NodeId(draws.mostly(draws.below(3), draws.int32())), BrokerEpoch(draws.int64())
    )


def _alter_partition(draws: Draws) -> ControlRequest:
    def member() -> IsrMember:
        return IsrMember(
            NodeId(draws.mostly(draws.below(3), draws.int32())), BrokerEpoch(draws.int64())
        )

    def entry() -> AlterPartitionItem:
        return AlterPartitionItem(
            _partition(draws),
            _epoch(draws),
            _some(draws, member),
            PartitionEpoch(draws.mostly(draws.below(4), draws.int32())),
            _topic_id(draws),
        )

    broker_id = NodeId(draws.mostly(draws.below(3), draws.int32()))
    epoch = BrokerEpoch(draws.one_of((-1, 10, draws.int64())))
    return AlterPartitionRequest(broker_id, epoch, _some(draws, entry))


def _fail_point(draws: Draws) -> ControlRequest:
    return SetFailPointRequest(draws.name(0), FailPointAction.DELAY, draws.int32(), draws.int32())


_MAKERS: tuple[Callable[[Draws], ControlRequest], ...] = (
    *(_leader_and_isr,) * 6,
    *(_stop_replica,) * 3,
    *(_update_metadata,) * 3,
    *(_create_topics,) * 3,
    *(_delete_topics,) * 2,
    *(_alter_partition,) * 2,
    _create_partitions,
    _elect_leaders,
    _alter_reassignments,
    _list_reassignments,
    _shutdown,
    _fail_point,
    lambda _: InspectRequest(),
)


# ---------------------------------------------------------------- a run


class _Run:
    def __init__(self, case: Case) -> None:
        self._case = case
        self._cluster = FuzzedCluster()
        self._unanswered: dict[int, Step] = {}

    def run(self) -> None:
        self._cluster.run(self._story)

    async def _story(self) -> None:
        world = self._cluster.world
        for number, step in enumerate(self._case):
            self._feed(number, step)
            await world.sleep(BETWEEN_STEPS_MS)
        await world.sleep(ANSWERED_WITHIN_MS)
        for step in self._unanswered.values():
            raise Broken("an answer comes", f"none to {step}")
        for node_id in (*world.brokers, *world.controllers):
            self._feed(0, Step(f"{node_id} {encode_control_request(InspectRequest())[0]}"))
        await world.sleep(1_000)
        self._cluster.check_alive()
        self._check_folders()
        await self._cluster.restart_all_brokers()
        await world.sleep(10_000)
        self._cluster.check_alive()

    def _feed(self, number: int, step: Step) -> None:
        target, path = step.label.split(" ")
        try:
            request = decode_control_request(path, step.payload)
        except MalformedControlMessage:
            return
        world = self._cluster.world
        self._unanswered[number] = step

        async def answer() -> None:
            if int(target) in world.brokers:
                response = await self._cluster.broker(int(target))[1]._commander.handle(request)
            else:
                response = await world.controllers[int(target)].node.answer(request)  # type: ignore[union-attr]
            decode_control_response(path, encode_control_response(path, response))
            self._unanswered.pop(number, None)

        runtime = world.handle(int(target)).runtime
        self._cluster.check_alive()
        if runtime is not None:
            runtime.start(path, answer())

    def _check_folders(self) -> None:
        for handle in self._cluster.world.brokers.values():
            _check_folder(handle.disk)


def _check_folder(disk: Disk) -> None:
    """A broker's folder holds files and one level of folders, each of a partition's name."""
    for name, node in disk.root.entries.items():
        if not isinstance(node, FolderNode):
            continue
        is_known = parse_partition_folder(name.partition(".0-")[0]) is not None
        if not is_known and not name.endswith(("-delete", "-stray")):
            raise Broken("only partitions have folders", f"{name[:300]!r}")
        if any(isinstance(child, FolderNode) for child in node.entries.values()):
            raise Broken("only partitions have folders", f"folders within {name[:300]!r}")
