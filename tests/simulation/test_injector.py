"""A plan's steps in a world: their time, their target, and that they are undone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from highwater_chaos import faults as f
from highwater_chaos.plan import Observed, Step, When
from highwater_checker.stories.entries import Note
from highwater_core.config import Preset
from highwater_core.events import EventKind, TraceEvent
from highwater_core.fail_points import FailPoint
from highwater_simulator.clocks import TRUE_RATE_PPM
from highwater_simulator.injector import FaultInjector
from highwater_simulator.liveness import Core
from highwater_simulator.network import Plane
from highwater_simulator.oracle.oracle import Oracle
from highwater_simulator.world import World
from highwater_simulator.world_faults import ARMED
from tests.support.failover_story import ORDERS

QUICK = {
    "broker_settings": {"session_timeout_ms": 600, "high_watermark_checkpoint_interval_ms": 100},
    "controller_settings": {"session_timeout_ms": 600},
}
PARTITION = str(ORDERS)
POINT = FailPoint.BEFORE_HIGH_WATERMARK_CHECKPOINT.value
ALL = Core((0, 1, 2), (1000, 1001))
CLIENT, REPLICATION = Plane.CLIENT.value, Plane.REPLICATION.value


class Injected:
    """A replicated cluster whose injector has begun with these steps."""

    def __init__(self, cluster: Any, steps: tuple[Step, ...]) -> None:
        self.world: World = cluster.world
        self.oracle = Oracle(self.world)
        cluster.world.run(cluster.begin(2), 60_000)
        self.injector = FaultInjector(self.world, self.oracle, steps)
        judge = self.world.on_event

        def on_event(event: TraceEvent) -> None:
            if judge is not None:
                judge(event)
            self.injector.event_traced(event)

        self.world.on_event = on_event
        self.injector.begin()

    def after(self, duration_ms: int) -> Injected:
        self.world.kernel.run_for(duration_ms)
        return self

    @property
    def outcome(self) -> dict[str, list[str]]:
        found = self.injector.outcome
        return {
            name: [f.fault_name(step.do) for step in steps]
            for name, steps in (
                ("fired", found.fired),
                ("missed", found.missed),
                ("not reached", found.not_reached),
            )
            if steps
        }

    def runs(self, node: int) -> bool:
        return self.world.handle(node).is_running

    def is_paused(self, node: int) -> bool:
        runtime = self.world.handle(node).runtime
        return runtime is not None and runtime.is_paused

    def is_cut(self, source: str, target: str, plane: Plane) -> bool:
        return self.world.network.link(source, target, plane).is_cut

    def leader(self) -> int:
        leadership = self.world.partition_state(ORDERS)
        assert leadership is not None
        return int(leadership.leader)

    def follower(self) -> int:
        leadership = self.world.partition_state(ORDERS)
        assert leadership is not None
        return next(int(broker) for broker in leadership.isr if broker != leadership.leader)


Inject = Callable[..., Injected]


@pytest.fixture
def inject(make_cluster: Callable[..., Any]) -> Inject:
    def injected(*steps: Step) -> Injected:
        return Injected(make_cluster(**QUICK), steps)

    return injected


# ---------------------------------------------------------------- when


def test_a_step_is_done_at_its_time_and_taken_back_after_its_own(inject: Inject) -> None:
    run = inject(Step(50, f.Kill("broker-1", 100)))
    assert run.after(49).runs(1)
    assert not run.after(2).runs(1)
    assert not run.after(97).runs(1)
    assert run.after(3).runs(1)
    assert run.outcome == {"fired": ["kill"]}


def starts(run: Injected, name: str) -> int:
    return sum(
        isinstance(entry.event, Note) and (entry.who, entry.event.what) == (name, "started")
        for entry in run.world.trace.entries
    )


def test_a_node_is_killed_again_and_again_and_then_stays_up(inject: Inject) -> None:
    run = inject(Step(50, f.CrashLoop("broker-1", 3, 200)))
    assert [starts(run.after(gap_ms), "broker-1") for gap_ms in (49, 2, 198, 3, 200, 2_000)] == [
        1, 2, 2, 3, 4, 4,
    ]  # fmt: skip
    assert run.runs(1)


def test_a_crash_loop_ends_at_its_time_or_with_another_fault_that_takes_the_node(
    inject: Inject,
) -> None:
    run = inject(
        Step(0, f.CrashLoop("broker-1", 99, 50, for_ms=120)),
        Step(0, f.CrashLoop("broker-2", 99, 50)),
        Step(60, f.Kill("broker-2", 1_000)),
    )
    run.after(500)
    assert (starts(run, "broker-1"), starts(run, "broker-2")) == (4, 3)
    assert (run.runs(1), run.runs(2)) == (True, False)
    run.after(1_000)
    assert (starts(run, "broker-2"), run.runs(2)) == (4, True)


def test_an_upgraded_node_stops_cleanly_and_starts_with_its_new_preset(inject: Inject) -> None:
    run = inject(
        Step(50, f.Upgrade("broker-1", preset=Preset.KIP101)),
        Step(60, f.Upgrade("broker-2")),
        Step(2_000, f.Kill("broker-1")),
        Step(2_100, f.Upgrade("broker-1")),
    )
    before = preset_of(run, 2)
    run.after(1_900)
    assert (starts(run, "broker-1"), starts(run, "broker-2")) == (2, 2)
    assert (preset_of(run, 1), preset_of(run, 2)) == (Preset.KIP101, before)
    assert run.after(1_000).outcome == {
        "fired": ["upgrade", "upgrade", "kill"],
        "missed": ["upgrade"],
    }


def preset_of(run: Injected, node: int) -> str:
    snapshot = run.world.snapshot(node)
    assert snapshot is not None
    return snapshot.preset


def test_a_crash_loop_needs_a_node_that_runs(inject: Inject) -> None:
    run = inject(Step(0, f.Kill("broker-1")), Step(5, f.CrashLoop("broker-1", 2)))
    assert run.after(10).outcome == {"fired": ["kill"], "missed": ["crash_loop"]}


def test_without_clients_of_a_plan_none_can_be_killed(inject: Inject) -> None:
    assert inject(Step(0, f.KillClient())).after(5).outcome == {"missed": ["kill_client"]}


def test_a_step_without_an_end_lasts(inject: Inject) -> None:
    assert not inject(Step(0, f.Kill("broker-1"))).after(3_000).runs(1)


def test_roles_are_those_of_the_moment(inject: Inject) -> None:
    run = inject(
        Step(0, f.Pause(f"leader of {PARTITION}", 10)),
        Step(0, f.Pause(f"follower of {PARTITION}", 10)),
        Step(0, f.Pause("active controller", 10)),
    )
    leader, follower, controller = run.leader(), run.follower(), run.world.active_controller()
    assert controller is not None
    run.after(5)
    assert [run.is_paused(node) for node in (leader, follower, controller)] == [True] * 3
    run.after(6)
    assert [run.is_paused(node) for node in (leader, follower, controller)] == [False] * 3


def test_a_step_waits_for_its_event_from_its_time_on_as_often_as_it_says(inject: Inject) -> None:
    when = When(Observed.EVENT, event="checkpoint_written", node="broker-1", count=2)
    run = inject(Step(500, f.Kill("broker-2"), when))
    run.after(500)
    seen = len(run.world.trace.events(EventKind.CHECKPOINT_WRITTEN))
    assert run.runs(2), "what was traced before does not count"
    while run.runs(2):
        run.after(1)
        found = [
            event
            for event in run.world.trace.events(EventKind.CHECKPOINT_WRITTEN)[seen:]
            if event.node == 1
        ]
        assert len(found) <= 2
    assert len(found) == 2


def test_a_step_waits_for_a_state_and_then_as_long_as_it_says(inject: Inject) -> None:
    when = When(Observed.LEADER_EPOCH, PARTITION, count=1, then_after_ms=300)
    run = inject(
        Step(0, f.Kill(f"leader of {PARTITION}")), Step(20, f.Pause("controller-1001", 50), when)
    )
    while (state := run.after(1).world.partition_state(ORDERS)) and state.leader_epoch == 0:
        assert run.world.kernel.now_ns() < 10**10
    run.after(295)
    assert run.outcome == {"fired": ["kill"]}
    assert run.after(10).outcome == {"fired": ["kill", "pause"]}


def test_a_state_that_holds_already_is_not_waited_for(inject: Inject) -> None:
    run = inject(Step(5, f.Kill("broker-0"), When(Observed.LEADER_EPOCH, PARTITION, count=0)))
    assert not run.after(6).runs(0)


def test_a_fault_that_cannot_be_done_at_its_time_is_missed(inject: Inject) -> None:
    run = inject(
        Step(0, f.Kill("broker-1")),
        Step(5, f.Kill("broker-1")),
        Step(5, f.Pause("broker-1", 5)),
        Step(5, f.Terminate("broker-1", 5)),
        Step(5, f.ClockJump("broker-1", 5)),
        Step(5, f.DiskFull("controller-1000", 5)),
        Step(5, f.Pause("leader of nothing-7", 5)),
        Step(5, f.Cut("broker-1", "broker-1", REPLICATION)),
    )
    run.after(20)
    assert run.outcome == {
        "fired": ["kill"],
        "missed": [
            "kill", "pause", "terminate", "clock_jump", "disk_full", "pause", "cut",
        ],
    }  # fmt: skip


def test_a_condition_that_never_held_is_reported_at_the_end(inject: Inject) -> None:
    run = inject(
        Step(0, f.Pause("broker-1", 5)),
        Step(0, f.Kill("broker-1"), When(Observed.LEADER_EPOCH, PARTITION, count=99)),
        Step(0, f.Kill("broker-2"), When(Observed.EVENT, event="log_truncated")),
        Step(
            0,
            f.PowerLoss("broker-2"),
            When(Observed.LEADER_EPOCH, PARTITION, then_after_ms=50),
        ),
        Step(900, f.Isolate("broker-2")),
    )
    run.after(20).injector.heal(ALL)
    assert run.outcome == {
        "fired": ["pause"],
        "not reached": ["kill", "kill", "power_loss", "isolate"],
    }
    run.after(1_000)
    assert run.runs(1)
    assert run.runs(2)


# ---------------------------------------------------------------- overlaps


def test_overlapping_pauses_end_with_the_last(inject: Inject) -> None:
    run = inject(Step(0, f.Pause("broker-1", 50)), Step(20, f.Pause("broker-1", 100)))
    assert run.after(60).is_paused(1)
    assert not run.after(61).is_paused(1)


def test_overlapping_cuts_end_with_the_last(inject: Inject) -> None:
    run = inject(
        Step(0, f.Isolate("broker-1", 50)),
        Step(20, f.Cut("broker-1", "broker-2", REPLICATION, for_ms=100)),
    )
    run.after(60)
    assert run.is_cut("broker-1", "broker-2", Plane.REPLICATION)
    assert not run.is_cut("broker-2", "broker-1", Plane.REPLICATION)
    run.after(61)
    assert run.world.network.describe() == []


def test_a_cut_goes_one_way_unless_it_says_otherwise(inject: Inject) -> None:
    run = inject(
        Step(0, f.Cut("broker-0", "broker-1", REPLICATION)),
        Step(0, f.Cut("broker-1", "broker-2", REPLICATION, both_ways=True)),
    )
    run.after(1)
    cut = {
        (a, b)
        for a in range(3)
        for b in range(3)
        if a != b and run.is_cut(f"broker-{a}", f"broker-{b}", Plane.REPLICATION)
    }
    assert cut == {(0, 1), (1, 2), (2, 1)}


def test_any_of_the_client_plane_is_every_client_too(inject: Inject) -> None:
    run = inject(Step(0, f.Cut("any", "broker-1", CLIENT)))
    run.after(1)
    assert run.is_cut("client-0", "broker-1", Plane.CLIENT)
    assert not run.is_cut("broker-1", "client-0", Plane.CLIENT)


def test_a_paused_node_that_is_killed_starts_anew_and_is_not_paused(inject: Inject) -> None:
    run = inject(
        Step(0, f.Pause("broker-1", 200)),
        Step(20, f.Kill("broker-1", 50)),
        Step(100, f.Pause("broker-1", 300)),
    )
    assert not run.after(71).is_paused(1)
    assert run.runs(1)
    assert run.after(150).is_paused(1), "the first pause's end is not the second's"
    assert not run.after(200).is_paused(1)


def test_a_node_that_was_asked_to_stop_starts_again_once_it_has(inject: Inject) -> None:
    run = inject(Step(0, f.Terminate("broker-1", 1)))
    run.after(2)
    assert run.injector.asked_to_stop == {1: None}
    run.after(4_000)
    assert run.runs(1)
    assert run.world.handle(1).runtime.incarnation == 2  # type: ignore[union-attr]
    assert run.injector.asked_to_stop == {}


# ---------------------------------------------------------------- fail-points


def test_a_fail_point_ends_the_node_once_and_it_starts_again(inject: Inject) -> None:
    run = inject(Step(0, f.CrashAt("broker-1", POINT, 300)))
    while run.runs(1):
        run.after(1)
    assert not run.after(290).runs(1)
    assert run.after(20).runs(1)
    assert run.after(2_000).runs(1), "it is armed for one crash"
    assert len(run.world.trace.events(EventKind.FAIL_POINT_HIT)) == 1


def test_a_fail_point_stays_armed_through_restarts_until_its_time(inject: Inject) -> None:
    point = FailPoint.BEFORE_BROKER_REGISTRATION.value
    run = inject(
        Step(0, f.CrashAt("broker-1", point, 100, for_ms=3_000)),
        Step(10, f.Kill("broker-1", 10)),
    )
    run.after(2_900)
    assert len(run.world.trace.events(EventKind.FAIL_POINT_HIT)) == 1
    late = inject(
        Step(0, f.CrashAt("broker-1", point, 100, for_ms=5)),
        Step(10, f.Kill("broker-1", 10)),
    )
    late.after(2_900)
    assert late.world.trace.events(EventKind.FAIL_POINT_HIT) == []


def test_the_end_of_one_fault_is_not_the_end_of_another_at_the_same_point(inject: Inject) -> None:
    point = FailPoint.BEFORE_BROKER_REGISTRATION.value  # not reached before the kill
    run = inject(
        Step(0, f.CrashAt("broker-1", point, 100, for_ms=10)),
        Step(5, f.CrashAt("broker-1", point, 100, for_ms=5_000)),
        Step(50, f.Kill("broker-1", 10)),
    )
    run.after(2_000)
    assert run.world.trace.events(EventKind.FAIL_POINT_HIT)


def test_a_delay_at_a_point_is_no_crash_there(inject: Inject) -> None:
    run = inject(
        Step(0, f.CrashAt("broker-1", POINT, 100)),
        Step(0, f.DelayAt("broker-1", POINT, 50, 1)),
        Step(1_000, f.Kill("broker-1", 20)),
    )
    run.after(999)
    actions = [event.detail["action"] for event in run.world.trace.events(EventKind.FAIL_POINT_HIT)]
    assert (actions, run.runs(1)) == (["delay"], True)
    run.after(3_000)
    actions = [event.detail["action"] for event in run.world.trace.events(EventKind.FAIL_POINT_HIT)]
    assert actions == ["delay", "exit"], "the next incarnation has the crash armed again"


def test_an_armed_fault_is_done_once_it_is_hit_and_has_the_time_of_its_arming(
    inject: Inject,
) -> None:
    run = inject(Step(3, f.CrashAt("broker-1", POINT, 300)))
    run.after(4)
    while run.runs(1):
        assert run.outcome == {}
        run.after(1)
    assert run.outcome == {"fired": ["crash_at"]}
    assert run.injector.outcome.fired_at_ms == [3]
    run.injector.heal(ALL)
    assert run.outcome == {"fired": ["crash_at"]}


def test_a_delay_that_is_hit_again_and_again_is_one_step(inject: Inject) -> None:
    run = inject(Step(0, f.DelayAt("broker-1", POINT, 5, 3)))
    run.after(1_500)
    assert len(run.world.trace.events(EventKind.FAIL_POINT_HIT)) == 3
    assert run.outcome == {"fired": ["delay_at"]}


def test_a_fail_point_that_nobody_reaches_is_not_reached(inject: Inject) -> None:
    run = inject(
        Step(0, f.CrashAt("broker-1", POINT, 300, for_ms=1)),
        Step(0, f.CrashAt("broker-2", FailPoint.DURING_LOG_RECOVERY.value, 300)),
        Step(0, f.CrashAt("broker-2", "no_such_point", 300)),
        Step(0, f.DelayAt("controller-1000", POINT, 5)),
    )
    assert run.after(2_000).outcome == {}
    run.injector.heal(ALL)
    assert run.outcome == {"not reached": ["crash_at", "crash_at", "crash_at", "delay_at"]}


# ---------------------------------------------------------------- faults without effect


def test_a_lost_reply_is_done_once_one_is_lost(inject: Inject) -> None:
    run = inject(
        Step(0, f.LoseZooKeeperReply("broker-1", 2)),
        Step(5, f.LoseZooKeeperReply("broker-2", 1)),
        Step(10, f.ExpireSession("broker-1")),  # it registers again, which is a change
    )
    assert run.after(9).outcome == {}
    run.after(2_000)
    assert run.outcome == {"fired": ["expire_session", "lose_zookeeper_reply"]}
    run.injector.heal(ALL)
    assert run.outcome["not reached"] == ["lose_zookeeper_reply"]


@pytest.mark.parametrize("kind", [f.ResetConnections, f.HalfOpen])
def test_connections_that_are_not_there_are_not_broken(
    inject: Inject, kind: type[f.ResetConnections | f.HalfOpen]
) -> None:
    run = inject(
        Step(0, kind("broker-0", "broker-1", "control")),
        Step(0, kind("broker-1", "zookeeper", "zookeeper")),
    )
    name = f.fault_name(kind)
    assert run.after(1).outcome == {"fired": [name], "missed": [name]}
    assert run.injector.outcome.missed[0].do == kind("broker-0", "broker-1", "control")


def test_a_bit_flips_in_a_file_of_its_kind_or_not_at_all(inject: Inject) -> None:
    run = inject(
        Step(0, f.Kill("broker-1", 10, f.DiskAtStart.EMPTY)),
        Step(11, f.FlipBit("broker-1", f.FileKind.EPOCHS, 20)),
        Step(11, f.FlipBit("controller-1001", f.FileKind.LOG, 20)),
        Step(900, f.FlipBit("broker-2", f.FileKind.CHECKPOINT, 20)),
    )
    assert run.after(15).outcome == {"fired": ["kill"], "missed": ["flip_bit", "flip_bit"]}
    assert not run.runs(1), "it was killed all the same, and is started again after its time"
    run.after(1_000)
    assert [run.runs(node) for node in (1, 2, 1001)] == [True] * 3
    assert run.outcome["fired"] == ["kill", "flip_bit"]


def test_controllers_have_no_disk_to_empty(inject: Inject) -> None:
    run = inject(
        Step(0, f.Kill("controller-1001", disk=f.DiskAtStart.EMPTY)),
        Step(0, f.PowerLoss("controller-1000")),
    )
    assert run.after(5).outcome == {"missed": ["kill", "power_loss"]}


# ---------------------------------------------------------------- healing

LASTING = (
    Step(0, f.Isolate("broker-1")),
    Step(0, f.Cut("broker-0", "any", REPLICATION, both_ways=True)),
    Step(0, f.SlowLink("any", "broker-2", REPLICATION, 900, 100)),
    Step(0, f.LossyLink("broker-0", "broker-2", REPLICATION, 50)),
    Step(0, f.SlowZooKeeper(300)),
    Step(0, f.LoseZooKeeperReply("broker-2", 50)),
    Step(0, f.DiskFull("broker-0")),
    Step(0, f.DiskErrors("broker-1", f.DiskOperation.SYNC)),
    Step(0, f.SlowDisk("broker-2", 500)),
    Step(0, f.ClockRate("broker-0", 100_000)),
    Step(0, f.ClockRate("broker-2", -100_000)),
    Step(0, f.DelayAt("broker-0", POINT, 50, 99)),
    Step(0, f.CrashAt("controller-1000", FailPoint.BEFORE_STATE_WRITE.value, 5)),
    Step(1, f.Pause("broker-0")),
    Step(1, f.Kill("broker-2")),
    Step(2, f.RestartZooKeeper()),
    Step(3, f.Terminate("controller-1001")),
)


def test_after_healing_nothing_is_left_of_any_fault(inject: Inject) -> None:
    run = inject(*LASTING)
    world = run.world
    run.after(400)
    armed = [
        step for step in LASTING if isinstance(step.do, ARMED)
    ]  # no node reaches the point so soon
    assert run.outcome == {"fired": [f.fault_name(s.do) for s in LASTING if s not in armed]}
    assert len(world.network.describe()) > 5
    assert world.zookeeper.describe()
    run.injector.heal(ALL)
    assert run.injector.outcome.not_reached == armed
    assert (world.network.describe(), world.zookeeper.describe()) == ([], [])
    run.after(5_000)
    for node in (*ALL.brokers, *ALL.controllers):
        handle = world.handle(node)
        assert handle.is_running, handle.name
        assert handle.disk.faults is None
        assert handle.runtime is not None
        assert not handle.runtime.is_paused
        assert handle.runtime.clock.rate_ppm == TRUE_RATE_PPM, handle.name
    assert (world.network.describe(), world.zookeeper.describe()) == ([], [])
    hits = len(world.trace.events(EventKind.FAIL_POINT_HIT))
    run.after(1_000)
    assert len(world.trace.events(EventKind.FAIL_POINT_HIT)) == hits
    assert world.is_replicated(ORDERS, world.brokers)


def test_who_is_outside_the_core_is_cut_off_for_good_as_it_is(inject: Inject) -> None:
    run = inject(Step(0, f.Kill("broker-2", 10_000)), Step(0, f.Isolate("broker-1", 100)))
    run.after(5).injector.heal(Core((0, 1), (1000,)))
    run.after(12_000)
    assert [run.runs(node) for node in (0, 1, 2)] == [True, True, False]
    cut = run.world.network.describe()
    hosts = {host for words in cut for host in words.split(" : ")[0].split(" -> ")}
    assert all("broker-2" in words or "controller-1001" in words for words in cut)
    assert hosts >= {"broker-0", "broker-1", "controller-1000", "zookeeper", "client-0"}
