"""What is alerted of a run that goes on: no more than the judge finds at its end, and once each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater_checker.finding import Finding
from highwater_checker.history import HistoryEvent, client_of, encode
from highwater_checker.invariants.inconsistent_offsets import check_inconsistent_offsets
from highwater_checker.invariants.order import check_order
from highwater_checker.looks import encode_look
from highwater_checker.run_folder.histories import polls_in, sends_in
from highwater_core.ids import NodeId, TopicId
from highwater_pipeline.watching import live_checks
from highwater_pipeline.watching.known import read_known
from highwater_pipeline.watching.live_checks import (
    Known,
    RunState,
    decode_state,
    encode_state,
    take,
)
from tests.pipeline.record_histories import read, send
from tests.pipeline.record_strategies import PARTITIONS, histories, logs
from tests.pipeline.run_folders import TOPOLOGY
from tests.support.evidence_makers import EVERYONE, look, replica
from tests.support.run_on_disk import write

KNOWN = Known(True, weak=("p1",), one_at_a_time=("p0",), idempotent=("p2",))
Line = tuple[str, bytes]
Shown = set[tuple[str, str, int, int]]


def lines_of(events: Iterable[HistoryEvent]) -> list[Line]:
    return [(f"history/{each.process}.jsonl", encode(each)) for each in events]


def alerts(chunks: Iterable[Sequence[Line]], known: Known | None = KNOWN) -> list[Finding]:
    """Return what is alerted if the lines come in these chunks, with a restart between them."""
    state, found = RunState(known), []
    for chunk in chunks:
        found += take(state, chunk)
        state = decode_state(encode_state(state))
    return [alert.finding for alert in found]


def shown(findings: Iterable[Finding]) -> Shown:
    return {(each.invariant, each.topic, each.partition, each.offset) for each in findings}


def judged(events: Sequence[HistoryEvent]) -> Shown:
    """Return what the judge finds with the same evidence."""
    own: dict[str, list[HistoryEvent]] = {}
    for event in events:
        own.setdefault(event.process, []).append(event)
    promised = [
        ack for ack in sends_in(own).acknowledged if client_of(ack.process) not in KNOWN.weak
    ]
    order = check_order(
        promised,
        lambda process: client_of(process) in KNOWN.one_at_a_time,
        lambda process: client_of(process) in KNOWN.idempotent,
    )
    told = check_inconsistent_offsets(promised, polls_in(own))
    return shown((*order.findings, *told.findings))


@st.composite
def arriving(draw: st.DrawFn) -> tuple[list[HistoryEvent], list[list[Line]]]:
    """Draw a run's history, and its lines as a watch meets them: each file's are in order."""
    replicas = [each for place in PARTITIONS for each in draw(logs(*place))]
    events = draw(histories(replicas, draw(st.booleans())))
    files: dict[str, list[Line]] = {}
    for file, line in lines_of(events):
        files.setdefault(file, []).append((file, line))
    chunks: list[list[Line]] = []
    while files:
        file = draw(st.sampled_from(sorted(files)))
        count = draw(st.integers(1, 8))
        chunks.append(files[file][:count])
        files[file] = files[file][count:]
        if not files[file]:
            del files[file]
    return events, chunks


@given(arriving())
def test_alerts_are_the_findings_of_the_judge_in_whatever_pieces_lines_come(
    drawn: tuple[list[HistoryEvent], list[list[Line]]],
) -> None:
    events, chunks = drawn
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live_checks, "ALIKE_MAX", live_checks.ALERTS_MAX)
        assert shown(alerts(chunks)) == judged(events)


@given(arriving())
def test_with_little_room_alerts_are_fewer_and_never_others(
    drawn: tuple[list[HistoryEvent], list[list[Line]]],
) -> None:
    events, chunks = drawn
    with pytest.MonkeyPatch.context() as patch:
        for name in ("OFFSETS_KEPT", "SENDS_KEPT", "OPEN_KEPT", "EPOCHS_KEPT"):
            patch.setattr(live_checks, name, 2)
        assert shown(alerts(chunks)) <= judged(events)


def test_a_send_is_alerted_once_whichever_record_above_it_is_known_by_then() -> None:
    """The finding's words name the highest one that is known; lines of another file come later."""
    above, higher, below = (
        lines_of(send("p0", 0, "a", 10, at_ns=(1, 2))),
        lines_of(send("p3", 0, "b", 20, at_ns=(1, 2))),
        lines_of(send("p4", 0, "c", 5, at_ns=(3, 4))),
    )
    found = alerts([[*above, *below], higher])
    assert [(each.invariant, each.operation) for each in found] == [
        ("realtime-send", "p4's send 0")
    ]
    (other,) = alerts([[*above, *higher, *below]])
    assert str(other) != str(found[0]), "its words differ"


def test_what_is_kept_is_bounded_with_more_partitions_than_offsets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live_checks, "OFFSETS_KEPT", 2)
    state = RunState(KNOWN)
    events = [
        replace(read("c0", offset, "a"), partition=p) for p in range(5) for offset in range(9)
    ]
    take(state, lines_of(events))
    assert [len(told) for told in state.told.values()] == [1] * 5


TWO_AT_ONE_OFFSET = [*send("p0", 0, "a", 3), read("c0", 3, "b")]


def test_two_records_at_one_offset_are_alerted_once() -> None:
    lines = lines_of([*TWO_AT_ONE_OFFSET, read("c1", 3, "b"), read("c1", 3, "b")])
    found = alerts([lines[:2], lines[2:], lines[-1:]])
    assert [(each.invariant, each.operation) for each in found] == [
        ("inconsistent-offsets", "c0's poll 3"),
        ("inconsistent-offsets", "c1's poll 3"),
    ]


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([*send("p1", 0, "a", 3), read("c0", 3, "b")], id="acks=1 promises nothing"),
        pytest.param([send("p0", 0, "a", 3)[1], read("c0", 3, "b")], id="a send that never began"),
        pytest.param(
            [send("p0", 0, "x", 3)[0], send("p0", 0, "a", 3)[1], read("c0", 3, "b")],
            id="the outcome of another record",
        ),
        pytest.param(
            [*send("p0", 4, "x", 2), send("p0", 4, "a")[0], send("p0", 4, "a", 3)[1],
             read("c0", 3, "b")],
            id="an id that an operation had before",
        ),
    ],
)  # fmt: skip
def test_what_the_judge_leaves_out_is_not_alerted(events: list[HistoryEvent]) -> None:
    assert not alerts([lines_of(events)])
    assert not judged(events)


def test_a_line_that_cannot_be_read_and_one_of_another_process_are_left_out() -> None:
    strange = ("history/c1.jsonl", encode(read("c0", 3, "b")))
    lines = [*lines_of(send("p0", 0, "a", 3)), ("history/c0.jsonl", b'{"time_ns":'), strange]
    assert not alerts([lines])


@pytest.mark.parametrize("known", [None, Known()])
def test_histories_wait_for_what_is_promised(known: Known | None) -> None:
    assert not alerts([lines_of(TWO_AT_ONE_OFFSET)], known)


# ---------------------------------------------------------------- looks


def seen(
    time_ns: int, *leaders: tuple[int, int], topic_id: str = "x", isr: tuple[int, ...] = EVERYONE
) -> Line:
    """Return a look in which these (broker, leader epoch) lead."""
    replicas = {
        node: replace(
            replica("leader", 0, 0, leader_epoch=epoch, isr=isr),
            leader=NodeId(node),
            topic_id=TopicId(topic_id),
        )
        for node, epoch in leaders
    }
    nodes = [replicas.get(node) for node in range(3)]
    return "snapshots.jsonl", encode_look(look(time_ns, *nodes))


def test_two_leaders_in_one_epoch_are_alerted_across_looks() -> None:
    (found,) = alerts([[seen(1, (0, 1))], [seen(2, (0, 1), (1, 2))], [seen(3, (2, 1), (1, 2))]])
    assert (found.invariant, found.topic, found.partition, found.broker) == ("I7", "t", 0, 2)
    assert found.message == "brokers 0 and 2 both led at leader_epoch 1"


def test_leaders_of_topics_of_one_name_are_not_compared() -> None:
    assert not alerts([[seen(1, (0, 1))], [seen(2, (1, 1), topic_id="y")]])
    assert not alerts([[seen(1, (0, 1), topic_id="")], [seen(2, (1, 1), topic_id="")]])


def test_a_stranger_in_the_isr_is_alerted_in_the_judges_words() -> None:
    (found,) = alerts([[seen(1, (0, 1))], [seen(2, (0, 1), isr=(0, 7))], [seen(3, (0, 1))]])
    assert (found.invariant, found.broker) == ("I6", 0)
    assert found.message.startswith("the ISR holds a broker that is not assigned")


def test_offsets_of_a_topic_that_was_seen_with_two_ids_are_left_to_the_end() -> None:
    again = [seen(1, (0, 1)), seen(2, (0, 1), topic_id="y")]
    assert not alerts([again, lines_of(TWO_AT_ONE_OFFSET)])


# ---------------------------------------------------------------- bounds


def test_what_is_kept_is_bounded() -> None:
    state = RunState(KNOWN)
    for first in range(0, 60_000, 5_000):
        events = [
            each
            for number in range(first, first + 5_000)
            for each in send("p0", number, f"v{number}", number, at_ns=(number, number))
        ]
        assert not take(state, lines_of(events))
    assert len(state.told["t", 0]) <= live_checks.OFFSETS_KEPT * 5 // 4
    assert len(state.acknowledged["t", 0]) == live_checks.SENDS_KEPT
    assert not state.processes["p0"].open


def test_of_many_findings_a_few_of_each_partition_are_alerted() -> None:
    wrong = [
        replace(read(f"c{reader}", offset, f"{reader} {offset}"), partition=partition)
        for reader in range(2)
        for partition in range(9)
        for offset in range(9)
    ]
    found = alerts([lines_of(wrong)])
    assert len(found) == live_checks.ALERTS_MAX
    places = [each.partition for each in found]
    assert max(map(places.count, places)) == live_checks.ALIKE_MAX


# ---------------------------------------------------------------- the run's first files


PROMISES = {"producers": [{"client": "p0", "max_in_flight": 1}, {"client": "p1", "acks": 1}]}


def first_files(folder: Path, *, session_timeout_ms: int | None, steps: list[object]) -> Path:
    topology = {**TOPOLOGY, "session_timeout_ms": session_timeout_ms}
    plan = {"title": "a run", "seed": 1, "steps": steps}
    for name, document in (("topology", topology), ("plan", plan), ("promises", PROMISES)):
        write(folder / f"{name}.json", msgspec.json.encode(document))
    return folder


def test_a_plans_first_files_say_which_clients_promise_what(tmp_path: Path) -> None:
    folder = first_files(tmp_path, session_timeout_ms=6_000, steps=[])
    assert read_known(folder) == Known(True, weak=("p1",), one_at_a_time=("p0",))
    (folder / "promises.json").unlink()
    assert read_known(folder) is None


def test_histories_of_simulated_runs_and_of_deleted_topics_are_left_to_the_end(
    tmp_path: Path,
) -> None:
    deleting = {"at_ms": 5, "do": {"fault": "delete_topic", "topic": "t"}}
    simulated = read_known(first_files(tmp_path / "a", session_timeout_ms=None, steps=[]))
    deleted = read_known(first_files(tmp_path / "b", session_timeout_ms=6_000, steps=[deleting]))
    assert simulated is not None
    assert not simulated.has_histories
    assert deleted is not None
    assert not deleted.has_histories


def test_damaged_first_files_leave_histories_to_the_end(tmp_path: Path) -> None:
    folder = first_files(tmp_path, session_timeout_ms=6_000, steps=[])
    write(folder / "promises.json", b"{")
    assert read_known(folder) == Known()
