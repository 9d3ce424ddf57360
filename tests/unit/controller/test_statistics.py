"""The numbers of a controller's snapshot: partitions, elections, and the queue's times."""

from __future__ import annotations

from highwater_controller.controller_events import BrokersChanged, TopicsChanged
from highwater_controller.event_queue import EventQueue
from highwater_core.counting_trace import CountingTrace
from highwater_core.events import EventKind


def counters_of(running) -> dict[str, int]:
    return dict(running.active().snapshot().counters)


def test_a_snapshot_counts_partitions_without_a_leader_or_led_by_another(running):
    running.create_topic("t", (0, 1), (1, 0))
    running.create_topic("u", (2,))
    before = counters_of(running)
    assert (before["topics"], before["partitions"]) == (2, 3)
    assert (before["offline_partitions"], before["preferred_replica_imbalance"]) == (0, 0)
    running.brokers[0].die()
    running.brokers[2].die()
    running.settle()
    after = counters_of(running)
    assert (after["offline_partitions"], after["preferred_replica_imbalance"]) == (1, 2)
    assert after["leaders_elected"] - before["leaders_elected"] == 1
    assert after["unclean_elections"] == 0


def test_unclean_elections_are_counted_apart(running):
    running.create_topic("t", (0, 1), config={"unclean.leader.election.enable": "true"})
    running.brokers[1].die()
    running.settle()
    running.brokers[0].die()
    running.start_broker(1)
    running.settle()
    assert counters_of(running)["unclean_elections"] == 1


def test_a_standby_tells_of_no_partitions(running):
    standby = running.start_controller(1001)
    running.settle()
    assert "partitions" not in dict(standby.snapshot().counters)


def test_each_event_counts_with_the_time_that_it_waited_and_took(cluster):
    runtime = cluster.kernel.runtime("test")
    queue = EventQueue(runtime)

    async def slow() -> None:
        await runtime.sleep(30)

    async def handle_two() -> None:
        queue.put(BrokersChanged())
        queue.put(TopicsChanged())
        for _ in range(2):
            await queue.timed(await queue.get(), slow())

    runtime.scope("test").spawn("test", handle_two())
    cluster.kernel.run_for(1_000)
    assert queue.counters() == (
        ("events_taken", 2),
        ("events_waited_ms", 30),
        ("events_handled.BrokersChanged", 1),
        ("handling_ms.BrokersChanged", 30),
        ("events_handled.TopicsChanged", 1),
        ("handling_ms.TopicsChanged", 30),
    )


def test_a_counting_trace_hands_every_event_on() -> None:
    class Kept:
        def __init__(self) -> None:
            self.kinds: list[EventKind] = []

        def emit(self, kind: EventKind, **_fields: object) -> None:
            self.kinds.append(kind)

    kept = Kept()
    trace = CountingTrace(kept, {EventKind.LEADER_ELECTED: "leaders_elected"})
    trace.emit(EventKind.LEADER_ELECTED, unclean=False)
    trace.emit(EventKind.LEADER_ELECTED, unclean=True)
    trace.emit(EventKind.NODE_STOPPED, reason="x")
    assert kept.kinds == [EventKind.LEADER_ELECTED] * 2 + [EventKind.NODE_STOPPED]
    assert trace.counters() == (("leaders_elected", 2), ("unclean_elections", 1))


def test_an_event_that_is_put_at_intervals_waits_once_and_comes_again(cluster):
    runtime = cluster.kernel.runtime("test")
    queue = EventQueue(runtime)
    taken: list[object] = []

    async def take_all() -> None:
        for _ in range(2):
            queue.put_once(BrokersChanged())
            queue.put_once(BrokersChanged())
            queue.put(TopicsChanged())
            while len(queue):
                taken.append(await queue.get())

    runtime.scope("test").spawn("test", take_all())
    cluster.kernel.run_for(1_000)
    assert taken == [BrokersChanged(), TopicsChanged()] * 2
