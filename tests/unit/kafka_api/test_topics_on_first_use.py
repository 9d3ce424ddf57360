"""Topics that are created when a client's Metadata request first names them."""

from __future__ import annotations

from typing import Any

import pytest

from highwater_broker.kafka_api import topics_on_first_use
from highwater_broker.kafka_api.listeners import Listener
from highwater_core.errors import ErrorCode
from highwater_core.internal_topics import OFFSETS_TOPIC
from highwater_core.messages import CreateTopicsResponse, NewTopic, TopicResult
from highwater_core.ports import CallFailed
from highwater_wire.kafka.messages import MetadataRequest


@pytest.fixture
def making(world_that_makes_topics: Any) -> Any:
    world_that_makes_topics.cluster({"known": [0]})
    return world_that_makes_topics


def errors_of(world: Any, *names: str, listener: Listener = Listener.CLIENT, **fields: Any) -> Any:
    request = MetadataRequest(names, **{"allow_auto_topic_creation": True, **fields})
    return [topic.error.name for topic in world.ask(request, listener).topics]


def answered(*errors: tuple[str, ErrorCode]) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        ErrorCode.NONE, tuple(TopicResult(name, error, "") for name, error in errors)
    )


def test_unknown_topics_are_made_once_with_the_brokers_defaults(making: Any) -> None:
    making.controller.answer = answered(("a", ErrorCode.NONE), ("b", ErrorCode.NONE))
    errors = errors_of(making, "known", "a", "b", "no/name")
    assert errors == [
        "NONE", "LEADER_NOT_AVAILABLE", "LEADER_NOT_AVAILABLE", "INVALID_TOPIC_EXCEPTION"
    ]  # fmt: skip
    (request,) = making.controller.requests
    assert request.topics == (NewTopic("a", 4, 3), NewTopic("b", 4, 3))


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("a", {"allow_auto_topic_creation": False}),
        ("a", {"listener": Listener.REPLICATION}),
        (OFFSETS_TOPIC, {}),
    ],
    ids=["the client forbids it", "another listener", "internal"],
)
def test_other_unknown_topics_stay_unknown(making: Any, name: str, asked: dict[str, Any]) -> None:
    assert errors_of(making, name, **asked) == ["UNKNOWN_TOPIC_OR_PARTITION"]
    assert making.controller.requests == []


def test_a_topic_that_is_being_made_is_not_asked_for_again(making: Any) -> None:
    wait = making.runtime.event()

    async def call(request: Any, response_type: Any, timeout_ms: int) -> Any:
        making.controller.requests.append(request)
        await wait.wait(timeout_ms)
        return answered(("a", ErrorCode.NONE))

    making.controller.call = call
    assert errors_of(making, "a") == errors_of(making, "a") == ["LEADER_NOT_AVAILABLE"]
    assert len(making.controller.requests) == 1
    wait.set()
    making.kernel.run_for(10)
    assert errors_of(making, "a") == ["LEADER_NOT_AVAILABLE"]
    assert len(making.controller.requests) == 2


def test_a_refusal_is_answered_once_and_the_next_request_tries_again(making: Any) -> None:
    making.controller.answer = answered(("a", ErrorCode.INVALID_REPLICATION_FACTOR))
    said = [errors_of(making, "a")[0] for _ in range(3)]
    assert said == ["LEADER_NOT_AVAILABLE", "INVALID_REPLICATION_FACTOR", "LEADER_NOT_AVAILABLE"]
    assert len(making.controller.requests) == 2
    told = [fields["error"] for kind, fields in making.trace.events if kind == "request_refused"]
    assert told == ["INVALID_REPLICATION_FACTOR"] * 2


def test_a_controller_that_cannot_be_reached_is_asked_again(making: Any) -> None:
    making.controller.answer = CallFailed("nobody answers", sent=False)
    assert errors_of(making, "a") == ["LEADER_NOT_AVAILABLE"]
    assert errors_of(making, "a") == ["NOT_CONTROLLER"]


def test_refusals_that_nobody_asks_for_make_room_for_later_ones(
    making: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics_on_first_use, "TOPICS_MAX", 3)
    for name in "abcde":
        making.controller.answer = answered((name, ErrorCode.INVALID_CONFIG))
        errors_of(making, name)
    assert errors_of(making, "e") == ["INVALID_CONFIG"]


def test_topics_that_wait_for_their_creation_are_bounded(
    making: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics_on_first_use, "TOPICS_MAX", 3)
    making.controller.answer = answered(
        *((str(number), ErrorCode.INVALID_CONFIG) for number in range(5))
    )
    errors_of(making, *map(str, range(5)))
    (request,) = making.controller.requests
    assert [topic.name for topic in request.topics] == ["0", "1", "2"]
