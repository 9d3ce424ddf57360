"""Small runs for the checks of events, looks and probes: a clean one, and changes to it.

The clean run: of t-0, broker 0 leads epoch 1 and appends a, b, c at 0 to 2; broker 1 takes over in
epoch 2, with all three but a high watermark of 2, and appends d at 3. Looks are every 10 ms. One
probe fetches broker 0's uncommitted records, one gets its high watermark 3, and one fetches from 3
when broker 1's is still 2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from highwater_checker.looks import Look
from highwater_checker.probes import Probe
from highwater_checker.segments import ReplicaLog
from highwater_core.events import EventKind as Kind
from highwater_core.events import TraceEvent
from highwater_core.ids import TopicId
from tests.pipeline.frames import Run
from tests.pipeline.record_histories import send
from tests.support.evidence_makers import batch_at, event, look, replica

MS = 1_000_000
CONTROLLER = 1000


def file_of(one: TraceEvent) -> str:
    """Return the name of the file that holds the event; events are read by it, then by seq."""
    kind = "controller" if one.node >= CONTROLLER else "broker"
    return f"{kind}-{one.node}-{one.incarnation}.jsonl"


def traced(events: Iterable[TraceEvent]) -> tuple[TraceEvent, ...]:
    """Return the events, numbered from 0 in each start of a node."""
    seen: Counter[tuple[int, int]] = Counter()
    numbered = []
    for one in events:
        start = one.node, one.incarnation
        numbered.append(replace(one, seq=seen[start]))
        seen[start] += 1
    return tuple(numbered)


def elected(leader: int, leader_epoch: int) -> TraceEvent:
    return event(Kind.LEADER_ELECTED, CONTROLLER, leader_epoch, leader=leader, isr=[0, 1, 2])


def led(node: int, leader_epoch: int, offset: int, high_watermark: int) -> TraceEvent:
    return event(
        Kind.BECAME_LEADER, node, leader_epoch, offset, high_watermark=high_watermark, isr=[0, 1]
    )


def followed(node: int, leader_epoch: int, **fields: Any) -> TraceEvent:
    return event(Kind.BECAME_FOLLOWER, node, leader_epoch, 0, high_watermark=0, **fields)


def appended(node: int, leader_epoch: int, offset: int, end_offset: int) -> TraceEvent:
    return event(Kind.LOG_APPENDED, node, leader_epoch, offset, end_offset=end_offset)


def cut(
    node: int,
    leader_epoch: int,
    offset: int | None,
    high_watermark: int = 2,
    *,
    from_offset: int = 4,
) -> TraceEvent:
    return event(
        Kind.LOG_TRUNCATED,
        node,
        leader_epoch,
        offset,
        high_watermark=high_watermark,
        from_offset=from_offset,
        reason='the "leader" said so',
    )


def committed(leader: int, leader_epoch: int, up_to: int | None, *isr: int) -> TraceEvent:
    """Return the leader's event of a new high watermark; the ISR is brokers 0 and 1 by default."""
    members = list(isr or (0, 1))
    return event(Kind.HIGH_WATERMARK_ADVANCED, leader, leader_epoch, up_to, isr=members)


def isr_changed(node: int, leader_epoch: int, *isr: int, **fields: Any) -> TraceEvent:
    return event(Kind.ISR_CHANGED, node, leader_epoch, isr=list(isr), **fields)


def at(ts_ns: int, one: TraceEvent) -> TraceEvent:
    return replace(one, ts_ns=ts_ns)


def probe(offset: int, high_watermark: int, at_ms: int, broker: int = 0, **fields: Any) -> Probe:
    """Return an empty answer, 2 ms after it was asked at that time."""
    asked_ns = at_ms * MS
    told: dict[str, Any] = {"high_watermark": high_watermark, **fields}
    return Probe(asked_ns, asked_ns + 2 * MS, broker, "t", 0, offset, **told)


def log(broker: int, *values: str, taken_over_at: int = 3) -> ReplicaLog:
    """Return a log of the values from offset 0; from taken_over_at on they are of epoch 2."""
    first, then = values[:taken_over_at], values[taken_over_at:]
    batches = [batch_at(0, *first, leader_epoch=1)] if first else []
    batches += [batch_at(taken_over_at, *then, leader_epoch=2)] if then else []
    return ReplicaLog(broker, "t", 0, tuple(batches), len(values))


EVENTS = (
    elected(0, 1),
    led(0, 1, 0, 0),
    followed(1, 1),
    followed(2, 1),
    appended(0, 1, 0, 2),
    appended(0, 1, 2, 3),
    elected(1, 2),
    led(1, 2, 3, 2),
    followed(2, 2),
    cut(2, 2, 3),
    appended(1, 2, 3, 4),
)
OLD, NEW = replica("leader", 2, 3), replica("leader", 2, 4, leader_epoch=2, isr=(1, 2))
OLD_COMMITTED = replica("leader", 3, 3)
NEW_COMMITTED = replica("leader", 4, 4, leader_epoch=2, isr=(1, 2))


def follower(log_end_offset: int, leader_epoch: int = 1, **fields: Any) -> Any:
    return replica("follower", 1, log_end_offset, leader_epoch=leader_epoch, **fields)


LOOKS = (
    look(10 * MS, OLD, follower(2), follower(2)),
    look(20 * MS, OLD_COMMITTED, follower(3), follower(3)),
    look(30 * MS, OLD_COMMITTED, follower(3), follower(3)),
    look(40 * MS, None, NEW, follower(3, 2)),
    look(50 * MS, None, NEW_COMMITTED, follower(4, 2)),
    look(60 * MS, None, NEW_COMMITTED, follower(4, 2)),
)
HIDDEN, TOLD, ABOVE = probe(2, 2, 12), probe(3, 3, 16), probe(3, 2, 32, broker=1)
SENDS = [each for number, value in enumerate("abcd") for each in send("p0", number, value, number)]
CLEAN = Run(
    "clean",
    SENDS,
    replicas=[log(1, *"abcd"), log(2, *"abcd")],
    events=traced(EVENTS),
    looks=LOOKS,
    probes=(HIDDEN, TOLD, ABOVE),
)


def with_events(*more: TraceEvent) -> Run:
    return replace(CLEAN, events=traced((*EVENTS, *more)))


def without_events(*kinds: Kind) -> Run:
    return replace(CLEAN, events=traced(each for each in EVENTS if each.kind not in kinds))


def with_looks(*looks: Look, events: Iterable[TraceEvent] = EVENTS) -> Run:
    return replace(CLEAN, events=traced(events), looks=looks, probes=())


def with_probes(*probes: Probe) -> Run:
    return replace(CLEAN, probes=probes)


def with_isr(*isr: int) -> Run:
    """Return a run in which broker 0 leads and reports this ISR."""
    return with_looks(look(10 * MS, replica("leader", 3, 3, isr=isr)))


def with_member(*ends: int, isr: tuple[int, ...] = (0, 1), more: Iterable[TraceEvent] = ()) -> Run:
    """Return a run in which broker 1's log has these ends, a look each, under broker 0's HW 3."""
    leader = replica("leader", 3, 3, isr=isr)
    looks = [look(10 * at * MS, leader, follower(end)) for at, end in enumerate(ends)]
    return with_looks(*looks, events=[*EVENTS, *more])


def with_two(before: Any, after: Any, incarnation: int = 1) -> Run:
    """Return two looks: broker 0 leads with the high watermark 3, broker 1 is before and after."""
    return with_looks(
        look(10 * MS, OLD_COMMITTED, before),
        look(20 * MS, OLD_COMMITTED, after, incarnation=incarnation),
    )


def with_logs(*logs: ReplicaLog, began: int = 3, more: Iterable[TraceEvent] = ()) -> Run:
    """Return the clean run with these logs; broker 1 begins epoch 2 with one up to began."""
    events = [replace(each, offset=began) if each.node == 1 else each for each in EVENTS]
    events = [each for each in events if each.kind is not Kind.LOG_APPENDED or each.node == 0]
    return replace(CLEAN, replicas=logs, events=traced([*events, *more]), probes=())


def seq_as(node: int, *seqs: int) -> Run:
    """Return the clean run, but that the node's events have these numbers, or are not there."""
    own = [each for each in CLEAN.events if each.node == node]
    others = [each for each in CLEAN.events if each.node != node]
    kept = [replace(own[min(seq, len(own) - 1)], seq=seq) for seq in seqs]
    return replace(CLEAN, events=(*others, *kept))


def of_topic(topic_id: str, *events: TraceEvent) -> list[TraceEvent]:
    return [replace(each, topic_id=TopicId(topic_id)) for each in events]


def in_a_life(topic_id: str, *more: TraceEvent) -> Run:
    """Return the clean run as that of a topic that is deleted after it, and more events."""
    looks = []
    for one in LOOKS:
        nodes = {
            node: seen and replace(
                seen,
                replicas=tuple(replace(each, topic_id=TopicId(topic_id)) for each in seen.replicas),
            )
            for node, seen in one.nodes.items()
        }  # fmt: skip
        looks.append(replace(one, nodes=nodes))
    events = [*of_topic(topic_id, *EVENTS), *more, deleted(by_broker=True)]
    return replace(CLEAN, events=traced(events), looks=looks)


def deleted(by_broker: bool) -> TraceEvent:
    if by_broker:
        return event(Kind.TOPIC_DELETED, CONTROLLER, 1)
    changed = event(Kind.TOPICS_CHANGED, CONTROLLER, 1, created=[], deleted=["u", "t"])
    return replace(changed, topic=None, partition=None)
