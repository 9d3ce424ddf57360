"""The names of a run's files and folders."""

from __future__ import annotations

TOPOLOGY = "topology.json"
PLAN = "plan.json"
BUILD = "build.json"
CLOCK = "clock.json"
STEPS = "steps.json"
ZNODES = "zookeeper.json"
VERDICT = "verdict.json"

LOOKS = "snapshots.jsonl"
PROBES = "probes.jsonl"
INTENTS = "intent.jsonl"

HISTORY = "history"
TRACE = "trace"
SEGMENTS = "segments"
LOGS = "logs"
"""The output of the nodes' processes."""


def of_broker(broker: int) -> str:
    """Return the name of a broker's folder below SEGMENTS."""
    return f"broker-{broker}"
