"""CreateTopics and DeleteTopics: local refusals, forwarding, and waiting for the metadata."""

from __future__ import annotations

from typing import Any

import pytest

from highwater_core import messages as control
from highwater_core.admin_messages import TopicResult
from highwater_core.errors import ErrorCode
from highwater_core.ids import NodeId
from highwater_core.ports import CallFailed
from highwater_wire.kafka.messages import (
    CreateTopicsRequest,
    DeleteTopicsRequest,
    TopicToCreate,
)


def create(
    *topics: TopicToCreate, timeout_ms: int = 1_000, validate_only: bool = False
) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics, timeout_ms, validate_only)


def topic(name: str = "t", partitions: int = 1, replicas: int = 1, **fields: Any) -> TopicToCreate:
    return TopicToCreate(name, partitions, replicas, **fields)


def assigned(*replicas_by_partition: tuple[int, tuple[int, ...]]) -> TopicToCreate:
    assignments = tuple(
        (number, tuple(NodeId(replica) for replica in replicas))
        for number, replicas in replicas_by_partition
    )
    return topic(partitions=-1, replicas=-1, assignments=assignments)


def answers(response: Any) -> list[tuple[str, str]]:
    return [(one.name, one.error.name) for one in response.topics]


def created(*results: tuple[str, ErrorCode]) -> control.CreateTopicsResponse:
    return control.CreateTopicsResponse(
        ErrorCode.NONE, tuple(TopicResult(name, error) for name, error in results)
    )


def deleted(*results: tuple[str, ErrorCode]) -> control.DeleteTopicsResponse:
    return control.DeleteTopicsResponse(
        ErrorCode.NONE, tuple(TopicResult(name, error) for name, error in results)
    )


# ---------------------------------------------------------------- creation


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        (topic(""), "INVALID_TOPIC_EXCEPTION"),
        (topic("."), "INVALID_TOPIC_EXCEPTION"),
        (topic("a b"), "INVALID_TOPIC_EXCEPTION"),
        (topic("x" * 250), "INVALID_TOPIC_EXCEPTION"),
        (topic(partitions=0), "INVALID_PARTITIONS"),
        (topic(partitions=-2), "INVALID_PARTITIONS"),
        (topic(replicas=0), "INVALID_REPLICATION_FACTOR"),
        (topic(configs=(("retention.ms", None),)), "INVALID_CONFIG"),
        (topic(configs=(("a", "1"), ("a", "2"))), "INVALID_REQUEST"),
        (topic(assignments=((0, (NodeId(0),)),)), "INVALID_REQUEST"),
        (assigned((1, (0,))), "INVALID_REPLICA_ASSIGNMENT"),
        (assigned((0, (0,)), (0, (1,))), "INVALID_REPLICA_ASSIGNMENT"),
        (assigned((0, ())), "INVALID_REPLICA_ASSIGNMENT"),
        (assigned((0, (0, 0))), "INVALID_REPLICA_ASSIGNMENT"),
    ],
)
def test_topics_that_no_cluster_could_create_are_refused_here(
    world: Any, wanted: TopicToCreate, error: str
) -> None:
    assert answers(world.ask(create(wanted))) == [(wanted.name, error)]
    assert world.controller.requests == []


def test_a_topic_that_is_named_twice_is_refused_once(world: Any) -> None:
    response = world.ask(create(topic("a"), topic("a", 2)))
    assert answers(response) == [("a", "INVALID_REQUEST")]


def test_the_replication_listener_creates_and_deletes_nothing(world: Any) -> None:
    made = world.ask(create(topic("a")), "REPLICATION")
    gone = world.ask(DeleteTopicsRequest(("a",), 100), "REPLICATION")
    assert answers(made) + answers(gone) == [("a", "INVALID_REQUEST")] * 2
    assert world.controller.requests == []


@pytest.mark.parametrize(
    ("wanted", "forwarded"),
    [
        (topic(partitions=2, replicas=1), control.NewTopic("t", 2, 1)),
        (topic(partitions=-1, replicas=-1), control.NewTopic("t", 4, 3)),
        (
            assigned((1, (1, 2)), (0, (0, 1))),
            control.NewTopic("t", 2, 2, ((NodeId(0), NodeId(1)), (NodeId(1), NodeId(2)))),
        ),
        (
            topic(configs=(("segment.bytes", "100"),)),
            control.NewTopic("t", 1, 1, (), (("segment.bytes", "100"),)),
        ),
    ],
    ids=["counts", "defaults", "assignment", "configs"],
)
def test_the_controller_gets_the_clients_request(
    world: Any, wanted: TopicToCreate, forwarded: control.NewTopic
) -> None:
    world.controller.answer = created(("t", ErrorCode.INVALID_CONFIG))
    world.ask(create(wanted, timeout_ms=700))
    assert world.controller.requests == [control.CreateTopicsRequest((forwarded,), False, 700)]


def test_a_created_topic_is_answered_once_every_partition_here_has_a_live_leader(
    world: Any,
) -> None:
    world.controller.answer = created(("t", ErrorCode.NONE))
    asked = world.start(create(topic("t", partitions=2)))
    world.kernel.run_for(10)
    world.cluster({"t": [0, -1]})
    world.kernel.run_for(10)
    assert not asked.is_done
    world.cluster({"t": [0, 1]})
    world.kernel.run_for(0)
    assert (asked.took_ms, answers(asked.answer)) == (20, [("t", "NONE")])


def test_a_created_topic_that_does_not_show_in_time_is_a_timeout(world: Any) -> None:
    world.controller.answer = created(("slow", ErrorCode.NONE), ("t", ErrorCode.NONE))
    world.cluster({"t": [0]})
    asked = world.start(create(topic("slow"), topic("t"), timeout_ms=250))
    world.kernel.run_for(250)
    assert asked.took_ms == 250
    assert answers(asked.answer) == [("slow", "REQUEST_TIMED_OUT"), ("t", "NONE")]


def test_validation_alone_waits_for_nothing(world: Any) -> None:
    world.controller.answer = created(("t", ErrorCode.NONE))
    asked = world.start(create(topic("t"), validate_only=True))
    assert (asked.took_ms, answers(asked.answer)) == (0, [("t", "NONE")])
    assert world.controller.requests[0].validate_only


def test_outcomes_come_in_the_requests_order(world: Any) -> None:
    world.cluster({"c": [0]})
    world.controller.answer = created(("c", ErrorCode.NONE), ("a", ErrorCode.TOPIC_ALREADY_EXISTS))
    response = world.ask(create(topic("a"), topic("b", 0), topic("c"), topic("d")))
    assert answers(response) == [
        ("a", "TOPIC_ALREADY_EXISTS"),
        ("b", "INVALID_PARTITIONS"),
        ("c", "NONE"),
        ("d", "UNKNOWN_SERVER_ERROR"),
    ]


# ---------------------------------------------------------------- deletion


def test_a_deleted_topic_is_answered_once_it_is_gone_here(world: Any, make_update: Any) -> None:
    world.cluster({"t": [0]})
    world.controller.answer = deleted(("t", ErrorCode.NONE))
    asked = world.start(DeleteTopicsRequest(("t", "t"), 1_000))
    world.kernel.run_for(10)
    assert not asked.is_done
    world.metadata.update(make_update.request((make_update.partition("t", 0, -2),)))
    world.kernel.run_for(0)
    assert (asked.took_ms, answers(asked.answer)) == (10, [("t", "NONE")])
    assert world.controller.requests == [control.DeleteTopicsRequest(("t",), 1_000)]


def test_a_deletion_that_does_not_show_in_time_is_a_timeout(world: Any) -> None:
    world.cluster({"t": [0]})
    world.controller.answer = deleted(("t", ErrorCode.NONE))
    asked = world.start(DeleteTopicsRequest(("t",), 50))
    world.kernel.run_for(50)
    assert (asked.took_ms, answers(asked.answer)) == (50, [("t", "REQUEST_TIMED_OUT")])


def test_a_name_that_no_topic_can_have_is_unknown(world: Any) -> None:
    world.controller.answer = deleted(("u", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    response = world.ask(DeleteTopicsRequest(("../etc", "u"), 50))
    assert answers(response) == [
        ("../etc", "UNKNOWN_TOPIC_OR_PARTITION"),
        ("u", "UNKNOWN_TOPIC_OR_PARTITION"),
    ]
    assert world.controller.requests[0].names == ("u",)


# ---------------------------------------------------------------- no controller


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (CallFailed("reset"), "REQUEST_TIMED_OUT"),
        (CallFailed("nobody there", sent=False), "NOT_CONTROLLER"),
        (control.CreateTopicsResponse(ErrorCode.NOT_CONTROLLER), "NOT_CONTROLLER"),
    ],
    ids=["outcome unknown", "never sent", "refused"],
)
def test_without_a_controllers_answer_the_error_has_the_known_cause(
    world: Any, answer: Any, error: str
) -> None:
    world.controller.answer = answer
    made = world.start(create(topic("t")))
    gone = world.start(DeleteTopicsRequest(("t",), 1_000))
    assert answers(made.answer) + answers(gone.answer) == [("t", error)] * 2
