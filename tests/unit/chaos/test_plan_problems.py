"""Plans that no world can run are refused, each with its problems."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from highwater_broker.kafka_api.lookup import is_legal_topic_name
from highwater_chaos import faults as f
from highwater_chaos.builds import NodeBuild
from highwater_chaos.draw import Draw
from highwater_chaos.fault_problems import is_topic_name
from highwater_chaos.plan import (
    MAX_IN_FLIGHT,
    Group,
    Network,
    Observed,
    Plan,
    PlanTopology,
    Producer,
    Step,
    Topic,
    When,
    Workload,
    problems_of,
)
from highwater_client import settings as client_settings
from highwater_core.config import Preset
from highwater_core.fail_points import BROKER_FAIL_POINTS, CONTROLLER_FAIL_POINTS
from highwater_core.topic_names import find_name_fault
from highwater_simulator.feedback import mutate
from highwater_simulator.generate import Family, generate
from highwater_simulator.rng import SeededRng

POINT, OF_CONTROLLERS = BROKER_FAIL_POINTS[0].value, CONTROLLER_FAIL_POINTS[0].value
BROKERS = ("broker-0", "broker-1", "broker-2")


def topic(**changes: Any) -> Plan:
    return Plan(1, workload=Workload(topics=(replace(Topic(), **changes),)))


def producer(**changes: Any) -> Plan:
    return Plan(1, workload=Workload(producers=(replace(Producer(), **changes),)))


def group(**changes: Any) -> Plan:
    return Plan(1, workload=Workload(groups=(replace(Group(), **changes),)))


def groups(*ids: str) -> Plan:
    return Plan(1, workload=Workload(groups=tuple(Group(group_id=each) for each in ids)))


def step(fault: f.Fault, when: When | None = None) -> Plan:
    return Plan(1, steps=(Step(0, fault, when),))


def broker_setting(name: str, value: int) -> Plan:
    return Plan(1, topology=PlanTopology(broker_settings={name: value}))


def builds(**by_node: NodeBuild) -> Plan:
    return Plan(1, topology=PlanTopology(builds=by_node))


def upgrade(*fields: Any) -> Plan:
    return Plan(1, steps=(Step(0, f.Upgrade(*fields)),))


@pytest.mark.parametrize(
    ("plan", "says"),
    [
        (Plan(1, quiet_after_ms=-1), "quiet_after_ms is negative"),
        (Plan(1, network=Network(minimum_us=-1)), "latencies from -1 to 600 us are none"),
        (Plan(1, network=Network(minimum_us=700)), "latencies from 700 to 600 us are none"),
        (Plan(1, network=Network(minimum_us=600)), "latencies from 600 to 600 us are none"),
        (topic(partitions=0), "topic t: partitions: 0 is not at least 1"),
        (topic(replication_factor=0), "topic t: 0 replicas"),
        (topic(min_insync_replicas=0), "topic t: min_insync_replicas: 0 is not at least 1"),
        (Plan(1, workload=Workload(topics=(Topic(), Topic()))), "topic t is there 2 times"),
        (Plan(1, workload=Workload((), (), ())), "a plan has at least one topic"),
        (producer(acks=7), "producer p0: acks: 7 is not from -1 to 1"),
        (producer(rate_per_s=0), "producer p0: rate_per_s: 0 is not at least 1"),
        (producer(max_in_flight=0), "producer p0: max_in_flight: 0 is not from 1 to 5"),
        (producer(max_in_flight=6), "producer p0: max_in_flight: 6 is not from 1 to 5"),
        (producer(batch_max_records=0), "producer p0: batch_max_records: 0 is not at least 1"),
        (producer(linger_ms=-1), "producer p0: linger_ms: -1 is not at least 0"),
        (producer(request_timeout_ms=0), "producer p0: request_timeout_ms: 0 is not at least 1"),
        (producer(delivery_timeout_ms=0), "producer p0: delivery_timeout_ms: 0 is not at least 1"),
        (group(members=0), "group g0: members: 0 is not from 1 to 100"),
        (group(commit_every_ms=0), "group g0: commit_every_ms: 0 is not at least 1"),
        (group(stays_ms=-1), "group g0: stays_ms: -1 is not at least 0"),
        (group(session_timeout_ms=0), "group g0: session_timeout_ms: 0 is not at least 1"),
        (group(request_timeout_ms=0), "group g0: request_timeout_ms: 0 is not at least 1"),
        (group(topic="u"), "a client of topic 'u', which there is not"),
        (groups("a", "a"), "group id 'a' is there 2 times"),
        (groups("g1", ""), "group id 'g1' is there 2 times"),
        (broker_setting("log_lag_ms", 1), "'log_lag_ms' is not a broker setting"),
        (broker_setting("node_id", 1), "'node_id' is not a broker setting"),
        (broker_setting("segment_bytes", -1), "segment_bytes: -1 is not from 14 to 2147483647"),
        (broker_setting("session_timeout_ms", 0), "session_timeout_ms: 0 is not at least 1"),
        (
            Plan(1, topology=PlanTopology(controller_settings={"segment_bytes": 600})),
            "'segment_bytes' is not a controller setting",
        ),
        (Plan(1, topology=PlanTopology(toggles={"haste": True})), "toggles: no such toggle: haste"),
        (Plan(1, topology=PlanTopology(toggles={"truncation": "none"})), "toggles: "),
        (builds(nobody=NodeBuild("a")), "builds: there is no node 'nobody'"),
        (builds(any=NodeBuild("")), "builds: any has no image"),
        (builds(any=NodeBuild(preset=Preset.V2)), "presets fenced and v2 cannot be mixed"),
        (upgrade("broker-0", "this", Preset.KIP101), "presets fenced and kip101 cannot be mixed"),
        (upgrade("broker-9"), "step 1, upgrade: there is no node 'broker-9'"),
        (upgrade("broker-0", ""), "step 1, upgrade: it names no image"),
        (Plan(1, core=BROKERS), "core: it has at least one broker and one controller"),
        (Plan(1, core=("controller-1000",)), "core: it has at least one broker and one controller"),
        (Plan(1, core=("broker-0", "broker-0", "controller-1000")), "core: a node is there twice"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_cluster_and_a_load_that_cannot_be_are_refused(plan: Plan, says: str) -> None:
    (problem,) = problems_of(plan)
    assert says in problem


def test_presets_of_one_protocol_may_be_in_one_plan() -> None:
    plan = replace(
        upgrade("broker-1", "this", Preset.KIP101),
        topology=PlanTopology(preset=Preset.V3, builds={"any": NodeBuild(preset=Preset.CLASSIC)}),
    )
    assert problems_of(plan) == []
    assert plan.presets == (Preset.V3, Preset.CLASSIC, Preset.KIP101)


def test_brokers_that_command_themselves_are_a_core_without_a_controller() -> None:
    topology = PlanTopology(preset=Preset.V2)
    assert problems_of(Plan(1, topology=topology, core=BROKERS[:2])) == []
    assert problems_of(Plan(1, topology=topology, core=("broker-0", "controller-1000"))) == [
        "core: there is no node 'controller-1000'"
    ]


@pytest.mark.parametrize("name", ["a/b", "", ".", "..", "a b", "é", "a" * 250, "t\n"])
def test_topics_have_names_that_nodes_allow(name: str) -> None:
    assert not is_topic_name(name)
    assert not is_legal_topic_name(name)
    assert find_name_fault(name)
    assert problems_of(step(f.CreateTopic(name))) == [
        f"step 1, create_topic: {name!r} is no topic's name"
    ]
    plan = Plan(1, workload=Workload((Topic(name),), (), ()))
    assert problems_of(plan) == [f"{name!r} is no topic's name"]


@pytest.mark.parametrize("name", ["t", "a.b_c-D9", "a" * 249, "...", "-"])
def test_all_names_that_nodes_allow_may_be_in_a_plan(name: str) -> None:
    assert is_topic_name(name)
    assert is_legal_topic_name(name)
    assert not find_name_fault(name)


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (f.CrashAt("broker-0", "no_such_point"), "broker-0 has no fail-point 'no_such_point'"),
        (
            f.DelayAt("broker-0", OF_CONTROLLERS, 5),
            f"broker-0 has no fail-point '{OF_CONTROLLERS}'",
        ),
        (f.CrashAt("controller-1000", POINT), f"controller-1000 has no fail-point '{POINT}'"),
        (f.CrashAt("active controller", POINT), f"active controller has no fail-point '{POINT}'"),
        (
            f.CrashAt("leader of t-0", OF_CONTROLLERS),
            f"leader of t-0 has no fail-point '{OF_CONTROLLERS}'",
        ),
        (f.LossyLink("broker-0", "any", "client", 500), "loss_percent: 500 is not from 1 to 100"),
        (f.LossyLink("broker-0", "any", "client", 0), "loss_percent: 0 is not from 1 to 100"),
        (f.DiskErrors("broker-0", f.DiskOperation.SYNC, 101), "percent: 101 is not from 1 to 100"),
        (f.ClockRate("broker-0", -1_000_000), "ppm: -1000000 is not at least -999999"),
        (f.LoseZooKeeperReply("broker-0", 0), "count: 0 is not at least 1"),
        (f.DelayAt("broker-0", POINT, 5, 0), "count: 0 is not at least 1"),
        (f.SlowLink("broker-0", "any", "client", -1), "latency_ms is negative"),
        (f.CreateTopic("x", partitions=0), "partitions: 0 is not at least 1"),
        (f.CreateTopic("x", replication_factor=0), "replication_factor: 0 is not at least 1"),
        (f.CreateTopic("x", records=-1), "records: -1 is not at least 0"),
        *(
            (fault, f"{fault.node} keeps nothing on a disk: only brokers do")
            for fault in (
                f.PowerLoss("controller-1000"),
                f.DiskFull("active controller"),
                f.DiskErrors("controller-1000", f.DiskOperation.SYNC),
                f.SlowDisk("controller-1000", 5),
                f.FlipBit("controller-1000", f.FileKind.LOG),
                f.Kill("controller-1000", disk=f.DiskAtStart.EMPTY),
            )
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else f.fault_name(value),
)
def test_impossible_faults_are_refused(fault: f.Fault, says: str) -> None:
    assert problems_of(step(fault)) == [f"step 1, {f.fault_name(fault)}: {says}"]


@pytest.mark.parametrize(
    "fault",
    [
        f.CrashAt("last follower of t-0", POINT),
        f.DelayAt("active controller", OF_CONTROLLERS, 0),
        f.LossyLink("broker-0", "any", "client", 100),
        f.ClockRate("broker-0", -999_999),
        f.PowerLoss("leader of t-0"),
        f.Kill("controller-1000"),
    ],
    ids=f.fault_name,
)
def test_faults_that_are_just_possible_are_not_refused(fault: f.Fault) -> None:
    assert problems_of(step(fault)) == []


def test_a_step_waits_for_events_that_nodes_trace() -> None:
    waits = [When(Observed.EVENT, event=event) for event in ("log_truncated", "log_cut")]
    told = [problems_of(step(f.Kill("broker-0"), when)) for when in waits]
    assert told == [[], ["step 1, kill: it waits for 'log_cut', which no node traces"]]


def test_clients_refuse_more_in_flight_than_a_plan_may_have() -> None:
    assert client_settings.MAX_IN_FLIGHT == MAX_IN_FLIGHT


@pytest.mark.parametrize("family", Family)
def test_every_generated_plan_and_every_change_of_one_is_possible(family: Family) -> None:
    draw_of = SeededRng(1).stream
    plans = [generate(seed, family=family) for seed in range(100)]
    assert [problems_of(plan) for plan in plans if problems_of(plan)] == []
    for number, (plan, donor) in enumerate(pairwise(plans)):
        assert problems_of(mutate(plan, donor, Draw(draw_of(str(number))))) == []
