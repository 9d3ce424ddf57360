"""A controller's life: its election, topics, a leader's death and its return."""

from __future__ import annotations

from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.ids import TopicPartition
from highwater_core.messages import LeaderAndIsrRequest, UpdateMetadataRequest

P0 = TopicPartition("t", 0)


def test_a_topic_is_created_and_survives_its_leader(running):
    response = running.create_topic("t", (0, 1, 2))
    assert response.results[0].error is ErrorCode.NONE
    assert running.state("t").leader == 0
    assert running.state("t").leader_epoch == 0
    assert running.state("t").isr == (0, 1, 2)
    for broker in running.brokers.values():
        assert broker.leaderships()[P0].is_new
        assert broker.leaderships()[P0].topic_id
    running.brokers[0].die()
    running.until(lambda: running.state("t").leader == 1, "a new leader")
    running.settle()
    assert running.state("t").isr == (1, 2)
    assert running.state("t").leader_epoch == 1
    assert running.brokers[2].leaderships()[P0].leader == 1
    returned = running.start_broker(0)
    running.settle()
    init = returned.heard(LeaderAndIsrRequest)[0]
    assert init.is_init
    assert [item.topic_partition for item in init.partitions] == [P0]
    assert returned.heard(UpdateMetadataRequest)[0].partitions[0].leader == 1
    assert not running.events(EventKind.BAD_INPUT_MET)
