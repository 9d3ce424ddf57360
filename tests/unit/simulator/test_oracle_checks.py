"""What the oracle holds controllers, restarts and checkpoints to: each rule broken once."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import pytest

from highwater_broker.log.checkpoints import encode_rows
from highwater_controller.logic import partition_states, replica_states
from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import (
    ControllerEpoch,
    LeaderEpoch,
    NodeId,
    Offset,
    TopicPartition,
)
from highwater_core.znodes import PartitionLeadership
from highwater_simulator.oracle.checkpoints import (
    HIGH_WATERMARKS,
    RECOVERY_POINTS,
    CheckpointChecks,
    read_checkpoint,
)
from highwater_simulator.oracle.controllers import VALID_PREVIOUS, ControllerChecks
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


class Broker:
    """What the checks look at of a broker."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.hosted: dict[TopicPartition, Any] = {}
        disk = SimpleNamespace(content=self.files.get)
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

    def host(self, at: TopicPartition, recovery_point: int = 0, topic_id: str = "") -> None:
        log = SimpleNamespace(recovery_point=recovery_point)
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
        c.checks.state_changed(
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
                detail={"broker_epoch": broker_epoch},
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


def wrote(file: str, incarnation: int = 1) -> TraceEvent:
    return event(
        EventKind.CHECKPOINT_WRITTEN, incarnation=incarnation, detail={"file": file, "entries": 9}
    )


def test_i15_a_checkpoint_lists_what_was_hosted_all_the_while() -> None:
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


def test_i15_as_many_entries_of_other_partitions_do_not_do() -> None:
    broker = Broker()
    checks = CheckpointChecks(broker.world, {}, broker.report)
    broker.host(AT)
    broker.files[HIGH_WATERMARKS] = checkpoint(u0=5)
    for _ in range(2):
        checks.written(wrote(HIGH_WATERMARKS))
    assert broker.reports == ["I15"]


@pytest.mark.parametrize(("durable_end", "broken"), [(5, []), (6, []), (4, ["I15"])])
def test_i15_nothing_is_called_durable_that_is_not(durable_end: int, broken: list[str]) -> None:
    broker = Broker()
    shadow: Any = SimpleNamespace(is_stale=False, durable_end=lambda incarnation: durable_end)
    checks = CheckpointChecks(broker.world, {str(AT): {1: shadow}}, broker.report)
    broker.host(AT, recovery_point=Offset(5))
    checks.written(wrote(RECOVERY_POINTS))
    assert broker.reports == broken
