"""How long the program that holds packets back waits: for its first effect, and after its last."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from highwater.faults.links import packet_queue
from highwater.faults.links.packet_queue import FIRST_WITHIN_NS, LINGER_NS

S = 1_000_000_000
LASTS_NS = 30 * S
EFFECT = {"pipe": 1, "lasts_ns": LASTS_NS, "latency_ns": 5}


class Teller:
    """A connection that brings one message, and takes the answer."""

    def __init__(self, message: bytes) -> None:
        self.message = message
        self.answers: list[bytes] = []

    def recv(self, size: int) -> bytes:
        return self.message

    def send(self, answer: bytes) -> None:
        self.answers.append(answer)

    def close(self) -> None: ...


@pytest.mark.parametrize("told_at_ns", [None, 0, 100 * S])
def test_it_ends_a_while_after_its_last_effect_and_waits_longer_for_the_first(
    told_at_ns: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy engine may start the helper that tells it a minute after the queue itself."""
    now_ns = 0
    teller = Teller(json.dumps([EFFECT]).encode())

    def select(timeout_s: float) -> list[Any]:
        nonlocal now_ns
        until_ns = now_ns + round(timeout_s * S)
        if told_at_ns is not None and not teller.answers and told_at_ns <= until_ns:
            now_ns = max(now_ns, told_at_ns)
            return [(SimpleNamespace(fileobj=teller), None)]
        now_ns = until_ns
        return []

    monkeypatch.setattr(packet_queue, "time", SimpleNamespace(monotonic_ns=lambda: now_ns))
    selector: Any = SimpleNamespace(select=select, unregister=lambda each: None)
    listener: Any = object()
    packet_queue._Holding(selector, listener, None, "").run()
    told = [json.loads(each) for each in teller.answers]
    if told_at_ns is None:
        assert (now_ns, told) == (FIRST_WITHIN_NS, [])
    else:
        assert (now_ns, told) == (told_at_ns + LASTS_NS + LINGER_NS, [{"error": ""}])
