"""Repeated conflicting writes hold no loop up for ever; its end reports the last value read."""

from __future__ import annotations

import pytest

from highwater_controller.election import Election
from highwater_controller.patience import RACE_ATTEMPTS, GaveUp
from highwater_controller.registration import publish_endpoint
from highwater_controller.store import ControllerStore, TermOver
from highwater_core import znodes
from highwater_core.events import EventKind
from highwater_core.fail_points import FailPoints
from highwater_core.ids import NodeId, TopicPartition
from highwater_core.ports import MultiFailed, NodeExists, NoNode, Stat
from highwater_core.traces import TraceRecorder

P0 = TopicPartition("t", 0)
STATE = znodes.partition_state_path(P0)
ANOTHERS = Stat(node_version=0, czxid=5, mzxid=5, ephemeral_owner=77)


class Fickle:
    """A session whose reads and writes contradict each other."""

    session_id = 1

    def __init__(self) -> None:
        self.looks = 0

    async def ensure_path(self, path):
        pass

    async def exists(self, path, *, watch=False):
        self.looks += 1
        return ANOTHERS

    async def get(self, path, *, watch=False):
        raise NoNode(path)

    async def create(self, path, data, *, ephemeral=False):
        self.looks += 1
        raise NodeExists(path)

    async def multi(self, operations):
        """Refuse: the znode to create is there, the znode to write is not."""
        self.looks += 1
        creates = type(operations[-1]).__name__ == "CreateOp"
        raise MultiFailed(0, NodeExists("x") if creates else NoNode("x"))


def trace_of(cluster):
    return TraceRecorder(cluster._operator, 9, 1, cluster.trace.sink("operator"))


def raised(cluster, kind, work):
    """Return the message of the exception of that kind, in which the work ends."""

    async def run(_):
        with pytest.raises(kind) as caught:
            await work()
        return str(caught.value)

    return cluster.do(run)


def test_an_election_at_which_the_active_one_is_always_gone_ends_with_its_session(cluster):
    session = Fickle()
    election = Election(NodeId(1000), session, cluster._operator, trace_of(cluster), 10, 100)
    text = raised(cluster, GaveUp, election.stand)
    assert (session.looks, "ephemeral_owner=77" in text) == (RACE_ATTEMPTS, True)


def test_an_epoch_that_is_never_there_to_be_read_ends_the_session(cluster):
    class WithoutController(Fickle):
        async def exists(self, path, *, watch=False):
            return None

    session = WithoutController()
    election = Election(NodeId(1000), session, cluster._operator, trace_of(cluster), 10, 100)
    text = raised(cluster, GaveUp, election.stand)
    assert session.looks == RACE_ATTEMPTS
    assert text == "/controller_epoch: changed 100 times between two reads; last seen: None"


def test_an_endpoint_whose_place_is_always_taken_ends_the_session(cluster):
    session = Fickle()
    path = znodes.controller_endpoint_path(NodeId(1000))
    text = raised(
        cluster, GaveUp, lambda: publish_endpoint(session, cluster._operator, 10, 100, path, b"{}")
    )
    assert session.looks == RACE_ATTEMPTS
    assert text.endswith("the last time somebody else's was in its place: None")


def test_a_znode_that_comes_and_goes_ends_the_term_that_would_put_it(cluster):
    session = Fickle()
    runtime, trace = cluster._operator, trace_of(cluster)
    points = FailPoints(runtime, trace, runtime.kill, ())
    store = ControllerStore(session, runtime, trace, 10, 100, None, points)
    text = raised(cluster, TermOver, lambda: store.put("/x", b""))
    assert session.looks == 2 * RACE_ATTEMPTS
    assert text == "/x: 100 times it was there to create, and gone to write"


def test_a_state_that_others_always_write_first_ends_the_term_and_the_next_goes_on(running):
    running.create_topic("t", (0, 1, 2))
    written = []

    async def write_first():
        isr = b"[0,1,2]" if len(written) % 2 else b"[0,2,1]"
        written.append(isr)
        await running.put(
            STATE,
            b'{"version":1,"leader":0,"leader_epoch":7,"controller_epoch":1,"isr":' + isr + b"}",
        )
        running.multi_hooks[STATE] = write_first

    running.before_multi(STATE, write_first)
    running.brokers[0].die()
    running.until(lambda: running.events(EventKind.CONTROLLER_RESIGNED), "the resignation")
    running.multi_hooks.clear()
    (resigned,) = running.events(EventKind.CONTROLLER_RESIGNED)
    # First on the state that it knew, then on states that it read.
    assert len(written) > len(running.events(EventKind.WRITE_CONFLICTED)) > RACE_ATTEMPTS
    assert "others wrote it 100 times between a read and a write" in resigned.detail["reason"]
    assert "leader_epoch=7" in resigned.detail["reason"]
    running.until(lambda: running.state("t").leader in (1, 2), "the next term's election")
    assert running.state("t").leader_epoch == 8
