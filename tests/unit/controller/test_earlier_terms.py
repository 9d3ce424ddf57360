"""Work queued in one term of office never acts in the next, however the term ended."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from highwater_controller import controller as controller_module
from highwater_controller import controller_events as events
from highwater_controller.controller import Controller
from highwater_controller.controller_events import RequestReceived
from highwater_controller.store import TermOver
from highwater_core import admin_messages, messages, znodes
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.ids import BrokerEpoch, ControllerEpoch, NodeId, TopicPartition

P0 = TopicPartition("t", 0)
B1 = NodeId(1)

HANDLERS = [
    "on_brokers_changed",
    "on_topic_znodes_changed",
    "on_partition_state_repaired",
    "on_deletions_requested",
    "on_isr_changes_notified",
    "on_stop_replica_answered",
    "retry_refused",
    "forget_ended_reassignments",
    "on_config_changes",
    "rebalance_leaders",
    "on_alter_partition",
    "on_controlled_shutdown",
    "list_reassignments",
    "advance_reassignments",
]
"""All that acts on an event but on_topics_changed, by which the test holds the controller up."""

WATCHES_AND_TIMERS = [
    events.BrokersChanged(),
    events.BrokerSuspected(B1, BrokerEpoch(1), "its connection broke"),
    events.TopicZnodeChanged("t"),
    events.PartitionStateChanged(P0),
    events.DeletionsRequested(),
    events.ReassignmentsWritten(),
    events.PreferredElectionsWritten(),
    events.ConfigsChanged(),
    events.RebalanceDue(),
    events.RefusedDeletionsDue(),
    events.IsrChangesNotified(),
    events.LogFolderEventsNotified(),
    events.LeaderAndIsrAnswered(
        B1,
        messages.LeaderAndIsrRequest(NodeId(1000), ControllerEpoch(1), BrokerEpoch(1), False, ()),
        messages.CommandResponse(ErrorCode.NONE),
    ),
    events.JobsDue(),
    events.ReassignmentsAdvanced((P0,)),
    events.EndedReassignmentsDue(),
    events.StopReplicaAnswered(
        B1,
        messages.StopReplicaRequest(NodeId(1000), ControllerEpoch(1), BrokerEpoch(1), ()),
        messages.CommandResponse(ErrorCode.NONE),
    ),
]
REQUESTS = [
    messages.AlterPartitionRequest(B1, BrokerEpoch(1), ()),
    messages.ControlledShutdownRequest(B1, BrokerEpoch(1)),
    admin_messages.ListReassignmentsRequest(None),
    messages.CreateTopicsRequest((messages.NewTopic("late", 1, 1),)),
    messages.DeleteTopicsRequest(("t",)),
    admin_messages.ElectLeadersRequest(None, admin_messages.ElectionType.PREFERRED),
]


def test_the_events_of_this_test_are_all_that_there_are():
    kinds = {type(event) for event in WATCHES_AND_TIMERS}
    others = {events.ControllerZnodeChanged, events.TopicsChanged, RequestReceived}
    assert kinds | others == set(events.ControllerEvent.__args__)


@pytest.fixture
def held(running, monkeypatch):
    """A controller in the middle of an event, on which everything there is waits."""
    running.create_topic("t", (0, 1, 2))
    held = SimpleNamespace(
        running=running, acted=[], replies=[], release=running.active()._ports.runtime.event()
    )

    def spy(name):
        real = getattr(controller_module, name)

        def act(term, *arguments):
            held.acted.append((name, term.epoch.controller_epoch))
            return real(term, *arguments)

        return act

    async def hold(term):
        await held.release.wait()
        raise TermOver("the test says so")

    for name in HANDLERS:
        monkeypatch.setattr(controller_module, name, spy(name))
    step = controller_module.WaitingJobs.step

    def take_step(waiting, term, make_done):
        if waiting._waiting[0].received is not None:  # else each term's own look at admin znodes
            held.acted.append(("step", term.epoch.controller_epoch))
        return step(waiting, term, make_done)

    monkeypatch.setattr(controller_module.WaitingJobs, "step", take_step)
    monkeypatch.setattr(controller_module, "on_topics_changed", hold)
    running.settle()
    controller: Controller = running.active()._controller
    controller.enqueue(events.TopicsChanged())
    running.settle()
    held.acted.clear()
    for event in WATCHES_AND_TIMERS:
        controller.enqueue(event)
    for request in REQUESTS:
        reply = running.active()._ports.runtime.future()
        controller.enqueue(RequestReceived(request, reply))
        held.replies.append(reply)
    running.settle()
    assert held.acted == []
    return held


def end_by_its_own_event(held):
    held.release.set()


def end_by_its_session(held):
    held.running.expire_session()


def end_by_another_controller(held):
    """Its znode goes, another is elected, and only then does it come to look."""
    held.running.start_controller(1001)
    held.running.delete(znodes.CONTROLLER)
    held.running.until(lambda: held.running.controllers[1001].snapshot().active_controller, "it")
    held.release.set()


@pytest.mark.parametrize(
    "end", [end_by_its_own_event, end_by_its_session, end_by_another_controller]
)
def test_events_that_waited_at_a_terms_end_are_dropped_and_requests_refused(held, end):
    running = held.running
    end(held)
    running.until(lambda: running.events(EventKind.CONTROLLER_RESIGNED), "the resignation")
    running.settle(20_000)
    assert [epoch for _, epoch in held.acted if epoch == 1] == []
    assert "step" not in dict(held.acted)
    answers = [reply.wait() for reply in held.replies]
    errors = {running.do(lambda _, answer=answer: answer).error for answer in answers}
    assert errors == {ErrorCode.NOT_CONTROLLER}
    assert running.data(znodes.topic_path("late")) is None
    assert running.data(znodes.delete_topic_path("t")) is None
    assert running.events(EventKind.CONTROLLER_ELECTED)[-1].controller_epoch == 2


def test_the_next_term_of_the_same_session_acts_on_nothing_of_the_last(held):
    """Its own watches and timers are all that it may act on, and nothing fires them here."""
    end_by_its_own_event(held)
    held.running.settle(5_000)
    assert held.acted == []
    assert len(held.running.events(EventKind.FAILOVER_COMPLETED)) == 2


def test_a_timer_that_an_earlier_term_set_does_not_ring_in_the_next(running, monkeypatch):
    rung = []
    monkeypatch.setattr(controller_module, "retry_refused", rung.append)
    controller = running.active()._controller
    controller.term.context.refused_deletions["t"] = None
    controller._once_after(1_000, events.RefusedDeletionsDue())
    running.write(znodes.CONTROLLER_EPOCH, b"7")
    running.brokers[0].die()
    running.write_topic("u", (1, 2))
    running.until(lambda: running.events(EventKind.CONTROLLER_RESIGNED), "the resignation")
    running.settle(30_000)
    assert rung == []
    assert len(running.events(EventKind.FAILOVER_COMPLETED)) == 2
