"""What a run's timeline shows: spans of nodes and leaders, lags of replicas, rates. No I/O.

Units: seconds from the run's start. It is bounded whatever the run's size: rates and latencies are
of at most MOST_BINS bins, and lags of at most MOST_POINTS a line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isnan, nan

from highwater.report.observation import active_controller
from highwater_checker.history import Sends
from highwater_checker.looks import Look
from highwater_core.ids import NodeId, TopicPartition, is_controller, node_name
from highwater_core.internal_topics import INTERNAL_TOPICS
from highwater_core.messages import ReplicaSnapshot

MOST_BINS = 2_000
MOST_POINTS = 1_500
MOST_PARTITIONS = 12
MOST_LAGS = 3
MOST_ERRORS = 3
"""Of a bin, in words."""
NO_ERROR = "without an error's name"
_BIN_S = 0.1
MOST_LAG = 2**53
"""Beyond it JavaScript has no whole numbers."""
_S = 1e9


@dataclass(frozen=True, slots=True)
class Span:
    """What a lane shows for a time: a node's state, a fault, or a partition's leadership.

    kind: of the state, for its colour: down, up, leads, active; of a leadership the leader's id.
    text: for who points at it. label: written on it, in few characters.
    is_whole: of a leadership, whether its ISR is as large as the partition's ever was.
    """

    lane: str
    begin_s: float
    end_s: float
    kind: str
    text: str
    label: str = ""
    is_whole: bool = True


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
    """Sends of a stretch of time, by when they ended; latencies of the acknowledged ones, ms.

    unknown_per_s: sends of which nobody knows whether they were written, by when their client gave
        them up, or began them if it never did. errors: the most frequent ones, in words.
    """

    begin_s: float
    end_s: float
    acknowledged_per_s: float
    failed_per_s: float
    unknown_per_s: float
    median_ms: float | None
    longest_ms: float | None
    errors: str


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
    led = _led_in(looks)
    leaders = _leader_runs(looks, led)
    shown = _order(leaders, first)
    lags = _lags(shown[:MOST_LAGS], looks, led)
    return Timeline(
        end_s=end_s,
        nodes=tuple(_node_spans(looks, led)),
        leaders=tuple(
            span for at in shown[:MOST_PARTITIONS] for span in _leader_spans(at, leaders[at])
        ),
        left_out=max(0, len(shown) - MOST_PARTITIONS),
        lags={str(at): lags[at] for at in shown[:MOST_LAGS]},
        bins=tuple(_bins(sends, end_s)),
    )


def _order(
    leaders: Mapping[TopicPartition, Sequence[Run]], first: Iterable[TopicPartition]
) -> list[TopicPartition]:
    wanted = [at for at in dict.fromkeys(first) if at in leaders]
    others = set(leaders).difference(wanted)
    return wanted + sorted(
        others, key=lambda at: (at.topic in INTERNAL_TOPICS, -len(leaders[at]), at)
    )


# ---------------------------------------------------------------- leaderships

Led = tuple[int, int, tuple[int, ...]]
"""A partition's leader, leader epoch and ISR."""
Run = tuple[int, int, Led]
"""A leadership, from when to when (ns)."""


def _led_in(looks: Iterable[Look]) -> list[dict[TopicPartition, Led]]:
    """Return the leaderships of each look; of looks in a row with the same ones, one object.

    A run may have thousands of partitions, and many looks in a second: what does not change is
    compared, and neither kept nor told again.
    """
    found: list[dict[TopicPartition, Led]] = []
    for look in looks:
        led = _led(look)
        found.append(found[-1] if found and found[-1] == led else led)
    return found


def _led(look: Look) -> dict[TopicPartition, Led]:
    found: dict[TopicPartition, Led] = {}
    for node, snapshot in sorted(look.nodes.items()):
        for replica in () if snapshot is None else snapshot.replicas:
            if replica.role != "leader":
                continue
            known = found.get(replica.topic_partition)
            if known is None or known[1] < replica.leader_epoch:
                isr = tuple(sorted(replica.isr))
                found[replica.topic_partition] = node, replica.leader_epoch, isr
    return found


def _leader_runs(
    looks: Sequence[Look], led: Sequence[Mapping[TopicPartition, Led]]
) -> dict[TopicPartition, list[Run]]:
    """Return each partition's leaderships, in order; there is none while nobody leads."""
    found: dict[TopicPartition, list[Run]] = {}
    open_since: dict[TopicPartition, int] = {}
    last: Mapping[TopicPartition, Led] = {}
    end_ns = looks[-1].time_ns if looks else 0
    for look, now in zip(looks, led, strict=True):
        if now is last:
            continue
        for at in {at for at, _ in now.items() ^ last.items()}:
            if at in last:
                found.setdefault(at, []).append((open_since.pop(at), look.time_ns, last[at]))
            if at in now:
                open_since[at] = look.time_ns
        last = now
    for at, begin_ns in open_since.items():
        found.setdefault(at, []).append((begin_ns, end_ns, last[at]))
    return found


def _leader_spans(at: TopicPartition, runs: Iterable[Run]) -> Iterator[Span]:
    before = ""
    runs = list(runs)
    most = max((len(isr) for _, _, (_, _, isr) in runs), default=0)
    for begin_ns, end_ns, (leader, epoch, isr) in runs:
        label = f"broker {leader}, epoch {epoch}"
        text = f"{at}: {label}; ISR [{', '.join(map(str, isr))}]"
        shown = "" if label == before else label  # the ISR alone changed
        is_whole = len(isr) == most
        yield Span(str(at), begin_ns / _S, end_ns / _S, str(leader), text, shown, is_whole)
        before = label


# ---------------------------------------------------------------- nodes


def _node_spans(
    looks: Sequence[Look], led: Sequence[Mapping[TopicPartition, Led]]
) -> Iterator[Span]:
    said: list[dict[int, str]] = []
    for number, now in enumerate(led):
        same = number > 0 and now is led[number - 1]
        said.append(said[-1] if same else _say_leaders(now))
    for node in sorted({node for look in looks for node in look.nodes}):
        states = [_state(node, look, each) for look, each in zip(looks, said, strict=True)]
        name = node_name(NodeId(node))
        for begin_s, end_s, (kind, text) in _runs(looks, states):
            yield Span(name, begin_s, end_s, kind, f"{name} {text}")


def _say_leaders(led: Mapping[TopicPartition, Led]) -> dict[int, str]:
    """Return what each leader leads, in words."""
    by_leader: dict[int, list[TopicPartition]] = {}
    for at, (leader, _, _) in led.items():
        by_leader.setdefault(leader, []).append(at)
    found = {}
    for leader, leads in by_leader.items():
        more = f" and {len(leads) - 3} more" if len(leads) > 3 else ""
        found[leader] = f"leads {', '.join(map(str, sorted(leads)[:3]))}{more}"
    return found


def _state(node: int, look: Look, leads: Mapping[int, str]) -> tuple[str, str]:
    snapshot = look.nodes.get(node)
    if snapshot is None:
        return "down", "does not answer"
    if is_controller(NodeId(node)):
        active = active_controller(look)
        if active is not None and active.node_id == node:
            return "active", f"is active, controller epoch {active.controller_epoch}"
        return "up", "stands by"
    return ("leads", leads[node]) if node in leads else ("up", "leads nothing")


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
    shown: Sequence[TopicPartition],
    looks: Sequence[Look],
    led: Sequence[Mapping[TopicPartition, Led]],
) -> dict[TopicPartition, tuple[Lag, ...]]:
    found: dict[TopicPartition, dict[int, Lag]] = {at: {} for at in shown}
    for look, each in zip(looks, led, strict=True):
        replicas = _replicas(look, found)
        for at, own in found.items():
            _add_lags(own, look.time_ns / _S, replicas[at], each.get(at))
    return {at: tuple(_thinned(own[broker]) for broker in sorted(own)) for at, own in found.items()}


def _replicas(
    look: Look, wanted: Iterable[TopicPartition]
) -> dict[TopicPartition, dict[int, ReplicaSnapshot]]:
    """Return the replicas of these partitions, by broker."""
    found: dict[TopicPartition, dict[int, ReplicaSnapshot]] = {at: {} for at in wanted}
    for node, snapshot in look.nodes.items():
        for replica in () if snapshot is None else snapshot.replicas:
            if replica.topic_partition in found:
                found[replica.topic_partition][node] = replica
    return found


def _add_lags(
    lags: dict[int, Lag], time_s: float, replicas: Mapping[int, ReplicaSnapshot], led: Led | None
) -> None:
    for broker in replicas:
        lags.setdefault(broker, Lag(broker))
    for broker, lag in lags.items():
        replica = replicas.get(broker)
        if led is None or replica is None:
            lag.add(time_s, nan, nan)
            continue
        # A look asks one node after another: a follower may be ahead of the leader by then.
        end = replicas[led[0]].log_end_offset
        behind = [end - replica.log_end_offset, end - replica.high_watermark]
        lag.add(time_s, *(float(min(max(0, each), MOST_LAG)) for each in behind))


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
    failed, unknown = [0] * count, [0] * count
    errors: list[Counter[str]] = [Counter() for _ in range(count)]
    for ack in sends.acknowledged:
        took_ms = (ack.acknowledged_ns - ack.invoked_ns) / 1e6
        latencies[_bin_at(ack.acknowledged_ns, width_s, count)].append(took_ms)
    for events, counts in ((sends.failed, failed), (sends.unknown, unknown)):
        for event in events:
            at = _bin_at(event.time_ns, width_s, count)
            counts[at] += 1
            errors[at][event.error or NO_ERROR] += 1
    for number, own in enumerate(latencies):
        own.sort()
        yield Bin(
            begin_s=number * width_s,
            end_s=(number + 1) * width_s,
            acknowledged_per_s=len(own) / width_s,
            failed_per_s=failed[number] / width_s,
            unknown_per_s=unknown[number] / width_s,
            median_ms=own[len(own) // 2] if own else None,
            longest_ms=own[-1] if own else None,
            errors=_say_errors(errors[number]),
        )


def _say_errors(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {error[:60]}" for error, count in counts.most_common(MOST_ERRORS))


def _bin_at(time_ns: int, width_s: float, count: int) -> int:
    return min(max(0, int(time_ns / _S / width_s)), count - 1)
