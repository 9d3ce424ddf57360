"""Does each fault of a plan to a simulated world, and undoes it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from highwater_chaos import faults as f
from highwater_chaos.fault_problems import is_of_a_disk
from highwater_core.check import check
from highwater_simulator.clocks import TRUE_RATE_PPM
from highwater_simulator.log_tails import flip_in_tail
from highwater_simulator.network import Plane
from highwater_simulator.observed import find_node
from highwater_simulator.operators import Operators
from highwater_simulator.overlaps import Overlaps, Revert
from highwater_simulator.strangers import Strangers
from highwater_simulator.zookeeper import HOST as ZOOKEEPER

if TYPE_CHECKING:
    from highwater_simulator.oracle.oracle import Oracle
    from highwater_simulator.world import World

Link = tuple[str, str, Plane]

ARMED = (f.CrashAt, f.DelayAt, f.LoseZooKeeperReply)
"""Faults that act when a node reaches a point, or never."""
TELL = (*ARMED, f.Kill, f.PowerLoss, f.FlipBit, f.ResetConnections, f.HalfOpen)
"""Faults that report when they act; all others act when they are applied."""


def _nothing() -> None:
    """The undo of a fault that is over at once."""


class WorldFaults:
    """Applies faults.

    Several faults of one kind may overlap on one link, node, disk or server. The target is healed
    once all have ended; until then the value (delay, loss) of the fault that began last counts. See
    Overlaps.
    """

    def __init__(self, world: World, oracle: Oracle) -> None:
        self._world = world
        self._oracle = oracle
        self._overlaps = Overlaps()
        self._pauses: dict[int, int] = {}
        self._operators = Operators(world)
        self._strangers = Strangers(world)

    # ------------------------------------------------------------ one at a time

    def apply(
        self, fault: f.Fault, node: int | None, acted: Callable[[], None] = _nothing
    ) -> Revert | None:
        """Apply the fault and return its undo; None when it is impossible now.

        acted: called when a fault in TELL acts, at once or later.
        """
        if node is None:
            return self._apply_to_links(fault, acted)
        name = self._world.handle(node).name
        match fault:
            case f.Pause():
                return self._pause(node)
            case f.Isolate():
                return self._cut(self._links_of(name))
            case f.ExpireSession() | f.LoseZooKeeperConnection() | f.LoseZooKeeperReply():
                return self._session_fault(fault, name, acted)
            case f.ClockJump() | f.ClockRate():
                return self._clock_fault(fault, node)
            case _:
                return self._disk_fault(fault, node)

    def end(
        self, fault: f.Kill | f.PowerLoss | f.FlipBit, node: int, *, is_running: bool = True
    ) -> bool:
        """Kill the node, if it runs, and do the fault to its disk.

        Return whether the fault had a target: a disk, a file of its kind.
        """
        world = self._world
        if is_running:
            world.kill(node)
        self._pauses.pop(node, None)
        if node not in world.brokers:
            return not is_of_a_disk(fault)
        disk = world.brokers[node].disk
        match fault:
            case f.PowerLoss():
                lost = disk.lose_power()
                world.trace.note(world.handle(node).name, "lost power", lost=[str(x) for x in lost])
                self._oracle.disk_lost(node)
            case f.Kill(disk=f.DiskAtStart.EMPTY):
                lost = disk.wipe()
                world.trace.note(world.handle(node).name, "got an empty disk")
                self._oracle.disk_lost(node, files=tuple(each.path for each in lost))
            case f.FlipBit(file=kind):
                if kind is f.FileKind.LOG_TAIL:
                    flipped = flip_in_tail(disk, disk.fault_rng("tail flips"))
                else:
                    flipped = disk.flip_bit(kind)
                world.trace.note(world.handle(node).name, "a bit flipped", where=str(flipped))
                self._oracle.disk_lost(node, files=() if flipped is None else flipped[:1])
                return flipped is not None
            case _:
                pass
        return True

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
        """Resume a paused node, also after several pauses."""
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
        return self._overlaps.begin(
            ("clock rate", node),
            functools.partial(self._set_rate, node, TRUE_RATE_PPM + fault.ppm),
            functools.partial(self._set_rate, node, TRUE_RATE_PPM),
        )

    def _set_rate(self, node: int, rate_ppm: int) -> None:
        runtime = self._world.handle(node).runtime
        if runtime is None or runtime.clock.rate_ppm == rate_ppm:
            return
        if runtime.is_alive:
            runtime.set_clock_rate(rate_ppm)
        else:  # its next incarnation has the same clock
            runtime.clock.set_rate(rate_ppm, self._world.kernel.time_ns)

    def _set_wall_clock_right(self, node: int) -> None:
        """Undo all jumps: a leader whose clock is an hour behind would refuse records for good."""
        runtime = self._world.handle(node).runtime
        if runtime is not None and runtime.clock.wall_clock_offset_ms:
            runtime.jump_wall_clock(-runtime.clock.wall_clock_offset_ms)

    # ------------------------------------------------------------ disks

    def _disk_fault(self, fault: f.Fault, node: int) -> Revert | None:
        if node not in self._world.brokers:
            return None
        disk, begin = self._world.brokers[node].disk, self._overlaps.begin
        match fault:
            case f.DiskFull():
                return begin(("disk full", node), disk.fill, disk.make_room)
            case f.DiskErrors(operation=operation, percent=percent, within=within):
                return begin(
                    ("disk errors", node, operation),
                    functools.partial(disk.fail, operation, percent, within=within),
                    functools.partial(disk.mend, operation),
                )
            case f.FailFolder(folder=number):
                folder = "" if number is None else disk.log_folders[number]
                return begin(
                    ("log folder", node, folder),
                    functools.partial(disk.die, folder),
                    functools.partial(disk.revive, folder),
                )
            case f.SlowDisk(delay_ms=delay_ms):
                slow_down = functools.partial(disk.slow_down, delay_ms)
                return begin(("slow disk", node), slow_down, disk.speed_up)
            case _:
                return None

    # ------------------------------------------------------------ ZooKeeper

    def _session_fault(self, fault: f.Fault, name: str, acted: Callable[[], None]) -> Revert | None:
        zookeeper = self._world.zookeeper
        if isinstance(fault, f.LoseZooKeeperReply):
            zookeeper.lose_replies(name, fault.count, acted)
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

    def _apply_to_links(self, fault: f.Fault, acted: Callable[[], None]) -> Revert | None:
        network, zookeeper = self._world.network, self._world.zookeeper
        match fault:
            case f.Cut(both_ways=both_ways):
                return self._cut(self._links(fault, both_ways=both_ways))
            case f.SlowLink(latency_ms=latency_ms, jitter_ms=jitter_ms):
                return self._on_links(
                    "slow",
                    self._links(fault),
                    lambda link: network.slow_down(*link, latency_ms, jitter_ms),
                    lambda link: network.speed_up(*link),
                )
            case f.LossyLink(loss_percent=percent):
                return self._on_links(
                    "lossy",
                    self._links(fault),
                    lambda link: network.lose(*link, percent),
                    lambda link: network.lose(*link, 0),
                )
            case f.ResetConnections():
                return self._once_on_links(fault, network.reset_connections, acted)
            case f.HalfOpen():
                return self._once_on_links(fault, network.break_half_open, acted)
            case f.SlowZooKeeper(delay_ms=delay_ms):
                return self._overlaps.begin(
                    "slow zookeeper",
                    functools.partial(zookeeper.slow_down, delay_ms),
                    functools.partial(zookeeper.slow_down, 0),
                )
            case f.RestartZooKeeper():
                return self._overlaps.begin("zookeeper", zookeeper.stop, zookeeper.go_on)
            case (
                f.CreateTopic()
                | f.ExpandTopic()
                | f.DeleteTopic()
                | f.ChangeConfig()
                | f.MoveReplicas()
                | f.GiveUpMoving()
                | f.ElectPreferred()
                | f.ThrottleReplication()
                | f.ChangeFetchers()
            ):
                self._operators.start(fault)
                return _nothing
            case f.StrangeRequests():
                self._strangers.start(fault)
                return _nothing
            case _:
                return None

    def _once_on_links(
        self,
        fault: f.ResetConnections | f.HalfOpen,
        do: Callable[[str, str, Plane], bool],
        acted: Callable[[], None],
    ) -> Revert | None:
        links = self._links(fault)
        have_met = [do(*link) for link in links]
        if any(have_met):
            acted()
        return _nothing if links else None

    def _on_links(
        self,
        kind: str,
        links: Iterable[Link],
        do: Callable[[Link], object],
        undo: Callable[[Link], object],
    ) -> Revert | None:
        """Do the fault to each link and return its undo; None where there is no link."""
        ends = [
            self._overlaps.begin(
                (kind, link), functools.partial(do, link), functools.partial(undo, link)
            )
            for link in links
        ]

        def end_all() -> None:
            for end in ends:
                end()

        return end_all if ends else None

    def _cut(self, links: Iterable[Link]) -> Revert | None:
        network = self._world.network
        return self._on_links(
            "cut", links, lambda link: network.cut(*link), lambda link: network.heal(*link)
        )

    def _links(
        self,
        fault: f.Cut | f.SlowLink | f.LossyLink | f.ResetConnections | f.HalfOpen,
        *,
        both_ways: bool = False,
    ) -> list[Link]:
        """Return the fault's links; none when its words name no node now, or one node twice."""
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

    # ------------------------------------------------------------ phase two

    def heal_all(self) -> None:
        """End all lasting faults, on links, disks and clocks and in ZooKeeper."""
        world = self._world
        self._overlaps.clear()
        world.network.heal_all()
        world.zookeeper.heal()
        for broker in world.brokers.values():
            broker.disk.heal()
        for node in (*world.brokers, *world.controllers):
            self._set_rate(node, TRUE_RATE_PPM)
            self._set_wall_clock_right(node)
        left = [*world.network.describe(), *world.zookeeper.describe()]
        check(not left, f"not healed: {left}")

    def isolate(self, node: int) -> None:
        """Cut a node off for good."""
        self._cut(self._links_of(self._world.handle(node).name))
