"""Clients' requests about topics are handled in steps; urgent events go in between."""

from __future__ import annotations

import pytest

from highwater_controller import topic_requests, waiting_jobs
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.messages import CreateTopicsRequest, DeleteTopicsRequest, NewTopic

NAMES = tuple(f"n{number}" for number in range(12))
NONE, TIMED_OUT = ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT


def creation(*names, validate_only=False):
    return CreateTopicsRequest(tuple(NewTopic(name, 1, 2) for name in names), validate_only)


def errors(answers):
    return [result.error for result in answers[0].results]


@pytest.fixture
def led(running, monkeypatch):
    """A topic that broker 0 leads; requests are worked on two topics at a time."""
    monkeypatch.setattr(topic_requests, "TOPICS_PER_STEP", 2)
    running.create_topic("t", (0, 1, 2))
    return running


def order(cluster):
    """Return topics as they were created, elections of the topic t, and ends of deletions."""
    kinds = EventKind.TOPIC_CREATED, EventKind.LEADER_ELECTED, EventKind.TOPIC_DELETED
    return [
        "election" if event.kind is EventKind.LEADER_ELECTED else event.topic
        for event in cluster.events(*kinds)
        if event.kind is not EventKind.LEADER_ELECTED or (event.topic == "t" and event.leader_epoch)
    ]


def test_a_leader_is_replaced_while_one_request_creates_many_topics(led):
    answers = []
    led.ask_later(creation(*NAMES), answers)
    led.until(lambda: "n0" in order(led), "the first topics")
    led.brokers[0].die()
    led.until(lambda: answers, "the answer", 100_000)
    assert errors(answers) == [NONE] * 12
    created = order(led)
    assert created.index("election") < created.index("n11")


def test_a_leader_is_replaced_while_many_requests_wait(led):
    answers = []
    for number in range(50):
        led.ask_later(creation(f"x{number}", validate_only=number % 2 == 0), answers)
    led.until(lambda: answers, "the first answer")
    led.brokers[0].die()
    led.until(lambda: "election" in order(led), "the election")
    assert order(led).index("election") < 10  # a request that only validates takes no time
    led.until(lambda: len(answers) == 50, "the answers")
    assert [answer.results[0].error for answer in answers] == [NONE] * 50


def test_topics_are_deleted_some_at_a_time(led):
    assert errors([led.ask(creation(*NAMES))]) == [NONE] * 12
    answers = []
    led.ask_later(DeleteTopicsRequest(("n0", "none", *NAMES[1:])), answers)
    led.until(lambda: "n0" in order(led)[12:], "the first deletion")
    led.brokers[0].die()
    led.settle(10_000)
    led.start_broker(0)
    led.until(lambda: answers, "the answer", 100_000)
    assert errors(answers)[:2] == [NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    led.settle(5_000)
    assert not any(name in led.active()._controller.term.context.topics() for name in NAMES)


def test_a_request_that_names_a_topic_of_an_earlier_step_again_is_refused(led):
    found = errors([led.ask(creation("a", "b", "c", "a"))])
    refused = ErrorCode.INVALID_REQUEST
    assert found == [refused, NONE, NONE, refused]


def test_requests_beyond_the_bound_are_answered_to_ask_again(led, monkeypatch):
    monkeypatch.setattr(waiting_jobs, "WAITING_MAX", 3)
    answers = []
    for number in range(6):
        led.ask_later(creation(f"x{number}"), answers)
    led.until(lambda: len(answers) == 6, "the answers")
    assert [answer.error for answer in answers].count(ErrorCode.THROTTLING_QUOTA_EXCEEDED) == 3
    assert errors([led.ask(creation("after"))]) == [NONE]


def test_of_a_controller_that_resigns_only_begun_requests_have_an_unknown_outcome(led):
    begun, waiting = [], []
    led.ask_later(creation(*NAMES), begun)
    led.settle(1)
    led.ask_later(creation("later"), waiting)
    led.until(lambda: "n1" in order(led), "the first topics")
    led.expire_session()
    led.until(lambda: begun and waiting, "the answers")
    assert begun[0].error is TIMED_OUT
    assert waiting[0].error is ErrorCode.NOT_CONTROLLER
    led.until_failed_over()
    assert errors([led.ask(creation("later"))]) == [NONE]
