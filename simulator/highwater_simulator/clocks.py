"""A node's two clocks: their values at a virtual time. Integer arithmetic.

The monotonic clock may run faster or slower than virtual time, and the wall clock with it. The wall
clock may also be off and may jump, as when an operator or NTP sets it.
"""

from __future__ import annotations

from collections.abc import Callable

from highwater_core.check import check

NS_PER_MS = 1_000_000

TRUE_RATE_PPM = 1_000_000

WALL_CLOCK_START_MS = 1_767_225_600_000
"""The wall clock when virtual time begins: 2026-01-01T00:00:00Z."""


class Stamps:
    """Virtual times that rise: times of one instant differ by a nanosecond, in their order.

    Virtual time stands still while a client takes an answer and sends the next record. A comparison
    of histories by time would see the two as simultaneous.
    """

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._last_ns = -1

    def next_ns(self) -> int:
        """Return the time now, or just after the last returned one."""
        self._last_ns = max(self._now_ns(), self._last_ns + 1)
        return self._last_ns


class NodeClock:
    """One node's clocks; they go on while the node is down.

    Units: rate_ppm is the node's nanoseconds in a million of virtual time.
    Invariant: shown_ns never falls, at any change of rate.
    """

    __slots__ = ("_shown_ns", "_since_ns", "is_true", "rate_ppm", "wall_clock_offset_ms")

    def __init__(self) -> None:
        self.wall_clock_offset_ms = 0
        self.rate_ppm = TRUE_RATE_PPM
        self.is_true = True
        """Whether the monotonic clock has always shown virtual time."""
        self._since_ns = 0
        self._shown_ns = 0

    def shown_ns(self, time_ns: int) -> int:
        """Return the monotonic clock at a virtual time after the last change of rate."""
        return self._shown_ns + (time_ns - self._since_ns) * self.rate_ppm // TRUE_RATE_PPM

    def time_ns(self, shown_ns: int) -> int:
        """Return the first virtual time at which the monotonic clock shows this value."""
        left = (shown_ns - self._shown_ns) * TRUE_RATE_PPM
        return self._since_ns - (-left // self.rate_ppm)

    def set_rate(self, rate_ppm: int, time_ns: int) -> None:
        """Run at another rate from this virtual time on, without a jump."""
        check(rate_ppm > 0, "a clock never stands still")
        self._shown_ns, self._since_ns = self.shown_ns(time_ns), time_ns
        self.rate_ppm = rate_ppm
        self.is_true = False

    def wall_clock_ms(self, shown_ns: int) -> int:
        """Return the wall clock when the monotonic one shows shown_ns."""
        return WALL_CLOCK_START_MS + shown_ns // NS_PER_MS + self.wall_clock_offset_ms
