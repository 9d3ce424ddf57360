"""A round's folder has what nodes traced since the round before, and what its checks compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from highwater.cluster.topology import Topology
from highwater.errors import NodeUnreachable
from highwater.soak import round_evidence
from highwater.soak.round_evidence import TraceCopies, closed_files
from highwater_checker.run_folder.lines import read_traces
from highwater_checker.slices import Slices, TraceBegin
from highwater_core.config import Preset
from highwater_core.events import EventKind, TraceEvent
from highwater_core.internal_topics import INTERNAL_TOPICS, OFFSETS_TOPIC
from highwater_core.traces import encode_event

E = EventKind
NAMES = {0: "broker-0", 1: "broker-1"}
LIVING = INTERNAL_TOPICS


def leads(seq: int, incarnation: int = 1, topic: str = OFFSETS_TOPIC, node: int = 0) -> bytes:
    return line(seq, incarnation, E.BECAME_LEADER, topic, node, isr=[0], high_watermark=0)


def line(
    seq: int,
    incarnation: int = 1,
    kind: EventKind = E.CHECKPOINT_WRITTEN,
    topic: str | None = None,
    node: int = 0,
    **detail: Any,
) -> bytes:
    partition = None if topic is None else 0
    event = TraceEvent(
        seq, node, incarnation, seq, kind, topic, partition, 1, offset=0, detail=detail
    )
    return encode_event(event) + b"\n"


class Copies:
    """Rounds of one cluster: of each, what the nodes have then, and what its folder gets."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.copies = TraceCopies(NAMES)
        self.rounds = 0

    def round(
        self, files: Mapping[str, Sequence[bytes]]
    ) -> tuple[dict[str, list[int]], tuple[TraceBegin, ...]]:
        self.rounds += 1
        whole, target = self.folder / f"whole-{self.rounds}", self.folder / f"run-{self.rounds}"
        for each in (whole, target):
            each.mkdir()
        for name, lines in files.items():
            (whole / name).write_bytes(b"".join(lines))
        begins = self.copies.cut(whole, target, LIVING)
        events = read_traces(target, unread := [])
        assert unread == []
        assert Slices(begins).gaps(events) == [], "the slice is as it is declared"
        return (
            {
                path.name: [each.seq for each in read_traces_of(path)]
                for path in sorted(target.iterdir())
            },
            begins,
        )


def read_traces_of(path: Path) -> list[TraceEvent]:
    events = read_traces(path.parent)
    name = path.name.removesuffix(".jsonl")
    return [each for each in events if f"{NAMES[each.node]}-{each.incarnation}" == name]


@pytest.fixture
def copies(tmp_path: Path) -> Copies:
    return Copies(tmp_path)


def test_the_first_round_has_all_and_the_next_what_came_since(copies: Copies) -> None:
    first = [line(0), line(1)]
    assert copies.round({"broker-0-1.jsonl": first}) == ({"broker-0-1.jsonl": [0, 1]}, ())
    files, begins = copies.round({"broker-0-1.jsonl": [*first, line(2), line(3)]})
    assert (files, begins) == ({"broker-0-1.jsonl": [2, 3]}, (TraceBegin(0, 1, 2),))


def test_what_later_checks_compare_is_carried_on_also_of_starts_that_are_over(
    copies: Copies,
) -> None:
    copies.round({"broker-0-1.jsonl": [line(0), leads(1), leads(2, topic="t1"), line(3)]})
    files, begins = copies.round({"broker-0-2.jsonl": [line(0, 2), leads(1, 2)]})
    assert files == {"broker-0-1.jsonl": [1], "broker-0-2.jsonl": [0, 1]}
    assert begins == (TraceBegin(0, 1, 4, 1),)
    files, begins = copies.round({"broker-0-2.jsonl": [leads(1, 2), line(2, 2)]})
    assert files == {"broker-0-1.jsonl": [1], "broker-0-2.jsonl": [1, 2]}
    assert begins == (TraceBegin(0, 1, 4, 1), TraceBegin(0, 2, 2, 1))


def test_parts_that_were_let_go_are_not_missed_and_later_ones_are(copies: Copies) -> None:
    copies.round({"broker-0-1.jsonl": [line(0), line(1)], "broker-1-1.jsonl": [line(0, node=1)]})
    assert copies.round({"broker-0-1.jsonl": [line(2)], "broker-1-1.jsonl": []})[0] == {
        "broker-0-1.jsonl": [2]
    }
    with pytest.raises(AssertionError, match="as it is declared"):
        copies.round({"broker-0-1.jsonl": [line(4)]})


def test_a_line_that_is_being_written_is_of_the_next_round(copies: Copies) -> None:
    torn = line(1)[:9]
    assert copies.round({"broker-0-1.jsonl": [line(0), torn]})[0] == {"broker-0-1.jsonl": [0]}
    assert (copies.folder / "run-1" / "broker-0-1.jsonl").read_bytes().endswith(b"\n")
    assert copies.round({"broker-0-1.jsonl": [line(0), line(1)]})[0] == {"broker-0-1.jsonl": [1]}


class BrokerDown:
    """A cluster of one broker, whose process has ended and left a trace and a log."""

    def __init__(self) -> None:
        self.topology, self.node_ids = Topology(brokers=1, preset=Preset.V2), (0,)
        self.engine = None

    def container_name(self, node: int) -> str:
        return f"node-{node}"

    def collect_zookeeper(self, folder: Path) -> None: ...

    def logs(self, node: int) -> str:
        return "Traceback"

    def status(self, node: int) -> str:
        return "exited"

    def snapshot(self, node: int) -> None:
        raise NodeUnreachable(f"node {node} does not answer")

    def try_snapshot(self, node: int, *, timeout_s: float) -> None:
        return None

    def copy_broker_data(self, broker: int, target: Path) -> None:
        target.mkdir(parents=True)
        (target / "0.log").write_bytes(b"records")


def test_all_that_a_node_left_that_is_down_is_copied_for_the_judge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found: a round whose broker had crashed and lost records was unknown, and never judged."""

    def copy(engine: object, container: str, name: str, target: Path) -> list[str]:
        (target / f"{name}-1.jsonl").write_bytes(leads(0) + line(1))
        return ["1.jsonl"]

    monkeypatch.setattr(round_evidence, "copy_traces", copy)
    for folder in ("logs", "trace"):
        (tmp_path / folder).mkdir()
    cluster: Any = BrokerDown()
    evidence = round_evidence.RoundEvidence(cluster)
    evidence.copy(tmp_path, ["t1"])
    evidence.let_go()
    assert [event.seq for event in read_traces(tmp_path / "trace", [])] == [0, 1]
    assert (tmp_path / "segments" / "broker-0" / "0.log").read_bytes() == b"records"
    assert (tmp_path / "logs" / "broker-0.log").read_text("utf-8") == "Traceback"


def test_only_files_that_a_node_no_longer_writes_to_are_let_go() -> None:
    files = ["3.jsonl", "3.jsonl.000001", "2.jsonl", "2.jsonl.000004", "3.jsonl.000002"]
    assert [each.rpartition("/")[2] for each in closed_files(files, "3.jsonl")] == [
        "2.jsonl",
        "2.jsonl.000004",
        "3.jsonl.000001",
        "3.jsonl.000002",
    ]
