"""What of a plan containers can do."""

from __future__ import annotations

import pytest

from highwater.planned.in_containers import Unsupported, check_supported
from highwater.planned.translation import SUPPORTED, differences, topology_of, unsupported
from highwater.topology import MIN_SESSION_TIMEOUT_MS
from highwater_chaos import faults as f
from highwater_chaos.plan import Expected, Network, Observed, Plan, Step, Topology, When


def plan_with(*faults: f.Fault) -> Plan:
    return Plan(seed=1, steps=tuple(Step(0, fault) for fault in faults))


@pytest.mark.parametrize("kind", SUPPORTED, ids=f.fault_name)
def test_whole_node_faults_are_supported(kind: type[f.Kill]) -> None:
    assert unsupported(plan_with(kind("leader of t-0"))) == []


@pytest.mark.parametrize(
    "fault",
    [
        f.PowerLoss("broker-0"),
        f.Kill("broker-0", disk=f.DiskAtStart.EMPTY),
        f.Cut("broker-0", "any", "client"),
        f.ExpireSession("broker-0"),
        f.DiskFull("broker-0"),
    ],
    ids=f.fault_name,
)
def test_every_other_fault_is_refused_by_its_words(fault: f.Fault) -> None:
    (problem,) = unsupported(plan_with(f.Kill("broker-1"), fault))
    assert problem.startswith("unsupported here: at 0 ms: ")
    with pytest.raises(Unsupported, match="unsupported here"):
        check_supported(plan_with(fault))


def test_a_planted_bug_is_refused() -> None:
    plan = Plan(seed=1, expected=Expected("fail", "I1", planted="truncate_nothing"))
    assert unsupported(plan) == ["unsupported here: the planted bug truncate_nothing"]


def test_a_condition_on_an_event_that_nobody_traces_is_refused() -> None:
    step = Step(0, f.Kill("broker-0"), When(Observed.EVENT, event="moon_rose"))
    assert "'moon_rose'" in unsupported(Plan(seed=1, steps=(step,)))[0]


def test_the_cluster_is_the_plans_with_one_session_timeout_that_zookeeper_grants() -> None:
    plan = Plan(
        seed=1,
        topology=Topology(
            brokers=2,
            controllers=3,
            toggles='{"unclean_election": true}',
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


def test_too_short_a_session_is_lengthened_and_said() -> None:
    plan = Plan(seed=1, topology=Topology(broker_settings={"session_timeout_ms": 400}))
    assert topology_of(plan).session_timeout_ms == MIN_SESSION_TIMEOUT_MS
    assert len(list(differences(plan))) == 1


def test_a_plan_of_defaults_is_run_as_it_is() -> None:
    assert list(differences(Plan(seed=1))) == []


def test_what_only_the_simulator_has_is_said() -> None:
    plan = Plan(seed=1, network=Network(shuffles_ties=True), core=("broker-0",))
    assert list(differences(plan)) == [
        "all nodes are healed, not the core alone",
        "messages travel as the engine's network has them",
    ]


def test_settings_that_a_topology_cannot_have_are_refused() -> None:
    plan = Plan(seed=1, topology=Topology(broker_settings={"node_id": 3}))
    with pytest.raises(Unsupported, match="node_id"):
        check_supported(plan)
