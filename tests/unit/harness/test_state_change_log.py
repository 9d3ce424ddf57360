"""`highwater logs --state-changes`: each change with its author, old and new state and reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from highwater.cli import make_app
from highwater.report.state_changes import Outcome, read_state_changes, select, to_text
from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import TopicPartition
from highwater_core.traces import encode_event

K = EventKind
START_NS = 1_000_000_000
T0 = TopicPartition("t", 0)


class Traces:
    """Events of controllers, each numbered in its own order; every step is a second."""

    def __init__(self) -> None:
        self.events: list[TraceEvent] = []

    def add(
        self,
        kind: EventKind,
        node: int = 1000,
        *,
        incarnation: int = 1,
        at: TopicPartition | None = None,
        leader_epoch: int | None = None,
        **detail: Any,
    ) -> Traces:
        own = [e for e in self.events if (e.node, e.incarnation) == (node, incarnation)]
        self.events.append(
            TraceEvent(
                ts_ns=START_NS + len(self.events) * 1_000_000_000,
                node=node,
                incarnation=incarnation,
                seq=len(own),
                kind=kind,
                topic=None if at is None else at.topic,
                partition=None if at is None else at.partition,
                leader_epoch=leader_epoch,
                controller_epoch=node - 999,
                detail=detail,
            )
        )
        return self


def states(before: str, after: str, trigger: str = "BrokersChanged", **more: Any) -> dict[str, Any]:
    return {"from_state": before, "to_state": after, "trigger": trigger, **more}


@pytest.fixture
def traces() -> Traces:
    """A partition is created, loses its leader, then its last replica; then its topic goes."""
    made = Traces()
    online, offline = "OnlinePartition", "OfflinePartition"
    created = {"trigger": "CreateTopicsRequest"}
    led = {"isr": [0, 1], "unclean": False}
    made.add(K.CONTROLLER_ELECTED).add(K.FAILOVER_COMPLETED, brokers=[0, 1, 2])
    made.add(
        K.LEADER_ELECTED, at=T0, leader_epoch=0, leader=0, selector="initial", **led, **created
    )
    made.add(
        K.PARTITION_STATE_CHANGED, at=T0, leader_epoch=0, **states("NewPartition", online, "X")
    )
    made.add(K.BROKERS_CHANGED, new=[], dead=[0], bounced=[2])
    made.add(K.PARTITION_STATE_CHANGED, at=T0, leader_epoch=0, **states(online, offline))
    made.add(
        K.LEADER_ELECTED, at=T0, leader_epoch=1, leader=1, selector="offline", isr=[1],
        unclean=True, trigger="BrokersChanged",
    )  # fmt: skip
    moved = states("OnlineReplica", "OfflineReplica", replica=0)
    made.add(K.REPLICA_STATE_CHANGED, at=T0, leader_epoch=1, **moved)
    made.add(K.CONTROLLER_RESIGNED, reason="the node stops")
    made.add(K.CONTROLLER_ELECTED, 1001)
    reason = {"reason": "no ISR member is live"}
    failed = states(offline, online, "Failover", **reason)
    made.add(K.STATE_CHANGE_FAILED, 1001, at=T0, leader_epoch=1, **failed)
    refused = states("OnlineReplica", "NewReplica", replica=2)
    made.add(K.TRANSITION_REFUSED, 1001, at=T0, leader_epoch=1, **refused)
    made.add(K.SHUTDOWN_BEGUN, 1001, broker=1, broker_epoch=7)
    made.add(K.COMMAND_SENT, 1001, broker=1, request="StopReplicaRequest")
    return made


C0, C1 = "controllerId=1000]", "controllerId=1001]"
STORY = f"""\
    0.000 s [Controller {C0} epoch 1: is elected
    1.000 s [Controller {C0} epoch 1: has taken charge of brokers 0,1,2
    2.000 s [PartitionStateMachine {C0} epoch 1: t-0 nobody -> leader 0, ISR 0,1, leader epoch 0 \
(initial election, on CreateTopicsRequest)
    3.000 s [PartitionStateMachine {C0} epoch 1: t-0 NewPartition -> OnlinePartition, \
leader epoch 0 (on X)
    4.000 s [Controller {C0} epoch 1: brokers dead: 0; bounced: 2
    5.000 s [PartitionStateMachine {C0} epoch 1: t-0 OnlinePartition -> OfflinePartition, \
leader epoch 0 (on BrokersChanged)
    6.000 s [PartitionStateMachine {C0} epoch 1: t-0 leader 0, ISR 0,1, leader epoch 0 -> \
leader 1, ISR 1, leader epoch 1 (offline election, outside the ISR, on BrokersChanged)
    7.000 s [ReplicaStateMachine {C0} epoch 1: t-0 on broker 0 OnlineReplica -> OfflineReplica, \
leader epoch 1 (on BrokersChanged)
    8.000 s [Controller {C0} epoch 1: resigns: the node stops
    9.000 s [Controller {C1} epoch 2: is elected
   10.000 s [PartitionStateMachine {C1} epoch 2: t-0 stays OfflinePartition, leader epoch 1, \
not OnlinePartition: failed (no ISR member is live, on Failover)
   11.000 s [ReplicaStateMachine {C1} epoch 2: t-0 on broker 2 stays OnlineReplica, \
leader epoch 1, not NewReplica: refused (on BrokersChanged)
   12.000 s [Controller {C1} epoch 2: broker 1 is to stop
"""


def printed(events: list[TraceEvent]) -> str:
    return "".join(f"{to_text(line, START_NS)}\n" for line in read_state_changes(events))


def test_the_log_reads_as_a_story(traces: Traces) -> None:
    assert printed(traces.events) == STORY


def test_the_order_is_each_controllers_own_with_any_names_of_files(traces: Traces) -> None:
    """A tenth start's file sorts before a second's, and clocks may stand still."""
    assert printed(traces.events[::-1]) == STORY
    many = Traces()
    for incarnation in (10, 2, 1):
        many.add(K.CONTROLLER_RESIGNED, incarnation=incarnation, reason=str(incarnation))
    lines = [line.after for line in read_state_changes(many.events)]
    assert lines == ["resigns: 1", "resigns: 2", "resigns: 10"]


def seconds(lines: list[Any]) -> list[int]:
    return [(line.ts_ns - START_NS) // 1_000_000_000 for line in lines]


def test_a_partitions_lines_leave_out_other_partitions_and_no_event_of_the_cluster(
    traces: Traces,
) -> None:
    traces.add(K.TOPIC_DELETED, at=T0)
    other = TopicPartition("t", 1)
    traces.add(K.ISR_WRITTEN, at=other, leader=0, isr=[0])
    lines = read_state_changes(traces.events)
    whole = list(range(13))
    assert seconds(select(lines, [T0])) == [*whole, 14]
    assert seconds(select(lines, [other])) == [0, 1, 4, 8, 9, 12, 15]
    assert seconds(select(lines, [T0, other])) == seconds(lines)
    assert lines[-1].before == ""  # who led it before is not in these traces


def test_a_brokers_lines_are_those_that_name_it_as_it_was_or_as_it_is(traces: Traces) -> None:
    lines = read_state_changes(traces.events)
    nameless = {0, 1, 3, 5, 8, 9, 10}
    assert seconds(select(lines, brokers=[0])) == sorted(nameless | {2, 4, 6, 7})
    assert seconds(select(lines, brokers=[2])) == sorted(nameless | {4, 11})
    assert seconds(select(lines, brokers=[1])) == sorted(nameless | {2, 6, 12})


def test_a_trace_of_an_earlier_version_is_shown_with_fewer_details(traces: Traces) -> None:
    old = Traces()
    before = {"from_state": "NewReplica", "to_state": "OnlineReplica", "replica": 1}
    old.add(K.REPLICA_STATE_CHANGED, at=T0, **before)
    old.add(K.LEADER_ELECTED, at=T0, leader_epoch=3, leader=1, isr=[1, 2])
    assert printed(old.events) == (
        f"    0.000 s [ReplicaStateMachine {C0} epoch 1: t-0 on broker 1 "
        "NewReplica -> OnlineReplica\n"
        f"    1.000 s [PartitionStateMachine {C0} epoch 1: t-0 ? -> "
        "leader 1, ISR 1,2, leader epoch 3 (an election)\n"
    )


def test_an_election_that_leaves_a_leader_in_place_says_so() -> None:
    online, reason = "OnlinePartition", {"reason": "no other ISR member is live"}
    kept = Traces().add(
        K.STATE_CHANGE_FAILED, at=T0, leader_epoch=3, **states(online, online, **reason)
    )
    assert printed(kept.events) == (
        f"    0.000 s [PartitionStateMachine {C0} epoch 1: t-0 stays OnlinePartition, "
        "leader epoch 3, no other leader: failed (no other ISR member is live, "
        "on BrokersChanged)\n"
    )


# ---------------------------------------------------------------- the command


@pytest.fixture
def folder(tmp_path: Path, traces: Traces) -> Path:
    (tmp_path / "trace").mkdir()
    for node in (1000, 1001):
        lines = [encode_event(event) + b"\n" for event in traces.events if event.node == node]
        (tmp_path / "trace" / f"controller-{node}-1.jsonl").write_bytes(b"".join(lines))
    clock = {"started_monotonic_ns": 0, "start_wall_ns": START_NS}
    (tmp_path / "clock.json").write_text(json.dumps(clock))
    return tmp_path


def logs(*arguments: str | Path) -> Any:
    return CliRunner().invoke(make_app("logs"), ["logs", *map(str, arguments)])


def test_a_runs_folder_of_either_world_is_read(folder: Path) -> None:
    assert logs("--state-changes", folder).stdout == STORY
    assert logs("--state-changes", folder, "--tail", 2).stdout == "".join(
        STORY.splitlines(keepends=True)[-2:]
    )
    (folder / "clock.json").unlink()
    assert logs("--state-changes", folder).stdout.startswith("00:00:01.000 [Controller")


def test_as_json_each_line_is_an_object_and_filters_apply(folder: Path) -> None:
    result = logs("--state-changes", folder, "--partition", "t-0", "--broker", 2, "--json")
    told = json.loads(result.stdout)
    (refused,) = [each for each in told if each["outcome"] == Outcome.REFUSED]
    assert refused == {
        "ts_ns": START_NS + 11_000_000_000,
        "controller": 1001,
        "controller_epoch": 2,
        "machine": "ReplicaStateMachine",
        "about": "state",
        "outcome": "refused",
        "topic": "t",
        "partition": 0,
        "replica": 2,
        "before": "OnlineReplica",
        "after": "NewReplica",
        "leader_epoch": 1,
        "partition_epoch": None,
        "reason": "",
        "trigger": "BrokersChanged",
        "brokers": [2],
    }


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "whose log?"),
        (["--json", "0"], "go with --state-changes"),
        (["--state-changes", "--follow"], "--follow is for a node's log"),
        (["--state-changes", "/nowhere"], "/nowhere is no folder of a run"),
        (["--state-changes", "/nowhere", "--run", "r"], "not both"),
        (["--state-changes", "--partition", "t"], "TOPIC-PARTITION is meant"),
    ],
    ids=lambda value: " ".join(value) or "nothing" if isinstance(value, list) else "",
)
def test_options_that_exclude_each_other_are_refused(arguments: list[str], says: str) -> None:
    result = logs(*arguments)
    assert says in str(result.exception)


def test_a_failed_log_folder_is_shown_with_its_broker_and_replicas() -> None:
    made = Traces()
    made.add(K.LOG_FOLDERS_CHANGED, brokers=[2])
    made.add(K.REPLICAS_FAILED, broker=2, partitions=["t-0", "t-1"])
    assert printed(made.events) == (
        f"    0.000 s [Controller {C0} epoch 1: log folders of brokers 2 have changed\n"
        f"    1.000 s [Controller {C0} epoch 1: broker 2's disk refuses t-0, t-1\n"
    )
