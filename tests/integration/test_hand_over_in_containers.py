"""The office is handed over without a wait for the session, and the state-change log tells of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from highwater.cluster.cluster import Cluster
from highwater.cluster.hand_over import hand_over
from highwater.cluster.settling import await_full_isr
from highwater.cluster.traces import controllers_traces
from highwater.report.state_changes import About, Machine, read_state_changes, select
from highwater.waiting import eventually
from highwater_core.ids import TopicPartition

pytestmark = pytest.mark.docker

WITHIN_S = 20.0
"""Less than the sessions of these clusters, which are 30 s long."""


def test_a_stopped_controller_is_followed_before_its_session_could_end(
    steady: Cluster, make_topic: Callable[..., str]
) -> None:
    before = make_topic(steady, partitions=2, replicas=3)
    done = hand_over(steady, within_s=WITHIN_S)
    after = make_topic(steady, partitions=1, replicas=3)
    try:
        unread: list[str] = []
        lines = read_state_changes(controllers_traces(steady, unread))
        assert unread == []
        first, second = (
            [
                line
                for line in select(lines, [TopicPartition(topic, 0)])
                if line.topic == topic and line.machine is not Machine.CONTROLLER
            ]
            for topic in (before, after)
        )
        assert {line.controller for line in first} == {done.stopped}
        assert {line.controller for line in second} == {done.active}
        assert {line.controller_epoch for line in second} == {done.controller_epoch}
        changes = [(line.before, line.after) for line in second if line.about is About.STATE]
        new, online = "NewReplica", "OnlineReplica"
        assert changes == [
            ("NonExistentPartition", "NewPartition"),
            *[("NonExistentReplica", new)] * 3,
            ("NewPartition", "OnlinePartition"),
            *[(new, online)] * 3,
        ]
        assert {line.trigger for line in second} <= {"CreateTopicsRequest", "TopicsChanged"}
        resigned = [line.after for line in lines if line.controller == done.stopped]
        assert "resigns: the node stops" in resigned
    finally:
        steady.start_node(done.stopped)
        eventually(lambda: steady.try_snapshot(done.stopped), within=60.0, what="it is back")
    await_full_isr(steady, after)
