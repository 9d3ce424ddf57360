"""Replicas' offsets as SVG: a row a replica, a colour a leader epoch, where they differ. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from highwater.report.replica_offsets import Compared, ReplicaOffsets, Stretch

CHARACTER_WIDTH = 6.1
_NAME_WIDTH, _PLOT_WIDTH, _RIGHT = 170, 730, 40
_TOP, _ROW_HEIGHT, _BAR_HEIGHT = 26, 28, 17
_TICK_ROOM = 12
_LEAST_PAD = 4
_MOST_RANGES = 200
_COLOURS = (
    ("#0072b2", "#ffffff"),
    ("#e69f00", "#000000"),
    ("#009e73", "#000000"),
    ("#cc79a7", "#000000"),
    ("#56b4e9", "#000000"),
    ("#d55e00", "#000000"),
    ("#f0e442", "#000000"),
)
"""Of Okabe and Ito, which colour-blind people tell apart; each with that of text on it."""
_UNKNOWN = ("#8a8f98", "#000000")


@dataclass(frozen=True, slots=True)
class Bar:
    """A stretch. text: its epoch, "" where it has no room. Units: pixels."""

    x: float
    y: float
    width: float
    colour: str
    ink: str
    text: str
    title: str


@dataclass(frozen=True, slots=True)
class RowOfReplica:
    """A replica's row. mark_x: of its high watermark, None outside of the drawing.

    goes_on_left, goes_on_right: it has more records than are drawn.
    """

    y: float
    name: str
    bars: tuple[Bar, ...]
    mark_x: float | None
    high_watermark: int
    goes_on_left: bool
    goes_on_right: bool


@dataclass(frozen=True, slots=True)
class Tick:
    """An offset below the rows. is_found: the finding's."""

    x: float
    text: str
    is_found: bool


@dataclass(frozen=True, slots=True)
class OffsetsDrawing:
    """Units: pixels. differing: x and width of the ranges. key: colour and epoch in words."""

    width: float
    height: float
    plot_x: float
    plot_width: float
    rows: tuple[RowOfReplica, ...]
    ticks: tuple[Tick, ...]
    differing: tuple[tuple[float, float], ...]
    key: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class _Window:
    """The offsets [start, end) that are drawn."""

    start: int
    end: int

    def x(self, offset: float) -> float:
        share = (offset - self.start) / (self.end - self.start)
        return _NAME_WIDTH + _PLOT_WIDTH * min(1.0, max(0.0, share))

    def has(self, start: int, end: int) -> bool:
        return start < self.end and end > self.start


def draw_offsets(compared: Compared, offset: int) -> OffsetsDrawing | None:
    """Return the drawing around the offsets at which replicas differ, and around the finding's.

    offset: the finding's, -1 without one. None where no replica has a record.
    """
    replicas = compared.replicas
    if not any(each.stretches for each in replicas):
        return None
    window = _window(compared, offset)
    epochs = sorted(
        {
            -1 if each.epoch is None else each.epoch
            for replica in replicas
            for each in replica.stretches
            if window.has(each.start_offset, each.end_offset)
        }
    )
    colours = {
        epoch: _UNKNOWN if epoch < 0 else _COLOURS[number % len(_COLOURS)]
        for number, epoch in enumerate(epochs)
    }
    rows = tuple(
        _row(replica, _TOP + number * _ROW_HEIGHT, window, colours)
        for number, replica in enumerate(replicas)
    )
    return OffsetsDrawing(
        width=_NAME_WIDTH + _PLOT_WIDTH + _RIGHT,
        height=_TOP + len(rows) * _ROW_HEIGHT + 24,
        plot_x=_NAME_WIDTH,
        plot_width=_PLOT_WIDTH,
        rows=rows,
        ticks=tuple(_ticks(compared, offset, window)),
        differing=tuple(
            (window.x(start), max(2.0, window.x(end) - window.x(start)))
            for start, end in compared.differing[:_MOST_RANGES]
        ),
        key=tuple((colours[epoch][0], _say_epoch(epoch)) for epoch in epochs),
    )


def _say_epoch(epoch: int | None) -> str:
    return "epoch unknown" if epoch is None or epoch < 0 else f"epoch {epoch}"


def _window(compared: Compared, offset: int) -> _Window:
    """Return what is drawn: all that differs, the finding's offset, and some offsets around."""
    points = [each for ends in compared.differing for each in ends]
    points += [offset, offset + 1] if offset >= 0 else []
    if not points:
        newest = max(each.end_offset for each in compared.replicas)
        points = [max(0, newest - 1), newest]
    pad = max(_LEAST_PAD, (max(points) - min(points)) * 15 // 100)
    return _Window(max(0, min(points) - pad), max(points) + pad)


def _row(
    replica: ReplicaOffsets, y: float, window: _Window, colours: dict[int, tuple[str, str]]
) -> RowOfReplica:
    told = "" if replica.told_ns is None else f", at {replica.told_ns / 1e9:.1f} s"
    within = window.start <= replica.high_watermark <= window.end
    return RowOfReplica(
        y=y,
        name=f"broker {replica.broker}{told}",
        bars=tuple(_bars(replica, y, window, colours)),
        mark_x=window.x(replica.high_watermark) if within else None,
        high_watermark=replica.high_watermark,
        goes_on_left=bool(replica.stretches) and replica.start_offset < window.start,
        goes_on_right=replica.end_offset > window.end,
    )


def _bars(
    replica: ReplicaOffsets, y: float, window: _Window, colours: dict[int, tuple[str, str]]
) -> Iterator[Bar]:
    for each in replica.stretches:
        if not window.has(each.start_offset, each.end_offset):
            continue
        x = window.x(each.start_offset)
        width = max(1.0, window.x(each.end_offset) - x)
        colour, ink = colours[-1 if each.epoch is None else each.epoch]
        yield Bar(x, y, width, colour, ink, _text(each, width), _title(replica.broker, each))


def _text(stretch: Stretch, width: float) -> str:
    """Return the stretch's epoch in as many words as there is room for."""
    short = "?" if stretch.epoch is None else str(stretch.epoch)
    fitting = (
        text
        for text in (_say_epoch(stretch.epoch), short)
        if len(text) * CHARACTER_WIDTH + 6 <= width
    )
    return next(fitting, "")


def _title(broker: int, stretch: Stretch) -> str:
    last = stretch.end_offset - 1
    return f"broker {broker}: offsets {stretch.start_offset} to {last}, {_say_epoch(stretch.epoch)}"


def _ticks(compared: Compared, offset: int, window: _Window) -> Iterator[Tick]:
    """Yield the offsets that have room below the rows: the finding's first, then borders."""
    taken: list[tuple[float, float]] = []
    for each in dict.fromkeys(_told_offsets(compared, offset, window)):
        if not window.start <= each <= window.end:
            continue
        x, half = window.x(each), len(str(each)) * CHARACTER_WIDTH / 2 + _TICK_ROOM / 2
        if all(x + half <= left or x - half >= right for left, right in taken):
            taken.append((x - half, x + half))
            yield Tick(x, str(each), each == offset)


def _told_offsets(compared: Compared, offset: int, window: _Window) -> Iterable[int]:
    yield offset
    for start, end in compared.differing:
        yield from (start, end)
    for replica in compared.replicas:
        for each in replica.stretches:
            yield from (each.start_offset, each.end_offset)
        yield replica.high_watermark
    yield from (window.start, window.end)
