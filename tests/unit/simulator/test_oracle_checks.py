"""The oracle's rules for controllers, restarts and checkpoints: each is broken once."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import pytest

from highwater_broker.log.checkpoints import encode_rows
from highwater_broker.logic.epoch_cache import EpochCache, EpochStart
from highwater_checker.invariants.transitions import VALID_PREVIOUS
from highwater_controller.logic import partition_states, replica_states
from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import (
    DELETION_EPOCH,
    NO_EPOCH,
    BrokerEpoch,
    ControllerEpoch,
    LeaderEpoch,
    NodeId,
    Offset,
    TopicId,
    TopicPartition,
)
from highwater_core.messages import StopReplicaPartition, StopReplicaRequest
from highwater_core.znodes import PartitionLeadership
from highwater_simulator.oracle.checkpoints import (
    HIGH_WATERMARKS,
    RECOVERY_POINTS,
    CheckpointChecks,
    checkpointed_high_watermarks,
    read_checkpoint,
)
from highwater_simulator.oracle.controllers import ControllerChecks
from highwater_simulator.oracle.restarts import RestartChecks

AT, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)


def event(kind: EventKind, node: int = 1, **more: Any) -> TraceEvent:
    known = {"topic": None, "partition": None, "leader_epoch": None, "controller_epoch": None}
    fields: dict[str, Any] = {**known, "offset": None, "detail": {}, **more}
    if isinstance(at := fields.pop("at", None), TopicPartition):
        fields |= {"topic": at.topic, "partition": at.partition}
    return TraceEvent(
        ts_ns=0, node=NodeId(node), incarnation=fields.pop("incarnation", 1), seq=0, kind=kind,
        **fields,
    )  # fmt: skip


def checkpoint(**offsets: int) -> bytes:
    rows = [(name[0], name[1:], str(offset)) for name, offset in offsets.items()]
    return encode_rows(rows, 3).encode()


def in_folder(log_folder: str) -> Any:
    """Return the shadows of one replica, which is in that log folder."""
    return {str(AT): {1: SimpleNamespace(log_folder=log_folder)}}


class Broker:
    """A broker with the attributes that the checks read."""

    def __init__(self, *log_folders: str) -> None:
        self.files: dict[str, bytes] = {}
        self.hosted: dict[TopicPartition, Any] = {}
        self.durable: dict[str, bytes] = {}
        self.homes: dict[str, str] = {}
        """The log folders of replicas, of several."""
        disk = SimpleNamespace(
            log_folders=log_folders or ("",),
            in_log_folder=lambda path: ("", path),
            content=self.files.get,
            durable_content=lambda name: self.durable.get(name, b""),
            replica_folders=lambda name: [f"{self.homes[name]}/{name}"],
        )
        node = SimpleNamespace(
            replicas=SimpleNamespace(
                partitions=lambda: tuple(self.hosted.values()), get=self.hosted.get
            )
        )
        self.world: Any = SimpleNamespace(
            brokers={1: SimpleNamespace(disk=disk)},
            broker_node=lambda broker: node,
            hosted=lambda broker, at: self.hosted.get(at),
        )
        self.reports: list[str] = []

    def report(self, at: Any, invariant: str, message: str, offset: int = -1) -> None:
        assert message
        self.reports.append(invariant)

    def host(
        self,
        at: TopicPartition,
        recovery_point: int = 0,
        topic_id: str = "",
        epochs: tuple[int, ...] = (),
    ) -> None:
        entries = tuple(EpochStart(LeaderEpoch(epoch), Offset(epoch)) for epoch in epochs)
        log = SimpleNamespace(recovery_point=recovery_point, epoch_cache=EpochCache(entries))
        self.hosted[at] = SimpleNamespace(
            topic_partition=at, log=log, log_start_offset=0, topic_id=topic_id
        )


# ---------------------------------------------------------------- controllers


class Controllers:
    def __init__(self) -> None:
        self.reports: list[str] = []
        self.checks = ControllerChecks(
            lambda at, invariant, message: self.reports.append(invariant)
        )

    def wrote(self, author: str, epoch: int) -> None:
        leadership = PartitionLeadership(
            NodeId(0), LeaderEpoch(0), ControllerEpoch(epoch), (NodeId(0),)
        )
        self.checks.leadership_written(AT, author, leadership)


def test_i8_a_controller_epoch_is_one_controllers() -> None:
    c = Controllers()
    for node, epoch in ((1000, 1), (1001, 2), (1000, 3), (1000, 3)):
        c.checks.elected(event(EventKind.CONTROLLER_ELECTED, node, controller_epoch=epoch))
    assert c.reports == []
    c.checks.elected(event(EventKind.CONTROLLER_ELECTED, 1001, controller_epoch=3))
    assert c.reports == ["I8"]


def test_i7_the_controller_epoch_rises() -> None:
    c = Controllers()
    for data in (b"", b"1", b"2", b"2"):
        c.checks.epoch_written(data)
    assert c.reports == []
    c.checks.epoch_written(b"1")
    assert c.reports == ["I7"]


def test_i8_a_deposed_controller_writes_nothing_a_leader_may_name_it() -> None:
    c = Controllers()
    c.checks.epoch_written(b"2")
    c.wrote("controller-1001", 2)
    c.wrote("broker-1", 1)
    assert c.reports == []
    c.wrote("controller-1000", 1)
    assert c.reports == ["I8"]


def test_i8_a_deposed_controller_creates_and_deletes_no_topic() -> None:
    c = Controllers()
    c.checks.epoch_written(b"1")
    c.checks.elected(event(EventKind.CONTROLLER_ELECTED, 1000, controller_epoch=1))
    c.checks.topic_written(1000, "t")
    c.checks.epoch_written(b"2")
    c.checks.elected(event(EventKind.CONTROLLER_ELECTED, 1001, controller_epoch=2))
    c.checks.topic_written(1001, "t")
    assert c.reports == []
    c.checks.topic_written(1000, "t")
    assert c.reports == ["I8"]


def test_i12_the_table_of_moves_is_that_of_the_documents_and_of_the_controller() -> None:
    own = {
        str(target): tuple(map(str, previous))
        for table in (partition_states.VALID_PREVIOUS, replica_states.VALID_PREVIOUS)
        for target, previous in table.items()
    }
    assert {key: set(value) for key, value in own.items()} == {
        key: set(value) for key, value in VALID_PREVIOUS.items()
    }


def test_i12_every_move_that_the_table_does_not_have_is_reported() -> None:
    for before, after in itertools.product(VALID_PREVIOUS, repeat=2):
        c = Controllers()
        c.checks.state_change(
            event(
                EventKind.PARTITION_STATE_CHANGED, 1000, at=AT,
                detail={"from_state": before, "to_state": after},
            )
        )  # fmt: skip
        assert c.reports == ([] if before in VALID_PREVIOUS[after] else ["I12"])


# ---------------------------------------------------------------- restarts


@pytest.mark.parametrize(
    ("high_watermark", "log_end", "broken"),
    [(5, 9, []), (6, 9, []), (4, 9, ["I15"]), (4, 4, []), (3, 4, ["I15"])],
    ids=["as written", "higher", "lower", "the log's end", "below a short log's end"],
)
def test_i15_a_replica_starts_from_its_checkpointed_high_watermark(
    high_watermark: int, log_end: int, broken: list[str]
) -> None:
    broker = Broker()
    broker.files[HIGH_WATERMARKS] = checkpoint(t0=5)
    checks = RestartChecks(broker.world, broker.report)
    checks.event_traced(event(EventKind.NODE_STARTED))
    started = event(
        EventKind.REPLICA_STARTED, at=AT, offset=log_end, detail={"high_watermark": high_watermark}
    )
    checks.event_traced(started)
    checks.event_traced(started)  # recreated after that: nothing is checkpointed of it
    assert broker.reports == broken


def test_i16_no_command_of_an_older_controller_or_to_an_older_registration() -> None:
    broker = Broker()
    checks = RestartChecks(broker.world, broker.report)

    def handle(controller_epoch: int | None, broker_epoch: int) -> list[str]:
        broker.reports.clear()
        checks.event_traced(
            event(
                EventKind.REQUEST_HANDLED, controller_epoch=controller_epoch,
                detail={"broker_epoch": broker_epoch, "request": "UpdateMetadata"},
            )
        )  # fmt: skip
        return list(broker.reports)

    assert handle(3, 10) == []
    checks.event_traced(event(EventKind.BROKER_REGISTERED, detail={"broker_epoch": 20}))
    assert handle(3, 20) == []
    assert handle(None, -1) == []
    assert handle(4, -1) == []
    assert handle(3, 20) == ["I16"]
    assert handle(4, 10) == ["I16"]
    checks.event_traced(event(EventKind.NODE_STARTED))
    assert handle(3, 20) == [], "a new incarnation knows of no controller yet"


class Starting:
    """A broker whose checkpoint comes and goes."""

    def __init__(self) -> None:
        self.broker = Broker()
        self.checks = RestartChecks(self.broker.world, self.broker.report)

    def place(self, content: bytes, *, is_told: bool = True) -> None:
        self.broker.files[HIGH_WATERMARKS] = content
        self.checks.checkpoint_placed(1)
        if is_told:
            self.checks.event_traced(wrote(HIGH_WATERMARKS))

    def start_with(self, high_watermark: int) -> list[str]:
        detail = {"high_watermark": high_watermark}
        self.checks.event_traced(event(EventKind.NODE_STARTED))
        self.checks.event_traced(event(EventKind.REPLICA_STARTED, at=AT, offset=9, detail=detail))
        return self.broker.reports


def test_i15_a_checkpoint_that_a_power_loss_took_back_does_not_excuse_itself() -> None:
    starting = Starting()
    starting.place(checkpoint(t0=2))
    starting.place(checkpoint(t0=5))
    starting.broker.files[HIGH_WATERMARKS] = checkpoint(t0=2)
    assert starting.start_with(2) == ["I15"]


def test_i15_one_that_was_being_written_may_be_there_or_not() -> None:
    for high_watermark in (5, 4):
        starting = Starting()
        starting.place(checkpoint(t0=5))
        starting.place(checkpoint(t0=4), is_told=False)
        assert starting.start_with(high_watermark) == []
    starting = Starting()
    starting.place(checkpoint(t0=5))
    starting.place(checkpoint(), is_told=False)
    assert starting.start_with(0) == [], "it may be of no topic any more"


def test_i15_nothing_is_asked_of_a_checkpoint_that_a_fault_took_or_changed() -> None:
    starting = Starting()
    starting.place(checkpoint(t0=5))
    starting.checks.disk_lost(1, (HIGH_WATERMARKS,))
    assert starting.start_with(0) == []


@pytest.mark.parametrize(
    ("command_epoch", "more", "broken"),
    [
        (4, {}, []),
        (5, {}, []),
        (3, {}, ["I16"]),
        (NO_EPOCH, {}, []),
        (DELETION_EPOCH, {}, []),
        (3, {"topic_id": TopicId("B")}, []),
        (3, {"delete_partition": True}, ["I16"]),
    ],
)
def test_i16_no_stop_by_a_command_of_an_older_leader_epoch(
    command_epoch: int, more: dict[str, Any], broken: list[str]
) -> None:
    broker = Broker()
    checks = RestartChecks(broker.world, broker.report)
    broker.host(AT, topic_id="A")
    checks.event_traced(event(EventKind.BECAME_FOLLOWER, at=AT, leader_epoch=LeaderEpoch(4)))
    stop = StopReplicaPartition(
        AT, **{"delete_partition": False, "leader_epoch": LeaderEpoch(command_epoch), **more}
    )
    checks.command_arrived(
        1,
        StopReplicaRequest(
            NodeId(1000), ControllerEpoch(1), BrokerEpoch(1), (stop,), correlation_id=7
        ),
    )
    detail = {"request": "StopReplica", "correlation_id": 7, "broker_epoch": 1}
    refused = {str(AT): "FENCED_LEADER_EPOCH"}
    handled = EventKind.REQUEST_HANDLED
    checks.event_traced(event(handled, controller_epoch=1, detail=detail | {"refused": refused}))
    assert broker.reports == []
    if stop.delete_partition:
        checks.event_traced(event(EventKind.REPLICA_STOPPED, at=AT, detail={"deleted": True}))
    checks.event_traced(event(handled, controller_epoch=1, detail=detail | {"refused": {}}))
    assert broker.reports == broken


def test_i16_no_role_of_an_older_leader_epoch_of_the_same_topic() -> None:
    broker = Broker()
    checks = RestartChecks(broker.world, broker.report)
    broker.host(AT, topic_id="A")

    def become(kind: EventKind, epoch: int, at: TopicPartition = AT) -> list[str]:
        broker.reports.clear()
        checks.event_traced(event(kind, at=at, leader_epoch=LeaderEpoch(epoch)))
        return list(broker.reports)

    assert become(EventKind.BECAME_LEADER, 4) == []
    assert become(EventKind.BECAME_FOLLOWER, 4) == []
    assert become(EventKind.BECAME_FOLLOWER, 1, OTHER) == []
    assert become(EventKind.BECAME_FOLLOWER, 3) == ["I16"]
    broker.host(AT, topic_id="B")
    assert become(EventKind.BECAME_LEADER, 0) == []


@pytest.mark.parametrize(
    ("content", "offsets"),
    [
        (checkpoint(t0=5, t1=7), {AT: 5, OTHER: 7}),
        (checkpoint(), {}),
        (checkpoint(t0=5)[:-2], {}),
        (checkpoint(t0=5).replace(b"t 0 5", b"t 0 7"), {}),
        (checkpoint(t0=5).replace(b"0\n2", b"1\n2"), {}),
        (b"0\n1\nt 0 5\n", {}),
        (b"0\n", {}),
        (b"", {}),
        (b"\xff\n1\nt 0 5\n", {}),
    ],
    ids=["whole", "no rows", "torn", "a flipped bit", "version", "no checksum", "short", "empty",
         "bytes"],
)  # fmt: skip
def test_a_checkpoint_is_read_whole_or_not_at_all(
    content: bytes, offsets: dict[TopicPartition, int]
) -> None:
    assert read_checkpoint(content) == offsets


# ---------------------------------------------------------------- checkpoints


def wrote(file: str, incarnation: int = 1, **where: str) -> TraceEvent:
    detail = {"file": file, "entries": 9, **where}
    return event(EventKind.CHECKPOINT_WRITTEN, incarnation=incarnation, detail=detail)


def test_i15_a_checkpoint_lists_replicas_hosted_during_its_whole_write() -> None:
    broker = Broker()
    checks = CheckpointChecks(broker.world, {}, broker.report)
    broker.host(AT)
    checks.written(wrote(HIGH_WATERMARKS))
    broker.host(OTHER)
    broker.files[HIGH_WATERMARKS] = checkpoint(t0=5)
    checks.written(wrote(HIGH_WATERMARKS))
    assert broker.reports == [], "it came while the checkpoint was being written"
    checks.written(wrote(HIGH_WATERMARKS))
    assert broker.reports == ["I15"]
    del broker.hosted[OTHER]
    checks.written(wrote(HIGH_WATERMARKS))
    assert broker.reports == ["I15"]


def test_i15_a_log_folders_checkpoint_lists_the_replicas_of_that_folder() -> None:
    broker = Broker("d0", "d1")
    broker.homes = {str(AT): "d0", str(OTHER): "d1"}
    checks = CheckpointChecks(broker.world, {}, broker.report)
    for at in (AT, OTHER):
        broker.host(at)
    broker.files[f"d0/{HIGH_WATERMARKS}"] = checkpoint(t0=5)
    for _ in range(2):
        checks.written(wrote(HIGH_WATERMARKS, folder="d0"))
    checks.written(wrote(HIGH_WATERMARKS, folder="d1"))
    assert broker.reports == [], "the other log folder's is written next"
    checks.written(wrote(HIGH_WATERMARKS, folder="d1"))
    assert broker.reports == ["I15"]


def test_i15_as_many_entries_of_other_partitions_do_not_do() -> None:
    broker = Broker()
    checks = CheckpointChecks(broker.world, {}, broker.report)
    broker.host(AT)
    broker.files[HIGH_WATERMARKS] = checkpoint(u0=5)
    for _ in range(2):
        checks.written(wrote(HIGH_WATERMARKS))
    assert broker.reports == ["I15"]


@pytest.mark.parametrize(
    ("checkpointed", "in_memory", "durable_end", "broken"),
    [
        (5, 5, 5, []),
        (5, 5, 6, []),
        (5, 5, 4, ["I15"]),
        (4, 5, 4, []),  # it rises with a log start that is being written
        (5, 4, 4, []),  # it fell since: it is written before anything is appended
    ],
)
def test_i15_nothing_is_called_durable_that_is_not(
    checkpointed: int, in_memory: int, durable_end: int, broken: list[str]
) -> None:
    broker = Broker()
    broker.files[RECOVERY_POINTS] = checkpoint(t0=checkpointed)
    shadow: Any = SimpleNamespace(
        is_stale=False,
        durable_end=lambda incarnation, start: durable_end,
        missing_epochs=lambda start, end, incarnation: [],
    )
    checks = CheckpointChecks(broker.world, {str(AT): {1: shadow}}, broker.report)
    broker.host(AT, recovery_point=Offset(in_memory))
    checks.written(wrote(RECOVERY_POINTS))
    assert broker.reports == broken


@pytest.mark.parametrize(("base_offset", "broken"), [(6, []), (5, []), (4, ["I15"])])
def test_i15_nothing_is_appended_below_the_recovery_point(
    base_offset: int, broken: list[str]
) -> None:
    broker = Broker()
    checks = CheckpointChecks(broker.world, in_folder(""), broker.report)
    checks.appended(1, AT, base_offset)
    assert broker.reports == [], "there is no recovery point yet"
    broker.files[RECOVERY_POINTS] = checkpoint(t0=5)
    checks.appended(1, AT, base_offset)
    assert broker.reports == broken


def test_i15_a_recovery_point_that_a_power_loss_would_bring_back_counts_as_well() -> None:
    broker = Broker()
    checks = CheckpointChecks(broker.world, in_folder(""), broker.report)
    broker.files[RECOVERY_POINTS] = checkpoint(t0=5)
    broker.durable[RECOVERY_POINTS] = checkpoint(t0=9)
    checks.appended(1, AT, 7)
    assert broker.reports == ["I15"]
    broker.durable[RECOVERY_POINTS] = checkpoint(t0=5)
    checks.appended(1, AT, 7)
    assert broker.reports == ["I15"]


def test_i15_each_log_folder_has_recovery_points_of_its_own() -> None:
    for folder, broken in (("d0", []), ("d1", ["I15"])):
        broker = Broker("d0", "d1")
        checks = CheckpointChecks(broker.world, in_folder(folder), broker.report)
        broker.files[f"d1/{RECOVERY_POINTS}"] = checkpoint(t0=5)
        checks.appended(1, AT, 4)
        assert broker.reports == broken


def test_i15_the_checkpoints_of_all_log_folders_count_together() -> None:
    broker = Broker("d0", "d1")
    broker.files[f"d0/{HIGH_WATERMARKS}"] = checkpoint(t0=5, u0=1)
    broker.files[f"d1/{HIGH_WATERMARKS}"] = checkpoint(u0=3, t0=2)
    found = checkpointed_high_watermarks(broker.world, 1)
    assert found == {TopicPartition("t", 0): 2, TopicPartition("u", 0): 1}


def test_i15_an_epoch_that_the_disk_may_forget_is_as_bad() -> None:
    broker = Broker()
    broker.files[RECOVERY_POINTS] = checkpoint(t0=5)
    shadow: Any = SimpleNamespace(
        is_stale=False,
        durable_end=lambda incarnation, start: 5,
        missing_epochs=lambda start, end, incarnation: [2, 3] if (start, end) == (0, 5) else [],
    )
    checks = CheckpointChecks(broker.world, {str(AT): {1: shadow}}, broker.report)
    broker.host(AT, recovery_point=Offset(4), epochs=(0, 3))
    checks.written(wrote(RECOVERY_POINTS))
    assert broker.reports == []
    broker.host(AT, recovery_point=Offset(5), epochs=(0, 1))
    checks.written(wrote(RECOVERY_POINTS))
    assert broker.reports == [], "a cache that does not have it either is I10's"
    broker.host(AT, recovery_point=Offset(5), epochs=(0, 3))
    checks.written(wrote(RECOVERY_POINTS))
    assert broker.reports == ["I15"]
