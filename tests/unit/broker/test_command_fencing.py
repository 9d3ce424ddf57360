"""Which of a controller's commands a broker refuses, as tables."""

from __future__ import annotations

from dataclasses import replace

import pytest

from highwater_broker.logic.command_fencing import (
    NO_COMMAND,
    CommandNumber,
    KnownReplica,
    Verdict,
    came_late,
    fence_request,
    judge_leader_and_isr,
    judge_stop_replica,
)
from highwater_core.config import PRESETS, Preset
from highwater_core.errors import ErrorCode
from highwater_core.ids import (
    DELETION_EPOCH,
    NO_BROKER_EPOCH,
    NO_EPOCH,
    NO_TOPIC_ID,
    BrokerEpoch,
    ControllerEpoch,
    LeaderEpoch,
    NodeId,
    PartitionEpoch,
    TopicId,
    TopicPartition,
)
from highwater_core.messages import LeaderAndIsrPartition, StopReplicaPartition

E = ErrorCode
FENCED, V3 = PRESETS[Preset.FENCED], PRESETS[Preset.V3]
T0 = TopicPartition("t", 0)
ID_A, ID_B = TopicId("a" * 32), TopicId("b" * 32)


@pytest.mark.parametrize(
    ("controller_epoch", "broker_epoch", "fenced", "v3"),
    [
        (5, 100, E.NONE, E.NONE),
        (6, 100, E.NONE, E.NONE),
        (4, 100, E.STALE_CONTROLLER_EPOCH, E.STALE_CONTROLLER_EPOCH),
        (5, 99, E.STALE_BROKER_EPOCH, E.NONE),
        (4, 99, E.STALE_BROKER_EPOCH, E.STALE_CONTROLLER_EPOCH),
        pytest.param(5, 101, E.NONE, E.NONE, id="a newer registration is ours: KAFKA-9839"),
        (5, NO_BROKER_EPOCH, E.NONE, E.NONE),
    ],
)
def test_older_controllers_and_older_incarnations_commands_are_refused(
    controller_epoch: int, broker_epoch: int, fenced: ErrorCode, v3: ErrorCode
) -> None:
    for toggles, expected in ((FENCED, fenced), (V3, v3)):
        error = fence_request(
            controller_epoch=ControllerEpoch(controller_epoch),
            known_controller_epoch=ControllerEpoch(5),
            broker_epoch=BrokerEpoch(broker_epoch),
            own_broker_epoch=BrokerEpoch(100),
            toggles=toggles,
        )
        assert error is expected


def test_without_the_controller_epoch_check_a_zombies_command_passes() -> None:
    error = fence_request(
        controller_epoch=ControllerEpoch(4),
        known_controller_epoch=ControllerEpoch(5),
        broker_epoch=BrokerEpoch(100),
        own_broker_epoch=BrokerEpoch(100),
        toggles=replace(FENCED, check_controller_epoch=False),
    )
    assert error is E.NONE


KNOWN = KnownReplica(LeaderEpoch(3), ID_A)


@pytest.mark.parametrize(
    ("epoch", "known", "assigned", "topic_id", "expected"),
    [
        (0, None, (1, 2), ID_A, (Verdict.APPLY, E.NONE)),
        (4, KNOWN, (1, 2), ID_A, (Verdict.APPLY, E.NONE)),
        (3, KNOWN, (1, 2), ID_A, (Verdict.ALREADY_APPLIED, E.NONE)),
        (3, replace(KNOWN, is_stopped=True), (1, 2), ID_A, (Verdict.APPLY, E.NONE)),
        (2, KNOWN, (1, 2), ID_A, (Verdict.REFUSE, E.FENCED_LEADER_EPOCH)),
        (4, KNOWN, (2, 3), ID_A, (Verdict.REFUSE, E.UNKNOWN_TOPIC_OR_PARTITION)),
        pytest.param(4, KNOWN, (1, 2), ID_B, (Verdict.REPLACE, E.NONE), id="created again"),
        pytest.param(
            4, replace(KNOWN, topic_id=ID_B), (1, 2), ID_A, (Verdict.REPLACE, E.NONE), id="ids"
        ),
        pytest.param(0, KNOWN, (1, 2), ID_B, (Verdict.REPLACE, E.NONE), id="its epochs begin anew"),
        (4, KNOWN, (2, 3), ID_B, (Verdict.REFUSE, E.UNKNOWN_TOPIC_OR_PARTITION)),
        (4, KNOWN, (1, 2), NO_TOPIC_ID, (Verdict.APPLY, E.NONE)),
        (4, replace(KNOWN, topic_id=NO_TOPIC_ID), (1, 2), ID_B, (Verdict.APPLY, E.NONE)),
    ],
)
def test_leader_and_isr_is_judged_per_partition(
    epoch: int,
    known: KnownReplica | None,
    assigned: tuple[int, ...],
    topic_id: TopicId,
    expected: tuple[Verdict, ErrorCode],
) -> None:
    command = leadership(epoch, topic_id, assigned)
    assert judge_leader_and_isr(command, known, NodeId(1), FENCED) == expected


def leadership(
    epoch: int, topic_id: TopicId, assigned: tuple[int, ...] = (1, 2)
) -> LeaderAndIsrPartition:
    return LeaderAndIsrPartition(
        topic_partition=T0,
        leader=NodeId(2),
        leader_epoch=LeaderEpoch(epoch),
        isr=(NodeId(2),),
        partition_epoch=PartitionEpoch(0),
        assigned_replicas=tuple(NodeId(each) for each in assigned),
        topic_id=topic_id,
    )


def test_a_late_command_brings_back_neither_a_deleted_replica_nor_a_stopped_one() -> None:
    refused = Verdict.REFUSE, E.UNKNOWN_TOPIC_OR_PARTITION
    done = Verdict.ALREADY_APPLIED, E.NONE
    stopped = replace(KNOWN, is_stopped=True)
    command = leadership(3, ID_A)
    for toggles in (FENCED, V3):
        assert judge_leader_and_isr(command, None, NodeId(1), toggles, is_late=True) == refused
        assert judge_leader_and_isr(command, stopped, NodeId(1), toggles, is_late=True) == done


@pytest.mark.parametrize("epoch", [2, 3, 4])
def test_a_late_command_of_another_topic_of_the_name_is_of_an_earlier_one(epoch: int) -> None:
    expected = Verdict.REFUSE, E.INCONSISTENT_TOPIC_ID
    command = leadership(epoch, ID_B)
    assert judge_leader_and_isr(command, KNOWN, NodeId(1), FENCED, is_late=True) == expected


@pytest.mark.parametrize(
    ("epoch", "fenced"),
    [(4, Verdict.APPLY), (3, Verdict.ALREADY_APPLIED), (2, Verdict.REFUSE)],
)
def test_lateness_tells_topics_apart_and_no_more_than_that(epoch: int, fenced: Verdict) -> None:
    """Within one topic the leader epoch decides; without topic ids all are one topic."""
    for topic_id, toggles in ((ID_A, FENCED), (ID_B, V3)):
        command = leadership(epoch, topic_id)
        verdict, _ = judge_leader_and_isr(command, KNOWN, NodeId(1), toggles, is_late=True)
        assert verdict is fenced


@pytest.mark.parametrize(
    ("command", "last", "expected"),
    [
        pytest.param((1, 1), NO_COMMAND, False, id="the first since this broker's start"),
        pytest.param((3, 6), (3, 5), False, id="the next"),
        pytest.param((3, 9), (3, 5), False, id="later: others were to other brokers"),
        pytest.param((3, 5), (3, 5), True, id="a repeat"),
        pytest.param((3, 4), (3, 5), True, id="sent before what was carried out"),
        pytest.param((4, 1), (3, 5), False, id="a new controller numbers anew"),
        pytest.param((2, 9), (3, 1), True, id="an earlier controller's, whatever its number"),
    ],
)
def test_a_command_is_late_unless_it_was_sent_after_all_that_were_carried_out(
    command: tuple[int, int], last: tuple[int, int], expected: bool
) -> None:
    def number(of: tuple[int, int]) -> CommandNumber:
        return CommandNumber(ControllerEpoch(of[0]), of[1])

    assert came_late(number(command), number(last)) is expected


@pytest.mark.parametrize(
    ("epoch", "topic_id", "fenced", "v3"),
    [
        pytest.param(2, ID_A, E.FENCED_LEADER_EPOCH, E.NONE, id="older: KIP-570"),
        pytest.param(3, ID_A, E.NONE, E.NONE, id="equal is accepted: KAFKA-13972"),
        pytest.param(4, ID_A, E.NONE, E.NONE, id="newer"),
        pytest.param(NO_EPOCH, ID_A, E.NONE, E.NONE, id="unfenced"),
        pytest.param(DELETION_EPOCH, ID_A, E.NONE, E.NONE, id="topic deletion"),
        pytest.param(DELETION_EPOCH, ID_B, E.INCONSISTENT_TOPIC_ID, E.NONE, id="another topic"),
    ],
)
def test_stop_replica_is_fenced_per_partition(
    epoch: int, topic_id: TopicId, fenced: ErrorCode, v3: ErrorCode
) -> None:
    command = StopReplicaPartition(T0, True, LeaderEpoch(epoch), topic_id)
    assert judge_stop_replica(command, KNOWN, FENCED) is fenced
    assert judge_stop_replica(command, KNOWN, V3) is v3


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [
        (KNOWN.leader_epoch - 1, ErrorCode.FENCED_LEADER_EPOCH),
        (KNOWN.leader_epoch, ErrorCode.FENCED_LEADER_EPOCH),
        (KNOWN.leader_epoch + 1, ErrorCode.NONE),
        (DELETION_EPOCH, ErrorCode.NONE),
    ],
)
def test_without_the_fix_of_kafka_13972_a_stop_must_raise_the_epoch(
    epoch: int, expected: ErrorCode
) -> None:
    toggles = replace(FENCED, stop_at_equal_leader_epoch=False)
    command = StopReplicaPartition(T0, True, LeaderEpoch(epoch), KNOWN.topic_id)
    assert judge_stop_replica(command, KNOWN, toggles) is expected
