"""Loss, delay and pace that canaries measure, compared with what the active faults ask. Pure."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from highwater.faults.links.asked import LATE_NS, Asked
from highwater.faults.links.rules import ALWAYS, Lose, Narrow, Slow

LEAST_CANARIES = 10
SETTLE_NS = 5_000_000
"""Canaries that are sent within this time of a change of the rules are not counted."""
SIGMAS = 4
BUSY_LOSS_PERCENT = 5.0
END_NS = 20_000_000
"""How uncertain the end of a latency is: it is counted from when the queue got the effect."""
LEAST_OF_BANDWIDTH, MOST_OF_BANDWIDTH = 0.5, 1.1
"""The share of a narrow line's bandwidth that canaries may get; the nodes' packets get the rest."""
LEAST_OFFERED = 1.25
"""Canaries must be sent at this many times the bandwidth, to show that the line has no more."""
LEAST_PACED = 4
IP_UDP_BYTES = 28


@dataclass(frozen=True, slots=True)
class Measured:
    """The loss and delay of one stream's canaries that were sent within some time.

    name: the stream's name.
    asked: how the active faults should treat its packets.
    sent, received: how many canaries were sent, and how many of them arrived.
    median_ms: the median of their delays; None when none arrived.
    early: how many arrived earlier than the latency allows.
    """

    name: str
    asked: Asked
    sent: int
    received: int
    median_ms: float | None = None
    early: int = 0

    @property
    def lost_percent(self) -> float:
        return 100 * (1 - self.received / self.sent) if self.sent else 0.0

    def __str__(self) -> str:
        return f"{self.name}: {self.words}"

    @property
    def words(self) -> str:
        said = f"{self.lost_percent:.0f} % of {self.sent} lost"
        if self.median_ms is None or self.asked.travel_ns == 0:
            return said
        return f"{said}, {self.median_ms:.1f} ms late at the median{self._latency_asked}"

    @property
    def _latency_asked(self) -> str:
        asked = self.asked
        most = f" to {asked.latency_ms + asked.jitter_ms}" if asked.jitter_ms else ""
        return f" (asked {asked.latency_ms}{most})"


def measure(
    name: str,
    asked: Asked,
    sent_ns: Sequence[int],
    arrived_ns: Mapping[int, int],
    begin_ns: int,
    end_ns: int,
) -> Measured:
    """Count the canaries that were sent in [begin_ns, end_ns), and measure their delays.

    arrived_ns: the time of arrival by the time of sending; lost canaries are left out.
    """
    sent = _between(sent_ns, begin_ns, end_ns)
    delays_ns = {at_ns: arrived_ns[at_ns] - at_ns for at_ns in sent if at_ns in arrived_ns}
    latency_ns = asked.latency_ms * 1_000_000
    early = sum(
        delay_ns < min(latency_ns, asked.slow_until_ns - END_NS - at_ns)
        for at_ns, delay_ns in delays_ns.items()
    )
    median_ms = median(delays_ns.values()) / 1e6 if delays_ns else None
    return Measured(name, asked, len(sent), len(delays_ns), median_ms, early)


def problem_with(measured: Measured, tolerated_percent: float = 0.0) -> str | None:
    """Return why the canaries do not show what the faults ask for, None when they do.

    tolerated_percent: so many may be lost where none should be.
    On a narrow line canaries may be lost, and may wait: problem_with_pace judges such lines.
    """
    asked = measured.asked
    if measured.sent < LEAST_CANARIES:
        return f"{measured.name}: only {measured.sent} canaries were sent"
    if not _loss_is_as_asked(measured, tolerated_percent):
        return f"{measured}, not {asked.lost_percent} %"
    if measured.early:
        return f"{measured}: {measured.early} arrived before {asked.latency_ms} ms"
    most_ms = asked.latency_ms + asked.jitter_ms + LATE_NS / 1e6
    if asked.kbit_per_s is None and (measured.median_ms or 0) > most_ms:
        return f"{measured}: {measured.median_ms:.0f} ms late at the median, not {most_ms:.0f}"
    return None


def is_asked_for(does: Lose | Slow | Narrow, asked: Asked) -> bool:
    """Return whether asked includes the fault; if not, the fault has ended."""
    match does:
        case Lose(percent=percent):
            return asked.lost_percent >= percent
        case Slow():
            return asked.travel_ns > 0
        case Narrow():
            return asked.kbit_per_s is not None


def tolerated_before(does: Lose | Slow | Narrow | None) -> float:
    """Return the share of canaries, in percent, that may be lost before the fault begins.

    A busy machine loses some. A link that loses a few and then all is cut, and a late canary is
    late; but a lossy link is told by the few alone. None: a fault that has ended.
    """
    is_whole = isinstance(does, Slow) or (isinstance(does, Lose) and does.percent >= ALWAYS)
    return BUSY_LOSS_PERCENT if is_whole else 0.0


def _loss_is_as_asked(measured: Measured, tolerated_percent: float) -> bool:
    asked = measured.asked.lost_percent
    if asked >= ALWAYS:
        return measured.received == 0
    if measured.asked.kbit_per_s is not None:
        return True
    if asked == 0:
        return measured.lost_percent <= tolerated_percent
    spread = 100 * math.sqrt(asked / 100 * (1 - asked / 100) / measured.sent)
    return abs(measured.lost_percent - asked) <= SIGMAS * spread


# ---------------------------------------------------------------- bandwidth


@dataclass(frozen=True, slots=True)
class Stream:
    """One stream of canaries of a pipe: the bytes of a datagram, the times of all of them."""

    datagram_bytes: int
    sent_ns: Sequence[int]
    arrived_ns: Sequence[int]


@dataclass(frozen=True, slots=True)
class Paced:
    """The pace of all canaries of one pipe, in kbit/s of IP packets.

    offered_kbit_per_s: the pace at which they were sent.
    kbit_per_s: the pace at which they arrived.
    packets: how many arrived.
    """

    name: str
    asked: Asked
    offered_kbit_per_s: float
    kbit_per_s: float
    packets: int

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.kbit_per_s:.0f} of {self.offered_kbit_per_s:.0f} kbit/s arrived "
            f"(asked {self.asked.kbit_per_s})"
        )


def pace_of(
    name: str, asked: Asked, streams: Iterable[Stream], begin_ns: int, end_ns: int
) -> Paced:
    """Return the pace at which canaries were sent, and arrived, in [begin_ns, end_ns)."""
    sent_bits, arrivals = 0, []
    for stream in streams:
        bits = 8 * (stream.datagram_bytes + IP_UDP_BYTES)
        sent_bits += bits * len(_between(stream.sent_ns, begin_ns, end_ns))
        arrivals += [(at_ns, bits) for at_ns in _between(stream.arrived_ns, begin_ns, end_ns)]
    arrivals.sort()
    offered = sent_bits * 1e6 / max(1, end_ns - begin_ns)
    if len(arrivals) < LEAST_PACED:
        return Paced(name, asked, offered, 0.0, len(arrivals))
    took_ns = max(1, arrivals[-1][0] - arrivals[0][0])
    arrived_bits = sum(bits for _, bits in arrivals[1:])
    return Paced(name, asked, offered, arrived_bits * 1e6 / took_ns, len(arrivals))


def problem_with_pace(paced: Paced) -> str | None:
    """Return why the pace does not show the bandwidth that faults ask for, None when it does."""
    asked = paced.asked.kbit_per_s
    if asked is None or paced.asked.lost_percent >= ALWAYS:
        return None
    if paced.packets < LEAST_PACED:
        return f"{paced}: only {paced.packets} canaries arrived"
    if paced.offered_kbit_per_s < LEAST_OFFERED * asked:
        return f"{paced}: too little was sent to show it"
    passing = asked * (1 - paced.asked.lost_percent / 100)
    if paced.kbit_per_s > MOST_OF_BANDWIDTH * passing:
        return f"{paced}: more than the line should let through"
    if paced.kbit_per_s < LEAST_OF_BANDWIDTH * passing:
        return f"{paced}: less than canaries should get"
    return None


def _between(times: Sequence[int], begin_ns: int, end_ns: int) -> Sequence[int]:
    ordered = sorted(times)
    return ordered[bisect_left(ordered, begin_ns) : bisect_left(ordered, end_ns)]
