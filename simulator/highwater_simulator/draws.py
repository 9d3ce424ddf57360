"""Draws of a plan: from one random stream, of nodes, links and lengths of time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from highwater_chaos.plan import Topic, Topology, node_names
from highwater_core.check import BugFound
from highwater_core.ports import Rng

Item = TypeVar("Item")

_SHORT_MS = (1, 5, 20, 60)
_LONG_MS = (150, 400, 900, 2_000, 4_500)


class Draw:
    """Draws from one stream; every draw of a plan goes through it, in a fixed order."""

    def __init__(self, rng: Rng) -> None:
        self._rng = rng

    def chance(self, probability: float) -> bool:
        return self._rng.random() < probability

    def of(self, items: Sequence[Item]) -> Item:
        return items[self._rng.randrange(0, len(items))]

    def between(self, start: int, stop: int) -> int:
        """Return an integer in [start, stop)."""
        return self._rng.randrange(start, stop)

    def weighted(self, weights: Sequence[tuple[Item, int]]) -> Item:
        at = self._rng.randrange(0, sum(weight for _, weight in weights))
        for item, weight in weights:
            if at < weight:
                return item
            at -= weight
        raise BugFound("weights add up")


class Targets:
    """Draws what a fault acts on, and for how long."""

    def __init__(
        self, draw: Draw, topology: Topology, topics: tuple[Topic, ...], *, may_lose: bool
    ) -> None:
        self.draw = draw
        self.may_lose = may_lose
        """Whether disks may lose what they held."""
        names = node_names(topology)
        self.brokers, self.controllers = names[: topology.brokers], names[topology.brokers :]
        self._topic = topics[0]

    def partition(self) -> str:
        return f"{self._topic.name}-{self.draw.between(0, self._topic.partitions)}"

    def broker(self) -> str:
        kind = self.draw.between(0, 4)
        if kind == 0:
            return f"leader of {self.partition()}"
        if kind == 1:
            return f"follower of {self.partition()}"
        return self.draw.of(self.brokers)

    def controller(self) -> str:
        return self.draw.of(("active controller", self.draw.of(self.controllers)))

    def node(self) -> str:
        return self.broker() if self.draw.chance(0.7) else self.controller()

    def for_ms(self) -> int | None:
        if self.draw.chance(0.08):
            return None
        return self.draw.of(_SHORT_MS if self.draw.chance(0.3) else _LONG_MS)

    def link(self) -> tuple[str, str, str]:
        """Return source, target and plane."""
        plane = self.draw.of(("client", "replication", "replication", "control", "zookeeper"))
        if plane == "client":
            ends = ["any", self.broker()]
        elif plane == "replication":
            ends = [self.broker(), self.draw.of((self.broker(), "any"))]
        elif plane == "control":
            ends = [self.controller(), self.broker()]
        else:
            ends = [self.node(), "zookeeper"]
        if self.draw.chance(0.5):
            ends.reverse()
        return ends[0], ends[1], plane
