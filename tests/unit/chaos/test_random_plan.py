"""Random plans depend on their seed alone, can be run, and keep within the guard."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, combinations

import pytest

from highwater.runs.plans.translation import topology_of, unsupported
from highwater_chaos import faults as f
from highwater_chaos.draw import Draw
from highwater_chaos.plan import Plan, Step, encode_plan, problems_of
from highwater_chaos.random_kinds import Kind, Targets, collide
from highwater_chaos.random_plan import FIRST_AT_MS, LAST_END_MS, Wanted, random_plan
from highwater_core.config import Preset
from highwater_simulator.rng import SeededRng

SEEDS = 500
CHUNK = 20
MOMENT_MS = 1
NOBODY_IS_OUT = (
    f.LossyLink, f.SlowLink, f.ResetConnections, f.LoseZooKeeperConnection, f.KillClient,
)  # fmt: skip
CHUNKS = [range(first, first + CHUNK) for first in range(0, SEEDS, CHUNK)]


def drawn(wanted: Wanted) -> Plan:
    return random_plan(wanted, SeededRng(wanted.seed).stream("chaos"))


def wanted(seed: int, **options: object) -> Wanted:
    return Wanted(**{"seed": seed, "duration_ms": 30_000, "is_swarm": seed % 2 == 1, **options})  # type: ignore[arg-type]


def test_equal_seeds_give_equal_plans_byte_for_byte() -> None:
    assert encode_plan(drawn(wanted(7))) == encode_plan(drawn(wanted(7)))


def test_two_seeds_differ_in_their_steps() -> None:
    assert drawn(wanted(7)).steps != drawn(wanted(8)).steps


def test_groups_and_idempotent_producers_come_up_in_some_plans() -> None:
    workloads = [drawn(wanted(seed)).workload for seed in range(CHUNK)]
    with_group = [bool(each.groups) for each in workloads]
    idempotent = [any(producer.idempotent for producer in each.producers) for each in workloads]
    assert set(zip(with_group, idempotent, strict=True)) == {
        (True, True), (True, False), (False, True), (False, False),
    }  # fmt: skip


def test_the_kinds_asked_for_are_in_the_plan() -> None:
    plan = drawn(wanted(3, preset=Preset.V3, brokers=5, controllers=3, duration_ms=20_000))
    assert (plan.seed, plan.quiet_after_ms) == (3, 20_000)
    topology = plan.topology
    assert (topology.brokers, topology.controllers, topology.preset) == (5, 3, Preset.V3)


@pytest.mark.parametrize("seeds", CHUNKS, ids=lambda seeds: f"from {seeds[0]}")
def test_every_plan_can_be_run_and_its_faults_end_in_time(seeds: range) -> None:
    for seed in seeds:
        plan = drawn(wanted(seed))
        assert plan.steps
        assert (problems_of(plan), unsupported(plan)) == ([], [])
        topology_of(plan)
        for begin_ms, end_ms, _ in spans(plan):
            assert FIRST_AT_MS <= begin_ms < end_ms
            assert end_ms <= plan.quiet_after_ms - LAST_END_MS + MOMENT_MS


@pytest.mark.parametrize("seeds", CHUNKS, ids=lambda seeds: f"from {seeds[0]}")
def test_guarded_plans_never_have_too_many_nodes_out_at_once(seeds: range) -> None:
    for seed in seeds:
        plan = drawn(wanted(seed))
        for at_ms, _, _ in spans(plan):
            together = [step for begin, end, step in spans(plan) if begin <= at_ms < end]
            assert is_explained_by_few(together, brokers=1, controllers=1), (seed, at_ms)


def test_unguarded_plans_do_have_too_many_out_and_rings() -> None:
    lost, rings = 0, 0
    for seed in range(CHUNK):
        plan = drawn(wanted(seed, is_guarded=False))
        assert problems_of(plan) == []
        together = [
            [step for begin, end, step in spans(plan) if begin <= at_ms < end]
            for at_ms, _, _ in spans(plan)
        ]
        lost += not all(is_explained_by_few(each, brokers=1, controllers=1) for each in together)
        rings += any(is_ring(each) for each in together)
    assert lost > CHUNK // 3
    assert rings > 0


@pytest.mark.parametrize(("brokers", "controllers"), [(1, 1), (2, 1), (4, 3), (7, 2)])
def test_clusters_of_any_size_have_plans(brokers: int, controllers: int) -> None:
    for seed in range(10):
        plan = drawn(wanted(seed, brokers=brokers, controllers=controllers, duration_ms=10_000))
        assert plan.steps
        assert problems_of(plan) == []


def test_no_two_faults_of_whole_nodes_overlap_on_one_node() -> None:
    for seed in range(CHUNK):
        found = spans(drawn(wanted(seed, is_guarded=False)))
        whole = [each for each in found if hasattr(each[2].do, "node")]
        for (begin, end, one), (other_begin, other_end, other) in combinations(whole, 2):
            is_apart = end <= other_begin or other_end <= begin
            assert is_apart or one.do.node != other.do.node  # type: ignore[union-attr]


@pytest.mark.parametrize("seeds", CHUNKS[:5], ids=lambda seeds: f"from {seeds[0]}")
def test_a_slow_link_has_its_links_to_itself(seeds: range) -> None:
    """How long its canaries take is the proof; other rules in their way would spoil it."""
    for seed in seeds:
        found = spans(drawn(wanted(seed)))
        for (begin, end, one), (other_begin, other_end, other) in combinations(found, 2):
            both = (one.do, other.do)
            if end <= other_begin or other_end <= begin:
                continue
            if any(isinstance(fault, f.SlowLink) for fault in both):
                assert not ends_of(one.do) & ends_of(other.do), (seed, one, other)


@pytest.mark.parametrize(
    ("other", "meets_badly"),
    [
        (f.Cut(f.ANY, "broker-1", "client"), True),
        (f.LossyLink(f.ANY, "broker-1", "client", 20), True),
        (f.Pause("broker-1"), True),
        (f.Kill("broker-1"), True),
        (f.Cut("broker-1", "broker-2", "replication"), False),
        (f.LossyLink("broker-1", "zookeeper", "zookeeper", 20), False),
    ],
)
def test_clients_that_are_cut_off_were_answered_before(other: f.Fault, meets_badly: bool) -> None:
    cut = f.Cut(f.ANY, "broker-1", "client")
    assert collide(cut, other) is meets_badly
    assert collide(other, cut) is meets_badly


BROKERS = ("broker-0", "broker-1", "broker-2")
CONTROLLERS = ("controller-1000", "controller-1001")


@pytest.mark.parametrize(
    ("fault", "touched"),
    [
        (f.Pause("broker-1"), ("broker-1",)),
        (f.Pause("active controller"), CONTROLLERS),
        (f.Isolate("broker-1"), (*BROKERS, *CONTROLLERS, "zookeeper")),
        (f.Isolate("leader of t-0"), (*BROKERS, *CONTROLLERS, "zookeeper")),
        (f.RestartZooKeeper(), (*BROKERS, *CONTROLLERS, "zookeeper")),
        (f.Cut("any", "broker-1", "client"), (*BROKERS, *CONTROLLERS, "broker-1")),
        (f.Cut("broker-1", "any", "replication"), (*BROKERS, *CONTROLLERS, "broker-1")),
        (f.Cut("controller-1001", "any", "control"), (*BROKERS, *CONTROLLERS)),
        (f.Cut("broker-2", "zookeeper", "zookeeper"), ("broker-2", "zookeeper")),
    ],
)
def test_a_fault_touches_whoever_has_its_rules_or_canaries(
    fault: f.Fault, touched: tuple[str, ...]
) -> None:
    targets = Targets(Draw(SeededRng(1).stream("chaos")), Plan(seed=1))
    assert set(targets.touched(fault)) == set(touched)


@pytest.mark.parametrize("seeds", CHUNKS[:5], ids=lambda seeds: f"from {seeds[0]}")
def test_the_kills_of_a_crash_loop_fit_into_its_time(seeds: range) -> None:
    """With each start a container's: two seconds at most."""
    loops = [step.do for seed in seeds for step in drawn(wanted(seed)).steps]
    for loop in loops:
        if isinstance(loop, f.CrashLoop):
            starts = loop.times - 1  # the first kill comes at once
            assert starts * (2_000 + loop.every_ms) <= (loop.for_ms or 0)


def test_clients_that_are_down_are_not_killed_again() -> None:
    for seed in range(CHUNK):
        killed = [
            each for each in spans(drawn(wanted(seed))) if isinstance(each[2].do, f.KillClient)
        ]
        for (begin, end, _), (other_begin, other_end, _) in combinations(killed, 2):
            assert end <= other_begin or other_end <= begin


def ends_of(fault: f.Fault) -> set[str]:
    """Return the nodes that a link's fault names; empty for faults of other kinds."""
    if not isinstance(fault, f.Cut | f.LossyLink | f.SlowLink):
        return set()
    return {fault.source, fault.target} - {f.ANY, "zookeeper"}


def test_a_swarm_leaves_kinds_out_and_all_kinds_come_in_some_swarm() -> None:
    kinds = [
        {type(step.do) for step in drawn(wanted(seed, is_swarm=True)).steps} for seed in range(40)
    ]
    assert set().union(*kinds) == {
        f.Kill, f.CrashLoop, f.Terminate, f.Pause, f.Isolate, f.Cut, f.LossyLink, f.SlowLink,
        f.ResetConnections, f.ExpireSession, f.LoseZooKeeperConnection, f.KillClient,
    }  # fmt: skip
    assert sum(len(each) <= 2 for each in kinds) >= 5


def test_a_link_flaps_in_some_plans() -> None:
    flapping = 0
    for seed in range(CHUNK):
        plan = drawn(wanted(seed, duration_ms=60_000))
        cuts = [step for step in plan.steps if isinstance(step.do, f.Cut)]
        flapping += any(
            then.at_ms == step.at_ms + 2 * (step.do.for_ms or 0)  # type: ignore[union-attr]
            for step, then in combinations(cuts, 2)
            if step.do == then.do
        )
    assert flapping >= 2


def test_a_kind_can_be_left_out() -> None:
    left_out = (Kind.KILL, Kind.TERMINATE)
    for seed in range(CHUNK):
        plan = drawn(wanted(seed, without=left_out))
        assert plan.steps
        assert not any(isinstance(step.do, f.Kill | f.Terminate) for step in plan.steps)


def test_not_every_kind_can_be_left_out() -> None:
    with pytest.raises(ValueError, match="at least one kind"):
        Wanted(seed=1, duration_ms=30_000, without=tuple(Kind))


def test_a_plan_that_is_too_short_for_faults_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 10 s"):
        Wanted(seed=1, duration_ms=9_999)


# ---------------------------------------------------------------- the guard, by brute force


def spans(plan: Plan) -> list[tuple[int, int, Step]]:
    """Return when each fault acts; one without a duration takes a moment."""
    lengths_ms = [getattr(step.do, "for_ms", MOMENT_MS) for step in plan.steps]
    return [
        (step.at_ms, step.at_ms + for_ms, step)
        for step, for_ms in zip(plan.steps, lengths_ms, strict=True)
    ]


def is_explained_by_few(steps: Iterable[Step], *, brokers: int, controllers: int) -> bool:
    """Return whether every fault of the steps is covered by so few nodes that are out.

    Tries every set of nodes. A described node ("leader of t-0") counts as another one each time.
    """
    needed: list[set[str]] = []  # of each at least one must be out
    for number, step in enumerate(steps):
        needed += nodes_that_must_be_out(step.do, number)
    nodes = sorted(set().union(*needed)) if needed else []
    sets = chain.from_iterable(
        combinations(nodes, size) for size in range(brokers + controllers + 1)
    )
    return any(
        sum("broker" in node or " of " in node for node in out) <= brokers
        and sum("controller" in node for node in out) <= controllers
        and all(each & set(out) for each in needed)
        for out in sets
    )


def nodes_that_must_be_out(fault: f.Fault, number: int) -> list[set[str]]:
    def name(words: str) -> str:
        return f"{words} #{number}" if " " in words else words

    if isinstance(fault, NOBODY_IS_OUT):
        return []
    if isinstance(fault, f.RestartZooKeeper):
        return [{node} for node in (*(f"broker-{each}" for each in range(3)), "controller-1000")]
    if not isinstance(fault, f.Cut):
        return [{name(fault.node)}]  # type: ignore[union-attr]
    ends = [end for end in (fault.source, fault.target) if end != "zookeeper"]
    if fault.plane == "client":
        return [{name(fault.target)}]
    if f.ANY in ends and fault.plane == "replication":
        (one,) = [end for end in ends if end != f.ANY]
        others = {f"broker-{each}" for each in range(3)} - {one}
        return [{one, other} for other in sorted(others)]
    if f.ANY in ends:
        (one,) = [end for end in ends if end != f.ANY]
        return [{name(one), f"broker-{each}"} for each in range(3)]
    return [{name(end) for end in ends}]


def is_ring(steps: Iterable[Step]) -> bool:
    cuts = [step.do for step in steps if isinstance(step.do, f.Cut)]
    replication = [(cut.source, cut.target) for cut in cuts if cut.plane == "replication"]
    return any(
        {(a, b), (b, c), (c, a)} <= set(replication)
        for a, b, c in (("broker-0", "broker-1", "broker-2"), ("broker-0", "broker-2", "broker-1"))
    )


def test_a_swarm_of_one_kind_has_that_kind() -> None:
    without = tuple(kind for kind in Kind if kind is not Kind.KILL)
    plan = drawn(wanted(3, is_swarm=True, without=without))
    assert {type(step.do) for step in plan.steps} == {f.Kill}
