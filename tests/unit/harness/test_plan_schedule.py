"""A plan's steps on a clock: when each is done, to which node, and steps that are not done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from highwater.faults.done import Done, Find, NotDone, found
from highwater.runs.plans.conditions import Waiting, find_node, holds
from highwater.runs.plans.schedule import MOST_LATE_MS, POLL_S, Schedule, StepDone, out_of_order
from highwater_chaos import faults as f
from highwater_chaos.plan import Observed, Step, When
from highwater_checker.looks import Look
from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import NodeId, TopicPartition
from highwater_core.messages import NodeSnapshot, ReplicaSnapshot

T0 = TopicPartition("t", 0)
NAMES = {"broker-0": 0, "broker-1": 1, "broker-2": 2, "controller-1000": 1000}


def replica(role: str, *, isr: tuple[int, ...], end: int = 9, hw: int = 9) -> ReplicaSnapshot:
    return ReplicaSnapshot(
        topic_partition=T0,
        role=role,
        leader=NodeId(1),
        leader_epoch=3,
        controller_epoch=1,
        isr=tuple(NodeId(broker) for broker in isr),
        high_watermark=hw,
        log_start_offset=0,
        log_end_offset=end,
        partition_epoch=1,
        assigned_replicas=(NodeId(2), NodeId(1), NodeId(0)),
    )


def node(node_id: int, *replicas: ReplicaSnapshot) -> NodeSnapshot:
    return NodeSnapshot(
        node_id=NodeId(node_id),
        kind="controller" if node_id >= 1000 else "broker",
        incarnation=1,
        preset="fenced",
        controller_epoch=1,
        active_controller=node_id >= 1000,
        replicas=replicas,
    )


def look_with(follower: ReplicaSnapshot, isr: tuple[int, ...] = (1, 2)) -> Look:
    """Return a look in which broker 1 leads and broker 2 follows; broker 0 does not answer."""
    leader = replica("leader", isr=isr)
    return Look(0, {0: None, 1: node(1, leader), 2: node(2, follower), 1000: node(1000)})


LEVEL = look_with(replica("follower", isr=()))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("leader of t-0", 1),
        ("follower of t-0", 2),
        ("last follower of t-0", 2),
        ("leader of t-1", None),
        ("active controller", 1000),
        ("broker-0", 0),
        ("controller-1001", None),
    ],
)
def test_words_mean_the_node_that_is_so_now(words: str, expected: int | None) -> None:
    assert find_node(LEVEL, NAMES, words) == expected


@pytest.mark.parametrize(
    ("when", "look", "expected"),
    [
        (When(Observed.ISR_IS_LEADER, "t-0"), LEVEL, False),
        (When(Observed.ISR_IS_LEADER, "t-0"), look_with(replica("follower", isr=()), (1,)), True),
        (When(Observed.LEADER_EPOCH, "t-0", count=3), LEVEL, True),
        (When(Observed.LEADER_EPOCH, "t-0", count=4), LEVEL, False),
        (When(Observed.LEADER_EPOCH, "t-1"), LEVEL, False),
        (When(Observed.FOLLOWER_BEHIND, "t-0"), LEVEL, False),
        (
            When(Observed.FOLLOWER_BEHIND, "t-0"),
            look_with(replica("follower", isr=(), end=8)),
            True,
        ),
        (
            When(Observed.FOLLOWER_BEHIND, "t-0"),
            look_with(replica("follower", isr=(), end=8), (1,)),
            False,
        ),
        (
            When(Observed.HIGH_WATERMARK_BEHIND, "t-0"),
            look_with(replica("follower", isr=(), hw=8)),
            True,
        ),
        (When(Observed.EVENT, "t-0", "isr_changed"), LEVEL, False),
    ],
)
def test_states_are_those_of_the_look(when: When, look: Look, expected: bool) -> None:
    assert holds(look, when) is expected


def event(node_id: int = 1, kind: EventKind = EventKind.ISR_CHANGED) -> TraceEvent:
    return TraceEvent(0, node_id, 1, 0, kind, topic="t", partition=0)


@pytest.mark.parametrize(
    ("when", "events", "expected"),
    [
        (When(Observed.EVENT, event="isr_changed"), (event(),), True),
        (When(Observed.EVENT, event="isr_changed", count=2), (event(),), False),
        (When(Observed.EVENT, event="isr_changed", count=2), (event(), event()), True),
        (When(Observed.EVENT, event="isr_written"), (event(),), False),
        (When(Observed.EVENT, event="isr_changed", partition="t-1"), (event(),), False),
        (When(Observed.EVENT, event="isr_changed", node="leader of t-0"), (event(1),), True),
        (When(Observed.EVENT, event="isr_changed", node="leader of t-0"), (event(2),), False),
    ],
)
def test_events_are_counted_by_kind_place_and_node(
    when: When, events: tuple[TraceEvent, ...], expected: bool
) -> None:
    assert Waiting(when).is_met(LEVEL, events, NAMES) is expected


def test_a_partitions_name_may_have_dashes() -> None:
    assert TopicPartition.named("my-topic-12") == TopicPartition("my-topic", 12)


class Clock:
    """Time that passes with each pause; actions happen at given milliseconds."""

    def __init__(self) -> None:
        self.now_s = 1_000.0
        self.look = LEVEL
        self.events: list[tuple[int, TraceEvent]] = []
        self.done: list[tuple[str, int, int]] = []
        self.reverted: list[tuple[int, int]] = []
        self.refuse: Callable[[f.Fault], str] = lambda fault: ""
        self.kill_takes_s = 0.0
        self.schedule: Schedule

    @property
    def now_ms(self) -> int:
        return round((self.now_s - 1_000.0) * 1000)

    def pause(self, pause_s: float) -> None:
        for future in self.schedule._running:  # work in threads takes no time here
            future.result()
        self.now_s += pause_s

    def news(self) -> tuple[TraceEvent, ...]:
        new = tuple(each for at_ms, each in self.events if at_ms <= self.now_ms)
        self.events = [(at_ms, each) for at_ms, each in self.events if at_ms > self.now_ms]
        return new

    def apply(self, fault: f.Fault, find: Find) -> Done:
        node_id = found(find, getattr(fault, "node", ""))
        self.now_s += self.kill_takes_s if isinstance(fault, f.Kill) else 0
        if why := self.refuse(fault):
            raise NotDone(why)
        self.done.append((f.fault_name(fault), node_id, self.now_ms))
        return Done(node_id, "seen", lambda: self.revert(node_id))

    def revert(self, node_id: int) -> str:
        self.reverted.append((node_id, self.now_ms))
        return "gone"

    def run(self, *steps: Step, until_ms: int = 1_000) -> Schedule:
        self.schedule = Schedule(
            steps, NAMES, self.apply, lambda: self.look, self.news,
            clock=lambda: self.now_s, pause=self.pause,
        )  # fmt: skip
        self.schedule.run_until(until_ms)
        return self.schedule


def test_a_timed_step_is_done_at_its_time_and_taken_back_after_its_length() -> None:
    clock = Clock()
    (step,) = clock.run(Step(100, f.Pause("leader of t-0", 300))).steps
    assert clock.done == [("pause", 1, 100)]
    assert clock.reverted == [(1, 400)]
    assert (step.has_fired, step.drift_ms, step.node) == (True, 0, 1)


def test_a_step_between_two_looks_is_late_and_says_so() -> None:
    clock = Clock()
    (step,) = clock.run(Step(95, f.Kill("broker-0"))).steps
    assert 0 < (step.drift_ms or 0) <= POLL_S * 1000


def test_a_conditional_step_waits_for_looks_after_its_time() -> None:
    clock = Clock()
    clock.events = [(50, event()), (200, event())]
    when = When(Observed.EVENT, event="isr_changed", then_after_ms=40)
    (step,) = clock.run(Step(100, f.Kill("follower of t-0"), when)).steps
    assert clock.done == [("kill", 2, 240)]
    assert step.due_ms == 240


@pytest.mark.parametrize("is_refused", [False, True])
def test_what_waits_for_a_slow_step_gets_as_much_time_more(is_refused: bool) -> None:
    clock = Clock()
    clock.kill_takes_s = 0.8
    clock.refuse = lambda fault: "gone" if is_refused and isinstance(fault, f.Kill) else ""
    clock.events = [(1_500, event())]
    when = When(Observed.EVENT, event="isr_changed")
    _, after = clock.run(Step(100, f.Kill("broker-0")), Step(200, f.Pause("broker-2"), when)).steps
    assert after.has_fired
    assert clock.now_ms < 1_600, "nothing is to come any more"


def test_a_plan_ends_at_its_time_where_no_step_was_slow_or_none_is_to_come() -> None:
    clock = Clock()
    clock.events = [(1_500, event())]
    when = When(Observed.EVENT, event="isr_changed")
    _, after = clock.run(Step(100, f.Kill("broker-0")), Step(200, f.Pause("broker-2"), when)).steps
    assert after.missed == "its condition was not seen"
    slow = Clock()
    slow.kill_takes_s = 0.8
    slow.run(Step(100, f.Kill("broker-0")))
    assert slow.now_ms < 1_100


def test_an_end_is_put_off_by_a_bounded_time() -> None:
    clock = Clock()
    clock.kill_takes_s = 1_000.0
    steps = Step(100, f.Kill("broker-0")), Step(9_999_999, f.Pause("broker-2"))
    clock.run(*steps, until_ms=1_100_000)
    assert clock.now_ms < 1_100_000 + MOST_LATE_MS + 100


def test_an_armed_fault_that_never_acted_has_not_fired() -> None:
    hits: list[int] = []
    step = StepDone(
        Step(0, f.CrashAt("broker-0", "before_log_flush")),
        missed="",
        acting=Done(0, "armed", str, later=lambda: "told", has_acted=lambda: bool(hits)),
    )
    assert not step.has_fired
    hits.append(1)
    assert step.has_fired


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (Step(0, f.Kill("leader of t-7")), "nobody is that now"),
        (
            Step(0, f.Kill("broker-0"), When(Observed.ISR_IS_LEADER, "t-0")),
            "its condition was not seen",
        ),
        (Step(5_000, f.Kill("broker-0")), "its condition was not seen"),
        (
            Step(0, f.Kill("broker-0"), When(Observed.LEADER_EPOCH, "t-0", then_after_ms=5_000)),
            "the faults ended before it",
        ),
    ],
)
def test_a_step_that_is_not_done_says_why(step: Step, why: str) -> None:
    clock = Clock()
    (done,) = clock.run(step).steps
    assert not done.has_fired
    assert done.missed == why
    assert clock.done == []


def test_a_fault_that_cannot_be_done_is_missed_and_not_taken_back() -> None:
    clock = Clock()
    clock.refuse = lambda fault: "node 0 is exited" if isinstance(fault, f.Kill) else ""
    kill, pause = clock.run(Step(0, f.Kill("broker-0", 10)), Step(0, f.Pause("broker-1", 10))).steps
    assert (kill.missed, pause.missed) == ("node 0 is exited", "")
    assert [node_id for node_id, _ in clock.reverted] == [1]


def test_a_look_without_a_leader_has_no_leader_to_act_on() -> None:
    clock = Clock()
    clock.look = replace(LEVEL, nodes={0: None, 1: None, 2: None, 1000: None})
    (step,) = clock.run(Step(0, f.Kill("leader of t-0"))).steps
    assert step.missed == "nobody is that now"


# ---------------------------------------------------------------- the order of steps


def acted(at_ms: int, acted_ms: int | None, when: When | None = None) -> StepDone:
    return StepDone(Step(at_ms, f.Kill("broker-1"), when), acted_ms=acted_ms)


SEEN = When(Observed.LEADER_EPOCH, "t-0")


@pytest.mark.parametrize(
    ("steps", "is_swapped"),
    [
        ((), False),
        ((acted(1, 5), acted(2, 6)), False),
        ((acted(2, 6), acted(1, 5)), False),
        ((acted(1, 6), acted(2, 6)), False),
        ((acted(1, 9), acted(1, 6)), False),
        ((acted(1, 7), acted(2, 6)), True),
        ((acted(1, 7), acted(2, 8), acted(3, 6)), True),
        ((acted(1, None), acted(2, 6)), False),
        ((acted(1, 9, SEEN), acted(2, 6)), False),
    ],
)
def test_steps_that_act_in_another_order_than_their_times_are_named(
    steps: tuple[StepDone, ...], is_swapped: bool
) -> None:
    """Found: on a busy machine a cut acted after the kill that it was to come before, the planted
    mistake was not shown, and the run passed."""
    assert bool(out_of_order(steps)) is is_swapped
