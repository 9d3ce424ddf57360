"""The messages before a violation as SVG: a line a node, an arrow a message. No I/O.

Time runs downwards. Each line of text has a height of its own, so that no two overlap.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from highwater.report.faults_in_run import FaultSpan
from highwater.report.messages import ALTER_PARTITION, FETCH, NO_ERROR, UPDATE_METADATA, Message
from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import NodeId, TopicPartition, node_name

MOST_MESSAGES = 30
MOST_MARKS = 30
CHARACTER_WIDTH = 6.1
LINE_HEIGHT = 17
_TIME_WIDTH, _COLUMN_WIDTH, _HEAD_HEIGHT, _GAP = 80, 200, 40, 7
_MOST_CHARACTERS = int((_COLUMN_WIDTH - 16) / CHARACTER_WIDTH)
_MARKS = {
    EventKind.BECAME_LEADER: "leads epoch {leader_epoch}, log end {offset}",
    EventKind.LOG_TRUNCATED: "cuts its log to {offset}",
    EventKind.LEADER_ELECTED: "elects broker {leader}, epoch {leader_epoch}",
    EventKind.CONTROLLER_ELECTED: "active, controller epoch {controller_epoch}",
    EventKind.CONTROLLER_RESIGNED: "resigns",
    EventKind.ISR_WRITTEN: "writes ISR {isr}",
    EventKind.ISR_CHANGED: "adopts ISR {isr}",
    EventKind.REPLICA_STOPPED: "stops its replica",
    EventKind.SESSION_LOST: "lost its session",
    EventKind.NODE_STARTED: "started",
}


class Kind(StrEnum):
    """The look of an arrow."""

    REQUEST = "request"
    ANSWER = "answer"
    LOST = "lost"
    """A request whose handling nobody traced."""


@dataclass(frozen=True, slots=True)
class Arrow:
    """Units: pixels. title: for who points at it."""

    kind: Kind
    x: float
    y: float
    to_x: float
    to_y: float
    title: str


@dataclass(frozen=True, slots=True)
class Label:
    """A line of text that begins at x, or ends there. y: of its base line. title: uncut."""

    x: float
    y: float
    text: str
    title: str
    ends_there: bool
    is_bad: bool

    @property
    def left(self) -> float:
        return self.x - self.width if self.ends_there else self.x

    @property
    def width(self) -> float:
        return len(self.text) * CHARACTER_WIDTH


@dataclass(frozen=True, slots=True)
class Time:
    """When the label beside it was."""

    y: float
    text: str


@dataclass(slots=True)
class MessageDrawing:
    """Units: pixels. dots: places (x, y) of what a node did by itself.

    left_out: earlier messages, and others that are left out for their number.
    """

    columns: tuple[tuple[str, float], ...]
    width: float
    left_out: int
    height: float = _HEAD_HEIGHT
    arrows: list[Arrow] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)
    times: list[Time] = field(default_factory=list)
    dots: list[tuple[float, float]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Moment:
    """One end of a message, or what a node did by itself. text: "" of an end without words."""

    at_ns: int
    node: int
    text: str
    number: int = -1
    """Of the message, -1 of what a node did."""
    end: int = 0
    """0: it was sent, 1: handled, 2: answered."""
    towards: int = -1
    """The node to which it leads, for the side of the text."""
    is_bad: bool = False


def draw_messages(
    messages: Sequence[Message],
    events: Iterable[TraceEvent],
    faults: Iterable[FaultSpan],
    at: TopicPartition | None,
    until_ns: int,
    start_ns: int,
) -> MessageDrawing | None:
    """Return the drawing of the last messages of the partition; None where there is none.

    Of many messages UpdateMetadata is left out first, then the earliest ones.
    at: None for all partitions. until_ns: of the run's time, when the violation shows.
    start_ns: of the run, by the nodes' clocks.
    """
    own = [
        each
        for each in messages
        if (at is None or at in each.partitions) and each.sent_ns - start_ns <= until_ns
    ]
    shown = own
    if len(shown) > MOST_MESSAGES:
        shown = [each for each in own if each.request != UPDATE_METADATA]
    shown = shown[-MOST_MESSAGES:]
    if not shown:
        return None
    since_ns = shown[0].sent_ns
    last_ns = start_ns + until_ns
    marks = [*_of_nodes(events, at, since_ns, last_ns), *_of_faults(faults, start_ns)]
    marks = sorted(
        (each for each in marks if since_ns <= each.at_ns <= last_ns), key=lambda each: each.at_ns
    )
    moments = [*_ends(shown, last_ns), *marks[-MOST_MARKS:]]
    moments.sort(key=lambda each: (each.at_ns, each.end, each.number))
    drawing = _empty(shown, moments, len(own) - len(shown))
    _place(drawing, shown, moments, start_ns)
    return drawing


def _of_nodes(
    events: Iterable[TraceEvent], at: TopicPartition | None, since_ns: int, until_ns: int
) -> Iterator[_Moment]:
    for event in events:
        words = _MARKS.get(event.kind)
        if words is None or not since_ns <= event.ts_ns <= until_ns:
            continue
        if at is not None and event.topic_partition not in (None, at):
            continue
        told = {name: event.detail.get(name) for name in ("leader", "isr")}
        epochs = {"leader_epoch": event.leader_epoch, "controller_epoch": event.controller_epoch}
        text = words.format(**told, **epochs, offset=event.offset)
        yield _Moment(event.ts_ns, event.node, text)


def _of_faults(faults: Iterable[FaultSpan], start_ns: int) -> Iterator[_Moment]:
    """Yield the faults that acted on one node."""
    for fault in faults:
        if fault.node is not None:
            deed = fault.text.partition(",")[0]
            yield _Moment(start_ns + fault.begin_ns, fault.node, deed, is_bad=True)


def _ends(messages: Sequence[Message], until_ns: int) -> Iterator[_Moment]:
    """Yield when each message was sent and handled, and when it was answered with news.

    An answer has news when it refuses, or settles an ISR change. A handling that is later than
    the violation is left out, as if it had not come yet.
    """
    for number, each in enumerate(messages):
        words = f"{each.request} {each.detail}".strip()
        yield _Moment(each.sent_ns, each.sender, words, number, 0, each.receiver)
        if each.handled_ns is not None and each.handled_ns <= until_ns:
            at_ns = max(each.handled_ns, each.sent_ns)
            yield _Moment(at_ns, each.receiver, "", number, 1, each.sender)
        has_news = each.is_refused or each.request == ALTER_PARTITION
        if each.answered_ns is not None and each.answered_ns <= until_ns and has_news:
            text = each.error if each.error != NO_ERROR else ""
            at_ns = max(each.answered_ns, each.sent_ns, each.handled_ns or 0)
            yield _Moment(at_ns, each.sender, text, number, 2, each.receiver, each.is_refused)


# ---------------------------------------------------------------- places


def _empty(
    messages: Sequence[Message], moments: Sequence[_Moment], left_out: int
) -> MessageDrawing:
    nodes = {each.node for each in moments} | {each.receiver for each in messages}
    columns = tuple(
        (node_name(NodeId(node)), _TIME_WIDTH + (number + 0.5) * _COLUMN_WIDTH)
        for number, node in enumerate(sorted(nodes))
    )
    return MessageDrawing(columns, _TIME_WIDTH + len(columns) * _COLUMN_WIDTH, left_out)


def _place(
    drawing: MessageDrawing, messages: Sequence[Message], moments: Sequence[_Moment], start_ns: int
) -> None:
    """Give each moment its height, in order, and draw each message once both ends have theirs."""
    xs = dict(drawing.columns)
    heights: dict[tuple[int, int], float] = {}
    y: float = _HEAD_HEIGHT
    for moment in moments:
        y += LINE_HEIGHT if moment.text else _GAP
        x = xs[node_name(NodeId(moment.node))]
        if moment.number >= 0:
            heights[moment.number, moment.end] = y
        else:
            drawing.dots.append((x, y))
        if moment.text:
            _write(drawing, moment, x, y, xs)
            drawing.times.append(Time(y, f"{(moment.at_ns - start_ns) / 1e6:.1f} ms"))
    for number, message in enumerate(messages):
        _point(drawing, message, number, xs, heights)
    drawing.height = y + LINE_HEIGHT


def _write(
    drawing: MessageDrawing, moment: _Moment, x: float, y: float, xs: dict[str, float]
) -> None:
    """Write the moment's text on the side of its line to which it leads, or where there is room."""
    last_x = drawing.columns[-1][1]
    goes_left = xs[node_name(NodeId(moment.towards))] < x if moment.towards >= 0 else x == last_x
    text = moment.text
    if len(text) > _MOST_CHARACTERS:
        text = f"{text[: _MOST_CHARACTERS - 4]} ..."
    beside = x - 8 if goes_left else x + 8
    drawing.labels.append(Label(beside, y - 3, text, moment.text, goes_left, moment.is_bad))


def _point(
    drawing: MessageDrawing,
    message: Message,
    number: int,
    xs: dict[str, float],
    heights: dict[tuple[int, int], float],
) -> None:
    x, to_x = (xs[node_name(NodeId(node))] for node in (message.sender, message.receiver))
    sent, handled, answered = (heights.get((number, end)) for end in range(3))
    if sent is None:
        return
    title = f"{message.request} {message.detail}".strip()
    if handled is not None:
        drawing.arrows.append(Arrow(Kind.REQUEST, x, sent, to_x, handled, title))
    elif message.request == FETCH:  # its leader does not trace it
        handled = sent + _GAP if answered is None else max(sent, answered - _GAP)
        drawing.arrows.append(Arrow(Kind.REQUEST, x, sent, to_x, handled, title))
    else:
        way = x + 0.6 * (to_x - x)
        drawing.arrows.append(Arrow(Kind.LOST, x, sent, way, sent + _GAP, title))
    if handled is not None and answered is not None:
        drawing.arrows.append(Arrow(Kind.ANSWER, to_x, handled, x, answered, message.error))
