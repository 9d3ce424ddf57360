"""Brokers that come back before ZooKeeper has noticed that they were gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from highwater_core.config import Preset
from highwater_core.events import EventKind


@pytest.mark.parametrize("seed", range(4))
def test_without_broker_epochs_a_controller_sees_that_a_restarted_broker_was_gone(
    seed: int, make_cluster: Callable[..., Any]
) -> None:
    """Source: catalogue row 15: the id set must not look unchanged as a matter of course."""
    cluster = make_cluster(seed=seed, preset=Preset.V3)

    async def story(c: Any) -> None:
        await c.begin(5)
        c.follower = next(b for b in c.world.brokers if b != c.leader())
        controller = c.controller()
        c.world.kill(c.follower)
        await c.world.sleep(2_000)
        c.world.start(c.follower)
        await c.world.sleep(3_000)
        c.world.pause(controller)  # it looks only some time after the old registration vanished
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
