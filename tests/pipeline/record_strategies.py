"""Draws small runs for the checks of operations and records; violations are frequent in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import strategies as st

from highwater_checker.history import HistoryEvent
from highwater_checker.segments import Batch, ReplicaLog
from tests.pipeline.frames import Damaged, Run
from tests.pipeline.record_histories import (
    ACKS,
    FAIL,
    INFO,
    MAX_IN_FLIGHT,
    OK,
    batch,
    read,
    send,
)

PARTITIONS = (("t", 0), ("t", 1), ("u", 0))
VALUES = ["a", "b", "c", "d", "e", "", "it's", 'say "it\'s"', "back\\slash\nline", "long" * 12]
"""Few values, so that they collide; some must be escaped or shortened in a message."""

_small = st.integers(0, 3)


@st.composite
def equal_logs(draw: st.DrawFn, topic: str, partition: int) -> list[ReplicaLog]:
    """Draw a partition's replicas with the same batches, all of them committed."""
    batches: list[Batch] = []
    for values in draw(st.lists(st.lists(st.sampled_from(VALUES), min_size=1), max_size=4)):
        base_offset = batches[-1].next_offset if batches else 0
        batches.append(batch(base_offset, *values[:3], leader_epoch=0))
    high_watermark = batches[-1].next_offset if batches else 0
    return [
        ReplicaLog(broker, topic, partition, tuple(batches), high_watermark, 0)
        for broker in range(draw(_small))
    ]


@st.composite
def logs(draw: st.DrawFn, topic: str, partition: int) -> list[ReplicaLog]:
    """Draw a partition's replicas: the same batches, some of them changed on some replicas."""
    held = draw(st.lists(st.lists(st.sampled_from(VALUES), min_size=1, max_size=3), max_size=4))
    end_offset = sum(len(values) for values in held)
    found = []
    for broker in range(draw(_small)):
        own = [list(values) for values in held]
        changed = draw(st.sampled_from(["nothing", "nothing", "last", "value", "cut", "order"]))
        if own and changed == "last":
            own.pop()
        elif own and changed == "value":
            draw(st.sampled_from(own))[0] = draw(st.sampled_from(VALUES))
        elif own and changed == "cut":
            own[:1] = [[value] for value in own[0]]
        elif changed == "order":
            own.reverse()
        batches: list[Batch] = []
        for values in own:
            base_offset = batches[-1].next_offset if batches else 0
            epoch = draw(st.sampled_from([0, 0, 0, 0, 1]))
            batches.append(batch(base_offset, *values, leader_epoch=epoch))
        if batches and draw(_small) == 0:
            batches.pop(0)
        start = batches[0].base_offset if batches else 0
        high_watermark = max(0, end_offset - draw(st.sampled_from([0, 0, 1, 2])))
        found.append(ReplicaLog(broker, topic, partition, tuple(batches), high_watermark, start))
    return found


@st.composite
def histories(
    draw: st.DrawFn, replicas: Sequence[ReplicaLog], is_sound: bool
) -> list[HistoryEvent]:
    """Draw sends and reads; most are answered with an offset where a replica has the record.

    is_sound: all are, where there is a record.
    """
    places = [
        (each.topic, each.partition, offset, (value or b"").decode())
        for each in replicas
        for one in each.batches
        for offset, _, value in one.records()
    ]
    strange = st.builds(
        lambda at, offset, value: (*at, offset, value),
        st.sampled_from(PARTITIONS),
        st.integers(-1, 6),
        st.sampled_from(VALUES),
    )
    stored = st.sampled_from(places) if places else strange
    place = stored if is_sound else st.one_of(stored, strange)
    events: list[HistoryEvent] = []
    begun_ns = 0
    for number in range(draw(st.integers(0, 8))):
        topic, partition, offset, value = draw(place)
        process = draw(st.sampled_from(["p0", "p0", "p0.2", "p1", "p2", "p3"]))
        outcome = draw(st.sampled_from([OK, OK, OK, OK, FAIL, INFO, None]))
        at_ns = begun_ns, begun_ns + 1 + draw(_small)
        tries = draw(st.sampled_from([1, 1, 1, 0, 2]))
        lines = send(process, number, value, offset, outcome, at_ns=at_ns, tries=tries)
        events += [replace(each, topic=topic, partition=partition) for each in lines]
        begun_ns += draw(_small)
    if draw(st.booleans()):
        reads = [("c0", each, each[2] + 1) for each in dict.fromkeys(places)]
    else:
        processes, told = st.sampled_from(["c0", "c0.2", "c1"]), st.sampled_from([-1, 2, 7])
        reads = draw(st.lists(st.tuples(processes, place, told), max_size=8))
    for process, (topic, partition, offset, value), high_watermark in reads:
        one = read(process, offset, value, high_watermark)
        events.append(replace(one, topic=topic, partition=partition))
    return sorted(events, key=lambda each: each.time_ns)


@st.composite
def runs(draw: st.DrawFn) -> Run:
    """Draw a run without a name. A third of them has nothing wrong in its logs."""
    is_sound = draw(st.sampled_from([False, False, True]))
    kind = equal_logs if is_sound else logs
    replicas = [each for place in PARTITIONS for each in draw(kind(*place))]
    damaged = [Damaged("u", 1, 0, "torn batch at byte 0")] if draw(_small) == 0 else []
    return Run(
        "",
        draw(histories(replicas, is_sound)),
        ACKS,
        MAX_IN_FLIGHT,
        replicas=replicas,
        damaged=damaged,
        incomplete=draw(st.sampled_from([(), (), (), ("c0",), ("c0.2", "p0")])),
    )
