"""What is asked of a direction of a link at a moment, by all faults that act on it. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from highwater.faults.links.rules import Direction, Drop, Hold, Narrow, Slow

NEVER_NS = 1 << 62
LATE_NS = 50_000_000
"""So much later than asked a packet may go on: the program that held it had to be woken."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to become of packets.

    kbit_per_s: None when nothing limits it. slow_until_ns: when the latency ends, and with it the
    waiting of all that is under way.
    """

    lost_percent: int = 0
    latency_ms: int = 0
    jitter_ms: int = 0
    kbit_per_s: int | None = None
    slow_until_ns: int = NEVER_NS

    @property
    def travel_ns(self) -> int:
        """How long a packet may be under way, at most, of those that need not wait for a line."""
        longest_ms = self.latency_ms + self.jitter_ms
        return longest_ms * 1_000_000 + LATE_NS if longest_ms else 0


@dataclass(frozen=True, slots=True)
class State:
    """All that acts on links."""

    drops: Sequence[Drop] = ()
    holds: Sequence[Hold] = ()

    def at_node(self, node: int) -> State:
        """Return what acts where packets arrive at the node, or leave it for the clients."""
        return State(
            [each for each in self.drops if each.direction.target == node],
            [each for each in self.holds if each.direction.target == node],
        )

    def without(self, nodes: Collection[int]) -> State:
        """Return what acts elsewhere than at these nodes."""
        return State(
            [each for each in self.drops if each.direction.target not in nodes],
            [each for each in self.holds if each.direction.target not in nodes],
        )

    def asked_of(self, direction: Direction, at_ns: int) -> tuple[Asked, int]:
        """Return what is asked of packets sent at that time, and until when it is the same.

        Packets are lost where they arrive: of those sent shortly before a loss ends, and slow to
        arrive, some are not.
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
