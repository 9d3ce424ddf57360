"""How a broker carries out the controller's commands, or refuses them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from highwater_broker.current_session import CurrentSession
from highwater_broker.log.checkpoints import (
    HIGH_WATERMARK_CHECKPOINT,
    read_partition_metadata,
)
from highwater_broker.log.folders import (
    STRAY_SUFFIX,
    list_strays,
    partition_folder,
    rename_aside,
)
from highwater_broker.log.log import Log
from highwater_broker.log_folders import LogFolders
from highwater_broker.metadata_cache import MetadataCache
from highwater_broker.partition_context import PartitionContext
from highwater_broker.replica_logs import ReplicaLogs
from highwater_broker.replica_manager import ReplicaManager
from highwater_broker.settings import BrokerSettings
from highwater_broker.topic_settings import TopicSettings
from highwater_broker.turns import PARTITIONS_PER_TURN, ROLES_PER_TURN
from highwater_core.config import Preset
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.ids import (
    LEADER_DURING_DELETE,
    BrokerEpoch,
    ControllerEpoch,
    LeaderEpoch,
    NodeId,
    Offset,
    PartitionEpoch,
    TopicId,
    TopicPartition,
)
from highwater_core.messages import (
    BrokerCommand,
    CommandResponse,
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    PartitionMetadata,
    StopReplicaPartition,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from highwater_simulator.tasks import NodeRuntime
from tests.support.presets import CONTROLLED

from .conftest import LAG_MS, ME, T0, THREE, TWO, Bench, batch, command

E = ErrorCode
OWN = BrokerEpoch(50)
T1 = TopicPartition("t", 1)
ID_A, ID_B = TopicId("a" * 32), TopicId("b" * 32)


class Broker:
    """A replica manager without a ZooKeeper: topic configurations stay at their defaults."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.own_epoch = OWN
        settings = BrokerSettings(node_id=ME)
        runtime, trace = bench.runtime, bench.ports.trace
        topics = TopicSettings(settings, runtime, trace, CurrentSession(), lambda topic: None)
        context = PartitionContext(
            broker_id=ME,
            toggles=bench.toggles,
            runtime=runtime,
            trace=trace,
            replica_lag_time_max_ms=LAG_MS,
            quotas=bench.quotas,
            wake=bench.woken.append,
            propose_isr=bench.proposed.append,
            disk_refused=lambda key: None,
            registered_epoch=bench.registered.get,
        )

        async def write_recovery_points() -> None:
            bench.written_recovery_points += 1

        self.metadata = MetadataCache()
        self.folder = ReplicaLogs(
            bench.ports.files, trace, ME, "cluster", topics.log_config, bench.fail_points()
        )
        self.manager = ReplicaManager(
            context,
            bench.ports,
            LogFolders([self.folder], None),
            topics,
            self.metadata,
            bench.fetchers(),
            lambda: self.own_epoch,
            write_recovery_points,
            self._announce,
        )
        self.announcements = 0

    def _announce(self) -> None:
        self.announcements += 1

    def carry_out(self, request: BrokerCommand) -> CommandResponse:
        answers: list[CommandResponse] = []

        async def work() -> None:
            answers.append(await self.manager.carry_out(request))

        self.bench.runtime.scope("commands").spawn("command", work())
        self.bench.kernel.run_for(500)
        (answer,) = answers
        return answer

    def role(self, key: TopicPartition = T0) -> tuple[str, int] | None:
        partition = self.manager.get(key)
        if partition is None:
            return None
        snapshot = partition.snapshot()
        return snapshot.role, snapshot.leader_epoch


@pytest.fixture
def make_broker(make_bench: Callable[..., Bench]) -> Callable[..., Broker]:
    return lambda preset=Preset.FENCED: Broker(make_bench(preset))


def lisr(
    *partitions: LeaderAndIsrPartition,
    controller_epoch: int = 1,
    broker_epoch: int = OWN,
    is_init: bool = False,
    number: int = 0,
) -> LeaderAndIsrRequest:
    return LeaderAndIsrRequest(
        NodeId(1000),
        ControllerEpoch(controller_epoch),
        BrokerEpoch(broker_epoch),
        is_init,
        partitions,
        correlation_id=number,
    )


def stop(epoch: int, *, delete: bool, number: int = 0, **fields: Any) -> StopReplicaRequest:
    partition = StopReplicaPartition(T0, delete, LeaderEpoch(epoch), **fields)
    return StopReplicaRequest(
        NodeId(1000), ControllerEpoch(1), OWN, (partition,), correlation_id=number
    )


def update(
    *partitions: PartitionMetadata, number: int = 0, is_full: bool = False
) -> UpdateMetadataRequest:
    return UpdateMetadataRequest(
        NodeId(1000), ControllerEpoch(1), OWN, (), partitions, number, is_full
    )


def metadata(key: TopicPartition, topic_id: TopicId) -> PartitionMetadata:
    return PartitionMetadata(
        key, ME, LeaderEpoch(0), (ME,), (ME,), PartitionEpoch(0), topic_id=topic_id
    )


def test_a_command_makes_leaders_and_followers_and_answers_for_each(
    make_broker: Callable[..., Broker],
) -> None:
    broker = make_broker()
    follower = replace(command(TWO, 4), topic_partition=T1)
    elsewhere = replace(
        command(TWO, 4, assigned=(TWO, THREE)), topic_partition=TopicPartition("t", 2)
    )
    answer = broker.carry_out(lisr(follower, command(ME, 3), elsewhere))
    assert answer.partition_errors == (
        (T1, E.NONE),
        (T0, E.NONE),
        (TopicPartition("t", 2), E.UNKNOWN_TOPIC_OR_PARTITION),
    )
    assert (broker.role(T0), broker.role(T1)) == (("leader", 3), ("follower", 4))
    kinds = [event.kind for event in broker.bench.events]
    assert kinds.index(EventKind.BECAME_LEADER) < kinds.index(EventKind.BECAME_FOLLOWER)


def test_a_command_that_is_sent_again_leaves_the_high_watermark_where_it_is(
    make_broker: Callable[..., Broker],
) -> None:
    broker = make_broker()
    told = lisr(command(ME, 3, isr=(ME,), assigned=(ME,)), number=1)
    broker.carry_out(told)
    partition = broker.manager.get(T0)
    assert partition is not None
    assert partition.append(batch("a"), 1, 0).error is E.NONE
    assert partition.high_watermark == 1
    broker.carry_out(told)
    assert partition.high_watermark == 1


def test_a_late_copy_makes_no_other_late_copy_timely(make_broker: Callable[..., Broker]) -> None:
    broker = make_broker()
    first, created = update(number=1), lisr(command(ME, 3), number=2)
    for request in (first, created, stop(3, delete=True, number=3), first, created):
        broker.carry_out(request)
    assert broker.role() is None
    assert not broker.bench.ports.files.exists(partition_folder(T0))


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"controller_epoch": 4}, E.STALE_CONTROLLER_EPOCH),
        ({"controller_epoch": 6, "broker_epoch": OWN - 1}, E.STALE_BROKER_EPOCH),
    ],
)
def test_a_stale_command_changes_nothing(
    make_broker: Callable[..., Broker], fields: dict[str, int], error: ErrorCode
) -> None:
    broker = make_broker()
    broker.carry_out(lisr(command(ME, 3), controller_epoch=5))
    answer = broker.carry_out(lisr(command(TWO, 9), **fields))  # type: ignore[arg-type]
    assert answer == CommandResponse(error)
    assert broker.role() == ("leader", 3)
    assert broker.manager.controller_epoch == 5
    (refused,) = broker.bench.traced(EventKind.REQUEST_REFUSED)
    assert refused.detail["error"] == error.name


def test_a_repeat_succeeds_without_effect_and_an_older_epoch_is_refused(
    make_broker: Callable[..., Broker],
) -> None:
    broker = make_broker()
    broker.carry_out(lisr(command(ME, 3)))
    repeat = broker.carry_out(lisr(command(ME, 3)))
    older = broker.carry_out(lisr(command(TWO, 2)))
    assert [repeat.partition_errors, older.partition_errors] == [
        ((T0, E.NONE),),
        ((T0, E.FENCED_LEADER_EPOCH),),
    ]
    assert len(broker.bench.traced(EventKind.BECAME_LEADER)) == 1


def test_a_stopped_replica_keeps_its_log_and_may_be_started_again_in_the_same_epoch(
    make_broker: Callable[..., Broker],
) -> None:
    broker = make_broker()
    broker.carry_out(lisr(command(ME, 3, isr=(ME,))))
    partition = broker.manager.get(T0)
    assert partition is not None
    partition.append(batch("a"), 1, 0)
    assert broker.carry_out(stop(3, delete=False)).partition_errors == ((T0, E.NONE),)
    assert broker.role() == ("stopped", 3)
    assert partition.append(batch("b"), 1, 0).error is E.NOT_LEADER_OR_FOLLOWER
    broker.carry_out(lisr(command(ME, 3, isr=(ME,)), number=1))
    assert broker.role() == ("leader", 3)
    assert partition.log_end_offset == 1


def test_nothing_is_committed_while_the_topics_configuration_is_unread(
    make_broker: Callable[..., Broker],
) -> None:
    """By too low a minimum it would be committed without replicas that may lead next."""
    broker = make_broker()
    broker.carry_out(lisr(command(ME, 3, isr=(ME,))))
    partition = broker.manager.get(T0)
    assert partition is not None
    assert partition.append(batch("a"), -1, 0).error is E.NOT_ENOUGH_REPLICAS
    assert partition.append(batch("a"), 1, 0).error is E.NONE
    assert partition.high_watermark == 0


def test_a_late_stop_of_an_older_epoch_does_not_touch_the_replica(
    make_broker: Callable[..., Broker],
) -> None:
    broker = make_broker()
    broker.carry_out(lisr(command(ME, 3)))
    answer = broker.carry_out(stop(2, delete=True))
    assert answer.partition_errors == ((T0, E.FENCED_LEADER_EPOCH),), "KAFKA-9539"
    assert broker.role() == ("leader", 3)
    assert broker.carry_out(stop(-2, delete=True)).partition_errors == ((T0, E.NONE),)
    assert broker.role() is None
    assert not broker.bench.ports.files.exists(partition_folder(T0))
    assert broker.carry_out(stop(-2, delete=True)).partition_errors == ((T0, E.NONE),)


def test_a_stop_of_another_topic_of_the_name_is_refused(
    make_broker: Callable[..., Broker],
) -> None:
    broker = make_broker()
    broker.carry_out(lisr(replace(command(ME, 3), topic_id=ID_A)))
    assert broker.carry_out(stop(-2, delete=True, topic_id=ID_B)).partition_errors == (
        (T0, E.INCONSISTENT_TOPIC_ID),
    )
    assert broker.role() == ("leader", 3)


def test_a_topic_that_was_created_again_gets_an_empty_replica_and_the_old_one_is_set_aside(
    make_broker: Callable[..., Broker],
) -> None:
    """Source: KIP-516; the deletion was not heard of. The new topic's epochs begin anew."""
    broker = make_broker()
    broker.carry_out(lisr(replace(command(ME, 3), topic_id=ID_A), number=1))
    old = broker.manager.get(T0)
    assert old is not None
    old.append(batch("old"), 1, 0)
    follows = replace(command(TWO, 0), topic_id=ID_B)
    assert broker.carry_out(lisr(follows, number=7)).partition_errors == ((T0, E.NONE),)
    assert broker.role() == ("follower", 0)
    new = broker.manager.get(T0)
    assert new is not None
    assert (new.topic_id, new.log_end_offset, new.high_watermark) == (ID_B, 0, 0)
    assert old.append(batch("late"), 1, 0).error is E.NOT_LEADER_OR_FOLLOWER
    files = broker.bench.ports.files
    ((_, stray),) = list_strays(files)
    assert read_partition_metadata(files, stray).topic_id == ID_A
    assert read_partition_metadata(files, partition_folder(T0)).topic_id == ID_B
    assert [each.detail["deleted"] for each in broker.bench.traced(EventKind.REPLICA_STOPPED)] == [
        False
    ]


@pytest.mark.parametrize("late_epoch", [3, 9])
def test_a_late_command_of_the_deleted_topic_does_not_touch_the_new_one(
    make_broker: Callable[..., Broker], late_epoch: int
) -> None:
    broker = make_broker()
    late = lisr(replace(command(TWO, late_epoch), topic_id=ID_A), number=2)
    broker.carry_out(lisr(replace(command(ME, 3), topic_id=ID_A), number=1))
    broker.carry_out(lisr(replace(command(ME, 0), topic_id=ID_B), number=7))
    assert broker.carry_out(late).partition_errors == ((T0, E.INCONSISTENT_TOPIC_ID),)
    assert broker.role() == ("leader", 0)
    assert len(list_strays(broker.bench.ports.files)) == 1


@pytest.mark.parametrize("deletes", [True, False])
def test_a_late_copy_does_not_bring_back_replicas_stopped_since(
    make_broker: Callable[..., Broker], deletes: bool
) -> None:
    broker = make_broker()
    created = lisr(command(ME, 3), number=1)
    broker.carry_out(created)
    broker.carry_out(stop(3, delete=deletes, number=2))
    stopped = broker.role()
    broker.carry_out(created)
    assert broker.role() == stopped
    assert broker.bench.ports.files.exists(partition_folder(T0)) is not deletes
    assert broker.carry_out(lisr(command(ME, 3), number=3)).partition_errors == ((T0, E.NONE),)
    assert broker.role() == ("leader", 3)


def test_commands_of_every_kind_decide_which_copies_are_late(
    make_broker: Callable[..., Broker],
) -> None:
    broker = make_broker()
    broker.carry_out(lisr(replace(command(ME, 0), topic_id=ID_B), number=3))
    broker.carry_out(update(number=8))
    late = lisr(replace(command(ME, 3), topic_id=ID_A), number=6)
    assert broker.carry_out(late).partition_errors == ((T0, E.INCONSISTENT_TOPIC_ID),)


def test_a_replica_that_the_disk_does_not_let_replace_is_replaced_by_the_next_command(
    make_broker: Callable[..., Broker], monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = make_broker()
    broker.carry_out(lisr(replace(command(ME, 3), topic_id=ID_A), number=1))

    def refuse(source: str, target: str) -> None:
        raise OSError(5, "input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(broker.bench.ports.files, "rename", refuse)
        answer = broker.carry_out(lisr(replace(command(ME, 0), topic_id=ID_B), number=7))
        assert answer.partition_errors == ((T0, E.KAFKA_STORAGE_ERROR),)
        assert broker.role() is None
    assert broker.manager.has_refused
    broker.manager.announce_refused()
    assert broker.announcements == 1
    assert not broker.manager.has_refused, "it is announced once"
    broker.carry_out(lisr(replace(command(ME, 1), topic_id=ID_B), number=8))
    assert broker.role() == ("leader", 1)
    assert len(list_strays(broker.bench.ports.files)) == 1


@pytest.fixture
def broker_without_room(
    make_broker: Callable[..., Broker], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Broker]:
    def make(*meanwhile: BrokerCommand) -> Broker:
        """Return a broker whose disk refused the command of epoch 4, number 7, then meanwhile."""
        broker = make_broker()

        def refuse(path: str) -> None:
            raise OSError(28, "no space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(broker.bench.ports.files, "make_folder", refuse)
            answer = broker.carry_out(lisr(command(ME, 4), number=7))
            assert answer.partition_errors == ((T0, E.KAFKA_STORAGE_ERROR),)
            for request in meanwhile:
                broker.carry_out(request)
        return broker

    return make


@pytest.mark.parametrize(
    "late", [lisr(command(TWO, 3), number=6), stop(3, delete=True, number=6)], ids=["role", "stop"]
)
def test_a_late_copy_does_not_take_the_place_of_a_command_that_the_disk_refused(
    broker_without_room: Callable[..., Broker], late: BrokerCommand
) -> None:
    broker = broker_without_room(late)
    broker.carry_out(late)
    assert broker.role() is None
    broker.carry_out(lisr(command(ME, 4), number=7))
    assert broker.role() == ("leader", 4), "the controller got no answer, and sent it again"


def test_a_stop_makes_a_command_late_that_the_disk_refused_before(
    broker_without_room: Callable[..., Broker],
) -> None:
    broker = broker_without_room(stop(4, delete=False, number=8))
    broker.carry_out(lisr(command(ME, 4), number=7))
    assert broker.role() is None
    assert broker.manager.has_refused, "the controller has yet to be told to look again"
    broker.carry_out(lisr(command(TWO, 4), number=9))
    assert broker.role() == ("follower", 4)


def test_a_deletion_forgets_a_command_that_the_disk_refused_before(
    broker_without_room: Callable[..., Broker],
) -> None:
    broker = broker_without_room(stop(4, delete=True, number=8))
    broker.carry_out(lisr(command(TWO, 5), number=9))
    assert broker.role() == ("follower", 5)


def test_a_folder_that_failed_takes_its_replicas_out_of_service(
    make_broker: Callable[..., Broker],
) -> None:
    broker = make_broker()
    broker.carry_out(lisr(command(ME, 0), number=1))
    partition = broker.manager.get(T0)
    assert partition is not None
    broker.manager.fail_folder("")
    assert broker.announcements == 1
    assert broker.role() is None
    assert broker.manager.has_failed(T0)
    assert partition.append(b"", 1, 0).error is E.NOT_LEADER_OR_FOLLOWER
    refused = ((T0, E.KAFKA_STORAGE_ERROR),)
    assert broker.carry_out(lisr(command(ME, 1), number=2)).partition_errors == refused
    assert broker.carry_out(stop(1, delete=False, number=3)).partition_errors == refused
    assert broker.carry_out(stop(1, delete=True, number=4)).partition_errors == refused
    assert broker.bench.ports.files.exists(str(T0)), "its folder stays as it is"
    assert not broker.manager.has_refused, "nothing of it is possible before the next start"


def test_strays_are_deleted_once_a_full_update_leaves_their_topic_out(
    make_broker: Callable[..., Broker],
) -> None:
    broker = make_broker()
    broker.carry_out(update(metadata(T0, ID_A), number=1))
    broker.carry_out(lisr(replace(command(ME, 3), topic_id=ID_A), number=2))
    broker.carry_out(lisr(is_init=True, number=3))
    assert len(list_strays(broker.bench.ports.files)) == 1
    broker.carry_out(update(number=4))
    assert len(list_strays(broker.bench.ports.files)) == 1
    broker.carry_out(update(number=5, is_full=True))
    assert list_strays(broker.bench.ports.files) == []


def test_replicas_that_an_init_command_lacks_are_deleted_if_a_full_update_lacked_them_before(
    make_broker: Callable[..., Broker],
) -> None:
    """A power loss had undone the removal of its folder."""
    broker = make_broker()
    broker.carry_out(lisr(replace(command(ME, 3), topic_id=ID_A), number=1))
    broker.carry_out(update(number=2, is_full=True))
    broker.carry_out(lisr(is_init=True, number=3))
    assert list_strays(broker.bench.ports.files) == []
    assert not broker.bench.ports.files.exists(str(T0))


@pytest.mark.parametrize(("preset", "strays"), [(Preset.FENCED, 1), (Preset.V3, 0)])
def test_an_init_command_takes_unlisted_replicas_out_of_service(
    make_broker: Callable[..., Broker], preset: Preset, strays: int
) -> None:
    broker = make_broker(preset)
    other = replace(command(ME, 0), topic_partition=T1)
    broker.carry_out(lisr(command(ME, 3), other))
    broker.carry_out(lisr(command(ME, 3)))
    assert broker.role(T1) == ("leader", 0), "only an init command lists everything"
    broker.carry_out(lisr(command(ME, 3), is_init=True))
    assert (broker.role(T0), broker.role(T1)) == (("leader", 3), None)
    assert len(list_strays(broker.bench.ports.files)) == strays
    assert not broker.bench.ports.files.exists(partition_folder(T1))


@pytest.mark.parametrize("preset", CONTROLLED)
def test_a_late_copy_of_an_init_command_takes_nothing_out_of_service(
    make_broker: Callable[..., Broker], preset: Preset
) -> None:
    """A call that timed out may be carried out after its repeat, and after later calls."""
    broker = make_broker(preset)
    init = lisr(command(ME, 3), is_init=True)
    broker.carry_out(init)
    broker.carry_out(lisr(replace(command(ME, 0), topic_partition=T1), number=1))
    assert broker.carry_out(init).error is E.NONE
    assert broker.role(T1) == ("leader", 0)
    broker.carry_out(lisr(command(ME, 3), controller_epoch=2, is_init=True))
    assert broker.role(T1) is None, "the next controller's init is another one"


def test_a_replica_that_could_not_be_deleted_is_deleted_by_the_next_attempt(
    make_broker: Callable[..., Broker], monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = make_broker()
    broker.carry_out(lisr(command(ME, 3)))
    refusing = [True]
    rename = broker.bench.ports.files.rename

    def maybe_refuse(source: str, target: str) -> None:
        if refusing[0]:
            raise OSError(5, "input/output error")
        rename(source, target)

    monkeypatch.setattr(broker.bench.ports.files, "rename", maybe_refuse)
    attempt = stop(-2, delete=True)
    for _ in range(2):
        assert broker.carry_out(attempt).partition_errors == ((T0, E.KAFKA_STORAGE_ERROR),)
    refusing[0] = False
    assert broker.carry_out(attempt).partition_errors == ((T0, E.NONE),)
    assert broker.bench.ports.files.list("") == []
    assert broker.carry_out(attempt).partition_errors == ((T0, E.NONE),), "it is gone already"


def test_a_new_topic_never_gets_the_folder_of_an_earlier_one(
    make_broker: Callable[..., Broker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Source: I13, KIP-516; here the earlier one's deletion failed on the disk."""
    broker = make_broker()
    broker.carry_out(lisr(replace(command(ME, 3), topic_id=ID_A)))
    partition = broker.manager.get(T0)
    assert partition is not None
    partition.append(batch("old"), 1, 0)
    with monkeypatch.context() as patched:
        patched.setattr(type(partition.log), "delete", lambda log: log.close())
        broker.carry_out(stop(-2, delete=True, topic_id=ID_A))
    broker.carry_out(lisr(replace(command(ME, 0), topic_id=ID_B), number=1))
    partition = broker.manager.get(T0)
    assert partition is not None
    assert (partition.topic_id, partition.log_end_offset) == (ID_B, 0)
    assert len(list_strays(broker.bench.ports.files)) == 1


def test_metadata_is_fenced_then_handed_to_the_cache(make_broker: Callable[..., Broker]) -> None:
    broker = make_broker()
    for epoch in (5, 4):
        broker.carry_out(
            UpdateMetadataRequest(NodeId(1000 + epoch), ControllerEpoch(epoch), OWN, (), ())
        )
    assert broker.metadata.controller_id == 1005


def test_a_leader_whose_disk_refuses_the_epoch_leads_and_refuses_records_until_it_is_stored(
    make_broker: Callable[..., Broker], monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = make_broker()
    broker.carry_out(lisr(command(ME, 3)))

    def refuse(source: str, target: str) -> None:
        raise OSError(28, "no space left")

    with monkeypatch.context() as patch:
        patch.setattr(broker.bench.ports.files, "rename", refuse)
        answer = broker.carry_out(lisr(command(ME, 4)))
        assert answer.partition_errors == ((T0, E.NONE),)
        assert broker.role() == ("leader", 4)
        partition = broker.manager.get(T0)
        assert partition is not None
        assert partition.append(batch("x"), 1, 0).error is E.KAFKA_STORAGE_ERROR
    assert partition.append(batch("x"), 1, 0).error is E.NONE
    assert partition.log.epoch_cache.latest_epoch == 4


# ---------------------------------------------------------------- folders that are aside


def set_aside(broker: Broker, topic: str, topic_id: TopicId, suffix: str = STRAY_SUFFIX) -> str:
    """Leave a folder of the topic that an earlier process set aside; return it."""
    files = broker.bench.ports.files
    folder = partition_folder(TopicPartition(topic, 0))
    files.make_folder(folder)
    file = files.open(f"{folder}/partition.metadata")
    file.append([f"version: 0\ntopic_id: {topic_id}\n".encode()])
    return rename_aside(files, folder, suffix)


@pytest.mark.parametrize("topic", ["u", "u" * 249])
def test_strays_of_topics_that_were_deleted_while_the_broker_was_away_are_deleted(
    make_broker: Callable[..., Broker], topic: str
) -> None:
    broker = make_broker()
    set_aside(broker, topic, ID_A)
    kept = set_aside(broker, T0.topic, ID_B)
    set_aside(broker, T0.topic, ID_A)
    broker.carry_out(update(metadata(T0, ID_B), number=1))
    assert len(list_strays(broker.bench.ports.files)) == 3, "it does not list all topics"
    broker.carry_out(update(metadata(T0, ID_B), number=2, is_full=True))
    assert [folder for _, folder in list_strays(broker.bench.ports.files)] == [kept]


@pytest.mark.parametrize("listed", ["with another id", "not at all"])
def test_strays_stay_until_the_controller_of_the_term_has_listed_all_topics(
    make_broker: Callable[..., Broker], listed: str
) -> None:
    """Found: another term had listed all, and of one that this one could not read a log went."""
    broker = make_broker()
    files = broker.bench.ports.files
    broker.carry_out(update(metadata(T0, ID_A), is_full=True))
    set_aside(broker, T0.topic, ID_A)
    set_aside(broker, "u", ID_A)
    told = (metadata(T0, ID_B),) if listed == "with another id" else ()
    later = replace(update(*told, number=1), controller_epoch=ControllerEpoch(2))
    broker.carry_out(later)
    broker.carry_out(lisr(controller_epoch=2, is_init=True))
    assert len(list_strays(files)) == 2
    broker.carry_out(replace(later, correlation_id=2, is_full=True))
    assert list_strays(files) == []


def test_a_late_full_update_deletes_no_strays_of_topics_that_came_since(
    make_broker: Callable[..., Broker],
) -> None:
    broker = make_broker()
    set_aside(broker, "u", ID_A)
    broker.carry_out(update(metadata(T0, ID_B), number=5))
    broker.carry_out(update(number=2, is_full=True))
    assert len(list_strays(broker.bench.ports.files)) == 1


@pytest.mark.parametrize("refused", ["remove", "list", "open"])
def test_a_disk_that_refuses_to_delete_strays_ends_nothing(
    make_broker: Callable[..., Broker], monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    broker = make_broker()
    files = broker.bench.ports.files
    set_aside(broker, T0.topic, ID_A)
    full = update(metadata(T0, ID_B), is_full=True)

    def refuse(path: str) -> None:
        raise OSError(5, "input/output error", path)

    with monkeypatch.context() as patch:
        patch.setattr(files, refused, refuse)
        assert broker.carry_out(full).error is E.NONE
    assert broker.bench.traced(EventKind.BAD_INPUT_MET)
    assert len(list_strays(files)) == 1
    broker.carry_out(full)
    assert list_strays(files) == []


@pytest.mark.parametrize("topic", ["t", "t" * 249])
def test_a_repeated_deletion_is_done_only_once_nothing_is_left(
    make_broker: Callable[..., Broker], monkeypatch: pytest.MonkeyPatch, topic: str
) -> None:
    broker, at = make_broker(), TopicPartition(topic, 0)
    files = broker.bench.ports.files
    broker.carry_out(lisr(replace(command(ME, 3), topic_partition=at)))
    stop = StopReplicaPartition(at, True, LeaderEpoch(-2))
    request = StopReplicaRequest(NodeId(1000), ControllerEpoch(1), OWN, (stop,))

    def refuse(path: str) -> None:
        raise OSError(5, "input/output error", path)

    with monkeypatch.context() as patch:
        patch.setattr(files, "remove", refuse)
        for number in (1, 2):
            answer = broker.carry_out(replace(request, correlation_id=number))
            assert dict(answer.partition_errors) == {at: E.KAFKA_STORAGE_ERROR}
    assert files.list("") != []
    assert dict(broker.carry_out(request).partition_errors) in ({}, {at: E.NONE})
    assert files.list("") == []


@pytest.mark.parametrize("topic", ["..", "../evil", "a/b", "a b", "", "t" * 250])
def test_a_partition_that_cannot_have_a_folder_of_its_own_is_refused_and_no_other(
    make_broker: Callable[..., Broker], topic: str
) -> None:
    broker = make_broker()
    bad = TopicPartition(topic, 0)
    answer = broker.carry_out(lisr(replace(command(ME, 3), topic_partition=bad), command(ME, 3)))
    assert dict(answer.partition_errors) == {bad: E.INVALID_TOPIC_EXCEPTION, T0: E.NONE}
    assert (broker.role(), broker.role(bad)) == (("leader", 3), None)
    assert not broker.manager.has_refused
    stopped = StopReplicaPartition(bad, True, LeaderEpoch(-2))
    request = StopReplicaRequest(NodeId(1000), ControllerEpoch(1), OWN, (stopped,))
    assert broker.carry_out(request).error is E.NONE
    assert broker.bench.ports.files.list("") == ["t-0"]


# ---------------------------------------------------------------- recovery points


def test_a_recovery_point_that_fell_is_written_before_the_next_role(
    make_broker: Callable[..., Broker],
) -> None:
    """Else a power loss could leave unchecked bytes below the checkpointed one."""
    broker = make_broker()
    broker.carry_out(lisr(command(TWO, 3)))
    partition = broker.manager.get(T0)
    assert partition is not None
    partition.log.append_as_leader(batch("a"), LeaderEpoch(3), 0)
    broker.bench.kernel.run_for(500)
    broker.bench.runtime.scope("flush").spawn("flush", flush(partition.log))
    broker.bench.kernel.run_for(500)
    before = broker.bench.written_recovery_points
    partition.truncate_to(Offset(0), "a test's")
    assert partition.must_checkpoint
    broker.carry_out(lisr(command(ME, 4)))
    assert broker.role() == ("leader", 4)
    assert broker.bench.written_recovery_points > before


async def flush(log: Log) -> None:
    await log.flush()


# ---------------------------------------------------------------- commands of many partitions


def at_each_turn(monkeypatch: pytest.MonkeyPatch, look: Callable[[], None]) -> None:
    """Call it each time that a command lets others run."""
    real = NodeRuntime.sleep

    async def sleep(self: NodeRuntime, duration_ms: int) -> None:
        if duration_ms == 0:
            look()
        await real(self, duration_ms)

    monkeypatch.setattr(NodeRuntime, "sleep", sleep)


MANY = [TopicPartition("many", number) for number in range(60)]


def lead_many() -> LeaderAndIsrRequest:
    return lisr(*(replace(command(ME, 3), topic_partition=key) for key in MANY), number=1)


def stop_many(*, delete: bool) -> StopReplicaRequest:
    stops = tuple(StopReplicaPartition(key, delete, LeaderEpoch(3)) for key in MANY)
    return StopReplicaRequest(NodeId(1000), ControllerEpoch(1), OWN, stops, 2)


def led(broker: Broker) -> int:
    return sum(broker.role(key) == ("leader", 3) for key in MANY)


@pytest.mark.parametrize(
    ("of_many", "most_in_a_turn"),
    [
        (stop_many(delete=False), PARTITIONS_PER_TURN),
        (stop_many(delete=True), 1),  # its folder may have hundreds of files
        (replace(lisr(number=2), is_init=True), 1),
    ],
    ids=["stops", "deletions", "what an init does not list"],
)
def test_a_command_of_many_partitions_lets_others_run_meanwhile(
    make_broker: Callable[..., Broker],
    monkeypatch: pytest.MonkeyPatch,
    of_many: BrokerCommand,
    most_in_a_turn: int,
) -> None:
    """Each takes some operations of the disk: hundreds at once would hold up every client."""
    broker = make_broker()
    for request, most in ((lead_many(), ROLES_PER_TURN), (of_many, most_in_a_turn)):
        counted = [led(broker)]
        with monkeypatch.context() as patched:
            at_each_turn(patched, lambda seen=counted: seen.append(led(broker)))
            broker.carry_out(request)
        counted.append(led(broker))
        steps = [abs(after - before) for before, after in itertools.pairwise(counted)]
        assert (sum(steps), max(steps)) == (len(MANY), most)


def test_strays_are_removed_one_in_a_turn(
    make_broker: Callable[..., Broker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found: thousands of strays on the disk of a returning broker kept all clients waiting."""
    broker = make_broker()
    files = broker.bench.ports.files
    for number in range(30):
        set_aside(broker, f"gone-{number}", ID_A)
    left = [30]
    at_each_turn(monkeypatch, lambda: left.append(len(list_strays(files))))
    broker.carry_out(update(metadata(T0, ID_B), number=2, is_full=True))
    assert [before - after for before, after in itertools.pairwise(left)] == [1] * 29
    assert list_strays(files) == []


def test_strays_stay_as_the_broker_registers_anew(
    make_broker: Callable[..., Broker], monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = make_broker()
    for number in range(30):
        set_aside(broker, f"gone-{number}", ID_A)

    def register() -> None:
        broker.own_epoch = BrokerEpoch(OWN + 1)

    at_each_turn(monkeypatch, register)
    answer = broker.carry_out(update(metadata(T0, ID_B), number=2, is_full=True))
    assert answer.error is E.STALE_BROKER_EPOCH
    assert len(list_strays(broker.bench.ports.files)) == 29


@pytest.mark.parametrize("is_stop", [False, True])
def test_a_command_of_many_partitions_ends_as_the_broker_registers_anew(
    make_broker: Callable[..., Broker], monkeypatch: pytest.MonkeyPatch, is_stop: bool
) -> None:
    broker = make_broker()
    if is_stop:
        broker.carry_out(lead_many())

    def register() -> None:
        if 0 < led(broker) < len(MANY):
            broker.own_epoch = BrokerEpoch(OWN + 1)

    at_each_turn(monkeypatch, register)
    answer = broker.carry_out(stop_many(delete=False) if is_stop else lead_many())
    assert answer.error is E.STALE_BROKER_EPOCH
    assert 0 < led(broker) < len(MANY)


def counted(monkeypatch: pytest.MonkeyPatch, broker: Broker, method: str, path: str) -> list[str]:
    """Return a list that grows by each call of the disk's method whose first path it is."""
    calls: list[str] = []
    files = broker.bench.ports.files
    real = getattr(files, method)

    def call(first: str, *more: Any) -> Any:
        calls.extend([first] if first.startswith(path) else [])
        return real(first, *more)

    monkeypatch.setattr(files, method, call)
    return calls


def test_a_command_of_many_deletions_lists_the_data_folder_once(
    make_broker: Callable[..., Broker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names a folder for every partition of the broker."""
    broker = make_broker()
    topics = [TopicPartition(f"t-{number}", 0) for number in range(60)]
    broker.carry_out(update(*(metadata(key, ID_A) for key in topics), number=1))
    listed = counted(monkeypatch, broker, "list", "")
    gone = (replace(metadata(key, ID_A), leader=LEADER_DURING_DELETE) for key in topics)
    broker.carry_out(update(*gone, number=2))
    assert len(listed) == 1
    broker.carry_out(stop_many(delete=True))
    assert len(listed) == 2


def test_a_command_of_many_partitions_forgets_checkpoints_of_earlier_ones_at_once(
    make_broker: Callable[..., Broker], monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = make_broker()
    checkpoint = broker.folder.high_watermarks
    scope = broker.bench.runtime.scope("checkpoint")
    scope.spawn("write", checkpoint.write(dict.fromkeys((*MANY, T0), Offset(9))))
    broker.bench.kernel.run_for(500)
    written = counted(monkeypatch, broker, "rename", HIGH_WATERMARK_CHECKPOINT)
    broker.carry_out(lead_many())
    assert led(broker) == len(MANY)
    assert len(written) == 1
    assert checkpoint.entries == {T0: 9}
    assert {partition.high_watermark for partition in broker.manager.partitions()} == {0}
