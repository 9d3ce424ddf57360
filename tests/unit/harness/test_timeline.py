"""A run over time: spans, lags and rates from its looks and sends, and their drawing."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib.resources import files

import pytest

from highwater.report.faults_in_run import FaultSpan
from highwater.report.operations import Operation, Operations
from highwater.report.operations_drawing import EACH, OPERATIONS
from highwater.report.timeline import (
    MOST_BINS,
    MOST_PARTITIONS,
    MOST_POINTS,
    Timeline,
    timeline_of,
)
from highwater.report.timeline_drawing import (
    LABELS,
    LAGS,
    LEADERS,
    NODES,
    OTHER_FAULTS,
    TIME_RANGE,
    draw_timeline,
    ends_of_labels,
)
from highwater_chaos import faults as f
from highwater_checker.history import Acknowledged, HistoryEvent, OperationType, Sends
from highwater_checker.looks import Look
from highwater_core.ids import LeaderEpoch, NodeId, Offset, TopicPartition
from highwater_core.messages import NodeSnapshot
from tests.support.run_on_disk import broker

NO_SENDS = Sends((), (), ())
S = 1_000_000_000


def leads(node: int, epoch: int, end: int, isr: tuple[int, ...] = (0, 1)) -> NodeSnapshot:
    snapshot = broker(node)
    replica = replace(
        snapshot.replicas[0],
        role="leader",
        leader=NodeId(node),
        leader_epoch=LeaderEpoch(epoch),
        log_end_offset=Offset(end),
        high_watermark=Offset(end),
        isr=tuple(map(NodeId, isr)),
    )
    return replace(snapshot, replicas=(replica,))


def follows(node: int, end: int, high_watermark: int) -> NodeSnapshot:
    snapshot = broker(node)
    replica = replace(
        snapshot.replicas[0],
        role="follower",
        log_end_offset=Offset(end),
        high_watermark=Offset(high_watermark),
        isr=(),
    )
    return replace(snapshot, replicas=(replica,))


def story() -> list[Look]:
    """Broker 0 leads, is down from second 2 to 4, and follows broker 1 from then on."""
    return [
        Look(0, {0: leads(0, 0, 10), 1: follows(1, 8, 5)}),
        Look(1 * S, {0: leads(0, 0, 20), 1: follows(1, 20, 15)}),
        Look(2 * S, {0: None, 1: follows(1, 20, 15)}),
        Look(3 * S, {0: None, 1: leads(1, 1, 20, (1,))}),
        Look(4 * S, {0: follows(0, 12, 12), 1: leads(1, 1, 25, (1,))}),
        Look(5 * S, {0: follows(0, 25, 25), 1: leads(1, 1, 25)}),
    ]


def acknowledged(at_ms: int, took_ms: int = 5) -> Acknowledged:
    ns = at_ms * 1_000_000
    return Acknowledged("t", 0, 0, "v", ns - took_ms * 1_000_000, ns)


def failed(at_ms: int) -> HistoryEvent:
    return HistoryEvent(at_ms * 1_000_000, OperationType.FAIL, 0, "p0", "send", "t", 0, "v")


def test_nodes_are_down_lead_or_neither() -> None:
    spans = timeline_of(story(), NO_SENDS, ()).nodes
    assert [(span.lane, span.begin_s, span.end_s, span.kind) for span in spans] == [
        ("broker-0", 0, 2, "leads"),
        ("broker-0", 2, 4, "down"),
        ("broker-0", 4, 5, "up"),
        ("broker-1", 0, 3, "up"),
        ("broker-1", 3, 5, "leads"),
    ]


def test_leaders_have_their_epochs_and_isrs_and_a_gap_where_nobody_leads() -> None:
    spans = timeline_of(story(), NO_SENDS, ()).leaders
    assert [(span.begin_s, span.end_s, span.kind, span.label, span.text) for span in spans] == [
        (0, 2, "0", "broker 0, epoch 0", "t-0: broker 0, epoch 0; ISR [0, 1]"),
        (3, 5, "1", "broker 1, epoch 1", "t-0: broker 1, epoch 1; ISR [1]"),
        (5, 5, "1", "", "t-0: broker 1, epoch 1; ISR [0, 1]"),
    ]


def test_lags_are_behind_the_leaders_log_end() -> None:
    (of_0, of_1) = timeline_of(story(), NO_SENDS, ()).lags["t-0"]
    assert of_0.times_s == [0, 1, 2, 4, 5]
    assert repr(of_0.log_end) == "[0.0, 0.0, nan, 13.0, 0.0]", "a gap while it was down"
    assert of_1.times_s == [0, 1, 2, 3, 4, 5]
    assert repr(of_1.log_end) == "[2.0, 0.0, nan, 0.0, 0.0, 0.0]", "a gap while nobody led"
    assert repr(of_1.high_watermark) == "[5.0, 5.0, nan, 0.0, 0.0, 0.0]"


def test_sends_are_counted_where_they_ended() -> None:
    sends = Sends(
        (acknowledged(50), acknowledged(60, 30), acknowledged(4_950)), (failed(4_920),), ()
    )
    bins = timeline_of(story(), sends, ()).bins
    assert (bins[0].acknowledged_per_s, bins[0].median_ms, bins[0].longest_ms) == (20, 30, 30)
    assert bins[1].median_ms is None
    last = bins[int(4.95 / 0.1)]
    assert (last.acknowledged_per_s, last.failed_per_s) == (pytest.approx(10), pytest.approx(10))
    assert sum(each.acknowledged_per_s * (each.end_s - each.begin_s) for each in bins) == (
        pytest.approx(3)
    )


def test_sends_without_an_answer_are_shown_with_their_errors() -> None:
    timed_out = replace(failed(4_900), type=OperationType.INFO, error="REQUEST_TIMED_OUT")
    never_ended = replace(failed(4_910), type=OperationType.INVOKE)
    refused = replace(failed(4_920), error="NOT_ENOUGH_REPLICAS")
    sends = Sends((), (refused, refused), (timed_out, never_ended))
    (last,) = [each for each in timeline_of(story(), sends, ()).bins if each.errors]
    assert (last.failed_per_s, last.unknown_per_s) == (pytest.approx(20), pytest.approx(20))
    assert last.errors == "2 NOT_ENOUGH_REPLICAS, 1 REQUEST_TIMED_OUT, 1 without an error's name"


def test_a_leader_whose_isr_lacks_a_replica_is_told_apart() -> None:
    spans = timeline_of(story(), NO_SENDS, ()).leaders
    assert [span.is_whole for span in spans] == [True, False, True]
    drawn = draw_timeline(timeline_of(story(), NO_SENDS, ()), (), None)
    assert "the ISR lacks a replica" in [says for _, says in drawn.key]
    assert '"hatch"' in drawn.script


@pytest.mark.parametrize(
    ("fault", "node", "kind"),
    [
        (f.Pause("broker-0"), 0, "is frozen"),
        (f.Isolate("broker-0"), 0, "is cut off"),
        (f.Kill("broker-0"), 0, "does not answer"),
        (f.Pause("broker-1"), 1, "does not answer"),
        (f.Pause("broker-0", 500), 0, "does not answer"),
    ],
    ids=["frozen", "cut off", "killed", "another node", "over before"],
)
def test_a_node_that_does_not_answer_is_told_with_what_silences_it(
    fault: f.Fault, node: int, kind: str
) -> None:
    ends_ns = None if getattr(fault, "for_ms", None) is None else int(2.5 * S)
    span = FaultSpan(fault, "words", node, "", 2 * S, ends_ns)
    drawn = draw_timeline(timeline_of(story(), NO_SENDS, ()), [span], None)
    assert f"broker-0 {kind}" in drawn.script
    others = {"is frozen", "is cut off", "does not answer"} - {kind}
    assert [each for each in others if f"broker-0 {each}" in drawn.script] == []


def test_a_frozen_node_that_was_killed_then_does_not_answer() -> None:
    """Simulated faults have no ends in the log."""
    faults = [
        FaultSpan(f.Pause("broker-0"), "freeze", 0, "", 1 * S, None),
        FaultSpan(f.Kill("broker-0"), "kill", 0, "", 2 * S, None),
    ]
    drawn = draw_timeline(timeline_of(story(), NO_SENDS, ()), faults, None)
    assert "broker-0 does not answer" in drawn.script
    assert "broker-0 is frozen" not in drawn.script


def test_a_long_run_with_many_sends_and_partitions_is_bounded() -> None:
    looks = [Look(at * S, {0: leads(0, 0, at), 1: follows(1, 0, 0)}) for at in range(4_000)]
    sends = Sends(tuple(acknowledged(at * 20) for at in range(200_000)), (), ())
    found = timeline_of(looks, sends, ())
    assert len(found.bins) <= MOST_BINS + 1
    assert all(len(lag.times_s) <= MOST_POINTS for lag in found.lags["t-0"])
    assert max(found.lags["t-0"][1].log_end) == 3_999, "the longest lag of a stretch is kept"


def many(count: int) -> list[Look]:
    base = leads(0, 0, 1)
    replicas = tuple(
        replace(base.replicas[0], topic_partition=TopicPartition("t", at)) for at in range(count)
    )
    return [Look(at * S, {0: replace(base, replicas=replicas)}) for at in (0, 1)]


def test_partitions_of_findings_are_shown_first() -> None:
    found = timeline_of(many(20), NO_SENDS, [TopicPartition("t", 19), TopicPartition("x", 0)])
    assert found.leaders[0].lane == "t-19"
    assert len(found.leaders) == MOST_PARTITIONS
    assert found.left_out == 20 - MOST_PARTITIONS
    assert next(iter(found.lags)) == "t-19"


def test_the_brokers_own_topics_come_last() -> None:
    base = leads(0, 0, 1)
    names = ("__consumer_offsets", "t")
    replicas = tuple(
        replace(base.replicas[0], topic_partition=TopicPartition(name, 0)) for name in names
    )
    looks = [Look(at * S, {0: replace(base, replicas=replicas)}) for at in (0, 1)]
    assert [*timeline_of(looks, NO_SENDS, ()).lags] == ["t-0", "__consumer_offsets-0"]


FAULTS = (
    FaultSpan(None, "</script><b>kill", 0, "dead", 2 * S, 4 * S),
    FaultSpan(None, "cut", None, "", 3 * S, None),
)


@pytest.mark.parametrize(
    "timeline",
    [
        timeline_of(story(), NO_SENDS, ()),
        timeline_of(story(), Sends((acknowledged(50),), (failed(60),), ()), ()),
        timeline_of([Look(0, {0: None})], NO_SENDS, ()),
        timeline_of(many(20), NO_SENDS, ()),
    ],
    ids=["no sends", "sends", "one look at nobody", "many partitions"],
)
def test_it_is_drawn_with_its_faults_and_no_text_of_a_run_becomes_html(timeline: Timeline) -> None:
    drawn = draw_timeline(timeline, FAULTS, 3.5)
    assert OTHER_FAULTS in drawn.script
    assert "<b>kill" not in drawn.script
    assert drawn.script.count("</script>") == 1
    assert "http" not in drawn.place


def test_a_label_stands_for_its_bar_and_for_those_that_continue_it() -> None:
    spans = timeline_of(story(), NO_SENDS, ()).leaders
    assert ends_of_labels(spans) == [2, 5], "at second 5 the ISR alone changed"


def test_the_pages_script_finds_all_that_it_filters() -> None:
    drawn = draw_timeline(timeline_of(story(), NO_SENDS, ()), (), None)
    assert (drawn.nodes, drawn.partitions) == (("broker-0", "broker-1"), ("t-0",))
    labels = (f"{LABELS}{NODES}", f"{LABELS}{LEADERS}")
    names = (TIME_RANGE, *labels, NODES, LEADERS, f"{LAGS}t-0", "broker-0", "broker-1")
    assert [name for name in names if f'"name":"{name}"' not in drawn.script] == []
    template = files("highwater.report").joinpath("templates", "timeline.html.j2").read_text()
    used = (TIME_RANGE, LABELS, NODES, LEADERS, LAGS)
    assert [name for name in used if f'"{name}"' not in template] == []


def test_single_operations_are_drawn_in_their_process_lane_and_hidden_until_few_are_shown() -> None:
    one = Operation("p0", 1.0, 1.5, "acknowledged", "</script><b>p0's send 1", 0)
    two = Operation("p0", 1.2, 1.4, "failed", "p0's send 2", 1)
    found = Operations((one, two), 9_000)
    drawn = draw_timeline(timeline_of(story(), NO_SENDS, ()), (), None, found)
    assert f'"name":"{OPERATIONS}"' in drawn.script
    assert re.search(rf'"name":"{EACH}"[^{{}}]*"visible":false', drawn.script)
    assert "2 of 9,000 are kept" in drawn.script
    assert drawn.script.count("</script>") == 1
    template = files("highwater.report").joinpath("templates", "timeline.html.j2").read_text()
    assert [name for name in (OPERATIONS, EACH) if f'"{name}"' not in template] == []


def test_a_violation_after_the_last_look_is_within_the_time_that_is_drawn() -> None:
    drawn = draw_timeline(timeline_of(story(), NO_SENDS, ()), (), 8.0)
    (end,) = re.findall(r'"name":"time","end":([\d.]+)', drawn.script)
    assert float(end) > 8.0


def test_leaders_that_come_and_go_over_thousands_of_partitions_are_told_once_each() -> None:
    """Of many looks with the same leaders nothing is kept but their beginning and end."""
    looks = [Look(at * S, each.nodes) for at, each in enumerate(many(2_000)[:1] * 50)]
    found = timeline_of(looks, NO_SENDS, ())
    assert {(span.begin_s, span.end_s) for span in found.leaders} == {(0, 49)}
    assert found.nodes[0].text == "broker-0 leads t-0, t-1, t-2 and 1997 more"
