"""Links between hosts, and connections over them: latency, order, faults. It knows no requests.

A link is directed, source -> target : plane. Each has two random streams, one for its latencies and
one for its faults, so that traffic or a fault on one link does not shift another's draws.
Connections keep TCP's promises: within one, no message is lost, doubled or overtaken while it
lives. Messages on two connections overtake each other freely.

Messages on a cut link arrive at once when it is healed. TCP's next retransmission may take as long
again as the cut (deviation). A connection that its opener had given up keeps that delay with some
probability, so that a request may arrive after its own repetition on the next connection
(KAFKA-9539).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from highwater_chaos.plan import Latencies
from highwater_chaos.plan import Network as Links
from highwater_core.check import check
from highwater_core.ports import Rng
from highwater_simulator.clocks import NS_PER_MS
from highwater_simulator.kernel import Kernel
from highwater_simulator.tasks import NodeRuntime

RETRANSMISSION_TIMEOUT_MS = 200
"""Time until a lost segment is sent again; it doubles with each loss (RFC 6298)."""
MAX_RETRANSMISSIONS = 5
"""Most losses of one segment in a row, so that it is late by 6.2 s at most."""

_NS_PER_US = 1_000
_RANKS = 4_096
"""Of so many draws of a heavy-tailed latency one is the longest."""


class Plane(StrEnum):
    """The kind of traffic on a link; each plane can be cut alone."""

    CLIENT = "client"
    REPLICATION = "replication"
    CONTROL = "control"
    ZOOKEEPER = "zookeeper"


class Latency(Protocol):
    """The time of one way over a link: seldom or never above maximum_ns."""

    @property
    def maximum_ns(self) -> int: ...

    @property
    def tail_ns(self) -> int:
        """How far above maximum_ns the longest draw is."""
        ...

    def draw_ns(self, rng: Rng) -> int: ...


@dataclass(frozen=True, slots=True)
class EvenLatency:
    """Drawn evenly from [minimum_ns, maximum_ns)."""

    minimum_ns: int = 100_000
    maximum_ns: int = 600_000

    @property
    def tail_ns(self) -> int:
        return 0

    def draw_ns(self, rng: Rng) -> int:
        return rng.randrange(self.minimum_ns, self.maximum_ns)


@dataclass(frozen=True, slots=True)
class HeavyTailedLatency:
    """Mostly near minimum_ns, seldom far beyond maximum_ns: Pareto's second kind with shape one.

    With the span maximum_ns - minimum_ns, the median is a fifteenth of it above the minimum, one
    in 16 takes longer than the maximum, one in a thousand 66 spans, and none 274. In integers:
    libm's last digit may differ from host to host.
    """

    minimum_ns: int = 100_000
    maximum_ns: int = 600_000

    @property
    def tail_ns(self) -> int:
        return self._at_rank_ns(1) - self.maximum_ns

    def draw_ns(self, rng: Rng) -> int:
        return self._at_rank_ns(rng.randrange(1, _RANKS + 1))

    def _at_rank_ns(self, rank: int) -> int:
        span_ns = self.maximum_ns - self.minimum_ns
        return self.minimum_ns + span_ns * (_RANKS - rank) // (15 * rank)


def latency_of(links: Links) -> Latency:
    """Return the latency of a plan's links."""
    kind = HeavyTailedLatency if links.latencies is Latencies.HEAVY_TAILED else EvenLatency
    return kind(links.minimum_us * _NS_PER_US, links.maximum_us * _NS_PER_US)


class Link:
    """A directed link of one plane between two hosts."""

    def __init__(self, kernel: Kernel, rng: Rng, latency: Latency) -> None:
        self.kernel = kernel
        self.latency = latency
        self.is_cut = False
        self.retransmits = False
        """Whether a message under way may need a retransmission: on a cut or a lossy link."""
        self._rng = rng
        self._fault_rng: Rng | None = None
        self._close_rng: Rng | None = None
        self._is_delayed = False
        self._slower_by_ms = (0, 0)
        self._loss_percent = 0
        self._held: dict[Pipe, None] = {}

    @property
    def is_whole(self) -> bool:
        return not (self.is_cut or self._is_delayed)

    def arrival_ns(self) -> int:
        """Return when a message that is sent now arrives."""
        delay_ns = self.latency.draw_ns(self._rng)
        if self._is_delayed:
            delay_ns += self._fault_delay_ns()
        return self.kernel.time_ns + delay_ns

    def close_arrival_ns(self) -> int:
        """Return when the end of a connection that is closed now arrives, from its own stream."""
        if self._close_rng is None:
            self._close_rng = self._rng.stream("closes")
        slower_ns = self._slower_by_ms[0] * NS_PER_MS
        return self.kernel.time_ns + self.latency.draw_ns(self._close_rng) + slower_ns

    def hold(self, pipe: Pipe) -> None:
        self._held[pipe] = None

    def retransmission_ns(self, silent_since_ns: int) -> int:
        """Draw when TCP retransmits after a cut: with its backoff, or by chance at once."""
        now_ns = self.kernel.time_ns
        rng = self._faults()
        if rng.randrange(0, 2) == 0:
            return now_ns
        return now_ns + rng.randrange(0, now_ns - silent_since_ns + 1)

    def pause_ns(self) -> int:
        """Draw how long one of several connections waits that became readable at once."""
        return self._faults().randrange(0, NS_PER_MS)

    # ------------------------------------------------------------ faults

    def cut(self) -> None:
        self.is_cut = self.retransmits = True

    def heal(self) -> None:
        self.is_cut = False
        self.retransmits = self._loss_percent > 0
        held, self._held = self._held, {}
        for pipe in held:
            pipe.resume()

    def slow_down(self, latency_ms: int, jitter_ms: int) -> None:
        self._slower_by_ms = (latency_ms, jitter_ms)
        self._is_delayed = self._slower_by_ms != (0, 0) or self._loss_percent > 0

    def lose(self, percent: int) -> None:
        check(0 <= percent < 100, "a link that loses everything is a cut one")
        self._loss_percent = percent
        self.retransmits = self.is_cut or percent > 0
        self._is_delayed = self._slower_by_ms != (0, 0) or percent > 0

    def describe(self) -> str:
        """Return the link's faults in words; "" without any."""
        words = ["cut"] if self.is_cut else []
        if self._slower_by_ms != (0, 0):
            latency_ms, jitter_ms = self._slower_by_ms
            words.append(f"slower by {latency_ms} to {latency_ms + jitter_ms} ms")
        if self._loss_percent:
            words.append(f"loses {self._loss_percent} %")
        return ", ".join(words)

    def _fault_delay_ns(self) -> int:
        rng = self._faults()
        latency_ms, jitter_ms = self._slower_by_ms
        delay_ns = latency_ms * NS_PER_MS
        if jitter_ms:
            delay_ns += rng.randrange(0, jitter_ms * NS_PER_MS + 1)
        timeout_ns = RETRANSMISSION_TIMEOUT_MS * NS_PER_MS
        if self._loss_percent:
            for _ in range(MAX_RETRANSMISSIONS):
                if rng.randrange(0, 100) >= self._loss_percent:
                    break
                delay_ns += timeout_ns
                timeout_ns *= 2
        return delay_ns

    def _faults(self) -> Rng:
        if self._fault_rng is None:
            self._fault_rng = self._rng.stream("faults")
        return self._fault_rng


class Pipe:
    """One direction of one connection: messages arrive once, in order, after a latency.

    Messages on a cut or lossy link are lost when their sender dies: a container's network stack
    goes with it and does not retransmit.
    """

    def __init__(self, link: Link, sender: NodeRuntime | None = None) -> None:
        self.sender = sender
        self.is_given_up = False
        """Whether the sender has closed it; messages on their way may still arrive."""
        self.is_reset = False
        self.link = link
        self._last_arrival_ns = 0
        self._under_way: deque[Callable[[], None]] = deque()
        self._stalled = 0
        self._stalled_since_ns = 0

    @property
    def is_whole(self) -> bool:
        """Whether a message that is sent now arrives in time.

        It is also late when an earlier message is late: a heartbeat does not overtake it.
        """
        return not self.is_reset and self.link.is_whole and not self._is_late

    @property
    def _is_late(self) -> bool:
        left_ns = self._last_arrival_ns - self.link.kernel.time_ns
        return left_ns > self.link.latency.maximum_ns

    def send(self, deliver: Callable[[], None]) -> None:
        if not self.is_reset:
            self._under_way.append(deliver)
            self._arrive_later(self.link.arrival_ns())

    def close(self, deliver: Callable[[], None]) -> None:
        """Send the end of the stream, behind all earlier messages."""
        if not self.is_reset:
            self._under_way.append(deliver)
            self._arrive_later(self.link.close_arrival_ns())

    def reset(self) -> None:
        """Lose the messages under way and all later ones."""
        self.is_reset = True
        self._under_way.clear()
        self._stalled = 0

    def resume(self) -> None:
        """Deliver the messages that stalled on the cut link, in order."""
        stalled, self._stalled = self._stalled, 0
        if not stalled:
            return
        if self._is_orphan():
            for _ in range(stalled):
                self._under_way.popleft()
        else:
            if self.is_given_up:
                again_ns = self.link.retransmission_ns(self._stalled_since_ns)
                self._last_arrival_ns = max(self._last_arrival_ns, again_ns)
            for _ in range(stalled):
                self._arrive_later(self.link.arrival_ns())

    def _arrive_later(self, arrival_ns: int) -> None:
        if arrival_ns < self._last_arrival_ns:
            arrival_ns = self._last_arrival_ns
        self._last_arrival_ns = arrival_ns
        self.link.kernel.call_at(arrival_ns, self._arrive)

    def _arrive(self) -> None:
        if not self._under_way:
            return
        if not self.link.retransmits:
            self._under_way.popleft()()
        elif self._is_orphan():
            self._under_way.popleft()
        elif not self.link.is_cut:
            self._under_way.popleft()()
        else:
            if not self._stalled:
                self._stalled_since_ns = self.link.kernel.time_ns
            self._stalled += 1
            self.link.hold(self)

    def _is_orphan(self) -> bool:
        return self.sender is not None and not self.sender.is_alive


class Connection:
    """Two pipes, from the opener of a connection to its acceptor and back.

    Both learn of a reset at once. The acceptor learns that the opener has closed it, or died, after
    all earlier messages: late or never where the link is cut.
    """

    def __init__(
        self, opener: NodeRuntime, there: Pipe, back: Pipe, on_reset: Callable[[], None]
    ) -> None:
        self.there = there
        self.back = back
        self.opener = opener
        self._on_reset = on_reset
        self._is_closed = False
        self._on_lost: Callable[[], None] | None = None

    def accepted(self, on_lost: Callable[[], None]) -> None:
        """Note the acceptor; on_lost is called when the connection is gone."""
        self._on_lost = on_lost

    @property
    def is_over(self) -> bool:
        """Whether its opener has closed it or died."""
        return self._is_closed or not self.opener.is_alive

    @property
    def is_whole(self) -> bool:
        """Whether both directions work as they should."""
        return self.there.is_whole and self.back.is_whole

    def reset(self) -> None:
        """Break it for both sides; messages under way are lost."""
        if self._is_closed:
            return
        self.vanish()
        self._is_closed = True
        if self.opener.is_alive:
            self._on_reset()

    def vanish(self) -> None:
        """Make the acceptor forget it: its opener sends in vain and gets no answer."""
        self.there.reset()
        self.back.reset()
        self._lost()

    def give_up(self) -> None:
        """Close it from the opener's side; earlier messages may still arrive, perhaps late."""
        if not self._is_closed:
            self.there.close(self._lost)
        self._is_closed = True
        self.there.is_given_up = True
        self.back.reset()

    def _lost(self) -> None:
        if self._on_lost is not None:
            self._on_lost()


class Network:
    """All links; a host is known by its name alone."""

    def __init__(self, kernel: Kernel, rng: Rng, latency: Latency | None = None) -> None:
        self.kernel = kernel
        self._rng = rng
        self._latency: Latency = latency or EvenLatency()
        self._links: dict[tuple[str, str, Plane], Link] = {}
        self._connections: dict[tuple[str, str, Plane], dict[Connection, None]] = {}
        """By opener and acceptor."""
        self.calls: Counter[Plane] = Counter()
        """The requests that were sent so far, by plane."""

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

    def connect(
        self, opener: NodeRuntime, target: str, plane: Plane, on_reset: Callable[[], None]
    ) -> Connection:
        """Return the pipes of a new connection; on_reset is called at its opener when it breaks."""
        source = opener.node_name
        there, back = self.pipe(source, target, plane, opener), self.pipe(target, source, plane)
        connection = Connection(opener, there, back, on_reset)
        live = self._live_connections(source, target, plane)
        live[connection] = None
        self._connections[source, target, plane] = live
        return connection

    def close_all(self, opener: NodeRuntime) -> None:
        """Close the connections that a dead incarnation had opened, as the kernel does."""
        for (source, _, _), known in self._connections.items():
            if source == opener.node_name:
                for connection in known:
                    if connection.opener is opener:
                        connection.give_up()

    def is_connected(self, a: str, b: str, plane: Plane) -> bool:
        """Return whether neither direction is cut."""
        return not (self.link(a, b, plane).is_cut or self.link(b, a, plane).is_cut)

    # ------------------------------------------------------------ faults that last

    def cut(self, source: str, target: str, plane: Plane) -> None:
        """Cut the link from source to target on that plane."""
        self.link(source, target, plane).cut()

    def heal(self, source: str, target: str, plane: Plane) -> None:
        """Undo a cut; messages that TCP still retransmits arrive now."""
        self.link(source, target, plane).heal()

    def cut_both_ways(self, a: str, b: str, plane: Plane) -> None:
        self.cut(a, b, plane)
        self.cut(b, a, plane)

    def heal_both_ways(self, a: str, b: str, plane: Plane) -> None:
        self.heal(a, b, plane)
        self.heal(b, a, plane)

    def slow_down(
        self, source: str, target: str, plane: Plane, latency_ms: int, jitter_ms: int = 0
    ) -> None:
        """Add [latency_ms, latency_ms + jitter_ms] to every way, in place of the last addition."""
        self.link(source, target, plane).slow_down(latency_ms, jitter_ms)

    def speed_up(self, source: str, target: str, plane: Plane) -> None:
        """Undo slow_down; messages under way keep their times, and later ones their order."""
        self.link(source, target, plane).slow_down(0, 0)

    def lose(self, source: str, target: str, plane: Plane, percent: int) -> None:
        """Lose a share of all segments, each until TCP retransmits it; 0 ends it."""
        self.link(source, target, plane).lose(percent)

    def heal_all(self) -> None:
        """Undo every cut, slowness and loss."""
        for link in self._links.values():
            link.slow_down(0, 0)
            link.lose(0)
            if link.is_cut:
                link.heal()

    def describe(self) -> list[str]:
        """Return each link with faults, in words; nothing once all are healed."""
        return [
            f"{source} -> {target} : {plane}: {words}"
            for (source, target, plane), link in self._links.items()
            if (words := link.describe())
        ]

    # ------------------------------------------------------------ faults of a moment

    def reset_connections(self, a: str, b: str, plane: Plane) -> bool:
        """Break every connection between the two hosts; both sides learn of it.

        Return whether there was a connection.
        """
        has_met = False
        for source, target in ((a, b), (b, a)):
            for connection in self._live_connections(source, target, plane):
                connection.reset()
                has_met = True
        return has_met

    def break_half_open(self, source: str, target: str, plane: Plane) -> bool:
        """Make target forget every connection between the two hosts; source does not learn of it.

        Messages of source on them are lost until it gives the silent connections up. Return whether
        there was a connection.
        """
        has_met = False
        for connection in self._live_connections(source, target, plane):
            connection.vanish()
            has_met = True
        for connection in self._live_connections(target, source, plane):
            connection.reset()
            has_met = True
        return has_met

    def _live_connections(self, source: str, target: str, plane: Plane) -> dict[Connection, None]:
        """Return the connections that source opened to target and has not closed, oldest first."""
        known = self._connections.get((source, target, plane), {})
        return {connection: None for connection in known if not connection.is_over}
