"""Random faults of brokers, sessions and connections: the controllers live on.

They make legal transitions only. In the end every partition that can have a leader has one, and
every deletion is complete.
"""

from __future__ import annotations

import random

import pytest

from highwater_controller.logic import partition_states, replica_states
from highwater_controller.logic.partition_states import PartitionState
from highwater_controller.logic.replica_states import ReplicaState
from highwater_core import znodes
from highwater_core.events import EventKind
from highwater_core.ids import BrokerEpoch, NodeId, TopicPartition
from highwater_core.messages import (
    ControlledShutdownRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    NewTopic,
)
from tests.support.presets import CONTROLLED

CONTROLLERS = (1000, 1001)
BROKERS = range(4)
STEPS = 25
SEEDS = range(4)


class Disorder:
    """Draws one fault after another, and does it to the cluster."""

    def __init__(self, cluster, seed):
        self.cluster = cluster
        self.random = random.Random(seed)  # noqa: S311
        self.alive = set(BROKERS)
        self.topics = [f"t{number}" for number in range(4)]

    def step(self):
        act = self.random.choice(
            (self.die, self.start, self.bounce, self.expire, self.lose_connections, self.create,
             self.create, self.delete, self.mute, self.shut_down, self.depose)
        )  # fmt: skip
        act()
        self.cluster.kernel.run_for(self.random.choice((0, 1, 3, 20, 500)))

    def die(self):
        if len(self.alive) > 1:
            broker = self.random.choice(sorted(self.alive))
            self.alive.discard(broker)
            self.cluster.brokers[broker].die()

    def start(self):
        dead = sorted(set(BROKERS) - self.alive)
        if dead:
            broker = self.random.choice(dead)
            self.alive.add(broker)
            self.cluster.start_broker(broker)

    def bounce(self):
        self.die()
        self.start()

    def mute(self):
        broker = self.cluster.brokers[self.random.choice(sorted(self.alive))]
        broker.is_mute = not broker.is_mute

    def expire(self):
        self.cluster.expire_session(self.random.choice(CONTROLLERS))

    def lose_connections(self):
        """Of the sessions that their controllers have; calls in flight have unknown outcomes."""
        opened = [e.detail["session_id"] for e in self.cluster.events(EventKind.SESSION_OPENED)]
        for controller in CONTROLLERS:
            for session_id in self.cluster.zookeeper.session_ids(f"controller-{controller}"):
                if session_id in opened:
                    self.cluster.zookeeper.lose_connection(session_id)

    def depose(self):
        if self.cluster.data(znodes.CONTROLLER) is not None:
            self.cluster.delete(znodes.CONTROLLER)

    def create(self):
        topic = NewTopic(self.random.choice(self.topics), 2, 1 + self.random.randrange(2))
        self.ask(CreateTopicsRequest((topic,), timeout_ms=1_000))

    def delete(self):
        self.ask(DeleteTopicsRequest((self.random.choice(self.topics),), timeout_ms=1_000))

    def shut_down(self):
        broker = self.random.choice(sorted(self.alive))
        known = self.cluster.zookeeper.dump().get(znodes.broker_path(NodeId(broker)))
        if known is not None:
            self.ask(ControlledShutdownRequest(NodeId(broker), BrokerEpoch(known[1].czxid)))

    def ask(self, request):
        for controller in CONTROLLERS:
            self.cluster.ask_later(request, [], controller, timeout_ms=5_000)

    def end(self):
        """Heal everything; a broker that shut down or was mute starts afresh."""
        for broker in sorted(self.alive):
            self.cluster.brokers[broker].die()
        self.cluster.settle(2_000)
        for broker in BROKERS:
            self.cluster.start_broker(broker)
        self.cluster.settle(15_000)


def check_moves(cluster):
    """Every traced transition is one of the tables'."""
    for event in cluster.events(EventKind.PARTITION_STATE_CHANGED):
        moved = (PartitionState(event.detail["from_state"]), event.detail["to_state"])
        assert partition_states.may_become(moved[0], PartitionState(moved[1]))
    for event in cluster.events(EventKind.REPLICA_STATE_CHANGED):
        moved = (ReplicaState(event.detail["from_state"]), event.detail["to_state"])
        assert replica_states.may_become(moved[0], ReplicaState(moved[1]))


def check_elections(cluster):
    """One controller per controller epoch, one leader per leader epoch of a topic's life.

    A partition's first election begins a new life: ZooKeeper creates its state only once.
    """
    elected = cluster.events(EventKind.CONTROLLER_ELECTED)
    epochs = [event.controller_epoch for event in elected]
    assert epochs == sorted(set(epochs))
    last = {}
    for event in cluster.events(EventKind.LEADER_ELECTED):
        partition = (event.topic, event.partition)
        if event.detail["selector"] != "initial" and partition in last:
            assert event.leader_epoch > last[partition]
        last[partition] = event.leader_epoch


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("preset", CONTROLLED)
def test_controllers_survive_disorder_and_bring_everything_to_an_end(cluster, preset, seed):
    for broker in BROKERS:
        cluster.start_broker(broker)
    for controller in CONTROLLERS:
        cluster.start_controller(controller, preset)
    cluster.until_failed_over()
    disorder = Disorder(cluster, seed)
    for _ in range(STEPS):
        disorder.step()
    disorder.end()
    active = [c for c in CONTROLLERS if cluster.controllers[c].snapshot().active_controller]
    assert len(active) == 1
    assert cluster.controllers[active[0]].snapshot().live_brokers == tuple(BROKERS)
    check_moves(cluster)
    check_elections(cluster)
    tree = cluster.zookeeper.dump()
    assert not [path for path in tree if path.startswith(znodes.DELETE_TOPICS + "/")]
    for path in tree:
        if path.count("/") != 3 or not path.startswith(znodes.TOPICS):
            continue
        topic = path.rpartition("/")[2]
        for partition in (0, 1):
            state = cluster.state(topic, partition)
            assert state.leader in state.isr
            for broker in BROKERS:
                told = cluster.brokers[broker].leaderships().get(TopicPartition(topic, partition))
                assert told is None or told.leader_epoch == state.leader_epoch
