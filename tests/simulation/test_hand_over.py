"""A clean stop hands over at once: a controller its office, a broker its leaderships."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from highwater_core.events import EventKind
from highwater_core.fail_points import FailPoint
from highwater_core.messages import FailPointAction, SetFailPointRequest
from tests.support.failover_story import ORDERS

Cluster = Any
"""conftest.Cluster."""

AT_ONCE_MS = 100
"""In virtual time; the session timeout is 6,000 ms."""


def last(cluster: Cluster, kind: EventKind) -> Any:
    """Return the last trace event of that kind."""
    return cluster.world.trace.events(kind)[-1]


def last_ns(cluster: Cluster, kind: EventKind) -> int:
    """Return when the last event of that kind was traced."""
    found = last(cluster, kind)
    entries = cluster.world.trace.entries
    return int(next(each.at_ns for each in reversed(entries) if each.event is found))


async def ms_without_controller(c: Cluster, end: Callable[[int], None]) -> int:
    """End the active controller; return how long after that the next has taken charge."""
    first, since_ns = c.controller(), c.world.kernel.now_ns()
    done = len(c.world.trace.events(EventKind.FAILOVER_COMPLETED))
    end(first)
    await c.world.eventually(
        lambda: len(c.world.trace.events(EventKind.FAILOVER_COMPLETED)) > done, 60_000, "the next"
    )
    assert c.controller() != first
    took_ns = last_ns(c, EventKind.FAILOVER_COMPLETED) - since_ns
    await c.world.eventually(lambda: not c.world.handle(first).is_running, 5_000, "its end")
    c.world.start(first)
    return took_ns // 1_000_000


def test_a_controller_that_is_stopped_hands_its_office_over_at_once(cluster: Cluster) -> None:
    async def story(c: Cluster) -> None:
        await c.begin()
        assert await ms_without_controller(c, c.world.request_stop) <= AT_ONCE_MS
        assert await ms_without_controller(c, c.world.kill) > 1_000
        await c.send(5)

    cluster.run(story)
    (resigned,) = cluster.world.trace.events(EventKind.CONTROLLER_RESIGNED)
    assert resigned.detail["reason"] == "the node stops"


def test_a_controller_that_is_stopped_amid_an_election_leaves_it_to_the_next(
    cluster: Cluster,
) -> None:
    async def story(c: Cluster) -> None:
        await c.begin()
        wait = SetFailPointRequest(
            FailPoint.BEFORE_STATE_WRITE, FailPointAction.DELAY, count=1, delay_ms=60_000
        )
        c.world.fail_points(c.controller()).answer(wait)
        leader = c.leader()
        c.world.kill(leader)
        reached = EventKind.FAIL_POINT_HIT
        await c.world.eventually(lambda: c.world.trace.events(reached), 20_000, "the election")
        assert await ms_without_controller(c, c.world.request_stop) <= AT_ONCE_MS
        assert c.leader() != leader
        assert last(c, EventKind.LEADER_ELECTED).controller_epoch == 2
        c.world.start(leader)
        await c.send(5)
        await c.full_isr()

    cluster.run(story)


def test_a_broker_that_stops_together_with_the_controller_is_led_on_without_a_wait(
    cluster: Cluster,
) -> None:
    """The broker repeats its request, and the next controller moves its leaderships."""

    async def story(c: Cluster) -> None:
        await c.begin()
        leader = c.leader()
        since_ns = c.world.kernel.now_ns()
        c.world.request_stop(c.controller())
        c.world.request_stop(leader)
        await c.world.eventually(lambda: c.leader() not in (-1, leader), 60_000, "another leader")
        took_ns = last_ns(c, EventKind.LEADER_ELECTED) - since_ns
        assert took_ns // 1_000_000 <= 2 * AT_ONCE_MS
        await c.world.eventually(lambda: not c.world.handle(leader).is_running, 5_000, "its end")
        moved = last(c, EventKind.LEADERSHIPS_HANDED_OVER)
        assert (moved.detail["error"], moved.detail["remaining"]) == ("NONE", [])
        c.world.start(leader)
        await c.send(5)
        await c.full_isr()

    cluster.run(story)


def test_a_broker_stops_after_some_attempts_though_no_controller_answers(
    cluster: Cluster,
) -> None:
    async def story(c: Cluster) -> None:
        await c.begin()
        controllers = tuple(c.world.controllers)
        for controller in controllers:
            c.world.kill(controller)
        broker, since_ns = c.follower(), c.world.kernel.now_ns()
        c.world.request_stop(broker)
        await c.world.eventually(lambda: not c.world.handle(broker).is_running, 60_000, "its end")
        took_ms = (last_ns(c, EventKind.LEADERSHIPS_HANDED_OVER) - since_ns) // 1_000_000
        given_up = last(c, EventKind.LEADERSHIPS_HANDED_OVER)
        assert (given_up.node, given_up.detail["attempts"]) == (broker, 3)
        assert given_up.detail["error"] == "no active controller answered within 2000 ms"
        assert took_ms <= 3 * 2_000 + 2 * 300
        for node in (*controllers, broker):
            c.world.start(node)
        await c.send(5)
        await c.full_isr()

    cluster.run(story)


def test_a_stopping_broker_reports_partitions_that_no_other_can_lead(
    cluster: Cluster,
) -> None:
    async def story(c: Cluster) -> None:
        await c.begin()
        leader = c.leader()
        followers = [broker for broker in c.world.brokers if broker != leader]
        for broker in followers:
            c.world.kill(broker)
        await c.world.eventually(
            lambda: len(c.world.partition_state(ORDERS).isr) == 1, 60_000, "an ISR of one"
        )
        c.world.request_stop(leader)
        await c.world.eventually(lambda: not c.world.handle(leader).is_running, 60_000, "its end")
        kept = last(c, EventKind.LEADERSHIPS_HANDED_OVER)
        assert (kept.detail["error"], kept.detail["remaining"]) == ("NONE", [str(ORDERS)])
        assert kept.detail["attempts"] == 3
        assert c.leader() == -1
        for node in (leader, *followers):
            c.world.start(node)
        await c.send(5)
        await c.full_isr()

    cluster.run(story)
