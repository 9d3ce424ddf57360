"""How all active faults together should treat a link's packets at a given time. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from highwater.faults.links.rules import Direction, Drop, Hold, Narrow, Slow

NEVER_NS = 1 << 62
LATE_NS = 50_000_000
"""How much later than its latency a packet may go on: the program that holds it must wake up."""


@dataclass(frozen=True, slots=True)
class Asked:
    """How the active faults should treat the packets of one direction.

    lost_percent: the share of packets that is lost.
    latency_ms: by how much a packet is delayed at least.
    jitter_ms: by how much more than latency_ms a packet may be delayed.
    kbit_per_s: the bandwidth, counted in IP packets; None when nothing limits it.
    slow_until_ns: when the latency ends and waiting packets go on. CLOCK_MONOTONIC.
    """

    lost_percent: int = 0
    latency_ms: int = 0
    jitter_ms: int = 0
    kbit_per_s: int | None = None
    slow_until_ns: int = NEVER_NS

    @property
    def travel_ns(self) -> int:
        """The longest time that a packet takes on a line whose bandwidth is not limited."""
        longest_ms = self.latency_ms + self.jitter_ms
        return longest_ms * 1_000_000 + LATE_NS if longest_ms else 0


@dataclass(frozen=True, slots=True)
class State:
    """The drops and holds of all active faults, in the order in which they were begun."""

    drops: Sequence[Drop] = ()
    holds: Sequence[Hold] = ()

    def at_node(self, node: int) -> State:
        """Return the drops and holds that act at the node.

        They act on packets that arrive there, or that leave it for clients.
        """
        return State(
            [each for each in self.drops if each.direction.target == node],
            [each for each in self.holds if each.direction.target == node],
        )

    def without(self, nodes: Collection[int]) -> State:
        """Return the drops and holds that act at other nodes than these."""
        return State(
            [each for each in self.drops if each.direction.target not in nodes],
            [each for each in self.holds if each.direction.target not in nodes],
        )

    def asked_of(self, direction: Direction, at_ns: int) -> tuple[Asked, int]:
        """Return how packets sent at that time should be treated, and until when that holds.

        Packets are dropped at the node where they arrive. So a packet that is sent shortly before a
        loss ends, and arrives after its end, is not lost.
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
        """Return the first time, at_ns or later, when it is certain which drops act.

        While a drop ends there is a time when nobody knows whether it still acts.
        """
        unsure = (
            drop.gone_ns
            for drop in self.drops
            if drop.direction.covers(direction) and drop.until_ns <= at_ns < drop.gone_ns
        )
        return max(unsure, default=at_ns)


def _slowed(asked: Asked, by: Slow, until_ns: int) -> Asked:
    return replace(asked, latency_ms=by.latency_ms, jitter_ms=by.jitter_ms, slow_until_ns=until_ns)
