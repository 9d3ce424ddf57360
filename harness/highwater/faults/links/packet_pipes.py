"""When each packet of a slow or narrow link goes on. Pure: no kernel, no clock.

A pipe is one direction of a link, at the node where its packets arrive. Its packets stay in order:
jitter makes a packet wait longer, and never lets it overtake, as on the simulator's links. Packets
that wait when the last effect on their pipe ends go on at once.
Part of the faults image: it imports the standard library alone. Times are CLOCK_MONOTONIC
nanoseconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random

BUFFER_NS = 250_000_000
"""The longest wait for a narrow line. A packet that would wait longer is dropped, to slow TCP."""
NEVER_NS = 1 << 62
_NS_PER_BYTE_AT_1_KBIT = 8_000_000


@dataclass(frozen=True, slots=True)
class Effect:
    """A latency or a bandwidth of one pipe, until a time; the other of the two is None.

    jitter_ns: by how much longer than latency_ns a packet may wait.
    seed: the jitter's seed. With one seed the same packets wait equally long.
    """

    pipe: int
    until_ns: int
    latency_ns: int | None = None
    jitter_ns: int = 0
    kbit_per_s: int | None = None
    seed: str = ""


@dataclass(slots=True)
class _Pipe:
    """The packets of one pipe.

    held: the packets that wait, in order: when each goes on, and its number.
    free_ns: when the line has sent all packets that arrived.
    ready_ns: when the last packet that arrived has waited for its latency.
    """

    held: deque[tuple[int, int]] = field(default_factory=deque)
    free_ns: int = 0
    ready_ns: int = 0


class Pipes:
    """All pipes of one node."""

    def __init__(self) -> None:
        self._pipes: dict[int, _Pipe] = {}
        self._effects: list[Effect] = []
        self._random: dict[tuple[str, int], Random] = {}

    def tell(self, effects: Iterable[Effect]) -> None:
        """Replace all effects. Of several latencies of a pipe, or bandwidths, the last counts."""
        self._effects = list(effects)

    def arrive(self, pipe: int, packet: int, size: int, now_ns: int) -> bool:
        """Take in a packet of `size` bytes, which `due` returns later; return False to drop it."""
        line = self._pipes.setdefault(pipe, _Pipe())
        at_ns = now_ns + self._latency_ns(pipe, now_ns)
        line.ready_ns = max(at_ns, line.ready_ns if line.held else 0)
        at_ns = max(line.ready_ns, line.held[-1][0] if line.held else 0)
        narrow = self._last(pipe, now_ns, narrow=True)
        if narrow is not None and narrow.kbit_per_s is not None:
            at_ns = max(at_ns, line.free_ns)
            if at_ns - line.ready_ns > BUFFER_NS:
                return False
            at_ns += size * _NS_PER_BYTE_AT_1_KBIT // narrow.kbit_per_s
            line.free_ns = at_ns
        line.held.append((at_ns, packet))
        return True

    def due(self, now_ns: int) -> list[int]:
        """Return the packets that go on now, each once. Packets of one pipe keep their order."""
        found: list[int] = []
        for pipe, line in self._pipes.items():
            is_over = self._end_ns(pipe, now_ns) <= now_ns
            while line.held and (is_over or line.held[0][0] <= now_ns):
                found.append(line.held.popleft()[1])
            if is_over:
                line.free_ns = 0
        return found

    def next_ns(self, now_ns: int) -> int:
        """Return when the next packet is due; NEVER_NS while no packet waits."""
        return min(
            (
                min(line.held[0][0], self._end_ns(pipe, now_ns))
                for pipe, line in self._pipes.items()
                if line.held
            ),
            default=NEVER_NS,
        )

    @property
    def end_ns(self) -> int:
        """When the last effect ends; 0 without effects."""
        return max((effect.until_ns for effect in self._effects), default=0)

    def _end_ns(self, pipe: int, now_ns: int) -> int:
        ends = [each.until_ns for each in self._effects if each.pipe == pipe]
        return max(ends, default=now_ns)

    def _latency_ns(self, pipe: int, now_ns: int) -> int:
        slow = self._last(pipe, now_ns, narrow=False)
        if slow is None or slow.latency_ns is None:
            return 0
        return slow.latency_ns + round(self._random_of(slow).random() * slow.jitter_ns)

    def _last(self, pipe: int, now_ns: int, *, narrow: bool) -> Effect | None:
        for effect in reversed(self._effects):
            is_narrow = effect.kbit_per_s is not None
            if effect.pipe == pipe and effect.until_ns > now_ns and is_narrow is narrow:
                return effect
        return None

    def _random_of(self, effect: Effect) -> Random:
        key = (effect.seed, effect.pipe)
        if key not in self._random:
            self._random[key] = Random(f"{effect.seed} {effect.pipe}")  # noqa: S311 (no secret)
        return self._random[key]
