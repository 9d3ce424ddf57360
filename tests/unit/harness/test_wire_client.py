"""The tests' own Kafka client sees each answer that a broker may lawfully give."""

from __future__ import annotations

import socket
from inspect import signature
from typing import Any

import pytest

from highwater.cluster.wire_client import WireClient
from highwater_core.ids import Endpoint


def test_it_waits_longer_for_an_answer_than_its_produce_requests_ask_the_broker_to_wait() -> None:
    """An alteration of min.insync.replicas under way holds a batch up for all of that time."""
    answer_within_s = signature(WireClient).parameters["timeout_s"].default
    produce_waits_ms = signature(WireClient.produce).parameters["timeout_ms"].default
    assert answer_within_s * 1000 >= 2 * produce_waits_ms


def test_a_connection_that_is_reset_at_once_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine takes the connection for a broker that has just died, and resets it."""
    made, other = socket.socketpair()

    class Reset:
        close = made.close

        def setsockopt(self, *option: int) -> None:
            raise OSError(22, "Invalid argument")

    refused: Any = Reset()
    monkeypatch.setattr(socket, "create_connection", lambda *_: refused)
    with other, pytest.raises(OSError, match="Invalid argument"):
        WireClient(Endpoint("broker", 9092))
    assert made.fileno() == -1
