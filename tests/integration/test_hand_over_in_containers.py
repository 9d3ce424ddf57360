"""A controller hands its office over without a session timeout; the state-change log shows it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from highwater.cluster.cluster import Cluster
from highwater.cluster.hand_over import hand_over
from highwater.cluster.settling import await_full_isr, await_look
from highwater.cluster.traces import controllers_traces
from highwater.report.observation import active_controller
from highwater.report.state_changes import About, read_state_changes
from highwater.waiting import eventually
from highwater_checker.looks import Look

pytestmark = pytest.mark.docker

WITHIN_S = 20.0
"""Less than the session timeout of these clusters, 30 s."""


def stands_by(look: Look) -> bool:
    """Return whether a controller that is not active knows which one is."""
    active = active_controller(look)
    return active is not None and any(
        each is not None
        and each.kind == "controller"
        and not each.active_controller
        and each.controller_id == active.node_id
        for each in look.nodes.values()
    )


def test_a_stopped_controller_is_followed_before_its_session_could_end(
    steady: Cluster, new_topic: Callable[..., str]
) -> None:
    before = new_topic(steady)
    await_look(steady, "the other controller stands by", stands_by)
    done = hand_over(steady, within_s=WITHIN_S)
    after = new_topic(steady)
    unread: list[str] = []
    lines = read_state_changes(controllers_traces(steady, unread))
    steady.start_node(done.stopped)
    assert unread == []
    assert "resigns: the node stops" in {
        line.after for line in lines if line.controller == done.stopped
    }
    first, second = (
        [line for line in lines if line.topic == topic and line.about is not About.EVENT]
        for topic in (before, after)
    )
    assert {line.controller for line in first} == {done.stopped}
    assert {line.controller for line in second} == {done.active}
    assert {line.controller_epoch for line in second} == {done.controller_epoch}
    assert {line.trigger for line in second} == {"CreateTopicsRequest"}
    new, online = "NewReplica", "OnlineReplica"
    assert [(line.before, line.after) for line in second if line.about is About.STATE] == [
        ("NonExistentPartition", "NewPartition"),
        *[("NonExistentReplica", new)] * 3,
        ("NewPartition", "OnlinePartition"),
        *[(new, online)] * 3,
    ]
    await_full_isr(steady, after)
    eventually(lambda: steady.try_snapshot(done.stopped), within=60.0, what="it is back")
