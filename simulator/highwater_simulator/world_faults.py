"""Each fault of a plan as what it does to a simulated world, and how it is taken back."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from highwater_chaos import faults as f
from highwater_core.check import check
from highwater_core.ports import CallFailed
from highwater_simulator.clocks import TRUE_RATE_PPM
from highwater_simulator.network import Plane
from highwater_simulator.observed import find_node
from highwater_simulator.zookeeper import HOST as ZOOKEEPER

if TYPE_CHECKING:
    from highwater_simulator.oracle.oracle import Oracle
    from highwater_simulator.world import World

Revert = Callable[[], None]
Link = tuple[str, str, Plane]

ADMIN_WITHIN_MS = 5_000


def _nothing() -> None:
    """Take back what is over at once."""


class WorldFaults:
    """Applies faults.

    Cuts and pauses are counted: overlapping ones end with the last. Of all others the first that
    ends takes back what is set on that link, disk or server.
    """

    def __init__(self, world: World, oracle: Oracle) -> None:
        self._world = world
        self._oracle = oracle
        self._cuts: dict[Link, int] = {}
        self._pauses: dict[int, int] = {}
        self._admins = 0

    # ------------------------------------------------------------ one at a time

    def apply(self, fault: f.Fault, node: int | None) -> Revert | None:
        """Apply the fault and return how it is taken back; None when it cannot be done now."""
        if node is None:
            return self._apply_to_links(fault)
        name = self._world.handle(node).name
        match fault:
            case f.Pause():
                return self._pause(node)
            case f.Isolate():
                return self._cut(self._links_of(name))
            case f.ExpireSession() | f.LoseZooKeeperConnection() | f.LoseZooKeeperReply():
                return self._session_fault(fault, name)
            case f.ClockJump() | f.ClockRate():
                return self._clock_fault(fault, node)
            case _:
                return self._disk_fault(fault, node)

    def end(self, fault: f.Kill | f.PowerLoss | f.FlipBit, node: int) -> None:
        """Kill the node, and do to its disk what the fault says; it is running."""
        world = self._world
        world.kill(node)
        self._pauses.pop(node, None)
        if node not in world.brokers:
            return
        disk = world.brokers[node].disk
        match fault:
            case f.PowerLoss():
                lost = disk.lose_power()
                world.trace.note(world.handle(node).name, "lost power", lost=[str(x) for x in lost])
                self._oracle.disk_lost(node)
            case f.Kill(disk=f.DiskAtStart.EMPTY):
                disk.wipe()
                world.trace.note(world.handle(node).name, "got an empty disk")
                self._oracle.disk_lost(node)
            case f.FlipBit(file=kind):
                flipped = disk.flip_bit(kind)
                world.trace.note(world.handle(node).name, "a bit flipped", where=str(flipped))
                self._oracle.disk_lost(node)
            case _:
                pass

    # ------------------------------------------------------------ processes and clocks

    def _pause(self, node: int) -> Revert | None:
        if not self._world.handle(node).is_running:
            return None
        incarnation = self._world.handle(node).runtime
        if not self._pauses.get(node):
            self._world.pause(node)
        self._pauses[node] = self._pauses.get(node, 0) + 1

        def resume() -> None:
            if self._world.handle(node).runtime is incarnation and self._pauses.get(node):
                self._pauses[node] -= 1
                if not self._pauses[node]:
                    self.resume(node)

        return resume

    def resume(self, node: int) -> None:
        """Let a paused node go on, however often it was paused."""
        self._pauses.pop(node, None)
        runtime = self._world.handle(node).runtime
        if runtime is not None and runtime.is_alive and runtime.is_paused:
            self._world.resume(node)

    def _clock_fault(self, fault: f.ClockJump | f.ClockRate, node: int) -> Revert | None:
        runtime = self._world.handle(node).runtime
        if runtime is None or not runtime.is_alive:
            return None
        if isinstance(fault, f.ClockJump):
            runtime.jump_wall_clock(fault.by_ms)
            return _nothing
        runtime.set_clock_rate(TRUE_RATE_PPM + fault.ppm)
        return functools.partial(self._set_true_rate, node)

    def _set_true_rate(self, node: int) -> None:
        runtime = self._world.handle(node).runtime
        if runtime is None or runtime.clock.rate_ppm == TRUE_RATE_PPM:
            return
        if runtime.is_alive:
            runtime.set_clock_rate(TRUE_RATE_PPM)
        else:  # its next incarnation has the same clock
            runtime.clock.set_rate(TRUE_RATE_PPM, self._world.kernel.time_ns)

    # ------------------------------------------------------------ disks

    def _disk_fault(self, fault: f.Fault, node: int) -> Revert | None:
        if node not in self._world.brokers:
            return None
        disk = self._world.brokers[node].disk
        match fault:
            case f.DiskFull():
                disk.fill()
                return disk.make_room
            case f.DiskErrors(operation=operation, percent=percent):
                disk.fail(operation, percent)
                return functools.partial(disk.mend, operation)
            case f.SlowDisk(delay_ms=delay_ms):
                disk.slow_down(delay_ms)
                return disk.speed_up
            case _:
                return None

    # ------------------------------------------------------------ ZooKeeper

    def _session_fault(self, fault: f.Fault, name: str) -> Revert | None:
        zookeeper = self._world.zookeeper
        if isinstance(fault, f.LoseZooKeeperReply):
            zookeeper.lose_replies(name, fault.count)
            return _nothing
        sessions = zookeeper.session_ids(name)
        if not sessions:
            return None
        if isinstance(fault, f.ExpireSession):
            zookeeper.expire(sessions[-1])
        else:
            zookeeper.lose_connection(sessions[-1])
        return _nothing

    # ------------------------------------------------------------ links

    def _apply_to_links(self, fault: f.Fault) -> Revert | None:
        network, zookeeper = self._world.network, self._world.zookeeper
        match fault:
            case f.Cut(both_ways=both_ways):
                return self._cut(self._links(fault, both_ways=both_ways))
            case f.SlowLink(latency_ms=latency_ms, jitter_ms=jitter_ms):
                return self._for_links(
                    fault,
                    lambda link: network.slow_down(*link, latency_ms, jitter_ms),
                    lambda link: network.speed_up(*link),
                )
            case f.LossyLink(loss_percent=percent):
                return self._for_links(
                    fault,
                    lambda link: network.lose(*link, percent),
                    lambda link: network.lose(*link, 0),
                )
            case f.ResetConnections():
                return self._for_links(fault, lambda link: network.reset_connections(*link), None)
            case f.HalfOpen():
                return self._for_links(fault, lambda link: network.break_half_open(*link), None)
            case f.SlowZooKeeper(delay_ms=delay_ms):
                zookeeper.slow_down(delay_ms)
                return functools.partial(zookeeper.slow_down, 0)
            case f.RestartZooKeeper():
                zookeeper.stop()
                return zookeeper.go_on
            case f.CreateTopic() | f.DeleteTopic():
                return self._admin_work(fault)
            case _:
                return None

    def _for_links(
        self,
        fault: f.SlowLink | f.LossyLink | f.ResetConnections | f.HalfOpen,
        do: Callable[[Link], object],
        undo: Callable[[Link], object] | None,
    ) -> Revert | None:
        links = self._links(fault)
        for link in links:
            do(link)
        if undo is None:
            return _nothing if links else None

        def revert() -> None:
            for link in links:
                undo(link)

        return revert if links else None

    def _cut(self, links: Iterable[Link]) -> Revert | None:
        found = tuple(links)
        for link in found:
            if not self._cuts.get(link):
                self._world.network.cut(*link)
            self._cuts[link] = self._cuts.get(link, 0) + 1

        def heal() -> None:
            for link in found:
                if self._cuts.get(link):
                    self._cuts[link] -= 1
                    if not self._cuts[link]:
                        self._world.network.heal(*link)

        return heal if found else None

    def _links(
        self,
        fault: f.Cut | f.SlowLink | f.LossyLink | f.ResetConnections | f.HalfOpen,
        *,
        both_ways: bool = False,
    ) -> list[Link]:
        """Return the fault's links; none when its words mean nobody now, or one node twice."""
        plane = Plane(fault.plane)
        sources, targets = self._hosts(fault.source, plane), self._hosts(fault.target, plane)
        links = [(a, b, plane) for a in sources for b in targets if a != b]
        return links + [(b, a, plane) for a, b, _ in links] if both_ways else links

    def _hosts(self, words: str, plane: Plane) -> list[str]:
        world = self._world
        nodes = [handle.name for handle in (*world.brokers.values(), *world.controllers.values())]
        if words == f.ANY:
            return [*world.client_names, *nodes] if plane is Plane.CLIENT else nodes
        if words == ZOOKEEPER:
            return [ZOOKEEPER]
        node = find_node(world, words)
        return [] if node is None else [world.handle(node).name]

    def _links_of(self, name: str) -> list[Link]:
        """Return every link from and to the node, on all planes."""
        links: list[Link] = []
        for plane in Plane:
            peers = [ZOOKEEPER] if plane is Plane.ZOOKEEPER else self._hosts(f.ANY, plane)
            for peer in peers:
                if peer != name:
                    links += [(name, peer, plane), (peer, name, plane)]
        return links

    # ------------------------------------------------------------ operators

    def _admin_work(self, fault: f.CreateTopic | f.DeleteTopic) -> Revert:
        self._admins += 1
        name = f"operator-{self._admins}"
        client = self._world.client(name)

        async def work() -> None:
            try:
                if isinstance(fault, f.CreateTopic):
                    await client.create_topic(
                        fault.topic, fault.partitions, fault.replication_factor, ADMIN_WITHIN_MS
                    )
                    for number in range(fault.records):
                        await client.send(fault.topic, 0, f"{name}-{number}", ADMIN_WITHIN_MS)
                else:
                    await client.delete_topic(fault.topic, ADMIN_WITHIN_MS)
            except CallFailed as failure:
                self._world.trace.note(client.runtime.node_name, "gave up", why=str(failure))

        client.runtime.start("operator", work())
        return _nothing

    # ------------------------------------------------------------ phase two

    def heal_all(self) -> None:
        """End everything that lasts, on all links, disks and clocks and in ZooKeeper."""
        world = self._world
        self._cuts.clear()
        world.network.heal_all()
        world.zookeeper.heal()
        for broker in world.brokers.values():
            broker.disk.heal()
        for node in (*world.brokers, *world.controllers):
            self._set_true_rate(node)
        left = [*world.network.describe(), *world.zookeeper.describe()]
        check(not left, f"not healed: {left}")

    def isolate(self, node: int) -> None:
        """Cut a node off for good."""
        self._cut(self._links_of(self._world.handle(node).name))
