"""A request that is sent again to the next broker does not hide that it was sent before."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Self

import pytest

from highwater.cluster import asking
from highwater.cluster.asking import NoBrokerAnswers, ask_any
from highwater.cluster.topics import TopicRefused, expand_topic, new_topic, request_topic
from highwater.cluster.wire_client import ConnectionClosed
from highwater_core.errors import ErrorCode
from highwater_wire.kafka.messages import MetadataRequest

CLUSTER: Any = SimpleNamespace(
    topology=SimpleNamespace(broker_ids=(1, 2, 3)), external_endpoint=lambda broker: broker
)
NEW = new_topic("demo", 1, 3, (), {})
IS_THERE = SimpleNamespace(
    topics=(SimpleNamespace(error=ErrorCode.TOPIC_ALREADY_EXISTS, message="demo exists"),)
)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[int, Any]:
    """Return what each broker does: an OSError comes before it got the request."""
    found: dict[int, Any] = {}

    class Client:
        def __init__(self, broker: int, *, timeout_s: float) -> None:
            self._answer = found[broker]
            if isinstance(self._answer, ConnectionRefusedError):
                raise self._answer

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def call(self, request: object) -> object:
            if isinstance(self._answer, Exception):
                raise self._answer
            return self._answer

    monkeypatch.setattr(asking, "WireClient", Client)
    return found


@pytest.mark.parametrize("lost", [ConnectionClosed("gone"), TimeoutError("no answer")])
def test_a_refusal_after_a_lost_answer_says_that_it_may_be_of_its_own_work(
    answers: dict[int, Any], lost: Exception
) -> None:
    """Found: a broker that died amid its answer left TOPIC_ALREADY_EXISTS without a word."""
    answers.update({1: lost, 2: IS_THERE})
    with pytest.raises(TopicRefused, match=r"ALREADY_EXISTS demo exists \(sent to broker 1 before"):
        request_topic(CLUSTER, NEW)
    with pytest.raises(TopicRefused, match="sent to broker 1 before"):
        expand_topic(CLUSTER, "demo", 2)


def test_a_broker_that_refused_the_connection_did_nothing(answers: dict[int, Any]) -> None:
    answers.update({1: ConnectionRefusedError("refused"), 2: IS_THERE})
    with pytest.raises(TopicRefused, match=r"ALREADY_EXISTS demo exists$"):
        request_topic(CLUSTER, NEW)


def test_the_last_brokers_reason_is_told_where_none_answers(answers: dict[int, Any]) -> None:
    answers.update(dict.fromkeys((1, 2, 3), ConnectionClosed("gone")))
    with pytest.raises(NoBrokerAnswers, match="broker 3 does not answer: gone"):
        ask_any(CLUSTER, MetadataRequest(None), 1)
