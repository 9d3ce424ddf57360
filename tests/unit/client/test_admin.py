"""Topics and partitions are administered through any broker that answers, until it is certain."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from highwater_client.admin import Admin
from highwater_core.admin_messages import ElectionType, ReassignmentItem
from highwater_core.errors import ErrorCode
from highwater_core.ids import NodeId, TopicPartition
from highwater_wire.kafka.admin_messages import (
    AlterPartitionReassignmentsRequest,
    CreatePartitionsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)
from highwater_wire.kafka.messages import CreateTopicsRequest, DeleteTopicsRequest

NEVER = "never answers"
E = ErrorCode


@pytest.mark.parametrize(
    ("answers", "result", "asked"),
    [
        ([], E.NONE, 1),
        ([E.TOPIC_ALREADY_EXISTS], E.TOPIC_ALREADY_EXISTS, 1),
        ([E.NOT_CONTROLLER, E.REQUEST_TIMED_OUT], E.NONE, 3),
        ([E.INVALID_REPLICATION_FACTOR], E.NONE, 2),
        ([E.INVALID_CONFIG], E.INVALID_CONFIG, 1),
    ],
)
def test_creation_is_asked_for_until_more_tries_change_nothing(
    answers: list[ErrorCode], result: ErrorCode, asked: int, brokers: Any, run: Any
) -> None:
    async def story() -> None:
        brokers.stop(1)
        brokers.script[0, CreateTopicsRequest].extend(answers)
        admin = Admin(*brokers.client(), brokers.bootstrap)
        assert await admin.create_topic("t", 1, 1, 5_000) is result
        assert len(brokers.asked(CreateTopicsRequest)) == asked

    run(story())


@pytest.mark.parametrize(
    ("answers", "result"),
    [
        ([], E.NONE),
        ([E.UNKNOWN_TOPIC_OR_PARTITION], E.UNKNOWN_TOPIC_OR_PARTITION),
        ([E.NOT_CONTROLLER, E.UNKNOWN_TOPIC_OR_PARTITION], E.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_deletion_is_asked_for_until_the_topic_is_gone(
    answers: list[ErrorCode], result: ErrorCode, brokers: Any, run: Any
) -> None:
    async def story() -> None:
        brokers.stop(1)
        brokers.script[0, DeleteTopicsRequest].extend(answers)
        admin = Admin(*brokers.client(), brokers.bootstrap)
        assert await admin.delete_topic("t", 5_000) is result

    run(story())


@pytest.mark.parametrize(
    ("answers", "result", "asked"),
    [
        ([], E.NONE, 1),
        ([E.NOT_CONTROLLER], E.NONE, 2),
        ([E.INVALID_PARTITIONS], E.INVALID_PARTITIONS, 1),
        ([E.REASSIGNMENT_IN_PROGRESS], E.REASSIGNMENT_IN_PROGRESS, 1),
    ],
)
def test_more_partitions_are_asked_for_until_more_tries_change_nothing(
    answers: list[ErrorCode], result: ErrorCode, asked: int, brokers: Any, run: Any
) -> None:
    async def story() -> None:
        brokers.stop(1)
        brokers.script[0, CreatePartitionsRequest].extend(answers)
        admin = Admin(*brokers.client(), brokers.bootstrap)
        assert await admin.create_partitions("t", 3, 5_000) is result
        assert len(brokers.asked(CreatePartitionsRequest)) == asked

    run(story())


ASKED_AS_A_WHOLE: dict[type, Callable[[Admin], Coroutine[Any, Any, Any]]] = {
    ElectLeadersRequest: lambda admin: admin.elect_leaders(ElectionType.PREFERRED, None, 5_000),
    AlterPartitionReassignmentsRequest: lambda admin: admin.alter_reassignments(
        (ReassignmentItem(TopicPartition("t", 0), (NodeId(1),)),), 5_000
    ),
    ListPartitionReassignmentsRequest: lambda admin: admin.list_reassignments(None, 5_000),
}


@pytest.mark.parametrize("kind", ASKED_AS_A_WHOLE)
@pytest.mark.parametrize(
    ("answers", "error", "asked"),
    [
        ([], E.NONE, 1),
        ([E.NOT_CONTROLLER, E.REQUEST_TIMED_OUT], E.NONE, 3),
        ([E.INVALID_REQUEST], E.INVALID_REQUEST, 1),
        ([E.NOT_CONTROLLER] * 200, E.NOT_CONTROLLER, None),
    ],
)
def test_a_request_answered_as_a_whole_is_repeated_until_more_tries_change_nothing(
    kind: type,
    answers: list[ErrorCode],
    error: ErrorCode,
    asked: int | None,
    brokers: Any,
    run: Any,
) -> None:
    async def story() -> None:
        brokers.stop(1)
        brokers.script[0, kind].extend(answers)
        response = await ASKED_AS_A_WHOLE[kind](Admin(*brokers.client(), brokers.bootstrap))
        assert response.error is error
        assert asked is None or len(brokers.asked(kind)) == asked

    run(story())


@pytest.mark.parametrize("kind", ASKED_AS_A_WHOLE)
def test_no_answer_in_time_is_a_timeout(kind: type, brokers: Any, run: Any) -> None:
    async def story() -> None:
        for broker_id in (0, 1):
            brokers.stop(broker_id)
        response = await ASKED_AS_A_WHOLE[kind](Admin(*brokers.client(), brokers.bootstrap))
        assert response.error is E.REQUEST_TIMED_OUT

    run(story())


def test_last_error_is_returned_when_time_is_up(brokers: Any, run: Any) -> None:
    async def story() -> None:
        for broker_id in (0, 1):
            brokers.script[broker_id, CreateTopicsRequest].extend([E.NOT_CONTROLLER] * 100)
        runtime, transport = brokers.client()
        admin = Admin(runtime, transport, brokers.bootstrap)
        assert await admin.create_topic("t", 1, 1, 500) is E.NOT_CONTROLLER
        assert 500 <= runtime.now_ms() <= 600

    run(story())


def test_metadata_comes_from_any_broker_that_lives(brokers: Any, run: Any) -> None:
    async def story() -> None:
        assert brokers.partitions["t", 0].leader == 0
        admin = Admin(*brokers.client(), brokers.bootstrap)
        brokers.stop(0)
        for _ in range(2):
            response = await admin.metadata(("t",))
            assert response is not None
            assert [broker.broker_id for broker in response.brokers] == [1]
        brokers.stop(1)
        assert await admin.metadata() is None

    run(story())
