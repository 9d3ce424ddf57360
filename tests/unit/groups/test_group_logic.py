"""The pure decisions of groups, as tables."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from highwater_broker.coordinator.logic.group_states import (
    DELETE_ANSWERS,
    HEARTBEAT_ANSWERS,
    MOVES,
    REBALANCES_FROM,
    SYNC_ANSWERS,
    GroupState,
    next_generation,
)
from highwater_broker.coordinator.logic.identity import (
    absent_group_error,
    commit_error,
    identity_error,
    is_inconsistent,
)
from highwater_broker.coordinator.logic.joining import JoinFacts, JoinStep, decide_join, is_full
from highwater_broker.coordinator.logic.protocols import select_protocol, subscribed_topics
from highwater_core.errors import ErrorCode

E = ErrorCode
S = GroupState


@pytest.mark.parametrize(
    ("generation", "following"), [(0, 1), (7, 8), (2**31 - 2, 2**31 - 1), (2**31 - 1, 1)]
)
def test_generations_fit_the_wire_format(generation: int, following: int) -> None:
    assert next_generation(generation) == following


@pytest.mark.parametrize("answers", [HEARTBEAT_ANSWERS, SYNC_ANSWERS, DELETE_ANSWERS])
def test_every_state_has_an_answer(answers: Any) -> None:
    assert list(answers) == list(GroupState)


def test_a_dead_group_stays_dead_and_all_others_may_die() -> None:
    assert {before for before, _ in MOVES} == set(GroupState) - {S.DEAD}
    assert {before for before, after in MOVES if after is S.DEAD} == set(GroupState) - {S.DEAD}
    assert REBALANCES_FROM == (S.EMPTY, S.COMPLETING_REBALANCE, S.STABLE)


@pytest.mark.parametrize(
    ("facts", "step", "error"),
    [
        ({"state": S.DEAD}, JoinStep.REFUSE, E.COORDINATOR_NOT_AVAILABLE),
        ({"is_full": True}, JoinStep.REFUSE, E.GROUP_MAX_SIZE_REACHED),
        ({"fits": False}, JoinStep.REFUSE, E.INCONSISTENT_GROUP_PROTOCOL),
        ({}, JoinStep.SEND_BACK, E.NONE),
        ({"must_know_id": False}, JoinStep.ADD, E.NONE),
        ({"is_static": True}, JoinStep.ADD, E.NONE),
        ({"is_static": True, "is_instance_known": True}, JoinStep.REPLACE, E.NONE),
        ({"has_id": True, "is_pending": True}, JoinStep.ADD, E.NONE),
        (
            {"has_id": True, "is_pending": True, "is_static": True},
            JoinStep.REFUSE,
            E.UNKNOWN_MEMBER_ID,
        ),
        (
            {"has_id": True, "identity_error": E.FENCED_INSTANCE_ID},
            JoinStep.REFUSE,
            E.FENCED_INSTANCE_ID,
        ),
        ({"has_id": True, "state": S.EMPTY}, JoinStep.REFUSE, E.UNKNOWN_MEMBER_ID),
        (
            {"has_id": True, "state": S.PREPARING_REBALANCE, "has_same_protocols": True},
            JoinStep.UPDATE,
            E.NONE,
        ),
        (
            {"has_id": True, "state": S.COMPLETING_REBALANCE, "has_same_protocols": True},
            JoinStep.REPEAT,
            E.NONE,
        ),
        ({"has_id": True, "state": S.COMPLETING_REBALANCE}, JoinStep.UPDATE, E.NONE),
        ({"has_id": True, "has_same_protocols": True}, JoinStep.REPEAT, E.NONE),
        ({"has_id": True}, JoinStep.UPDATE, E.NONE),
        ({"has_id": True, "has_same_protocols": True, "is_leader": True}, JoinStep.UPDATE, E.NONE),
    ],
)
def test_the_outcome_of_a_join(facts: dict[str, Any], step: JoinStep, error: ErrorCode) -> None:
    assert decide_join(JoinFacts(**{"state": S.STABLE, "fits": True, **facts})) == (step, error)


@pytest.mark.parametrize(
    ("state", "size", "joining", "is_member", "is_joining", "full"),
    [
        (S.EMPTY, 9, 9, False, False, False),
        (S.STABLE, 2, 0, False, False, True),
        (S.STABLE, 2, 0, True, False, False),
        (S.STABLE, 1, 0, False, False, False),
        (S.COMPLETING_REBALANCE, 2, 0, False, False, True),
        (S.PREPARING_REBALANCE, 3, 2, True, False, True),
        (S.PREPARING_REBALANCE, 3, 2, True, True, False),
        (S.PREPARING_REBALANCE, 3, 1, False, False, False),
    ],
)
def test_a_group_of_two_is_full(
    state: GroupState, size: int, joining: int, is_member: bool, is_joining: bool, full: bool
) -> None:
    found = is_full(state, 2, size, joining, is_member=is_member, is_joining=is_joining)
    assert found is full


@pytest.mark.parametrize(
    ("member_id", "instance", "error"),
    [
        ("m", None, E.NONE),
        ("x", None, E.UNKNOWN_MEMBER_ID),
        ("s", "i", E.NONE),
        ("s", None, E.NONE),
        ("old", "i", E.FENCED_INSTANCE_ID),
        ("", "i", E.FENCED_INSTANCE_ID),
        ("m", "unknown", E.UNKNOWN_MEMBER_ID),
    ],
)
def test_who_is_a_member(member_id: str, instance: str | None, error: ErrorCode) -> None:
    assert identity_error({"m", "s"}, {"i": "s"}, member_id, instance) is error


@pytest.mark.parametrize(
    ("state", "generation", "is_anonymous", "identity", "error"),
    [
        (S.DEAD, -1, True, E.NONE, E.COORDINATOR_NOT_AVAILABLE),
        (S.EMPTY, -1, True, E.UNKNOWN_MEMBER_ID, E.NONE),
        (S.EMPTY, -1, False, E.UNKNOWN_MEMBER_ID, E.NONE),
        (S.EMPTY, 5, False, E.UNKNOWN_MEMBER_ID, E.UNKNOWN_MEMBER_ID),
        (S.STABLE, -1, True, E.UNKNOWN_MEMBER_ID, E.UNKNOWN_MEMBER_ID),
        (S.STABLE, -1, False, E.NONE, E.ILLEGAL_GENERATION),
        (S.STABLE, 5, False, E.NONE, E.NONE),
        (S.STABLE, 4, False, E.NONE, E.ILLEGAL_GENERATION),
        (S.STABLE, 5, False, E.FENCED_INSTANCE_ID, E.FENCED_INSTANCE_ID),
        (S.PREPARING_REBALANCE, 5, False, E.NONE, E.NONE),
        (S.COMPLETING_REBALANCE, 5, False, E.NONE, E.REBALANCE_IN_PROGRESS),
    ],
)
def test_who_may_commit_in_generation_5(
    state: GroupState, generation: int, is_anonymous: bool, identity: ErrorCode, error: ErrorCode
) -> None:
    found = commit_error(state, 5, generation, is_anonymous=is_anonymous, identity=identity)
    assert found is error


def test_a_commit_without_a_group_makes_one_unless_it_names_a_generation() -> None:
    assert absent_group_error(-1, 9) is E.NONE
    assert absent_group_error(0, 8) is E.ILLEGAL_GENERATION
    assert absent_group_error(0, 9) is E.GROUP_ID_NOT_FOUND


def test_an_unnamed_protocol_is_consistent() -> None:
    assert not is_inconsistent(None, "range")
    assert not is_inconsistent("range", None)
    assert is_inconsistent("range", "sticky")


@pytest.mark.parametrize(
    ("preferences", "selected"),
    [
        ([], None),
        ([["a"], ["b"]], None),
        ([["a", "b"], ["b", "a"]], "a"),
        ([["a", "b"], ["b", "a"], ["b", "a"]], "b"),
        ([["x", "a", "b"], ["b", "a"]], "a"),
        ([["a", "a"], ["a"]], "a"),
    ],
)
def test_members_vote_for_a_protocol_that_all_know(preferences: Any, selected: str | None) -> None:
    assert select_protocol(preferences) == selected


def subscription(*topics: str) -> bytes:
    names = b"".join(struct.pack(">h", len(each)) + each.encode() for each in topics)
    return struct.pack(">hi", 3, len(topics)) + names + struct.pack(">i", -1) + b"newer fields"


@pytest.mark.parametrize(
    ("data", "topics"),
    [
        (subscription(), frozenset()),
        (subscription("a", "bb"), {"a", "bb"}),
        (b"", None),
        (struct.pack(">hi", 0, 2**31 - 1), None),
        (struct.pack(">hi", 0, -1), None),
        (struct.pack(">hih", 0, 1, 5) + b"a", None),
        (struct.pack(">hih", 0, 1, -1), None),
        (struct.pack(">hih", 0, 1, 2) + b"\xff\xff", None),
    ],
)
def test_the_topics_of_a_subscription(data: bytes, topics: Any) -> None:
    assert subscribed_topics(data) == topics
