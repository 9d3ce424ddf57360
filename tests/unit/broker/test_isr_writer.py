"""How proposed ISRs are written, also after lost answers and conflicts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from highwater_broker.become_leader import become_leader
from highwater_broker.current_session import CurrentSession
from highwater_broker.isr_change_notifier import IsrChangeNotifier
from highwater_broker.isr_writer import (
    REFUSED_RETRY_MS,
    AlterPartitionWriter,
    ConditionalWriter,
)
from highwater_broker.partition import Partition
from highwater_broker.settings import BrokerSettings
from highwater_core.config import Preset
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.ids import (
    BrokerEpoch,
    ControllerEpoch,
    LeaderEpoch,
    NodeId,
    PartitionEpoch,
    TopicPartition,
)
from highwater_core.messages import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResult,
    IsrMember,
)
from highwater_core.ports import CallFailed, Coordination
from highwater_core.znodes import (
    ISR_CHANGE_NOTIFICATION,
    PartitionLeadership,
    decode_partition_state,
    encode_partition_state,
    partition_state_path,
)
from highwater_simulator.network import Network
from highwater_simulator.rng import SeededRng
from highwater_simulator.zookeeper import ZooKeeper
from highwater_simulator.zookeeper_session import SimulatedCoordinationFactory

from .conftest import CONTROLLER, ME, T0, THREE, TWO, Bench, command

E = ErrorCode
STATE = partition_state_path(T0)
OWN_EPOCH = BrokerEpoch(70)


@dataclass
class ScriptedController:
    """Answers each AlterPartition with the next of its answers."""

    answers: list[Callable[[AlterPartitionRequest], AlterPartitionResponse]]
    asked: list[AlterPartitionRequest] = field(default_factory=list)

    async def call(
        self, request: AlterPartitionRequest, response_type: object, timeout_ms: int
    ) -> AlterPartitionResponse:
        self.asked.append(request)
        return self.answers.pop(0)(request)


def accept(request: AlterPartitionRequest) -> AlterPartitionResponse:
    (item,) = request.partitions
    isr = tuple(member.broker_id for member in item.new_isr)
    epoch = PartitionEpoch(item.partition_epoch + 1)
    result = AlterPartitionResult(T0, E.NONE, ME, item.leader_epoch, isr, epoch)
    return AlterPartitionResponse(E.NONE, (result,))


def refuse(error: ErrorCode) -> Callable[[AlterPartitionRequest], AlterPartitionResponse]:
    return lambda request: AlterPartitionResponse(E.NONE, (AlterPartitionResult(T0, error),))


def lose(request: AlterPartitionRequest) -> AlterPartitionResponse:
    raise CallFailed("no answer")


class Registered:
    broker_epoch = OWN_EPOCH


class Scene:
    """A leader with ISR {1, 2} that has just proposed {1, 2, 3}, and a ZooKeeper."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        rng = SeededRng(2)
        self.zookeeper = ZooKeeper(bench.kernel, Network(bench.kernel, rng))
        self.current = CurrentSession()
        self.partition = bench.partition()
        become_leader(
            self.partition,
            command(ME, 3, isr=(ME, TWO)),
            CONTROLLER,
            fetchers=bench.fetchers(),
            toggles=bench.toggles,
            now_ms=0,
        )
        self.partition.record_follower_fetch(
            THREE, BrokerEpoch(9), self.partition.log_end_offset, 0
        )

    def make_znode(
        self, isr: tuple[NodeId, ...], *, sets: int, leader: NodeId = ME, epoch: int = 3
    ) -> None:
        """Create the state znode and write it so many times."""

        async def make() -> None:
            session = await SimulatedCoordinationFactory(self.zookeeper, self.bench.runtime).open(
                6_000
            )
            self.current.put(session)
            data = encode_partition_state(
                PartitionLeadership(leader, LeaderEpoch(epoch), ControllerEpoch(1), isr)
            )
            await session.ensure_path(STATE)
            for _ in range(sets):
                await session.set(STATE, data)
            await session.ensure_path(ISR_CHANGE_NOTIFICATION)

        self.run(make())

    def run(self, work: object, for_ms: int = 100) -> None:
        self.bench.runtime.scope("scene").spawn("work", work)  # type: ignore[arg-type]
        self.bench.kernel.run_for(for_ms)

    def session(self) -> Coordination:
        return self.current.get()


@pytest.fixture
def make_scene(make_bench: Callable[..., Bench]) -> Callable[[Preset], Scene]:
    def make(preset: Preset) -> Scene:
        bench = make_bench(preset)
        bench.registered[THREE] = BrokerEpoch(9)
        return Scene(bench)

    return make


def ask(  # type: ignore[no-untyped-def]
    scene: Scene,
    *answers: Callable[[AlterPartitionRequest], AlterPartitionResponse],
    for_ms: int = REFUSED_RETRY_MS - 1,
):
    controller = ScriptedController(list(answers))
    writer = AlterPartitionWriter(
        BrokerSettings(node_id=ME),
        scene.bench.runtime,
        controller,  # type: ignore[arg-type]
        scene.current,
        Registered(),
        scene.bench.fail_points(),
    )
    writer.submit(scene.partition)
    scene.run(writer.run(), for_ms)
    return controller


def state_of(partition: Partition) -> tuple[tuple[NodeId, ...], int, bool]:
    return partition.isr, partition.partition_epoch, partition.proposal() is not None


def test_the_controller_gets_every_members_broker_epoch(make_scene: Callable) -> None:
    scene = make_scene(Preset.FENCED)
    (request,) = ask(scene, accept).asked
    assert request.broker_epoch == OWN_EPOCH
    (item,) = request.partitions
    assert item.leader_epoch == 3
    assert item.new_isr == (
        IsrMember(ME, OWN_EPOCH),
        IsrMember(TWO),
        IsrMember(THREE, BrokerEpoch(9)),
    )
    assert state_of(scene.partition) == ((ME, TWO, THREE), 1, False)


def test_an_unanswered_request_is_sent_again(make_scene: Callable) -> None:
    scene = make_scene(Preset.FENCED)
    controller = ask(scene, lose, lose, accept)
    assert len(controller.asked) == 3
    assert state_of(scene.partition) == ((ME, TWO, THREE), 1, False)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        pytest.param(E.INELIGIBLE_REPLICA, ((ME, TWO), 0, False), id="withdrawn"),
        pytest.param(E.FENCED_LEADER_EPOCH, ((ME, TWO), 0, True), id="waits for the command"),
        pytest.param(E.NEW_LEADER_ELECTED, ((ME, TWO), 0, True), id="likewise"),
    ],
)
def test_a_refusal_leaves_the_written_isr(
    make_scene: Callable, error: ErrorCode, expected: tuple[object, ...]
) -> None:
    scene = make_scene(Preset.FENCED)
    assert len(ask(scene, refuse(error)).asked) == 1
    assert state_of(scene.partition) == expected


@pytest.mark.parametrize(
    "error", [E.FENCED_LEADER_EPOCH, E.UNKNOWN_TOPIC_ID, E.INVALID_REQUEST, E.NOT_CONTROLLER]
)
def test_a_refusal_that_no_command_follows_is_asked_about_again(
    make_scene: Callable, error: ErrorCode
) -> None:
    """Found: a deposed controller had refused it from memory, and the proposal stayed for ever."""
    scene = make_scene(Preset.FENCED)
    controller = ask(scene, refuse(error), accept, for_ms=REFUSED_RETRY_MS + 1)
    assert len(controller.asked) == 2
    assert state_of(scene.partition) == ((ME, TWO, THREE), 1, False)


def test_an_isr_of_another_leadership_is_asked_about_again(make_scene: Callable) -> None:
    scene = make_scene(Preset.FENCED)
    scene.make_znode((TWO,), sets=1, leader=TWO, epoch=4)
    controller = ask(scene, refuse(E.INVALID_UPDATE_VERSION), accept, for_ms=REFUSED_RETRY_MS + 100)
    assert len(controller.asked) == 2


def test_a_refused_proposal_that_a_command_replaced_is_not_sent_again(
    make_scene: Callable,
) -> None:
    scene = make_scene(Preset.FENCED)
    controller = ask(scene, refuse(E.FENCED_LEADER_EPOCH))
    become_leader(
        scene.partition,
        command(ME, 4, isr=(ME, TWO)),
        CONTROLLER,
        fetchers=scene.bench.fetchers(),
        toggles=scene.bench.toggles,
        now_ms=0,
    )
    scene.bench.kernel.run_for(3 * REFUSED_RETRY_MS)
    assert len(controller.asked) == 1


def test_a_partition_that_the_controller_does_not_know_yet_is_asked_for_again(
    make_scene: Callable,
) -> None:
    """Its state znode was unreadable, say; once repaired, no command of a new epoch comes."""
    scene = make_scene(Preset.FENCED)
    controller = ask(scene, refuse(E.UNKNOWN_TOPIC_OR_PARTITION), accept)
    assert len(controller.asked) == 2
    assert state_of(scene.partition) == ((ME, TWO, THREE), 1, False)


def test_after_a_lost_answer_the_leader_adopts_the_written_isr(make_scene: Callable) -> None:
    scene = make_scene(Preset.FENCED)
    scene.make_znode((ME, TWO, THREE), sets=1)
    ask(scene, lose, refuse(E.INVALID_UPDATE_VERSION))
    assert state_of(scene.partition) == ((ME, TWO, THREE), 1, False)


def write(scene: Scene, *others: Partition) -> None:
    settings = BrokerSettings(node_id=ME)
    notifier = IsrChangeNotifier(settings, scene.bench.runtime, scene.current)
    writer = ConditionalWriter(
        ME, scene.bench.runtime, scene.current, notifier, scene.bench.fail_points()
    )
    for partition in (scene.partition, *others):
        writer.submit(partition)
    scene.run(notifier.run(), 0)
    scene.run(writer.run(), 20_000)


def written(scene: Scene) -> tuple[tuple[NodeId, ...], int]:
    data, stat = scene.zookeeper.dump()[STATE]
    return decode_partition_state(data, STATE).isr, stat.node_version


def notifications(scene: Scene) -> int:
    prefix = f"{ISR_CHANGE_NOTIFICATION}/"
    return sum(path.startswith(prefix) for path in scene.zookeeper.dump())


def test_the_leader_writes_on_the_version_it_knows_and_announces_the_change(
    make_scene: Callable,
) -> None:
    scene = make_scene(Preset.V3)
    scene.make_znode((ME, TWO), sets=0)
    write(scene)
    assert written(scene) == ((ME, TWO, THREE), 1)
    assert state_of(scene.partition) == ((ME, TWO, THREE), 1, False)
    assert notifications(scene) == 1


def test_on_a_conflict_equal_data_adopts_the_version(make_scene: Callable) -> None:
    scene = make_scene(Preset.V3)
    scene.make_znode((ME, TWO, THREE), sets=2)
    write(scene)
    assert state_of(scene.partition) == ((ME, TWO, THREE), 2, False), "KAFKA-1382"


def test_a_proposal_is_not_withdrawn_over_a_newer_leadership_that_may_have_followed_it(
    make_scene: Callable,
) -> None:
    """Its answer was lost: the new leader may be the very member whose joining was written."""
    scene = make_scene(Preset.V3)
    scene.make_znode((THREE,), sets=2, leader=THREE, epoch=4)
    write(scene)
    assert state_of(scene.partition) == ((ME, TWO), 0, True)
    assert written(scene) == ((THREE,), 2)


def test_on_a_conflict_other_data_leaves_the_isr_as_it_was(make_scene: Callable) -> None:
    scene = make_scene(Preset.V3)
    scene.make_znode((TWO, THREE), sets=1, leader=TWO)
    write(scene)
    assert state_of(scene.partition) == ((ME, TWO), 0, False)
    assert written(scene) == ((TWO, THREE), 1)
    assert notifications(scene) == 0


def test_a_malformed_state_does_not_decide_an_earlier_write_without_answer(
    make_scene: Callable,
) -> None:
    """The answer was lost, then the znode was damaged: once repaired it may be as proposed."""
    scene = make_scene(Preset.V3)
    scene.make_znode((ME, TWO, THREE), sets=1)

    async def put(data: bytes) -> None:
        await scene.session().set(STATE, data)

    as_written = scene.zookeeper.dump()[STATE][0]
    scene.run(put(b"no JSON"))
    write(scene)
    assert state_of(scene.partition) == ((ME, TWO), 0, True)
    scene.run(put(as_written), 20_000)
    assert state_of(scene.partition) == ((ME, TWO, THREE), 3, False)


def test_a_state_that_cannot_be_read_keeps_no_other_partition_waiting(
    make_scene: Callable,
) -> None:
    """Found: its proposal was tried for ever, and those of all others waited behind it."""
    scene = make_scene(Preset.V3)
    scene.make_znode((ME, TWO), sets=0)
    other = scene.bench.partition()
    other.topic_partition = TopicPartition("t", 1)
    become_leader(
        other,
        command(ME, 3, isr=(ME, TWO)),
        CONTROLLER,
        fetchers=scene.bench.fetchers(),
        toggles=scene.bench.toggles,
        now_ms=0,
    )

    async def prepare() -> None:
        await scene.session().ensure_path(partition_state_path(other.topic_partition))
        await scene.session().set(STATE, b"no JSON")

    scene.run(prepare())
    other.record_follower_fetch(THREE, BrokerEpoch(9), other.log_end_offset, 0)
    write(scene, other)
    assert state_of(other)[0] == (ME, TWO, THREE)
    assert state_of(scene.partition)[0] == (ME, TWO)
    told = [event.detail["where"] for event in scene.bench.traced(EventKind.BAD_INPUT_MET)]
    assert told == [STATE], "once, however often it is tried"
