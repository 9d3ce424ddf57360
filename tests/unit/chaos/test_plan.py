"""Plans as files: values read back, values refused, and names that files depend on."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from highwater_chaos import faults as f
from highwater_chaos.plan import (
    BadPlan,
    Expected,
    Network,
    Observed,
    Plan,
    PlanTopology,
    Producer,
    Step,
    Topic,
    When,
    Workload,
    decode_plan,
    encode_plan,
    node_names,
    problems_of,
)

WHOLE = Plan(
    seed=5,
    title="a story",
    topology=PlanTopology(
        brokers=2, controllers=1, broker_settings={"segment_ms": 2, "segment_bytes": 99}
    ),
    network=Network(through_codecs=True),
    workload=Workload((Topic("u", 2, 2, 2),), (Producer("u"),), ()),
    steps=(
        Step(0, f.Kill("leader of u-1", 10, f.DiskAtStart.EMPTY)),
        Step(3, f.Cut("any", "zookeeper", "zookeeper", True), When(Observed.LEADER_EPOCH, "u-0")),
    ),
    core=("broker-1", "controller-1000"),
    expected=Expected("fail", "I1"),
)

FIELDS = {
    "kill": {"node", "for_ms", "disk"},
    "terminate": {"node", "for_ms"},
    "upgrade": {"node", "image", "preset"},
    "pause": {"node", "for_ms", "by"},
    "crash_loop": {"node", "times", "every_ms", "for_ms"},
    "power_loss": {"node", "for_ms"},
    "crash_at": {"node", "point", "restart_after_ms", "for_ms"},
    "delay_at": {"node", "point", "delay_ms", "count", "for_ms"},
    "cut": {"source", "target", "plane", "both_ways", "for_ms"},
    "isolate": {"node", "for_ms"},
    "slow_link": {"source", "target", "plane", "latency_ms", "jitter_ms", "for_ms"},
    "limit_bandwidth": {"source", "target", "plane", "kbit_per_s", "for_ms"},
    "lossy_link": {"source", "target", "plane", "loss_percent", "for_ms"},
    "reset_connections": {"source", "target", "plane"},
    "half_open": {"source", "target", "plane"},
    "expire_session": {"node"},
    "lose_zookeeper_connection": {"node"},
    "lose_zookeeper_reply": {"node", "count"},
    "slow_zookeeper": {"delay_ms", "for_ms"},
    "pause_zookeeper": {"for_ms"},
    "restart_zookeeper": {"for_ms"},
    "disk_full": {"node", "for_ms"},
    "disk_errors": {"node", "operation", "percent", "for_ms", "within"},
    "fail_folder": {"node", "for_ms", "folder"},
    "slow_disk": {"node", "delay_ms", "for_ms"},
    "flip_bit": {"node", "file", "for_ms"},
    "clock_jump": {"node", "by_ms"},
    "clock_rate": {"node", "ppm", "for_ms"},
    "kill_client": {"client", "for_ms"},
    "create_topic": {"topic", "partitions", "replication_factor", "records", "min_insync_replicas"},
    "expand_topic": {"topic", "partitions"},
    "delete_topic": {"topic"},
    "change_config": {"topic", "key", "value"},
    "move_replicas": {"topic", "partition", "replicas"},
    "give_up_moving": {"topic", "partition"},
    "elect_preferred": {"topic", "partition"},
    "throttle_replication": {"topic", "bytes_per_s"},
    "change_fetchers": {"count"},
    "strange_requests": {"kind", "count"},
}


def names(kind: type[msgspec.Struct]) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(kind)}


def test_a_plan_is_read_back_as_it_was_written_byte_for_byte() -> None:
    text = encode_plan(WHOLE)
    assert decode_plan(text) == WHOLE
    assert encode_plan(decode_plan(text)) == text


def test_equal_plans_have_equal_bytes_in_any_order_of_their_settings() -> None:
    other = msgspec.structs.replace(
        WHOLE, topology=PlanTopology(2, 1, broker_settings={"segment_bytes": 99, "segment_ms": 2})
    )
    assert encode_plan(other) == encode_plan(WHOLE)


def test_the_names_in_plan_files_stay() -> None:
    assert {f.fault_name(kind): names(kind) for kind in f.FAULTS} == FIELDS
    assert names(Plan) == {
        "seed", "title", "commit", "topology", "network", "workload", "steps", "quiet_after_ms",
        "core", "probes_shrinking", "expected", "format",
    }  # fmt: skip
    assert names(Step) == {"at_ms", "do", "when"}
    assert names(When) == {"state", "partition", "event", "node", "count", "then_after_ms"}
    assert {state.value for state in Observed} == {
        "isr_is_leader", "follower_behind", "high_watermark_behind", "leader_epoch", "event",
    }  # fmt: skip


@dataclass(frozen=True)
class Change:
    """A change of the whole plan's JSON at a path of keys."""

    path: tuple[str | int, ...]
    value: Any
    says: str


@pytest.mark.parametrize(
    "change",
    [
        Change(("colour",), "red", "colour"),
        Change(("topology", "rack"), 1, "rack"),
        Change(("steps", 0, "do", "how"), 1, "how"),
        Change(("steps", 0, "do", "fault"), "explode", "explode"),
        Change(("steps", 0, "why"), "", "why"),
        Change(("steps", 1, "when", "until"), 1, "until"),
        Change(("seed",), "five", "seed"),
        Change(("format",), 1, "format 1 is not 2"),
        Change(("topology", "toggles"), "{}", "toggles"),
        Change(("topology", "toggles"), {"topic_id": 1}, "toggles"),
        Change(("topology", "brokers"), 0, "at least one broker"),
        Change(("workload", "topics", 0, "replication_factor"), 3, "3 replicas"),
        Change(("workload", "producers", 0, "topic"), "x", "'x'"),
        Change(("core",), ["broker-2"], "'broker-2'"),
        Change(("steps", 0, "at_ms"), -1, "negative"),
        Change(("steps", 0, "do", "for_ms"), -1, "for_ms is negative"),
        Change(("steps", 0, "do", "node"), "broker-7", "'broker-7'"),
        Change(("steps", 0, "do", "node"), "zookeeper", "'zookeeper'"),
        Change(("steps", 0, "do", "node"), "any", "'any'"),
        Change(("steps", 0, "do", "node"), "leader of u", "'leader of u'"),
        Change(("steps", 0, "do", "node"), "leader of ", "'leader of '"),
        Change(("steps", 1, "do", "source"), "broker-9", "'broker-9'"),
        Change(("steps", 1, "do", "plane"), "astral", "'astral'"),
        Change(("steps", 1, "when", "partition"), "", "partition ''"),
        Change(("steps", 1, "when", "partition"), "u-x", "partition 'u-x'"),
        Change(("steps", 1, "when", "count"), 0, "less than one time"),
        Change(("steps", 1, "when", "node"), "broker-8", "'broker-8'"),
        Change(("steps", 1, "when"), {"state": "event"}, "without naming it"),
    ],
    ids=lambda change: f"{'.'.join(map(str, change.path))}={change.value}",
)
def test_a_plan_that_cannot_be_run_is_refused_and_the_message_says_why(change: Change) -> None:
    content = json.loads(encode_plan(WHOLE))
    at: Any = content
    for key in change.path[:-1]:
        at = at[key]
    at[change.path[-1]] = change.value
    with pytest.raises(BadPlan, match="a file: ") as refused:
        decode_plan(json.dumps(content).encode(), "a file")
    assert change.says in str(refused.value)


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (f.CrashLoop("broker-0", 0), "step 1, crash_loop: it is to be done less than once"),
        (f.CrashLoop("broker-0", 1, -1), "step 1, crash_loop: every_ms is negative"),
        (
            f.LimitBandwidth("broker-0", "broker-1", "control", 0),
            "step 1, limit_bandwidth: a bandwidth of less than 1 kbit/s is a cut",
        ),
        (f.KillClient("p1"), "step 1, kill_client: there is no client 'p1'"),
        (f.KillClient("c1"), "step 1, kill_client: there is no client 'c1'"),
    ],
)
def test_impossible_fields_of_a_fault_are_reported(fault: f.Fault, says: str) -> None:
    assert problems_of(Plan(1, steps=(Step(0, fault),))) == [says]


@pytest.mark.parametrize(
    ("count", "folder", "says"),
    [
        (1, None, []),
        (1, 0, []),
        (1, 1, ["a broker has no log folder 1: they are numbered 0 to 0"]),
        (2, 1, []),
        (2, 2, ["a broker has no log folder 2: they are numbered 0 to 1"]),
        (2, -1, ["a broker has no log folder -1: they are numbered 0 to 1"]),
        (2, None, ["it does not say which of a broker's 2 log folders fails"]),
    ],
)
def test_a_folder_fails_that_its_broker_has(
    count: int, folder: int | None, says: list[str]
) -> None:
    step = Step(0, f.FailFolder("broker-0", folder=folder))
    plan = Plan(1, topology=PlanTopology(log_folders_per_broker=count), steps=(step,))
    assert problems_of(plan) == [f"step 1, fail_folder: {each}" for each in says]


@pytest.mark.parametrize("count", [0, 17])
def test_a_broker_has_from_1_to_16_log_folders(count: int) -> None:
    plan = Plan(1, topology=PlanTopology(log_folders_per_broker=count))
    assert problems_of(plan) == ["a broker has 1 to 16 log folders"]


def test_several_log_folders_are_a_setting_of_brokers() -> None:
    one, two = (
        PlanTopology(broker_settings={"segment_bytes": 9}),
        PlanTopology(broker_settings={"segment_bytes": 9}, log_folders_per_broker=2),
    )
    assert one.settings_of_brokers == {"segment_bytes": 9}
    assert two.settings_of_brokers == {"segment_bytes": 9, "log_folders": "d0,d1"}


@pytest.mark.parametrize("client", ["any", "p0", "c0"])
def test_the_clients_of_the_plan_can_be_killed(client: str) -> None:
    assert problems_of(Plan(1, steps=(Step(0, f.KillClient(client)),))) == []


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"title": "no seed"}', b"\xff"])
def test_a_file_that_is_no_plan_is_refused(text: bytes) -> None:
    with pytest.raises(BadPlan, match="plan: "):
        decode_plan(text)


@pytest.mark.parametrize(
    "name",
    [
        "broker-0",
        "controller-1000",
        "active controller",
        "leader of u-0",
        "follower of my-u-12",
        "last follower of u-0",
    ],
)
def test_nodes_are_named_or_described(name: str) -> None:
    assert problems_of(Plan(1, topology=PlanTopology(3), steps=(Step(0, f.Pause(name)),))) == []


def test_nodes_are_numbered_brokers_from_0_and_controllers_from_1000() -> None:
    assert node_names(PlanTopology(2, 2)) == (
        "broker-0", "broker-1", "controller-1000", "controller-1001",
    )  # fmt: skip


def test_a_plan_of_another_format_is_refused_before_its_fields_are_looked_at() -> None:
    text = b'{"seed": 1, "topology": {"toggles": "{}"}, "format": 1}'
    with pytest.raises(BadPlan, match=r"^plan: format 1 is not 2$"):
        decode_plan(text)
