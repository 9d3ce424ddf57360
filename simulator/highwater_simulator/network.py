"""Links between hosts and the pipes over them: latency, order, cuts. Knows nothing of requests.

A link is directed, source -> target : plane. Each has its own random stream, so that traffic on
one never shifts the latencies of another. A cut link holds what arrives on it, as TCP's
retransmission does, until it is healed or the connection is reset.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from highwater_core.check import check
from highwater_core.ports import Rng
from highwater_simulator.kernel import Kernel
from highwater_simulator.tasks import NodeRuntime


class Plane(StrEnum):
    """What a link carries; each plane can be cut alone."""

    CLIENT = "client"
    REPLICATION = "replication"
    CONTROL = "control"
    ZOOKEEPER = "zookeeper"


@dataclass(frozen=True, slots=True)
class Latency:
    """One way over a link: drawn evenly from [minimum_ns, maximum_ns)."""

    minimum_ns: int = 100_000
    maximum_ns: int = 600_000


class Pipe:
    """One direction of one connection: what is sent arrives once, in order, after a latency.

    What a cut link holds is lost when its sender has died by the time of the heal: a container's
    network goes with it, and nobody retransmits.
    """

    def __init__(self, link: Link, sender: NodeRuntime | None = None) -> None:
        self.sender = sender
        self._link = link
        self._last_arrival_ns = 0
        self._under_way: deque[Callable[[], None]] = deque()
        self._stalled = 0
        self._is_reset = False

    def send(self, deliver: Callable[[], None]) -> None:
        if not self._is_reset:
            self._under_way.append(deliver)
            self._arrive_later()

    def reset(self) -> None:
        """Lose what is still under way and all that is sent from now on."""
        self._is_reset = True
        self._under_way.clear()
        self._stalled = 0

    def resume(self) -> None:
        """Let what stalled on the cut link arrive, in order."""
        stalled, self._stalled = self._stalled, 0
        for _ in range(stalled):
            if self._is_orphan():
                self._under_way.popleft()
            else:
                self._arrive_later()

    def _arrive_later(self) -> None:
        arrival_ns = max(self._last_arrival_ns, self._link.arrival_ns())
        self._last_arrival_ns = arrival_ns
        self._link.kernel.call_at(arrival_ns, self._arrive)

    def _arrive(self) -> None:
        if not self._under_way:
            return
        if self._link.is_cut and self._is_orphan():
            self._under_way.popleft()
        elif self._link.is_cut:
            self._stalled += 1
            self._link.hold(self)
        else:
            self._under_way.popleft()()

    def _is_orphan(self) -> bool:
        return self.sender is not None and not self.sender.is_alive


class Link:
    """A directed link of one plane between two hosts."""

    def __init__(self, kernel: Kernel, rng: Rng, latency: Latency) -> None:
        self.kernel = kernel
        self.is_cut = False
        self._rng = rng
        self._latency = latency
        self._held: dict[Pipe, None] = {}

    def arrival_ns(self) -> int:
        """Return when something sent now arrives."""
        delay_ns = self._rng.randrange(self._latency.minimum_ns, self._latency.maximum_ns)
        return self.kernel.now_ns() + delay_ns

    def hold(self, pipe: Pipe) -> None:
        self._held[pipe] = None

    def heal(self) -> None:
        self.is_cut = False
        held, self._held = self._held, {}
        for pipe in held:
            pipe.resume()


class Network:
    """All links; a host is known by its name alone."""

    def __init__(self, kernel: Kernel, rng: Rng, latency: Latency | None = None) -> None:
        self.kernel = kernel
        self._rng = rng
        self._latency = latency or Latency()
        self._links: dict[tuple[str, str, Plane], Link] = {}

    def link(self, source: str, target: str, plane: Plane) -> Link:
        key = (source, target, plane)
        if key not in self._links:
            check(source and target, "a link joins two hosts")
            rng = self._rng.stream(f"{source}->{target}:{plane}")
            self._links[key] = Link(self.kernel, rng, self._latency)
        return self._links[key]

    def pipe(
        self, source: str, target: str, plane: Plane, sender: NodeRuntime | None = None
    ) -> Pipe:
        return Pipe(self.link(source, target, plane), sender)

    def cut(self, source: str, target: str, plane: Plane) -> None:
        """Drop what goes from source to target on that plane."""
        self.link(source, target, plane).is_cut = True

    def heal(self, source: str, target: str, plane: Plane) -> None:
        """Undo a cut; what TCP still retransmits arrives now."""
        self.link(source, target, plane).heal()

    def cut_both_ways(self, a: str, b: str, plane: Plane) -> None:
        self.cut(a, b, plane)
        self.cut(b, a, plane)

    def heal_all(self) -> None:
        for link in self._links.values():
            if link.is_cut:
                link.heal()

    def is_connected(self, a: str, b: str, plane: Plane) -> bool:
        """Return whether both directions are whole."""
        return not (self.link(a, b, plane).is_cut or self.link(b, a, plane).is_cut)
