"""What a run's timeline shows: spans of nodes and leaders, lags of replicas, rates. No I/O.

Units: seconds from the run's start. It is bounded whatever the run's size: rates and latencies are
of at most MOST_BINS bins, and lags of at most MOST_POINTS a line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isnan, nan

from highwater.report.observation import active_controller
from highwater_checker.history import SEND, Sends
from highwater_checker.looks import Leadership, Look, leaderships, replicas_of
from highwater_core.ids import NodeId, TopicPartition, is_controller, node_name
from highwater_core.internal_topics import INTERNAL_TOPICS

MOST_BINS = 600
MOST_POINTS = 1_500
MOST_PARTITIONS = 12
MOST_LAGS = 3
_BIN_S = 0.1
MOST_LAG = 2**53
"""Beyond it JavaScript has no whole numbers."""
_S = 1e9


@dataclass(frozen=True, slots=True)
class Span:
    """What a lane shows for a time: a node's state, or a partition's leadership.

    kind: of the state, for its colour: down, up, leads, active; of a leadership the leader's id.
    text: for who points at it. label: written on it, in few characters.
    """

    lane: str
    begin_s: float
    end_s: float
    kind: str
    text: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class Lag:
    """How far a replica was behind its leader's log end, over time.

    log_end: in records, of its log's end; high_watermark: of its high watermark; nan at a time at
    which it did not answer, or nobody led.
    """

    broker: int
    times_s: list[float] = field(default_factory=list)
    log_end: list[float] = field(default_factory=list)
    high_watermark: list[float] = field(default_factory=list)

    def add(self, time_s: float, log_end: float, high_watermark: float) -> None:
        """Add a point; of a stretch without a value the first alone."""
        if isnan(log_end) and (not self.log_end or isnan(self.log_end[-1])):
            return
        self.times_s.append(time_s)
        self.log_end.append(log_end)
        self.high_watermark.append(high_watermark)


@dataclass(frozen=True, slots=True)
class Bin:
    """Sends of a stretch of time, by when they ended; latencies of the acknowledged ones, ms."""

    begin_s: float
    end_s: float
    acknowledged_per_s: float
    failed_per_s: float
    median_ms: float | None
    longest_ms: float | None


@dataclass(frozen=True, slots=True)
class Timeline:
    """One run over time.

    left_out: partitions whose leaders are not shown. lags: by partition, the first MOST_LAGS.
    """

    end_s: float
    nodes: tuple[Span, ...]
    leaders: tuple[Span, ...]
    left_out: int
    lags: Mapping[str, tuple[Lag, ...]]
    bins: tuple[Bin, ...]


def timeline_of(looks: Sequence[Look], sends: Sends, first: Iterable[TopicPartition]) -> Timeline:
    """Return what the run's looks and sends show.

    looks: in order. first: partitions that are shown before others, as those of findings. The
    others follow by how often their leaders changed, the brokers' own topics last.
    """
    looked_ns = (look.time_ns for look in looks)
    end_s = max([0, *looked_ns, *(ack.acknowledged_ns for ack in sends.acknowledged)]) / _S
    led = [leaderships(look) for look in looks]
    leaders = {at: list(_leader_spans(at, looks, led)) for at in _partitions(led)}
    shown = _order(leaders, first)
    return Timeline(
        end_s=end_s,
        nodes=tuple(_node_spans(looks, led)),
        leaders=tuple(span for at in shown[:MOST_PARTITIONS] for span in leaders[at]),
        left_out=max(0, len(shown) - MOST_PARTITIONS),
        lags={str(at): tuple(_lags(at, looks, led)) for at in shown[:MOST_LAGS]},
        bins=tuple(_bins(sends, end_s)),
    )


def _partitions(led: Sequence[Mapping[TopicPartition, Leadership]]) -> list[TopicPartition]:
    return sorted({at for each in led for at in each})


def _order(
    leaders: Mapping[TopicPartition, Sequence[Span]], first: Iterable[TopicPartition]
) -> list[TopicPartition]:
    wanted = [at for at in dict.fromkeys(first) if at in leaders]
    others = [at for at in leaders if at not in wanted]
    return wanted + sorted(others, key=lambda at: (at.topic in INTERNAL_TOPICS, -len(leaders[at])))


# ---------------------------------------------------------------- spans


def _node_spans(
    looks: Sequence[Look], led: Sequence[Mapping[TopicPartition, Leadership]]
) -> Iterator[Span]:
    nodes = sorted({node for look in looks for node in look.nodes})
    for node in nodes:
        states = [_state(node, look, each) for look, each in zip(looks, led, strict=True)]
        name = node_name(NodeId(node))
        for begin_s, end_s, (kind, text) in _runs(looks, states):
            yield Span(name, begin_s, end_s, kind, f"{name} {text}")


def _state(node: int, look: Look, led: Mapping[TopicPartition, Leadership]) -> tuple[str, str]:
    snapshot = look.nodes.get(node)
    if snapshot is None:
        return "down", "does not answer"
    if is_controller(NodeId(node)):
        active = active_controller(look)
        if active is not None and active.node_id == node:
            return "active", f"is active, controller epoch {active.controller_epoch}"
        return "up", "stands by"
    leads = [str(at) for at, each in led.items() if each.leader == node]
    if not leads:
        return "up", "leads nothing"
    more = f" and {len(leads) - 3} more" if len(leads) > 3 else ""
    return "leads", f"leads {', '.join(leads[:3])}{more}"


def _leader_spans(
    at: TopicPartition, looks: Sequence[Look], led: Sequence[Mapping[TopicPartition, Leadership]]
) -> Iterator[Span]:
    states = [_leadership(each.get(at)) for each in led]
    label = ""
    for begin_s, end_s, (kind, text) in _runs(looks, states):
        if kind:
            before, label = label, text.partition(";")[0]
            shown = "" if label == before else label  # the ISR alone changed
            yield Span(str(at), begin_s, end_s, kind, f"{at}: {text}", shown)


def _leadership(found: Leadership | None) -> tuple[str, str]:
    if found is None:
        return "", ""
    isr = ", ".join(map(str, found.isr))
    return str(found.leader), f"broker {found.leader}, epoch {found.leader_epoch}; ISR [{isr}]"


def _runs(
    looks: Sequence[Look], states: Sequence[tuple[str, str]]
) -> Iterator[tuple[float, float, tuple[str, str]]]:
    """Yield the begin and end of each stretch of looks with one state."""
    begin = 0
    for at in range(1, len(looks) + 1):
        if at == len(looks) or states[at] != states[begin]:
            end = min(at, len(looks) - 1)
            yield looks[begin].time_ns / _S, looks[end].time_ns / _S, states[begin]
            begin = at


# ---------------------------------------------------------------- lags


def _lags(
    at: TopicPartition, looks: Sequence[Look], led: Sequence[Mapping[TopicPartition, Leadership]]
) -> Iterator[Lag]:
    found: dict[int, Lag] = {}
    for look, each in zip(looks, led, strict=True):
        leadership, replicas = each.get(at), replicas_of(look, at)
        found |= {broker: Lag(broker) for broker in replicas if broker not in found}
        for broker, lag in found.items():
            replica = replicas.get(broker)
            if leadership is None or replica is None:
                lag.add(look.time_ns / _S, nan, nan)
                continue
            # A look asks one node after another: a follower may be ahead of the leader by then.
            behind = [leadership.log_end_offset - replica.log_end_offset]
            behind.append(leadership.log_end_offset - replica.high_watermark)
            lag.add(look.time_ns / _S, *(float(min(max(0, each), MOST_LAG)) for each in behind))
    for broker in sorted(found):
        yield _thinned(found[broker])


def _thinned(lag: Lag) -> Lag:
    """Return the lag with MOST_POINTS points at most: of each stretch that of the longest lag."""
    count = len(lag.times_s)
    if count <= MOST_POINTS:
        return lag
    step = -(-count // MOST_POINTS)
    kept = [
        max(range(begin, min(begin + step, count)), key=lambda at: _length(lag, at))
        for begin in range(0, count, step)
    ]
    return Lag(
        lag.broker,
        [lag.times_s[at] for at in kept],
        [lag.log_end[at] for at in kept],
        [lag.high_watermark[at] for at in kept],
    )


def _length(lag: Lag, at: int) -> float:
    """Return the lag; a gap counts as the longest, so that it is kept."""
    length = lag.high_watermark[at]
    return inf if isnan(length) else length


# ---------------------------------------------------------------- rates


def _bins(sends: Sends, end_s: float) -> Iterator[Bin]:
    width_s = max(_BIN_S, end_s / MOST_BINS)
    count = int(end_s / width_s) + 1
    latencies: list[list[float]] = [[] for _ in range(count)]
    failed = [0] * count
    for ack in sends.acknowledged:
        took_ms = (ack.acknowledged_ns - ack.invoked_ns) / 1e6
        latencies[_bin_at(ack.acknowledged_ns, width_s, count)].append(took_ms)
    for event in sends.failed:
        if event.function == SEND:
            failed[_bin_at(event.time_ns, width_s, count)] += 1
    for number, (own, lost) in enumerate(zip(latencies, failed, strict=True)):
        own.sort()
        yield Bin(
            begin_s=number * width_s,
            end_s=(number + 1) * width_s,
            acknowledged_per_s=len(own) / width_s,
            failed_per_s=lost / width_s,
            median_ms=own[len(own) // 2] if own else None,
            longest_ms=own[-1] if own else None,
        )


def _bin_at(time_ns: int, width_s: float, count: int) -> int:
    return min(max(0, int(time_ns / _S / width_s)), count - 1)
