"""A helper changes the links of a node, beside a packet queue that ends or is silent."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable

import pytest

from highwater.faults.links import in_namespace
from highwater.faults.links.in_namespace import _Change

EFFECT = {"pipe": 1, "lasts_ns": 0, "latency_ns": 0}


def answers(queue: socket.socket) -> None:
    queue.send(json.dumps({"error": ""}).encode())


def refuses(queue: socket.socket) -> None:
    queue.send(json.dumps({"error": "no such effect"}).encode())


def has_ended(queue: socket.socket) -> None:
    queue.close()


def is_silent(queue: socket.socket) -> None:
    pass


@pytest.mark.parametrize(
    ("told", "queue_does", "error"),
    [
        ([EFFECT], answers, ""),
        ([EFFECT], refuses, "no such effect"),
        ([EFFECT], has_ended, "the packet queue ended"),
        ([], has_ended, ""),
        ([EFFECT], is_silent, "the packet queue did not answer within 0.01 s"),
        ([], is_silent, "the packet queue did not answer within 0.01 s"),
    ],
)
def test_the_change_is_made_and_reported_whatever_the_packet_queue_does(
    told: list[dict[str, int]],
    queue_does: Callable[[socket.socket], None],
    error: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loaded: list[str] = []

    def load(script: str) -> str:
        loaded.append(script)
        return ""

    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(0.01)
    monkeypatch.setattr(in_namespace, "ANSWER_WITHIN_S", 0.01)
    monkeypatch.setattr(in_namespace, "_connect_to_queue", lambda: ours)
    monkeypatch.setattr(in_namespace, "load", load)
    queue_does(theirs)
    change = _Change({"script": "rules", "queue": told, "apply_at_ns": 0})
    change.go_on(1)
    assert (change.is_done, change.report["error"]) == (True, error)
    assert loaded == ([] if error else ["rules"])
    theirs.close()
