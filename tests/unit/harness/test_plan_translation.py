"""The parts of a plan that containers can do."""

from __future__ import annotations

import pytest

from highwater.cluster.builds import NodeBuild
from highwater.cluster.topology import MIN_SESSION_TIMEOUT_MS, Topology, decode_topology
from highwater.faults.kinds import KINDS
from highwater.runs.plans.in_containers import Unsupported, check_supported
from highwater.runs.plans.translation import builds_of, differences, topology_of, unsupported
from highwater_chaos import faults as f
from highwater_chaos.builds import NodeBuild as ChaosBuild
from highwater_chaos.plan import Expected, Network, Plan, PlanTopology, Step
from highwater_checker.run_folder.documents import TOPOLOGY, RunTopology
from highwater_core.config import Preset


def plan_with(*faults: f.Fault) -> Plan:
    return Plan(seed=1, steps=tuple(Step(0, fault) for fault in faults))


@pytest.mark.parametrize(
    "fault",
    [
        f.Kill("leader of t-0"),
        f.Terminate("leader of t-0"),
        f.Upgrade("leader of t-0", "0a1b"),
        f.Pause("leader of t-0"),
        f.Pause("leader of t-0", by=f.PauseBy.SIGSTOP),
        f.CrashLoop("leader of t-0", 3),
        f.DiskFull("leader of t-0"),
        f.FlipBit("broker-0", f.FileKind.LOG),
        f.HalfOpen("broker-0", "leader of t-0", "replication"),
        f.KillClient(),
        f.Isolate("leader of t-0"),
        f.Cut("any", "leader of t-0", "control"),
        f.LossyLink("broker-0", "broker-1", "replication", 30),
        f.SlowLink("broker-0", "broker-1", "replication", 30, 10),
        f.LimitBandwidth("broker-0", "any", "client", 500),
        f.SlowZooKeeper(50),
        f.Kill("broker-0", disk=f.DiskAtStart.EMPTY),
        f.CrashAt("broker-0", "before_isr_write"),
        f.DelayAt("active controller", "before_command_sent", 100),
        f.ResetConnections("any", "leader of t-0", "replication"),
        f.ExpireSession("broker-0"),
        f.LoseZooKeeperConnection("broker-0"),
        f.RestartZooKeeper(1_000),
        f.CreateTopic("x"),
        f.DeleteTopic("x"),
    ],
    ids=f.fault_name,
)
def test_a_fault_with_a_mechanism_is_supported(fault: f.Fault) -> None:
    assert KINDS[type(fault)].mechanism
    assert unsupported(plan_with(fault)) == []


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (f.KillClient("p0"), "all clients of a run are one process"),
        (f.HalfOpen("any", "broker-0", "client"), "behind the engine's proxy"),
    ],
    ids=["one client", "clients' links"],
)
def test_impossible_faults_of_a_possible_kind_are_refused(fault: f.Fault, why: str) -> None:
    (problem,) = unsupported(plan_with(fault))
    assert problem.startswith("unsupported here: at 0 ms: ")
    assert why in problem


@pytest.mark.parametrize(
    "fault",
    [
        f.LoseZooKeeperReply("broker-0"),
        f.ClockRate("broker-0", 100),
    ],
    ids=f.fault_name,
)
def test_every_other_fault_is_refused_by_its_words_and_the_reason(fault: f.Fault) -> None:
    (problem,) = unsupported(plan_with(f.Kill("broker-1"), fault))
    assert problem.startswith("unsupported here: at 0 ms: ")
    assert problem.endswith(KINDS[type(fault)].unsupported)
    with pytest.raises(Unsupported, match="unsupported here"):
        check_supported(plan_with(fault))


def test_a_planted_bug_that_nobody_knows_is_refused() -> None:
    plan = Plan(seed=1, expected=Expected("fail", "I1", planted="truncate_nothing"))
    assert unsupported(plan) == []
    unknown = Plan(seed=1, expected=Expected("fail", "I1", planted="forget_everything"))
    (problem,) = unsupported(unknown)
    assert problem.startswith("there is no planted bug 'forget_everything'")


def test_the_cluster_is_the_plans_with_one_session_timeout_that_zookeeper_grants() -> None:
    plan = Plan(
        seed=1,
        topology=PlanTopology(
            brokers=2,
            controllers=3,
            toggles={"unclean_election": True},
            broker_settings={"session_timeout_ms": 400, "segment_bytes": 600},
            controller_settings={"session_timeout_ms": 1_500, "command_timeout_ms": 200},
        ),
    )
    topology = topology_of(plan)
    assert (topology.brokers, topology.controllers) == (2, 3)
    assert topology.session_timeout_ms == 1_500
    assert topology.toggles == {"unclean_election": True}
    assert topology.broker_settings == {"segment_bytes": 600}
    assert topology.controller_settings == {"command_timeout_ms": 200}
    assert list(differences(plan)) == [
        "every session lasts 1500 ms: one for all nodes, and what ZooKeeper grants"
    ]


def test_the_runs_folder_says_all_of_the_cluster() -> None:
    topology = Topology(
        brokers=2,
        controllers=3,
        preset=Preset.V3,
        session_timeout_ms=1_500,
        toggles={"unclean_election": True},
        broker_settings={"segment_bytes": 600},
        controller_settings={"command_timeout_ms": 200},
    )
    written = TOPOLOGY.encode(RunTopology.of(topology))
    assert decode_topology(written) == topology


def test_too_short_a_session_is_lengthened_and_reported() -> None:
    plan = Plan(seed=1, topology=PlanTopology(broker_settings={"session_timeout_ms": 400}))
    assert topology_of(plan).session_timeout_ms == MIN_SESSION_TIMEOUT_MS
    assert len(list(differences(plan))) == 1


def test_a_plan_of_defaults_is_run_as_it_is() -> None:
    assert list(differences(Plan(seed=1))) == []


def test_settings_of_the_simulator_alone_are_reported() -> None:
    plan = Plan(
        seed=1, network=Network(shuffles_ties=True), core=("broker-0",), probes_shrinking=True
    )
    assert list(differences(plan)) == [
        "all nodes are healed, not the core alone",
        "no follower is kept from fetching at the end",
        "messages travel as the engine's network has them",
    ]


def test_settings_that_a_topology_cannot_have_are_refused() -> None:
    plan = Plan(seed=1, topology=PlanTopology(broker_settings={"node_id": 3}))
    with pytest.raises(Unsupported, match="node_id"):
        check_supported(plan)


def test_nodes_begin_with_their_own_build_else_with_that_of_every_node() -> None:
    builds = {"any": ChaosBuild("0a1b"), "broker-1": ChaosBuild(), "controller-1000": ChaosBuild()}
    plan = Plan(seed=1, topology=PlanTopology(brokers=2, controllers=1, builds=builds))
    assert builds_of(plan, topology_of(plan)) == {0: NodeBuild("0a1b")}


def test_a_planted_bug_is_in_nodes_that_begin_with_this_build_alone() -> None:
    builds = {"broker-0": ChaosBuild("0a1b"), "broker-1": ChaosBuild(preset=Preset.FENCED)}
    plan = Plan(
        seed=1, topology=PlanTopology(builds=builds), expected=Expected(planted="truncates_too_far")
    )
    assert builds_of(plan, topology_of(plan)) == {
        0: NodeBuild("0a1b"),
        1: NodeBuild(preset=Preset.FENCED, planted="truncates_too_far"),
    }
