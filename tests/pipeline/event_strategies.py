"""Draws small runs for the checks of events, looks and probes; violations are frequent in them."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from highwater_checker.looks import Look, leaders_in
from highwater_checker.probes import NO_ANSWER, Probe
from highwater_checker.segments import ReplicaLog
from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import (
    ControllerEpoch,
    LeaderEpoch,
    NodeId,
    Offset,
    PartitionEpoch,
    TopicId,
    TopicPartition,
)
from highwater_core.messages import NodeSnapshot, ReplicaSnapshot
from tests.pipeline.event_runs import (
    CONTROLLER,
    MS,
    appended,
    committed,
    cut,
    elected,
    followed,
    isr_changed,
    led,
    traced,
)
from tests.pipeline.frames import Run
from tests.pipeline.record_histories import send
from tests.support.evidence_makers import batch_at, event

PARTITIONS = (TopicPartition("t", 0), TopicPartition("it's", 1))
BROKERS = (0, 1, 2)
EPOCHS = (0, 1, 2)

_offset = st.integers(0, 4)
_broker = st.sampled_from(BROKERS)
_members = st.sampled_from([(0, 1, 2), (0, 1), (1, 2), (2,)])
_moment = st.integers(0, 3)


def _one_in(number: int) -> st.SearchStrategy[bool]:
    return st.integers(1, number).map(lambda drawn: drawn == number)


@st.composite
def traces(draw: st.DrawFn, leaders: dict[tuple[TopicPartition, int], int]) -> list[TraceEvent]:
    """Draw the events of these leaders; a few are lost, doubled or of other leaders."""
    found: list[TraceEvent] = []
    for (at, epoch), leader in leaders.items():
        own: list[TraceEvent] = [elected(draw(_broker) if draw(_one_in(6)) else leader, epoch)]
        end_offset, high_watermark = draw(_offset), draw(st.sampled_from([0, 0, 1, 2]))
        own.append(led(leader, epoch, end_offset, high_watermark))
        for broker in BROKERS:
            if broker != leader:
                own.append(followed(broker, epoch))
            if draw(_one_in(8)):
                one = cut(broker, epoch, draw(_offset), draw(_offset), from_offset=draw(_offset))
                own.append(replace(one, ts_ns=draw(_moment)))
        for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
            one = committed(leader, epoch, draw(_offset), *draw(_members))
            own.append(replace(one, ts_ns=draw(_moment)))
        if draw(_one_in(4)):
            one = isr_changed(draw(_broker), epoch, *draw(_members))
            own.append(replace(one, ts_ns=draw(_moment)))
        if draw(_one_in(2)):
            own.append(appended(leader, epoch, end_offset, end_offset + draw(_offset)))
        if draw(_one_in(8)):
            own.append(led(draw(_broker), epoch, draw(_offset), draw(_offset)))
        lost = draw(st.sets(st.integers(0, 40), max_size=4))
        kept = [each for index, each in enumerate(own) if index not in lost]
        found += [replace(each, topic=at.topic, partition=at.partition) for each in kept]
    ids = st.sampled_from(["x"] * 20 + ["y", ""])
    found = [replace(each, topic_id=TopicId(draw(ids))) for each in found]
    if draw(_one_in(8)):
        found.append(event(EventKind.TOPIC_DELETED, CONTROLLER, 0))
    again = draw(st.sets(st.integers(0, 40), max_size=2))
    numbered = list(
        traced(
            replace(each, incarnation=2) if index in again else each
            for index, each in enumerate(found)
        )
    )
    if draw(_one_in(6)) and numbered:
        numbered.remove(draw(st.sampled_from(numbered)))
    if draw(_one_in(6)) and numbered:
        numbered.append(draw(st.sampled_from(numbered)))
    return numbered


@st.composite
def replicas(
    draw: st.DrawFn, at: TopicPartition, epoch: int, high_watermark: int, log_end_offset: int
) -> ReplicaSnapshot:
    """Draw a follower; most ISRs are everyone."""
    whole, others = [(0, 1, 2), (2, 1, 0)], [(0, 1), (1, 2), (), (0, 0, 1), (0, 7)]
    isrs = st.sampled_from(whole * 16 + others)
    return ReplicaSnapshot(
        topic_partition=at,
        role="follower",
        leader=NodeId(0),
        leader_epoch=LeaderEpoch(epoch),
        controller_epoch=ControllerEpoch(1),
        partition_epoch=PartitionEpoch(0),
        high_watermark=Offset(high_watermark),
        log_start_offset=Offset(draw(st.sampled_from([0, 0, 0, 1]))),
        log_end_offset=Offset(log_end_offset),
        isr=tuple(NodeId(each) for each in draw(isrs)),
        assigned_replicas=tuple(NodeId(each) for each in draw(st.permutations(BROKERS))),
        topic_id=TopicId(draw(st.sampled_from(["x"] * 20 + ["y"]))),
    )


@st.composite
def looks(draw: st.DrawFn, leaders: dict[tuple[TopicPartition, int], int]) -> list[Look]:
    """Draw looks every 10 ms, with epochs that rise and logs that grow.

    At least two brokers answer, each with one replica or more. Now and then a follower lacks
    committed records, or two brokers lead.
    """
    found: list[Look] = []
    epoch, incarnation = 0, 1
    committed = {at: draw(st.integers(0, 2)) for at in PARTITIONS}
    ends = dict(committed)
    for number in range(draw(st.sampled_from([0, 3, 5, 6, 6]))):
        epoch = min(max(EPOCHS), epoch + draw(_one_in(6)))
        incarnation = max(incarnation, 1 + draw(_one_in(16)))
        for at in PARTITIONS:
            committed[at] += draw(st.sampled_from([0, 0, 1]))
            ends[at] = max(ends[at], committed[at] + draw(st.integers(0, 3)))
        silent = draw(st.sampled_from([None, None, None, 0, 1, 2]))
        nodes: dict[int, NodeSnapshot | None] = {}
        for broker in BROKERS:
            held = []
            for at in PARTITIONS[: draw(st.sampled_from([1, 2, 2]))]:
                lacking = draw(st.sampled_from([0] * 9 + [1, 2]))
                one = draw(replicas(at, epoch, committed[at], max(0, committed[at] - lacking)))
                if (leaders[at, epoch] == broker) != draw(_one_in(40)):
                    one = replace(one, role="leader", log_end_offset=Offset(ends[at]))
                held.append(one)
            nodes[broker] = None if broker == silent else NodeSnapshot(
                NodeId(broker), "broker", incarnation, "v3", ControllerEpoch(1),
                replicas=tuple(held),
            )  # fmt: skip
        found.append(Look(10 * MS * (number + 1), nodes))
    return found


@st.composite
def probes(draw: st.DrawFn, seen: list[Look]) -> Probe:
    """Draw a probe; most ask a leader and get the high watermark of the look before."""
    asked_ns, took_ns = draw(st.integers(5, 50)) * MS, draw(st.sampled_from([0, 1, 8])) * MS
    before = [look for look in seen if look.time_ns <= asked_ns][-1:]
    led = [(broker, one) for look in before for broker, one in leaders_in(look)]
    at, broker = draw(st.sampled_from(PARTITIONS)), draw(_broker)
    high_watermark = offset = draw(_offset)
    if led and not draw(_one_in(30)):
        broker, one = draw(st.sampled_from(led))
        at, high_watermark = one.topic_partition, int(one.high_watermark)
        offset = high_watermark + draw(st.sampled_from([-1, 0, 0, 1, 1, 2]))
    error = draw(st.sampled_from([""] * 40 + ["OFFSET_OUT_OF_RANGE", "NOT_LEADER", NO_ANSWER]))
    last = -1 if error else draw(st.sampled_from([-1] * 30 + [offset]))
    return Probe(
        asked_ns, asked_ns + took_ns, broker, at.topic, at.partition, offset, error,
        -1 if error else high_watermark, min(last, offset), last,
    )  # fmt: skip


@st.composite
def logs(draw: st.DrawFn, at: TopicPartition) -> list[ReplicaLog]:
    found = []
    for broker in range(draw(st.integers(0, 2))):
        values = [draw(st.sampled_from(["", "a", "b", "c"])) for _ in range(draw(_offset))]
        epochs = sorted(draw(st.sampled_from(EPOCHS)) for _ in values)
        batches = tuple(
            batch_at(offset, value, leader_epoch=epoch)
            for offset, (value, epoch) in enumerate(zip(values, epochs, strict=True))
        )
        found.append(ReplicaLog(broker, at.topic, at.partition, batches, draw(_offset)))
    return found


@st.composite
def runs(draw: st.DrawFn) -> Run:
    """Draw a run without a name."""
    leaders = {(at, epoch): draw(_broker) for at in PARTITIONS for epoch in EPOCHS}
    history = []
    for number in range(draw(st.integers(0, 6))):
        value = draw(st.sampled_from(["", "a", "b", "c"]))
        at = draw(st.sampled_from(PARTITIONS))
        process = draw(st.sampled_from(["p0", "p0.2", "p1"]))
        for line in send(process, number, value, draw(_offset)):
            history.append(replace(line, topic=at.topic, partition=at.partition))
    seen = draw(looks(leaders))
    return Run(
        "",
        history,
        {"p1": 1},
        replicas=[each for at in PARTITIONS for each in draw(logs(at))],
        events=draw(traces(leaders)),
        looks=seen,
        probes=[draw(probes(seen)) for _ in range(draw(st.sampled_from([0, 3, 12])))],
    )
