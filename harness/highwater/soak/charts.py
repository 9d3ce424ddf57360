"""Small line charts of what nodes took over the rounds: one a node and value. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from highwater.soak.leaks import BOUNDS, series_of
from highwater.soak.usage import Sample

WIDTH, HEIGHT, MARGIN = 150, 34, 3
TITLES: Mapping[str, str] = {
    "resident_bytes": "memory, MiB",
    "open_files": "descriptors",
    "threads": "threads",
    "disk_bytes": "volume, MiB",
    "znodes": "znodes",
}
_IN_MIB = ("resident_bytes", "disk_bytes")


@dataclass(frozen=True, slots=True)
class Chart:
    """One value of one node. lines: of each start, the points of a line as SVG has it.

    least, most, last: in words; the chart is as high as least and most are apart.
    """

    lines: tuple[str, ...]
    least: str
    most: str
    last: str


@dataclass(frozen=True, slots=True)
class ChartRow:
    """A node's charts, in the order of TITLES; None where a value is not known of it."""

    node: str
    charts: tuple[Chart | None, ...]


def charts_of(samples: Sequence[Sample]) -> list[ChartRow]:
    """Return a row a node, brokers first."""
    nodes = {each.node: each.kind for each in samples}
    places = {at: place for place, at in enumerate(sorted({_place(each) for each in samples}))}
    return [
        ChartRow(
            kind if kind == "zookeeper" else f"{kind} {node}",
            tuple(_chart(samples, node, value, places) for value in BOUNDS),
        )
        for node, kind in sorted(nodes.items(), key=lambda each: (each[1], each[0]))
    ]


def _place(sample: Sample) -> tuple[int, int]:
    return sample.cluster, sample.round


def _chart(
    samples: Sequence[Sample], node: int, value: str, places: Mapping[tuple[int, int], int]
) -> Chart | None:
    series = series_of(samples, node, value)
    values = [told for life in series.values() for _, told in life]
    if not values:
        return None
    least, most = min(values), max(values)
    lines = tuple(
        " ".join(
            f"{_x(places[cluster, number], len(places))},{_y(told, least, most)}"
            for number, told in life
        )
        for (cluster, _), life in series.items()
    )
    last = max(
        (places[cluster, number], told)
        for (cluster, _), life in series.items()
        for number, told in life
    )[1]
    return Chart(lines, *(_words(value, each) for each in (least, most, last)))


def _x(place: int, count: int) -> float:
    return round(MARGIN + place * (WIDTH - 2 * MARGIN) / max(1, count - 1), 1)


def _y(told: int, least: int, most: int) -> float:
    high = (told - least) / (most - least) if most > least else 0.5
    return round(HEIGHT - MARGIN - high * (HEIGHT - 2 * MARGIN), 1)


def _words(value: str, told: int) -> str:
    return f"{told / 2**20:.1f}" if value in _IN_MIB else f"{told:,}"
