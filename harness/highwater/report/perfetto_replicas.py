"""A run's replicas for Perfetto: the roles that they had, their offsets and ISRs. No I/O."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from highwater.report.timeline import MOST_LAG
from highwater.report.trace_events import THE_RUN, TraceEvents, pid_of
from highwater_checker.looks import Look, leaderships, replicas_of
from highwater_core.ids import TopicPartition
from highwater_core.messages import ReplicaSnapshot

MOST_VALUES = 400_000
"""Of all counters together, about."""
_DOWN = "does not answer"

Role = tuple[str, int, int]
"""A replica's role, its leader and leader epoch."""


@dataclass(frozen=True, slots=True)
class _RoleSpan:
    node: int
    at: TopicPartition
    begin_ns: int
    end_ns: int
    text: str


def add_roles(trace: TraceEvents, looks: Sequence[Look], shown: frozenset[TopicPartition]) -> None:
    """Add the roles of each node's replicas, and the times in which nobody led a partition."""
    for each in sorted(_roles(looks, shown), key=lambda each: (each.node, each.at, each.begin_ns)):
        trace.span(
            trace.track(pid_of(each.node), str(each.at)), each.text, each.begin_ns, each.end_ns
        )
    idle = sorted(_without_leader(looks, shown))
    rows = trace.rows_for(THE_RUN, "nobody leads", [(begin, end) for begin, end, _ in idle])
    for (begin_ns, end_ns, at), row in zip(idle, rows, strict=True):
        trace.span(row, f"nobody leads {at}", begin_ns, end_ns)


def _roles(looks: Sequence[Look], shown: frozenset[TopicPartition]) -> Iterator[_RoleSpan]:
    """Yield the stretches in which a replica had one role; those of a node that is down, too."""
    begun: dict[int, dict[TopicPartition, tuple[int, Role]]] = defaultdict(dict)
    for look in looks:
        for node, snapshot in look.nodes.items():
            own = begun[node]
            roles = dict.fromkeys(own, (_DOWN, -1, -1))
            if snapshot is not None:
                roles = {each.topic_partition: _role(each) for each in snapshot.replicas}
            for at in [at for at in own if roles.get(at) != own[at][1]]:
                begin_ns, role = own.pop(at)
                yield _RoleSpan(node, at, begin_ns, look.time_ns, _say(role))
            for at, role in roles.items():
                if at in shown and at not in own:
                    own[at] = look.time_ns, role
    for node, own in begun.items():
        for at, (begin_ns, role) in own.items():
            yield _RoleSpan(node, at, begin_ns, looks[-1].time_ns, _say(role))


def _role(replica: ReplicaSnapshot) -> Role:
    return replica.role, int(replica.leader), int(replica.leader_epoch)


def _say(role: Role) -> str:
    name, leader, epoch = role
    match name:
        case "leader":
            return f"leads, epoch {epoch}"
        case "follower":
            whom = f"broker {leader}" if leader >= 0 else "nobody"
            return f"follows {whom}, epoch {epoch}"
    return name


def _without_leader(
    looks: Sequence[Look], shown: frozenset[TopicPartition]
) -> Iterator[tuple[int, int, TopicPartition]]:
    """Yield from when to when nobody led a partition that somebody had led."""
    led_last: dict[TopicPartition, int] = {}
    idle_since: dict[TopicPartition, int] = {}
    for look in looks:
        led = leaderships(look)
        for at in led:
            if at in idle_since:
                yield idle_since.pop(at), look.time_ns, at
            if at in shown:
                led_last[at] = look.time_ns
        for at in led_last:
            if at not in led:
                idle_since.setdefault(at, look.time_ns)
    for at, begin_ns in idle_since.items():
        yield begin_ns, looks[-1].time_ns, at


# ---------------------------------------------------------------- counters


def add_offsets(
    trace: TraceEvents, looks: Sequence[Look], shown: Sequence[TopicPartition]
) -> list[str]:
    """Add each replica's offsets and lag, and each partition's ISR size, where they change.

    Return a note if not every look is told.
    """
    nodes = max((len(look.nodes) for look in looks), default=0)
    step = -(-len(looks) * max(1, nodes * len(shown)) // MOST_VALUES) or 1
    add = _only_changes(trace)
    for look in (*looks[:-1:step], *looks[-1:]):
        led = leaderships(look)
        for at in shown:
            leadership = led.get(at)
            isr = 0 if leadership is None else len(leadership.isr)
            add(THE_RUN, f"{at} ISR", look.time_ns, {"members": isr})
            for broker, replica in replicas_of(look, at).items():
                ends = {"log end": replica.log_end_offset, "high watermark": replica.high_watermark}
                bounded = {name: min(int(offset), MOST_LAG) for name, offset in ends.items()}
                add(pid_of(broker), f"{at} offsets", look.time_ns, bounded)
                if leadership is not None:
                    behind = {
                        name: max(0, min(int(leadership.log_end_offset), MOST_LAG) - offset)
                        for name, offset in bounded.items()
                    }
                    add(pid_of(broker), f"{at} behind the leader", look.time_ns, behind)
    return [f"offsets are those of one look in {step}"] if step > 1 else []


def _only_changes(
    trace: TraceEvents,
) -> Callable[[int, str, int, Mapping[str, int]], None]:
    """Return what adds a counter's values unless they are those of before."""
    last: dict[tuple[int, str], Mapping[str, int]] = {}

    def add(pid: int, name: str, at_ns: int, values: Mapping[str, int]) -> None:
        if last.get((pid, name)) != values:
            last[pid, name] = values
            trace.counter(pid, name, at_ns, values)

    return add
