"""The nft rules and queue effects for a node whose links' faults change. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from highwater.faults.links.asked import State
from highwater.faults.links.rules import Hold, Slow, pipe_of, script

Effects = Sequence[Mapping[str, object]]


@dataclass(frozen=True, slots=True)
class NodeChange:
    """The change at one node.

    script: nft's text, which replaces all rules of ours.
    queue: the effects for its packet queue, which replace the earlier ones; None without a queue.
    """

    script: str
    queue: Effects | None = None


def node_change(state: State, node: int, at_ns: int, *, has_queue: bool) -> NodeChange:
    """Return the change after which the state holds at the node, from at_ns on.

    has_queue: whether the node has a packet queue, which may hold packets of an earlier state.
    """
    at = state.at_node(node)
    queue = _effects(at.holds, at_ns) if at.holds or has_queue else None
    return NodeChange(script(at.drops, at_ns, at.holds), queue)


def _effects(holds: Iterable[Hold], at_ns: int) -> Effects:
    """Return the effects that last beyond at_ns, once each, in the form that packet_queue reads."""
    effects: list[dict[str, object]] = []
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
        if of not in effects:
            effects.append(of)
    return effects
