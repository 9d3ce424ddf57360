"""A run as a trace that Perfetto opens: a process a node, with roles, messages, counters. No I/O.

The data are those of the run's page: looks, sends, faults and the nodes' events.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from highwater.report.failover import Gap
from highwater.report.faults_in_run import FaultSpan
from highwater.report.messages import NO_ERROR, Message, messages_of
from highwater.report.perfetto_replicas import add_offsets, add_roles
from highwater.report.timeline import Timeline, timeline_of
from highwater.report.trace_events import CLIENTS, THE_RUN, TraceEvents, Track, pid_of
from highwater_checker.history import BEGUN_FIRST, HistoryEvent, OperationType
from highwater_checker.run_folder.evidence import Evidence
from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import NodeId, TopicPartition, node_name

MOST_OPERATIONS = 200_000
MOST_MARKS = 100_000
MOST_PARTITIONS = 200
MOST_COUNTED = 20
_MARKS = frozenset(
    {
        EventKind.BAD_INPUT_MET,
        EventKind.BECAME_FOLLOWER,
        EventKind.BECAME_LEADER,
        EventKind.BROKERS_CHANGED,
        EventKind.COMMAND_TIMED_OUT,
        EventKind.CONTROLLER_ELECTED,
        EventKind.CONTROLLER_RESIGNED,
        EventKind.FAIL_POINT_HIT,
        EventKind.FAILOVER_COMPLETED,
        EventKind.ISR_CHANGED,
        EventKind.ISR_WRITTEN,
        EventKind.LEADER_ELECTED,
        EventKind.LOG_TRUNCATED,
        EventKind.NODE_STARTED,
        EventKind.NODE_STOPPED,
        EventKind.REPLICA_STOPPED,
        EventKind.REQUEST_REFUSED,
        EventKind.SESSION_LOST,
        EventKind.SESSION_OPENED,
        EventKind.WRITE_CONFLICTED,
    }
)
"""Events of nodes that are marks."""


@dataclass(frozen=True, slots=True)
class TracedRun:
    """A run, and what was found out about it.

    name: of its folder. start_wall_ns: of the run by the nodes' clocks; None where it is not known:
    then marks and messages are left out. first: partitions that are shown before others.
    violation: when the first finding shows, in seconds of the run, and its words; None without one.
    """

    name: str
    evidence: Evidence
    start_wall_ns: int | None
    faults: Sequence[FaultSpan]
    gaps: Sequence[Gap]
    first: Sequence[TopicPartition]
    violation: tuple[float, str] | None


def trace_of(run: TracedRun) -> bytes:
    """Return the trace: Chrome's JSON, the same bytes of the same run."""
    trace = TraceEvents()
    notes: list[str] = []
    nodes = sorted({node for look in run.evidence.looks for node in look.nodes})
    traced = {event.node for event in run.evidence.traces}
    trace.process(THE_RUN, "the run")
    trace.process(CLIENTS, "clients")
    for node in sorted({*nodes, *traced}):
        trace.process(pid_of(node), node_name(NodeId(node)))
    _add_the_run(trace, run)
    shown = _shown(run, notes)
    timeline = timeline_of(run.evidence.looks, run.evidence.sends, run.first)
    _add_states(trace, timeline, nodes)
    add_roles(trace, run.evidence.looks, frozenset(shown))
    if len(shown) > MOST_COUNTED:
        notes.append(f"offsets and ISRs are those of {MOST_COUNTED} partitions")
    notes += add_offsets(trace, run.evidence.looks, shown[:MOST_COUNTED])
    _add_rates(trace, timeline)
    _add_operations(trace, run.evidence, round(timeline.end_s * 1e9), notes)
    if run.start_wall_ns is None:
        notes.append("without clock.json events of nodes and messages are left out")
    else:
        _add_marks(trace, run.evidence.traces, run.start_wall_ns, notes)
        _add_messages(trace, messages_of(run.evidence.traces), run.start_wall_ns)
    if trace.left_out:
        notes.append(f"{trace.left_out} events before the run's start are left out")
    return trace.encoded({"run": run.name, "notes": notes})


def _add_states(trace: TraceEvents, timeline: Timeline, nodes: Sequence[int]) -> None:
    by_name = {node_name(NodeId(node)): node for node in nodes}
    for span in timeline.nodes:
        row = trace.track(pid_of(by_name[span.lane]), "state")
        text = span.text.removeprefix(f"{span.lane} ")
        trace.span(row, text, round(span.begin_s * 1e9), round(span.end_s * 1e9))


def _add_the_run(trace: TraceEvents, run: TracedRun) -> None:
    """Add faults, pauses and the first finding."""
    looks = run.evidence.looks
    end_ns = looks[-1].time_ns if looks else 0
    acting = [
        (each.begin_ns, max(each.begin_ns, end_ns if each.end_ns is None else each.end_ns))
        for each in run.faults
    ]
    rows = trace.rows_for(THE_RUN, "faults", acting)
    for fault, (begin_ns, fault_end_ns), row in zip(run.faults, acting, rows, strict=True):
        trace.span(row, fault.deed, begin_ns, fault_end_ns, proof=fault.proof)
    pauses = sorted((int(gap.from_s * 1e9), int(gap.to_s * 1e9), str(gap)) for gap in run.gaps)
    rows = trace.rows_for(THE_RUN, "fail-overs", [(begin, end) for begin, end, _ in pauses])
    for (begin_ns, pause_end_ns, words), row in zip(pauses, rows, strict=True):
        trace.span(row, words, begin_ns, pause_end_ns)
    if run.violation is not None:
        seen_s, words = run.violation
        trace.instant(trace.track(THE_RUN, "violation"), words, int(seen_s * 1e9), {}, "g")


def _shown(run: TracedRun, notes: list[str]) -> list[TopicPartition]:
    """Return the partitions that have rows: those of findings, and the others in order."""
    hosted = {
        replica.topic_partition
        for look in run.evidence.looks
        for snapshot in look.nodes.values()
        if snapshot is not None
        for replica in snapshot.replicas
    }
    found = [at for at in dict.fromkeys(run.first) if at in hosted]
    found += sorted(hosted.difference(found), key=lambda at: (at.topic.startswith("__"), at))
    if len(found) > MOST_PARTITIONS:
        notes.append(f"{MOST_PARTITIONS} of {len(found)} partitions have rows")
    return found[:MOST_PARTITIONS]


# ---------------------------------------------------------------- clients


def _add_rates(trace: TraceEvents, timeline: Timeline) -> None:
    for each in timeline.bins:
        at_ns = round(each.begin_s * 1e9)
        rates = {"acknowledged": each.acknowledged_per_s, "failed": each.failed_per_s}
        trace.counter(CLIENTS, "records/s", at_ns, rates)
        if each.median_ms is not None and each.longest_ms is not None:
            took = {"median": each.median_ms, "longest": each.longest_ms}
            trace.counter(CLIENTS, "ms to the acknowledgement", at_ns, took)


def _add_operations(trace: TraceEvents, evidence: Evidence, end_ns: int, notes: list[str]) -> None:
    """Add the clients' operations where they are not too many."""
    histories = evidence.histories
    count = sum(
        event.type is OperationType.INVOKE for history in histories.values() for event in history
    )
    if count > MOST_OPERATIONS:
        notes.append(
            f"the clients' {count} operations are shown by their rates alone; up to "
            f"{MOST_OPERATIONS} have spans"
        )
        return
    for process in sorted(histories):
        for begun, ended in _operations(histories[process]):
            _add_operation(trace, begun, ended, end_ns)


def _operations(
    history: Iterable[HistoryEvent],
) -> Iterator[tuple[HistoryEvent, HistoryEvent | None]]:
    """Yield each operation's invocation and completion, None without one, by their begins."""
    begun: dict[int, HistoryEvent] = {}
    ended: dict[int, HistoryEvent] = {}
    for event in history:
        if event.function not in BEGUN_FIRST:
            continue
        if event.type is OperationType.INVOKE:
            begun.setdefault(event.operation_id, event)
        elif event.operation_id in begun:
            ended.setdefault(event.operation_id, event)
    for operation_id, event in begun.items():
        yield event, ended.get(operation_id)


def _add_operation(
    trace: TraceEvents, begun: HistoryEvent, ended: HistoryEvent | None, end_ns: int
) -> None:
    outcome = "never answered" if ended is None else ended.type.value
    told = begun if ended is None else ended
    args: dict[str, object] = {"operation": begun.operation, "outcome": outcome}
    args |= {"partition": f"{told.topic}-{told.partition}", "value": begun.value[:100]}
    args |= {"offset": told.offset} if told.offset >= 0 else {}
    args |= {"error": told.error} if told.error else {}
    name = begun.function if outcome == OperationType.OK else f"{begun.function}: {outcome}"
    last_ns = max(end_ns, begun.time_ns) if ended is None else ended.time_ns
    trace.operation(
        CLIENTS, begun.process, f"{begun.process} {name}", begun.time_ns, last_ns, **args
    )


# ---------------------------------------------------------------- nodes' events and messages


def _add_marks(
    trace: TraceEvents, events: Sequence[TraceEvent], start_ns: int, notes: list[str]
) -> None:
    """Add elections, epochs, truncations and other turning points, each node's on a row."""
    marks = [each for each in events if each.kind in _MARKS]
    if len(marks) > MOST_MARKS:
        notes.append(f"the first {MOST_MARKS} of {len(marks)} events of nodes are shown")
    marks.sort(key=lambda each: (each.ts_ns, each.node, each.incarnation, each.seq))
    for event in marks[:MOST_MARKS]:
        at = event.topic_partition
        words = [event.kind.value.replace("_", " "), str(at or "")]
        for name in ("leader_epoch", "controller_epoch", "offset"):
            value = getattr(event, name)
            is_told = value is not None and (at is not None or name == "controller_epoch")
            words.append(f"{name.replace('_', ' ')} {value}" if is_told else "")
        row = trace.track(pid_of(event.node), "events")
        name = " ".join(filter(None, words))
        trace.instant(row, name, event.ts_ns - start_ns, _plain(event.detail))


def _plain(detail: Mapping[str, object]) -> dict[str, object]:
    """Return the detail with values that Perfetto shows as texts and numbers."""
    return {
        f"detail {name}": value if isinstance(value, int | str | float) else str(value)
        for name, value in detail.items()
    }


def _add_messages(trace: TraceEvents, messages: Sequence[Message], start_ns: int) -> None:
    """Add each message as a span at its sender, and as an arrow to its handling and back."""
    by_sender: dict[int, list[Message]] = defaultdict(list)
    for each in messages:
        by_sender[each.sender].append(each)
    for sender in sorted(by_sender):
        own = by_sender[sender]
        times = [_waited(each, start_ns) for each in own]
        widths = [(begin_ns, end_ns + 1_000) for begin_ns, end_ns in times]
        rows = trace.rows_for(pid_of(sender), "requests", widths)
        for each, (begin_ns, end_ns), row in zip(own, times, rows, strict=True):
            _add_message(trace, each, row, begin_ns, end_ns, start_ns)


def _waited(message: Message, start_ns: int) -> tuple[int, int]:
    """Return from when to when the sender waited, as far as the traces tell."""
    ends = (message.sent_ns, message.handled_ns or 0, message.answered_ns or 0)
    return message.sent_ns - start_ns, max(ends) - start_ns


def _add_message(
    trace: TraceEvents, message: Message, row: Track, begin_ns: int, end_ns: int, start_ns: int
) -> None:
    receiver = node_name(NodeId(message.receiver))
    places = ", ".join(map(str, message.partitions[:5]))
    more = f" and {len(message.partitions) - 5} more" if len(message.partitions) > 5 else ""
    args: dict[str, object] = {"to": receiver, "partitions": places + more}
    args |= {"detail": message.detail} if message.detail else {}
    args |= {"error": message.error} if message.error not in ("", NO_ERROR) else {}
    args |= {} if message.answered_ns is not None else {"answer": "none was traced"}
    # It ends a microsecond later, so that the arrow's end is within it.
    trace.span(row, f"{message.request} to {receiver}", begin_ns, end_ns + 1_000, **args)
    if message.handled_ns is None or begin_ns < 0:
        return
    handled_ns = message.handled_ns - start_ns
    handled = trace.track(pid_of(message.receiver), "requests handled")
    sender = node_name(NodeId(message.sender))
    trace.span(handled, f"{message.request} from {sender}", handled_ns, handled_ns, **args)
    places_us = [(row, begin_ns // 1_000), (handled, handled_ns // 1_000)]
    if message.answered_ns is not None:
        places_us.append((row, end_ns // 1_000))
    trace.arrow(message.request, places_us)
