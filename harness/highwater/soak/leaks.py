"""Decides from samples over rounds whether nodes leak memory, descriptors, threads, disk or znodes.

Compared are two rounds that one start of a node lived through, after its first rounds, in which
caches fill. The pairs of all starts of a node count together, as plans kill nodes; those of all
nodes of a kind do, too, where none lives long. It is a leak if nearly every later round has more,
and if the growth is large. A step raises fewer pairs, and noise lowers as many as it raises.
Source: the slope is the median of the pairs' (Theil 1950, Sen 1968), the share Kendall's tau.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from statistics import median

from highwater.soak.usage import Sample

WARM_UP_ROUNDS = 2
"""A start's first rounds, which do not count."""
LEAST_ROUNDS = 5
"""After them; a shorter life of a node says nothing."""
LEAST_PAIRS = 15
MOST_ROUNDS = 60
"""Of a longer life so many rounds are compared, at equal distances: pairs grow with the square."""
LEAST_SHARE = 0.75
"""By how much the pairs that grow must outnumber those that shrink, of all pairs."""


class Leaking(StrEnum):
    """What the samples say of one value of one kind of node."""

    LEAK = "leak"
    NONE = "none"
    UNKNOWN = "unknown"
    """No node lived long enough."""


@dataclass(frozen=True, slots=True)
class Bound:
    """What growth of a value is a leak.

    least: in one start's life, in the value's unit. share: likewise, of the value at its begin.
    """

    least: float
    share: float = 0.0


BOUNDS: Mapping[str, Bound] = {
    "resident_bytes": Bound(least=8 << 20, share=0.1),
    "open_files": Bound(least=3),
    "threads": Bound(least=3),
    "disk_bytes": Bound(least=16 << 20),
    "znodes": Bound(least=5),
}
"""By the names of Sample's fields.

A node keeps its last 8192 trace events, and one that traces little fills them slowly. Measured over
994 topics that were created and deleted: a controller grew by 4.1 MiB and a broker by 5.7 MiB, and
then no more.
"""
UNITS: Mapping[str, tuple[str, int]] = {
    "resident_bytes": ("MiB of memory", 1 << 20),
    "open_files": ("descriptors", 1),
    "threads": ("threads", 1),
    "disk_bytes": ("MiB on its disk", 1 << 20),
    "znodes": ("znodes", 1),
}
"""How people read a value: its unit, and how much of the value that is."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the samples say of one value of one node, or of all of a kind.

    node: None of all. per_round: by how much it grows. share: of pairs that grow, less those that
    shrink. rounds: of the longest life that counts. growth: the largest in one life, by the slope.
    """

    kind: str
    node: int | None
    value: str
    says: Leaking
    per_round: float = 0.0
    share: float = 0.0
    pairs: int = 0
    rounds: int = 0
    growth: float = 0.0

    def amount(self, told: float) -> str:
        """Return an amount of the value as people read it."""
        unit, size = UNITS[self.value]
        return f"{told / size:,.2f} {unit}"

    @property
    def who(self) -> str:
        if self.kind == "zookeeper":
            return self.kind
        return f"every {self.kind}" if self.node is None else f"{self.kind} {self.node}"

    def __str__(self) -> str:
        """Return a finding's line."""
        return (
            f"{self.who} has {self.amount(self.per_round)} more after each round: "
            f"{self.amount(self.growth)} in {self.rounds} rounds; "
            f"{self.share:.0%} more pairs of rounds grow than shrink, of {self.pairs}"
        )


def judge_usage(samples: Sequence[Sample]) -> tuple[Judgement, ...]:
    """Return a judgement of each value of each kind of node, and of each node that leaks."""
    found: list[Judgement] = []
    for kind in sorted({each.kind for each in samples}):
        nodes = sorted({each.node for each in samples if each.kind == kind})
        for value in BOUNDS:
            lives = {node: list(series_of(samples, node, value).values()) for node in nodes}
            together = [life for own in lives.values() for life in own]
            if not together:
                continue
            found.append(_judged(kind, None, value, together))
            if found[-1].says is not Leaking.LEAK and len(nodes) > 1:
                alone = (_judged(kind, node, value, own) for node, own in lives.items())
                found += (each for each in alone if each.says is Leaking.LEAK)
    return tuple(found)


def leaks_in(samples: Sequence[Sample]) -> tuple[Judgement, ...]:
    """Return the leaks."""
    return tuple(each for each in judge_usage(samples) if each.says is Leaking.LEAK)


def not_told(samples: Sequence[Sample]) -> tuple[str, ...]:
    """Return of what no node lived long enough, by kind and value: there no leak says nothing."""
    unknown = (each for each in judge_usage(samples) if each.says is Leaking.UNKNOWN)
    return tuple(f"{each.kind} {each.value.replace('_', ' ')}" for each in unknown)


Life = Sequence[tuple[int, int]]
"""Rounds, each with the value after it, of one start of a node."""


def series_of(samples: Sequence[Sample], node: int, value: str) -> dict[tuple[int, int], Life]:
    """Return the node's lives, by cluster and start."""
    found: dict[tuple[int, int], dict[int, int]] = {}
    for each in samples:
        told: int | None = getattr(each, value)
        if each.node == node and told is not None:
            start = each.cluster, _start_of(each, value)
            found.setdefault(start, {})[each.round] = told
    return {start: sorted(life.items()) for start, life in found.items()}


def _start_of(sample: Sample, value: str) -> int:
    """Return which series a sample belongs to: a volume outlives a node's starts."""
    return 0 if value == "disk_bytes" else sample.incarnation


def _judged(kind: str, node: int | None, value: str, lives: Sequence[Life]) -> Judgement:
    counted = [life[WARM_UP_ROUNDS:] for life in lives]
    counted = [_thinned(life) for life in counted if len(life) >= LEAST_ROUNDS]
    slopes = [
        (later - earlier) / (then - before)
        for life in counted
        for (before, earlier), (then, later) in combinations(life, 2)
    ]
    rounds = max((life[-1][0] - life[0][0] for life in counted), default=0)
    if len(slopes) < LEAST_PAIRS or not rounds:
        return Judgement(kind, node, value, Leaking.UNKNOWN, pairs=len(slopes), rounds=rounds)
    slope = median(slopes)
    share = (sum(each > 0 for each in slopes) - sum(each < 0 for each in slopes)) / len(slopes)
    bound = BOUNDS[value]
    at_begin = median(life[0][1] for life in counted)
    is_large = slope * rounds >= max(bound.least, bound.share * at_begin)
    says = Leaking.LEAK if share >= LEAST_SHARE and is_large else Leaking.NONE
    return Judgement(kind, node, value, says, slope, share, len(slopes), rounds, slope * rounds)


def _thinned(life: Life) -> Life:
    return life[:: -(-len(life) // MOST_ROUNDS)]
