"""A deposed leader with records that no follower fetched comes back and truncates them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from highwater.cluster.cluster import Cluster
from highwater.cluster.settling import (
    await_full_isr,
    await_leader,
    await_look,
    await_replicated,
)
from highwater.cluster.wire_client import WireClient, record_batch
from highwater_checker.looks import leaderships, replicas_of
from highwater_checker.segments import read_batches
from highwater_core.config import Preset
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.ids import TopicPartition
from tests.support.clusters import await_trace, live_traces, replication_held, whole_look

pytestmark = pytest.mark.docker


def values_on_disk(folder: Path) -> list[tuple[int, bytes | None]]:
    return [
        (offset, value) for batch in read_batches(folder) for offset, _, value in batch.records()
    ]


@pytest.mark.parametrize("fate", ["killed", "paused"])
def test_a_deposed_leader_truncates_its_unreplicated_tail_when_it_comes_back(
    brisk: Cluster, new_topic: Callable[..., str], tmp_path: Path, fate: str
) -> None:
    name = new_topic(brisk, config={"min.insync.replicas": "1"})
    key = TopicPartition(name, 0)
    with WireClient(brisk.external_endpoint(0)) as client:
        for value in (b"kept-0", b"kept-1"):
            assert client.produce(name, 0, record_batch([value])).error is ErrorCode.NONE
        await_replicated(brisk, name)

        with replication_held(brisk, leader=0):
            for value in (b"tail-2", b"tail-3", b"tail-4"):
                answer = client.produce(name, 0, record_batch([value]), acks=1)
                assert answer.error is ErrorCode.NONE
            # Of the leader alone: the paused followers, whose sessions are short, do not answer.
            held = brisk.snapshot(0).replicas
            (deposed,) = [one for one in held if one.topic_partition == key]
            assert (deposed.high_watermark, deposed.log_end_offset) == (2, 5)
            if fate == "killed":
                brisk.kill(0)
                assert brisk.exit_code(0) == 137
            else:
                brisk.pause(0)

    new_leader = await_leader(brisk, key, above_epoch=deposed.leader_epoch)
    assert new_leader.leader in (1, 2)
    assert new_leader.log_end_offset == 2, "the tail was fetched: the test's premise failed"
    with WireClient(brisk.external_endpoint(new_leader.leader)) as client:
        answer = client.produce(name, 0, record_batch([b"new-2", b"new-3"]))
        assert (answer.error, answer.base_offset) == (ErrorCode.NONE, 2)

    if fate == "killed":
        brisk.start_node(0)
    else:
        brisk.unpause(0)
    await_full_isr(brisk, name)
    await_replicated(brisk, name)

    cut = await_trace(brisk, 0, EventKind.LOG_TRUNCATED, topic_partition=key)
    assert cut.detail["from_offset"] == 5
    if brisk.topology.preset is Preset.FENCED:
        assert cut.offset == 2
    else:
        # To its own high watermark: after a kill, that of the last checkpoint.
        assert cut.offset is not None
        assert cut.offset <= 2
    assert all(
        event.offset is not None and event.offset >= 2
        for broker in (1, 2)
        for event in live_traces(brisk, broker)
        if event.kind is EventKind.LOG_TRUNCATED and event.topic == name
    ), "a broker that stayed in the ISR cut a committed record"
    assert leaderships(whole_look(brisk))[key].leader == new_leader.leader

    logs = {}
    for broker in (0, 1, 2):
        brisk.copy_broker_data(broker, tmp_path / str(broker))
        logs[broker] = values_on_disk(tmp_path / str(broker) / str(key))
    assert logs[0] == [(0, b"kept-0"), (1, b"kept-1"), (2, b"new-2"), (3, b"new-3")]
    assert logs[0] == logs[1] == logs[2]
    batches = [read_batches(tmp_path / str(broker) / str(key)) for broker in (0, 1, 2)]
    assert batches[0] == batches[1] == batches[2]


def test_a_paused_leader_learns_that_it_was_deposed_and_serves_no_stale_write(
    brisk: Cluster, new_topic: Callable[..., str]
) -> None:
    name = new_topic(brisk)
    key = TopicPartition(name, 0)
    before = leaderships(await_replicated(brisk, name))[key]
    brisk.pause(0)
    try:
        after = await_leader(brisk, key, above_epoch=before.leader_epoch)
    finally:
        brisk.unpause(0)
    await_look(
        brisk,
        "broker 0 follows",
        lambda look: (
            (replica := replicas_of(look, key).get(0)) is not None
            and replica.role == "follower"
            and replica.leader_epoch >= after.leader_epoch
        ),
    )
    with WireClient(brisk.external_endpoint(0)) as client:
        answer = client.produce(name, 0, record_batch([b"stale"]))
    assert answer.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    await_full_isr(brisk, name)
