"""CreatePartitions, ElectLeaders and reassignments: local refusals, forwarding, waiting."""

from __future__ import annotations

from typing import Any

import pytest

from highwater_core import admin_messages as control
from highwater_core.admin_messages import (
    ElectionType,
    OngoingReassignment,
    PartitionResult,
    ReassignmentItem,
    TopicResult,
)
from highwater_core.errors import ErrorCode
from highwater_core.ids import NodeId, TopicPartition
from highwater_core.ports import CallFailed
from highwater_wire.kafka.admin_messages import (
    AlterPartitionReassignmentsRequest,
    CreatePartitionsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
    PartitionsToCreate,
)

E = ErrorCode
PREFERRED, UNCLEAN = ElectionType
T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
NOWHERE = TopicPartition("a b", 0)


def nodes(*numbers: int) -> tuple[NodeId, ...]:
    return tuple(NodeId(number) for number in numbers)


def expand(
    *topics: PartitionsToCreate, timeout_ms: int = 1_000, validate_only: bool = False
) -> CreatePartitionsRequest:
    return CreatePartitionsRequest(topics, timeout_ms, validate_only)


def more(total_count: int = 3, *assignments: tuple[NodeId, ...]) -> PartitionsToCreate:
    return PartitionsToCreate("t", total_count, assignments or None)


def elect(
    *partitions: TopicPartition, election_type: int = PREFERRED, timeout_ms: int = 1_000
) -> ElectLeadersRequest:
    return ElectLeadersRequest(election_type, partitions, timeout_ms)


def move(
    *items: tuple[TopicPartition, tuple[NodeId, ...] | None],
) -> AlterPartitionReassignmentsRequest:
    return AlterPartitionReassignmentsRequest(
        tuple(ReassignmentItem(*item) for item in items), 1_000
    )


def expanded(*results: tuple[str, ErrorCode]) -> control.CreatePartitionsResponse:
    return control.CreatePartitionsResponse(
        E.NONE, tuple(TopicResult(name, error) for name, error in results)
    )


def elected(*results: tuple[TopicPartition, ErrorCode]) -> control.ElectLeadersResponse:
    return control.ElectLeadersResponse(
        E.NONE, tuple(PartitionResult(partition, error) for partition, error in results)
    )


def topic_answers(response: Any) -> list[tuple[str, str]]:
    return [(one.name, one.error.name) for one in response.topics]


def answers(response: Any) -> list[tuple[TopicPartition, str]]:
    return [(one.topic_partition, one.error.name) for one in response.partitions]


# ---------------------------------------------------------------- CreatePartitions


@pytest.mark.parametrize(
    ("wanted", "error", "message"),
    [
        (PartitionsToCreate("", 3), "UNKNOWN_TOPIC_OR_PARTITION", "''"),
        (PartitionsToCreate("a b", 3), "UNKNOWN_TOPIC_OR_PARTITION", "'a b'"),
        (more(0), "INVALID_PARTITIONS", "0 partitions"),
        (more(-(2**31)), "INVALID_PARTITIONS", "-2147483648 partitions"),
        (PartitionsToCreate("t", 3, ()), "INVALID_REPLICA_ASSIGNMENT", "no partition"),
        (
            more(3, nodes(1), ()),
            "INVALID_REPLICA_ASSIGNMENT",
            "added partition 1 has no replica",
        ),
        (more(3, nodes(1, 2, 1)), "INVALID_REPLICA_ASSIGNMENT", "names broker 1 twice"),
        (more(3, nodes(1, -5)), "INVALID_REPLICA_ASSIGNMENT", "names broker -5"),
    ],
)
def test_values_that_no_topic_could_have_are_refused_here(
    world: Any, wanted: PartitionsToCreate, error: str, message: str
) -> None:
    (refused,) = world.ask(expand(wanted)).topics
    assert (refused.name, refused.error.name) == (wanted.topic, error)
    assert message in refused.message
    assert world.controller.requests == []


def test_a_topic_named_twice_is_refused_once_and_the_others_are_expanded(world: Any) -> None:
    world.cluster({"u": [0, 1]})
    world.controller.answer = expanded(("u", E.NONE))
    response = world.ask(expand(more(2), more(3), PartitionsToCreate("u", 2)))
    assert topic_answers(response) == [("t", "INVALID_REQUEST"), ("u", "NONE")]
    (asked,) = world.controller.requests
    assert [topic.topic for topic in asked.topics] == ["u"]


def test_the_controller_gets_the_topics_to_expand(world: Any) -> None:
    world.controller.answer = expanded(("t", E.INVALID_PARTITIONS))
    response = world.ask(expand(more(3, nodes(1, 2)), timeout_ms=700, validate_only=True))
    assert topic_answers(response) == [("t", "INVALID_PARTITIONS")]
    wanted = control.NewPartitions("t", 3, (nodes(1, 2),))
    assert world.controller.requests == [control.CreatePartitionsRequest((wanted,), True, 700)]


def test_an_expansion_is_answered_once_the_added_partitions_have_live_leaders(world: Any) -> None:
    """The request does not wait for an older partition, whose leader is away."""
    world.cluster({"t": [-1]})
    world.controller.answer = expanded(("t", E.NONE))
    asked = world.start(expand(more(3)))
    world.kernel.run_for(10)
    world.cluster({"t": [-1, 1, 7]})
    world.kernel.run_for(10)
    assert not asked.is_done
    world.cluster({"t": [-1, 1, 0]})
    world.kernel.run_for(0)
    assert (asked.took_ms, topic_answers(asked.answer)) == (20, [("t", "NONE")])


def test_added_partitions_that_do_not_show_in_time_are_a_timeout(world: Any) -> None:
    world.cluster({"t": [0]})
    world.controller.answer = expanded(("t", E.NONE))
    asked = world.start(expand(more(2), timeout_ms=250))
    world.kernel.run_for(250)
    assert topic_answers(asked.answer) == [("t", "REQUEST_TIMED_OUT")]


def test_a_mere_check_waits_for_nothing(world: Any) -> None:
    world.controller.answer = expanded(("t", E.NONE))
    asked = world.start(expand(more(2), validate_only=True))
    assert topic_answers(asked.answer) == [("t", "NONE")]


# ---------------------------------------------------------------- ElectLeaders


def test_a_partition_that_there_cannot_be_is_unknown_and_the_others_are_elected(
    world: Any,
) -> None:
    negative = TopicPartition("t", -1)
    world.controller.answer = elected((T0, E.ELECTION_NOT_NEEDED))
    response = world.ask(elect(NOWHERE, T0, negative, T0))
    assert answers(response) == [
        (NOWHERE, "UNKNOWN_TOPIC_OR_PARTITION"),
        (T0, "ELECTION_NOT_NEEDED"),
        (negative, "UNKNOWN_TOPIC_OR_PARTITION"),
    ]
    assert world.controller.requests == [control.ElectLeadersRequest(PREFERRED, (T0,), 1_000)]


@pytest.mark.parametrize("election_type", [-1, 2, 127])
def test_an_unknown_election_type_is_refused(world: Any, election_type: int) -> None:
    response = world.ask(elect(T0, election_type=election_type))
    assert response.error is E.INVALID_REQUEST
    assert answers(response) == [(T0, "INVALID_REQUEST")]
    assert f"election type {election_type}" in response.partitions[0].message
    assert world.controller.requests == []


def test_the_answer_has_the_partitions_that_the_controller_names(world: Any) -> None:
    world.cluster({"u": [0]})
    world.controller.answer = elected((U0, E.NONE), (T0, E.PREFERRED_LEADER_NOT_AVAILABLE))
    response = world.ask(ElectLeadersRequest(PREFERRED, None, 1_000))
    assert world.controller.requests == [control.ElectLeadersRequest(PREFERRED, None, 1_000)]
    assert answers(response) == [(U0, "NONE"), (T0, "PREFERRED_LEADER_NOT_AVAILABLE")]


def test_no_partition_at_all_needs_no_controller(world: Any) -> None:
    response = world.ask(elect())
    assert (response.error, response.partitions) == (E.NONE, ())
    assert world.controller.requests == []


@pytest.mark.parametrize(
    ("election_type", "before", "after"),
    [(PREFERRED, [1, 2], [0, 0]), (UNCLEAN, [-1, -1], [1, 2])],
    ids=["preferred", "unclean"],
)
def test_an_election_is_answered_once_the_elected_leaders_show(
    world: Any, election_type: ElectionType, before: list[int], after: list[int]
) -> None:
    world.cluster({"t": before})
    world.controller.answer = elected((T0, E.NONE), (T1, E.NONE))
    asked = world.start(elect(T0, T1, election_type=election_type))
    world.kernel.run_for(10)
    world.cluster({"t": [after[0], before[1]]})
    world.kernel.run_for(10)
    assert not asked.is_done
    world.cluster({"t": after})
    world.kernel.run_for(0)
    assert answers(asked.answer) == [(T0, "NONE"), (T1, "NONE")]


def test_an_elected_leader_that_does_not_show_in_time_is_a_timeout(world: Any) -> None:
    world.cluster({"t": [0, 1]})
    world.controller.answer = elected((T0, E.NONE), (T1, E.NONE))
    asked = world.start(elect(T0, T1, timeout_ms=250))
    world.kernel.run_for(250)
    assert answers(asked.answer) == [(T0, "NONE"), (T1, "REQUEST_TIMED_OUT")]


def test_a_partition_that_the_controller_is_silent_about_is_not_called_elected(world: Any) -> None:
    world.controller.answer = elected()
    assert answers(world.ask(elect(T0))) == [(T0, "UNKNOWN_SERVER_ERROR")]


# ---------------------------------------------------------------- reassignments


@pytest.mark.parametrize(
    ("partition", "replicas", "error", "message"),
    [
        (NOWHERE, nodes(1), "UNKNOWN_TOPIC_OR_PARTITION", "'a b'"),
        (TopicPartition("t", -3), nodes(1), "UNKNOWN_TOPIC_OR_PARTITION", "-3"),
        (NOWHERE, None, "UNKNOWN_TOPIC_OR_PARTITION", "'a b'"),
        (T0, (), "INVALID_REPLICA_ASSIGNMENT", "t-0 has no replica"),
        (T0, nodes(0, 1, 1), "INVALID_REPLICA_ASSIGNMENT", "t-0 names broker 1 twice"),
        (T0, nodes(0, -1), "INVALID_REPLICA_ASSIGNMENT", "t-0 names broker -1"),
    ],
)
def test_a_target_that_no_partition_could_have_is_refused_and_the_others_begin(
    world: Any,
    partition: TopicPartition,
    replicas: tuple[NodeId, ...] | None,
    error: str,
    message: str,
) -> None:
    world.controller.answer = control.AlterReassignmentsResponse(
        E.NONE, (PartitionResult(U0, E.NONE),)
    )
    response = world.ask(move((partition, replicas), (U0, nodes(2, 1))))
    assert response.error is E.NONE
    assert answers(response) == [(partition, error), (U0, "NONE")]
    assert message in response.partitions[0].message
    item = ReassignmentItem(U0, nodes(2, 1))
    assert world.controller.requests == [control.AlterReassignmentsRequest((item,), 1_000)]


def test_a_partition_with_two_targets_is_refused_once(world: Any) -> None:
    response = world.ask(move((T0, nodes(1)), (T0, None)))
    assert answers(response) == [(T0, "INVALID_REQUEST")]
    assert "'t-0' twice" in response.partitions[0].message


def test_the_controllers_refusal_of_one_partition_is_in_the_answer(world: Any) -> None:
    world.controller.answer = control.AlterReassignmentsResponse(
        E.NONE, (PartitionResult(T0, E.NO_REASSIGNMENT_IN_PROGRESS, "nothing to give up"),)
    )
    response = world.ask(move((T0, None)))
    assert response.partitions == world.controller.answer.results


def test_those_that_are_being_moved_are_listed(world: Any) -> None:
    moved = OngoingReassignment(T0, nodes(1, 2, 0), nodes(2), nodes(0))
    world.controller.answer = control.ListReassignmentsResponse(E.NONE, (moved,))
    for named, forwarded in ((None, None), ((T0, NOWHERE, T0), (T0,))):
        response = world.ask(ListPartitionReassignmentsRequest(named, 1_000))
        assert (response.error, response.partitions) == (E.NONE, (moved,))
        expected = control.ListReassignmentsRequest(forwarded, 1_000)
        assert world.controller.requests[-1] == expected


@pytest.mark.parametrize("named", [(), (NOWHERE, TopicPartition("t", -1))])
def test_where_no_partition_can_be_moved_the_list_is_empty(
    world: Any, named: tuple[TopicPartition, ...]
) -> None:
    response = world.ask(ListPartitionReassignmentsRequest(named, 1_000))
    assert (response.error, response.partitions) == (E.NONE, ())
    assert world.controller.requests == []


# ---------------------------------------------------------------- all of them

PER_PARTITION = (elect(T0, NOWHERE), move((T0, nodes(1)), (U0, None)))
LISTS = (
    ListPartitionReassignmentsRequest(None, 1_000),
    ListPartitionReassignmentsRequest((T0,), 1_000),
    ElectLeadersRequest(PREFERRED, None, 1_000),
)


@pytest.mark.parametrize("request_", [*PER_PARTITION, *LISTS])
@pytest.mark.parametrize(
    ("sent", "error"), [(True, E.REQUEST_TIMED_OUT), (False, E.NOT_CONTROLLER)]
)
def test_without_the_controllers_answer_the_request_fails_as_a_whole(
    world: Any, request_: Any, sent: bool, error: ErrorCode
) -> None:
    world.controller.answer = CallFailed("nobody", sent=sent)
    assert world.ask(request_).error is error


@pytest.mark.parametrize("request_", [*PER_PARTITION, *LISTS])
def test_the_replication_listener_serves_none_of_them(world: Any, request_: Any) -> None:
    response = world.ask(request_, "REPLICATION")
    errors = {response.error, *(one.error for one in response.partitions)}
    assert E.INVALID_REQUEST in errors
    assert E.NOT_CONTROLLER not in errors
    assert world.controller.requests == []


def test_the_replication_listener_expands_nothing(world: Any) -> None:
    response = world.ask(expand(more(2)), "REPLICATION")
    assert topic_answers(response) == [("t", "INVALID_REQUEST")]
    assert world.controller.requests == []


def test_the_controllers_refusal_as_a_whole_names_its_error(world: Any) -> None:
    world.controller.answer = control.AlterReassignmentsResponse(E.UNKNOWN_SERVER_ERROR)
    response = world.ask(move((T0, nodes(1))))
    assert response.error is E.UNKNOWN_SERVER_ERROR
    assert answers(response) == [(T0, "UNKNOWN_SERVER_ERROR")]
    assert response.message


def test_nobody_adds_partitions_to_the_topic_that_groups_are_placed_in(world: Any) -> None:
    """Kafka would: and then look for groups in other partitions than their own."""
    asked = CreatePartitionsRequest((PartitionsToCreate("__consumer_offsets", 50),), 10)
    (result,) = world.ask(asked).topics
    assert result.error is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert world.controller.requests == []
