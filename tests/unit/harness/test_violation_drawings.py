"""The drawings of a violation: messages between nodes, and replicas' offsets by leader epoch."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise

import pytest

from highwater.report.faults_in_run import FaultSpan
from highwater.report.messages import ALTER_PARTITION, FETCH, UPDATE_METADATA, Message
from highwater.report.messages_svg import (
    LINE_HEIGHT,
    MOST_MARKS,
    MOST_MESSAGES,
    Kind,
    MessageDrawing,
    draw_messages,
)
from highwater.report.offsets_svg import CHARACTER_WIDTH, draw_offsets
from highwater.report.replica_offsets import (
    Compared,
    ReplicaOffsets,
    Stretch,
    as_told,
    of_logs,
)
from highwater_checker.looks import Look
from highwater_checker.segments import Batch, ReplicaLog
from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import LeaderEpoch, Offset, TopicPartition
from tests.unit.harness.test_timeline import follows, leads

AT = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)
MS = 1_000_000
START = 5_000 * MS


def message(
    ms: int, request: str = "LeaderAndIsr", took_ms: int | None = 2, **more: object
) -> Message:
    sent = START + ms * MS
    handled = None if took_ms is None else sent + took_ms * MS
    made = Message(1000, 0, request, (AT,), sent, handled, handled and handled + MS, "NONE")
    return replace(made, **more)  # type: ignore[arg-type]


def event(ms: int, node: int, kind: EventKind, at: TopicPartition | None = AT) -> TraceEvent:
    topic, partition = at or (None, None)
    return TraceEvent(
        START + ms * MS, node, 1, ms, kind, topic, partition=partition, leader_epoch=1, offset=7
    )


def draw(*messages: Message, until_ms: int = 1_000) -> MessageDrawing:
    drawn = draw_messages(messages, (), (), AT, until_ms * MS, START)
    assert drawn is not None
    return drawn


def test_each_message_leads_downwards_from_its_senders_line_to_its_receivers() -> None:
    drawn = draw(message(10), message(20, ALTER_PARTITION, sender=1, receiver=1000))
    xs = dict(drawn.columns)
    assert list(xs) == ["broker-0", "broker-1", "controller-1000"]
    request, asked, answered = drawn.arrows
    assert (request.kind, request.x, request.to_x) == (
        Kind.REQUEST,
        xs["controller-1000"],
        xs["broker-0"],
    )
    assert (asked.kind, asked.x, asked.to_x) == (
        Kind.REQUEST,
        xs["broker-1"],
        xs["controller-1000"],
    )
    assert (answered.kind, answered.x, answered.to_x) == (
        Kind.ANSWER,
        xs["controller-1000"],
        xs["broker-1"],
    )
    assert all(each.to_y > each.y for each in drawn.arrows)
    assert [each.text for each in drawn.times] == ["10.0 ms", "20.0 ms"]


def test_a_request_that_nobody_handled_is_lost_but_of_a_fetch_the_answer_alone_is_known() -> None:
    lost = draw(message(1, took_ms=None)).arrows
    assert [each.kind for each in lost] == [Kind.LOST]
    fetch = message(1, FETCH, took_ms=None, sender=0, receiver=1)
    assert [each.kind for each in draw(fetch).arrows] == [Kind.REQUEST]
    refused = replace(fetch, answered_ns=START + 9 * MS, error="FENCED_LEADER_EPOCH")
    drawn = draw(refused)
    assert [each.kind for each in drawn.arrows] == [Kind.REQUEST, Kind.ANSWER]
    assert [(each.text, each.is_bad) for each in drawn.labels][-1] == ("FENCED_LEADER_EPOCH", True)


def test_what_is_later_than_the_violation_or_of_another_partition_is_left_out() -> None:
    drawn = draw(message(1), message(2, partitions=(OTHER,)), message(30), until_ms=29)
    assert len(drawn.arrows) == 1
    late = draw(message(1, took_ms=50), until_ms=29)
    assert [each.kind for each in late.arrows] == [Kind.LOST]
    assert draw_messages([message(2, partitions=(OTHER,))], (), (), AT, MS * 99, START) is None


def test_of_many_messages_the_last_are_drawn_and_update_metadata_is_left_out_first() -> None:
    both = [
        message(number, request)
        for number in range(MOST_MESSAGES + 5)
        for request in ("LeaderAndIsr", UPDATE_METADATA)
    ]
    drawn = draw(*both)
    assert len(drawn.arrows) == MOST_MESSAGES
    assert {each.title for each in drawn.arrows} == {"LeaderAndIsr"}
    assert drawn.left_out == len(both) - MOST_MESSAGES
    assert drawn.times[0].text == "5.0 ms"


def test_no_text_overlaps_another_and_all_are_within_the_drawing() -> None:
    messages = [message(at, "a request with a very long name that is cut") for at in range(20)]
    messages += [
        message(at, FETCH, None, sender=at % 2, receiver=1, answered_ns=START + at * MS, error="E")
        for at in range(0, 20, 2)
    ]
    marks = [event(at, at % 3, EventKind.BECAME_LEADER) for at in range(20)] * 3
    faults = [FaultSpan(None, "kill broker-0, started again", 0, "", 3 * MS, None)]
    drawn = draw_messages(messages, marks, faults, AT, 1_000 * MS, START)
    assert drawn is not None
    assert len(drawn.dots) == MOST_MARKS
    for one, other in combinations(drawn.labels, 2):
        apart = one.left + one.width <= other.left or other.left + other.width <= one.left
        assert apart or abs(one.y - other.y) >= LINE_HEIGHT
    for each in drawn.labels:
        assert each.left >= 0
        assert each.left + each.width <= drawn.width
        assert each.y <= drawn.height
    assert all(after.y - before.y >= LINE_HEIGHT for before, after in pairwise(drawn.times))


def test_what_a_node_did_is_on_its_line_and_of_other_partitions_nothing() -> None:
    marks = [
        event(2, 0, EventKind.BECAME_LEADER),
        event(2, 0, EventKind.BECAME_LEADER, OTHER),
        event(3, 1000, EventKind.CONTROLLER_RESIGNED, None),
        event(4, 0, EventKind.LOG_APPENDED),
        event(-5, 0, EventKind.LOG_TRUNCATED),
    ]
    drawn = draw_messages([message(1)], marks, (), AT, 1_000 * MS, START)
    assert drawn is not None
    assert [each.text for each in drawn.labels] == [
        "LeaderAndIsr",
        "leads epoch 1, log end 7",
        "resigns",
    ]


# ---------------------------------------------------------------- offsets


def batch(start: int, end: int, epoch: int, data: bytes = b"") -> Batch:
    return Batch(start, end, epoch, data or b"%d of %d" % (start, epoch))


def log(broker: int, *batches: Batch, high_watermark: int = 4) -> ReplicaLog:
    return ReplicaLog(broker, "t", 0, batches, high_watermark)


def test_batches_in_a_row_of_one_epoch_are_one_stretch() -> None:
    batches = (batch(0, 2, 0), batch(2, 5, 0), batch(5, 6, 1), batch(8, 9, 1))
    (replica,) = of_logs([log(0, *batches)]).replicas
    assert replica.stretches == (Stretch(0, 5, 0), Stretch(5, 6, 1), Stretch(8, 9, 1))


def test_logs_differ_where_their_records_do() -> None:
    same = batch(0, 2, 0)
    compared = of_logs([log(0, same, batch(2, 3, 0)), log(1, same, batch(2, 3, 1))])
    assert compared.differing == ((2, 3),)
    assert of_logs([log(0, same), log(1, same)]).differing == ()


def test_a_broker_that_is_down_has_what_it_told_last() -> None:
    def told(node: int, end: int, *cache: tuple[int, int]) -> object:
        snapshot = leads(node, 0, end) if node == 0 else follows(node, end, end)
        epochs = tuple((LeaderEpoch(epoch), Offset(first)) for epoch, first in cache)
        return replace(snapshot, replicas=(replace(snapshot.replicas[0], epoch_cache=epochs),))

    looks = [
        Look(1, {0: told(0, 9, (0, 0)), 1: told(1, 4, (0, 0))}),  # type: ignore[dict-item]
        Look(2, {0: None, 1: told(1, 6, (0, 0), (1, 4))}),  # type: ignore[dict-item]
        Look(3, {0: told(0, 6, (0, 0), (1, 4)), 1: None}),  # type: ignore[dict-item]
    ]
    compared = as_told(looks, AT, 2)
    assert [(each.broker, each.told_ns, each.stretches) for each in compared.replicas] == [
        (0, 1, (Stretch(0, 9, 0),)),
        (1, 2, (Stretch(0, 4, 0), Stretch(4, 6, 1))),
    ]
    assert compared.differing == ((4, 9),)
    assert as_told(looks, AT, 3).differing == ()


def test_offsets_of_which_no_epoch_is_told_are_of_none() -> None:
    (replica,) = as_told([Look(1, {0: leads(0, 0, 9)})], AT, 2).replicas
    assert replica.stretches == (Stretch(0, 9, None),)


DIFFERING = Compared(
    (
        ReplicaOffsets(0, (Stretch(0, 490, 0), Stretch(490, 631, 1)), 631),
        ReplicaOffsets(1, (Stretch(0, 849, 0),), 490, told_ns=10_900_000_000),
        ReplicaOffsets(2, (), 0),
    ),
    ((490, 849),),
)


def test_the_drawing_has_what_differs_and_each_epoch_its_own_colour() -> None:
    drawn = draw_offsets(DIFFERING, 490)
    assert drawn is not None
    assert [row.name for row in drawn.rows] == ["broker 0", "broker 1, at 10.9 s", "broker 2"]
    first, second, empty = drawn.rows
    assert [bar.title for bar in first.bars] == [
        "broker 0: offsets 0 to 489, epoch 0",
        "broker 0: offsets 490 to 630, epoch 1",
    ]
    assert empty.bars == ()
    colours = {bar.text: bar.colour for row in drawn.rows for bar in row.bars}
    assert {(says, colour) for colour, says in drawn.key} == set(colours.items())
    assert len(set(colours.values())) == 2
    assert (first.goes_on_left, first.goes_on_right) == (True, False)
    assert second.bars[0].x + second.bars[0].width == pytest.approx(sum(drawn.differing[0]))


def test_offsets_below_the_rows_do_not_overlap_and_the_findings_is_among_them() -> None:
    drawn = draw_offsets(DIFFERING, 491)
    assert drawn is not None
    assert [tick.text for tick in drawn.ticks if tick.is_found] == ["491"]
    assert "490" not in {tick.text for tick in drawn.ticks}, "it has no room beside 491"
    ticks = sorted(drawn.ticks, key=lambda tick: tick.x)
    for one, other in pairwise(ticks):
        room = (len(one.text) + len(other.text)) * CHARACTER_WIDTH / 2
        assert other.x - one.x >= room
    for row in drawn.rows:
        for bar in row.bars:
            assert len(bar.text) * CHARACTER_WIDTH <= bar.width or not bar.text
            assert bar.x >= drawn.plot_x
            assert bar.x + bar.width <= drawn.plot_x + drawn.plot_width + 1


def test_without_records_there_is_no_drawing_and_without_an_offset_the_newest_are_drawn() -> None:
    assert draw_offsets(Compared((ReplicaOffsets(0, (), 0),), ()), 3) is None
    drawn = draw_offsets(Compared((ReplicaOffsets(0, (Stretch(0, 500, 2),), 500),), ()), -1)
    assert drawn is not None
    assert "500" in {tick.text for tick in drawn.ticks}
