"""The tests' own Kafka client sees each answer that a broker may lawfully give."""

from __future__ import annotations

from inspect import signature

from highwater.cluster.wire_client import WireClient


def test_it_waits_longer_for_an_answer_than_its_produce_requests_ask_the_broker_to_wait() -> None:
    """An alteration of min.insync.replicas under way holds a batch up for all of that time."""
    answer_within_s = signature(WireClient).parameters["timeout_s"].default
    produce_waits_ms = signature(WireClient.produce).parameters["timeout_ms"].default
    assert answer_within_s * 1000 >= 2 * produce_waits_ms
