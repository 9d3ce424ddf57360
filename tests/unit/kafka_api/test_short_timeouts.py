"""Admin requests whose client hardly waits: they are carried out all the same."""

from __future__ import annotations

from typing import Any

import pytest

from highwater_broker.kafka_api.topic_waits import CONTROLLER_ANSWERS_WITHIN_MS
from highwater_core import admin_messages as admin
from highwater_core import messages as control
from highwater_core.admin_messages import PartitionResult, ReassignmentItem, TopicResult
from highwater_core.errors import ErrorCode
from highwater_core.ids import NodeId, TopicPartition
from highwater_wire.kafka.admin_messages import (
    AlterPartitionReassignmentsRequest,
    CreatePartitionsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
    PartitionsToCreate,
)
from highwater_wire.kafka.messages import CreateTopicsRequest, DeleteTopicsRequest, TopicToCreate

E = ErrorCode
T1 = TopicPartition("t", 1)
NEW, MORE = (TopicToCreate("n", 1, 1),), (PartitionsToCreate("t", 3),)
DONE = (TopicResult("n", E.NONE), TopicResult("t", E.NONE))
MOVE = (ReassignmentItem(T1, (NodeId(1),)),)
CREATED = control.CreateTopicsResponse(E.NONE, DONE)
EXPANDED = admin.CreatePartitionsResponse(E.NONE, DONE)


@pytest.mark.parametrize("timeout_ms", [0, -1, 1])
@pytest.mark.parametrize(
    ("make", "answer", "error"),
    [
        (lambda ms: CreateTopicsRequest(NEW, ms, False), CREATED, E.REQUEST_TIMED_OUT),
        (lambda ms: CreateTopicsRequest(NEW, ms, True), CREATED, E.NONE),
        (
            lambda ms: DeleteTopicsRequest(("t",), ms),
            control.DeleteTopicsResponse(E.NONE, DONE),
            E.REQUEST_TIMED_OUT,
        ),
        (lambda ms: CreatePartitionsRequest(MORE, ms, False), EXPANDED, E.REQUEST_TIMED_OUT),
        (lambda ms: CreatePartitionsRequest(MORE, ms, True), EXPANDED, E.NONE),
        (
            lambda ms: ElectLeadersRequest(0, (T1,), ms),
            admin.ElectLeadersResponse(E.NONE, (PartitionResult(T1, E.NONE),)),
            E.REQUEST_TIMED_OUT,
        ),
        (
            lambda ms: AlterPartitionReassignmentsRequest(MOVE, ms),
            admin.AlterReassignmentsResponse(E.NONE, (PartitionResult(T1, E.NONE),)),
            E.NONE,
        ),
        (
            lambda ms: ListPartitionReassignmentsRequest((T1,), ms),
            admin.ListReassignmentsResponse(E.NONE, ()),
            E.NONE,
        ),
    ],
    ids=["create", "create?", "delete", "expand", "expand?", "elect", "move", "list"],
)
def test_the_controller_has_time_to_answer_a_client_that_has_none(
    world: Any, make: Any, answer: Any, error: ErrorCode, timeout_ms: int
) -> None:
    world.cluster({"t": [0, 1]})
    world.controller.answer = answer
    asked = world.start(make(timeout_ms))
    world.kernel.run_for(max(timeout_ms, 0))
    assert asked.is_done
    assert len(world.controller.requests) == 1
    assert world.controller.timeouts_ms == [CONTROLLER_ANSWERS_WITHIN_MS]
    results = getattr(asked.answer, "topics", None) or getattr(asked.answer, "partitions", ())
    assert [each.error for each in results] in ([error], [])


def test_a_client_that_waits_longer_gives_the_controller_as_long(world: Any) -> None:
    world.controller.answer = CREATED
    world.ask(CreateTopicsRequest(NEW, 20_000, True))
    assert world.controller.timeouts_ms == [20_000]
