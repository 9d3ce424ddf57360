"""Draws of a plan's nodes, links and durations."""

from __future__ import annotations

from highwater_chaos.draw import Draw
from highwater_chaos.plan import PlanTopology, Topic, node_names

_SHORT_MS = (1, 5, 20, 60)
_LONG_MS = (150, 400, 900, 2_000, 4_500)


class Targets:
    """Draws a fault's target and duration."""

    def __init__(
        self, draw: Draw, topology: PlanTopology, topics: tuple[Topic, ...], *, may_lose: bool
    ) -> None:
        self.draw = draw
        self.may_lose = may_lose
        """Whether disks may lose data."""
        names = node_names(topology)
        self.brokers, self.controllers = names[: topology.brokers], names[topology.brokers :]
        self._topic = topics[0]

    def topic(self) -> str:
        return self._topic.name

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
