"""FindCoordinator: the leader of the group's partition; the topic is created on first use."""

from __future__ import annotations

from typing import Any

import pytest

from highwater_core import messages as control
from highwater_core.errors import ErrorCode
from highwater_core.internal_topics import OFFSETS_TOPIC
from highwater_core.ports import CallFailed
from highwater_wire.kafka.messages import FindCoordinatorRequest, FoundCoordinator

GROUP = FindCoordinatorRequest(("group",), 0)
"""In partition 47 of 50, 2 of 3."""


def only(response: Any) -> FoundCoordinator:
    (found,) = response.coordinators
    return found


def made(error: ErrorCode = ErrorCode.NONE, message: str = "") -> control.CreateTopicsResponse:
    return control.CreateTopicsResponse(
        ErrorCode.NONE, (control.TopicResult(OFFSETS_TOPIC, error, message),)
    )


def test_a_groups_coordinator_leads_its_partition(world: Any) -> None:
    world.cluster({OFFSETS_TOPIC: [0, 1, 2]})
    found = only(world.ask(GROUP))
    assert (found.key, found.error, found.node_id) == ("group", ErrorCode.NONE, 2)
    assert (found.host, found.port) == ("broker-2", 9092)
    outside = only(world.ask(GROUP, "EXTERNAL"))
    assert (outside.host, outside.port) == ("localhost", 30002)


def test_many_groups_are_asked_for_at_once(world: Any) -> None:
    world.cluster({OFFSETS_TOPIC: [0, 1, 2]})
    asked = FindCoordinatorRequest(("group", "", "group"), 0)
    found = world.ask(asked).coordinators
    assert [(each.key, each.node_id) for each in found] == [("group", 2), ("", 0), ("group", 2)]
    assert world.ask(FindCoordinatorRequest((), 0)).coordinators == ()


def test_a_partition_without_a_live_leader_has_no_coordinator_now(world: Any) -> None:
    world.cluster({OFFSETS_TOPIC: [0, 1, 2]}, live=(0, 1))
    found = only(world.ask(GROUP))
    assert found.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (found.node_id, found.host, found.port) == (-1, "", -1)


@pytest.mark.parametrize(
    ("key_type", "error"),
    [
        (1, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (2, ErrorCode.INVALID_REQUEST),
    ],
)
def test_an_unsupported_coordinator_type_is_refused_for_good(
    world: Any, key_type: int, error: ErrorCode
) -> None:
    world.cluster({"t": [1]})
    assert only(world.ask(FindCoordinatorRequest(("mine",), key_type))).error is error
    assert world.controller.requests == []


def test_the_first_group_has_the_topic_made_and_waits_for_it(world: Any) -> None:
    world.cluster({"t": [1]})
    world.controller.answer = made()
    first, second = world.start(GROUP), world.start(GROUP)
    world.kernel.run_for(1_000)
    assert not first.is_done
    world.cluster({OFFSETS_TOPIC: [0, 1, 2]})
    world.kernel.run_for(0)
    assert [only(each.answer).node_id for each in (first, second)] == [2, 2]
    (asked,) = world.controller.requests
    (topic,) = asked.topics
    assert (topic.name, topic.partition_count, topic.replication_factor) == (OFFSETS_TOPIC, 6, 3)
    assert dict(topic.config) == {
        "cleanup.policy": "compact",
        "segment.bytes": str(100 * 1024 * 1024),
    }


def test_who_waits_too_long_for_the_topic_is_to_ask_again(world: Any) -> None:
    world.cluster({"t": [1]})
    world.controller.answer = made()
    asked = world.start(GROUP)
    world.kernel.run_for(1_500)
    assert only(asked.answer).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    again = world.start(GROUP)
    world.cluster({OFFSETS_TOPIC: [0, 1, 2]})
    world.kernel.run_for(0)
    assert only(again.answer).error is ErrorCode.NONE
    assert len(world.controller.requests) == 1


def test_a_topic_that_another_broker_had_made_is_waited_for(world: Any) -> None:
    world.cluster({"t": [1]})
    world.controller.answer = made(ErrorCode.TOPIC_ALREADY_EXISTS)
    asked = world.start(GROUP)
    world.cluster({OFFSETS_TOPIC: [0, 1, 2]})
    world.kernel.run_for(0)
    assert only(asked.answer).error is ErrorCode.NONE


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (made(ErrorCode.INVALID_REPLICATION_FACTOR, "3 > 1"), "INVALID_REPLICATION_FACTOR: 3 > 1"),
        (CallFailed("nobody", sent=False), "NOT_CONTROLLER"),
    ],
)
def test_the_reason_why_the_topic_cannot_be_created_is_answered_at_once(
    world: Any, answer: Any, why: str
) -> None:
    world.cluster({"t": [1]})
    world.controller.answer = answer
    asked = world.start(GROUP)
    assert asked.took_ms == 0
    found = only(asked.answer)
    assert found.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert why in (found.message or "")
    (refused,) = [fields for kind, fields in world.trace.events if kind == "request_refused"]
    assert refused["error"] in why
