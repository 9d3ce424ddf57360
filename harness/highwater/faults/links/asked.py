"""What all active faults together ask of a link's packets at a moment. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from highwater.faults.links.rules import Direction, Drop, Hold, Narrow, Slow

NEVER_NS = 1 << 62
LATE_NS = 50_000_000
"""A packet may go on so much later than its latency: the program that held it had to be woken."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to become of the packets of one direction.

    lost_percent: the share that is lost.
    latency_ms: how much later a packet arrives.
    jitter_ms: how much later than that, at most.
    kbit_per_s: the bandwidth, of IP packets; None when nothing limits it.
    slow_until_ns: when the latency ends, and packets that wait go on. CLOCK_MONOTONIC.
    """

    lost_percent: int = 0
    latency_ms: int = 0
    jitter_ms: int = 0
    kbit_per_s: int | None = None
    slow_until_ns: int = NEVER_NS

    @property
    def travel_ns(self) -> int:
        """How long a packet may be under way, at most, on a line whose bandwidth is not limited."""
        longest_ms = self.latency_ms + self.jitter_ms
        return longest_ms * 1_000_000 + LATE_NS if longest_ms else 0


@dataclass(frozen=True, slots=True)
class State:
    """The drops and holds of all active faults, in the order in which they were begun."""

    drops: Sequence[Drop] = ()
    holds: Sequence[Hold] = ()

    def at_node(self, node: int) -> State:
        """Return those that act at the node, on packets that arrive or that leave for clients."""
        return State(
            [each for each in self.drops if each.direction.target == node],
            [each for each in self.holds if each.direction.target == node],
        )

    def without(self, nodes: Collection[int]) -> State:
        """Return those that act at other nodes than these."""
        return State(
            [each for each in self.drops if each.direction.target not in nodes],
            [each for each in self.holds if each.direction.target not in nodes],
        )

    def asked_of(self, direction: Direction, at_ns: int) -> tuple[Asked, int]:
        """Return what is asked of packets that are sent at that time, and until when that holds.

        Packets are lost where they arrive. So a packet that is sent shortly before a loss ends, and
        arrives later, is not lost.
        """
        asked = Asked()
        steady_until_ns = NEVER_NS
        for hold in self.holds:
            if hold.direction != direction or hold.until_ns <= at_ns:
                continue
            steady_until_ns = min(steady_until_ns, hold.until_ns)
            if isinstance(hold.by, Narrow):
                asked = replace(asked, kbit_per_s=hold.by.kbit_per_s)
            else:
                asked = _slowed(asked, hold.by, hold.until_ns)
        until_ns: dict[int, int] = {}
        for drop in self.drops:
            if drop.direction.covers(direction) and drop.until_ns > at_ns:
                until_ns[drop.percent] = max(drop.until_ns, until_ns.get(drop.percent, 0))
        passing = math.prod(1 - percent / 100 for percent in until_ns)
        ends_ns = [end_ns - asked.travel_ns for end_ns in until_ns.values()]
        asked = replace(asked, lost_percent=round(100 * (1 - passing)))
        return asked, min([steady_until_ns, *ends_ns])

    def sure_from(self, direction: Direction, at_ns: int) -> int:
        """Return from when on, at or after that time, it is known what is asked of packets."""
        unsure = (
            drop.gone_ns
            for drop in self.drops
            if drop.direction.covers(direction) and drop.until_ns <= at_ns < drop.gone_ns
        )
        return max(unsure, default=at_ns)


def _slowed(asked: Asked, by: Slow, until_ns: int) -> Asked:
    return replace(asked, latency_ms=by.latency_ms, jitter_ms=by.jitter_ms, slow_until_ns=until_ns)
