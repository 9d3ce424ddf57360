"""Brokers that restart before their ZooKeeper sessions have ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from highwater_core.config import Preset
from highwater_core.events import EventKind
from highwater_core.ids import node_name
from highwater_simulator.network import Plane


@pytest.mark.parametrize("seed", range(4))
def test_without_broker_epochs_a_controller_sees_that_a_restarted_broker_was_gone(
    seed: int, make_cluster: Callable[..., Any]
) -> None:
    """An unchanged set of broker ids must not look like unchanged brokers. Source: row 15."""
    cluster = make_cluster(seed=seed, preset=Preset.V3)

    async def story(c: Any) -> None:
        await c.begin(5)
        c.follower = next(b for b in c.world.brokers if b != c.leader())
        controller = c.controller()
        c.world.kill(c.follower)
        await c.world.sleep(2_000)
        c.world.start(c.follower)
        await c.world.sleep(3_000)
        c.world.pause(controller)  # it reads the registrations some time after the old one vanished
        await c.world.sleep(2_000)
        c.world.resume(controller)
        await c.world.sleep(10_000)
        await c.full_isr()
        await c.send(5)
        await c.full_isr()

    cluster.run(story)
    seen = [e.detail for e in cluster.world.trace.events(EventKind.BROKERS_CHANGED)]
    assert [change for change in seen if change["dead"]] == [
        {"new": [], "dead": [cluster.follower], "bounced": []}
    ]
    registered = cluster.world.trace.events(EventKind.BROKER_REGISTERED)
    assert len([e for e in registered if e.node == cluster.follower]) == 2


def test_controller_connects_again_when_the_peer_dies_before_its_acceptance_arrives(
    make_cluster: Callable[..., Any],
) -> None:
    """The restarted broker knows nothing of the half-open connection, and gets its commands."""
    cluster = make_cluster(preset=Preset.FENCED)

    async def story(c: Any) -> None:
        await c.begin(5)
        active, world = c.controller(), c.world
        standby = next(other for other in world.controllers if other != active)
        follower = next(b for b in world.brokers if b != c.leader())
        world.network.cut(node_name(follower), node_name(standby), Plane.CONTROL)
        world.kill(active)
        await world.eventually(lambda: world.active_controller() == standby, 20_000, "a failover")
        await world.sleep(1_000)
        world.kill(follower)
        await world.sleep(1_000)
        world.heal_all()
        world.start(follower)
        await c.send(5)
        await c.full_isr()

    cluster.run(story)
