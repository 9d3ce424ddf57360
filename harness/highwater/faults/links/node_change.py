"""What a node is told when what acts on its links changes: rules, and its packet queue. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from highwater.faults.links.asked import State
from highwater.faults.links.rules import Hold, Slow, pipe_of, script

Told = Sequence[Mapping[str, object]]


@dataclass(frozen=True, slots=True)
class NodeChange:
    """script: nft's. queue: what its packet queue is told; None for a node that has none."""

    script: str
    queue: Told | None = None


def node_change(state: State, node: int, at_ns: int, *, has_queue: bool) -> NodeChange:
    """Return what the node is told so that the state holds there from that time on.

    has_queue: whether it has a packet queue that may hold something, though nothing asks for it.
    """
    at = state.at_node(node)
    told = _told(at.holds, at_ns) if at.holds or has_queue else None
    return NodeChange(script(at.drops, at_ns, at.holds), told)


def _told(holds: Iterable[Hold], at_ns: int) -> Told:
    """Return each effect once for a pipe, as packet_queue.effect_of takes it."""
    told: list[dict[str, object]] = []
    for hold in holds:
        if hold.until_ns <= at_ns:
            continue
        of: dict[str, object] = {"pipe": pipe_of(hold.direction), "lasts_ns": hold.until_ns - at_ns}
        if isinstance(hold.by, Slow):
            of["latency_ns"] = hold.by.latency_ms * 1_000_000
            of["jitter_ns"] = hold.by.jitter_ms * 1_000_000
            of["seed"] = hold.by.seed
        else:
            of["kbit_per_s"] = hold.by.kbit_per_s
        if of not in told:
            told.append(of)
    return told
