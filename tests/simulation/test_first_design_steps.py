"""The order of the first design's steps, in the traces of brokers that command themselves.

Source: the first design (V2), "State change operations"; docs/decisions/0010.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind as K
from highwater_core.events import TraceEvent
from highwater_core.first_design_znodes import leader_path
from tests.support.first_design_cluster import AT, WITHIN_MS, Cluster

FETCHES = {K.FETCHER_STOPPED, K.FETCHER_STARTED}
ROLES = {K.BECAME_LEADER, K.BECAME_FOLLOWER}


def steps_of(c: Cluster, broker: int, kinds: set[K]) -> list[K]:
    """Return the kinds of the broker's events about t-0, in order, of those that are asked for."""
    return [each.kind for each in _events(c, broker) if each.kind in kinds]


def _events(c: Cluster, broker: int) -> Iterator[TraceEvent]:
    for entry in c.world.trace.entries:
        event = entry.event
        if isinstance(event, TraceEvent) and event.node == broker and event.topic_partition == AT:
            yield event


def seen_at(c: Cluster, kind: K, look: Callable[[int], object]) -> list[tuple[int, object]]:
    """Return a list that gets each broker of such an event about t-0, and what it shows then."""
    seen: list[tuple[int, object]] = []

    def on_event(event: TraceEvent) -> None:
        if event.kind is kind and event.topic_partition == AT:
            seen.append((event.node, look(event.node)))

    c.world.on_event = on_event
    return seen


def has_folder(c: Cluster, broker: int) -> bool:
    return bool(c.world.brokers[broker].disk.replica_folders("t-0"))


def catching_up(c: Cluster) -> object:
    """Return CUR as the leader path has it, None before it does."""
    found = c.world.zookeeper.data(leader_path(AT))
    return msgspec.json.decode(found[0]).get("catching_up") if found else None


def test_the_log_is_open_before_a_replica_runs_and_its_role_comes_after_the_election() -> None:
    cluster = Cluster()
    seen = seen_at(
        cluster, K.LEADER_ELECTED, lambda broker: cluster.world.hosted(broker, AT) is not None
    )

    async def story(c: Cluster) -> None:
        leader = c.leader()
        assert seen == [(leader, True)]
        wanted = {K.REPLICA_STARTED, K.LEADER_ELECTED, *ROLES}
        assert steps_of(c, leader, wanted) == [
            K.REPLICA_STARTED,
            K.LEADER_ELECTED,
            K.BECAME_LEADER,
        ]

    cluster.run(story)


def test_a_broker_that_returns_recovers_its_log_then_follows() -> None:
    async def story(c: Cluster) -> None:
        broker = next(each for each in c.world.brokers if each != c.leader())
        wanted = {K.LOG_RECOVERED, K.REPLICA_STARTED, *ROLES, *FETCHES}
        c.world.kill(broker)
        before = len(steps_of(c, broker, wanted))
        c.world.start(broker)
        await c.until(lambda: c.world.hosted(broker, AT) is not None, "its log is open")
        await c.until(
            lambda: K.FETCHER_STARTED in steps_of(c, broker, wanted)[before:], "it fetches"
        )
        assert steps_of(c, broker, wanted)[before:] == [
            K.LOG_RECOVERED,
            K.REPLICA_STARTED,
            K.BECAME_FOLLOWER,
            K.FETCHER_STARTED,
        ]

    Cluster().run(story)


def test_a_follower_leaves_its_leader_before_it_follows_the_next_one() -> None:
    async def story(c: Cluster) -> None:
        before = {each: len(steps_of(c, each, FETCHES | ROLES)) for each in c.world.brokers}
        old = await c.killed()
        follower = next(each for each in c.world.brokers if each not in (old, c.leader()))
        await c.until(lambda: c.world.is_replicated(AT, (c.leader(), follower)), "it follows")
        for broker, role in ((follower, K.BECAME_FOLLOWER), (c.leader(), K.BECAME_LEADER)):
            steps = steps_of(c, broker, FETCHES | ROLES)[before[broker] :]
            assert steps[:2] == [K.FETCHER_STOPPED, role]
        assert steps_of(c, follower, FETCHES)[-1] is K.FETCHER_STARTED

    Cluster().run(story)


def test_a_leader_writes_the_isr_then_opens_then_writes_cur_and_has_the_others_start() -> None:
    cluster = Cluster()
    seen = seen_at(
        cluster,
        K.ISR_CHANGED,
        lambda broker: (
            cluster.serves(broker),
            catching_up(cluster),
            [each for other in cluster.world.brokers for each in cluster.queue(other)],
        ),
    )

    async def story(c: Cluster) -> None:
        assert await c.send("a") == "NONE"
        del seen[:]
        old = await c.killed()
        await c.until(lambda: catching_up(c) == [old], "CUR is written")
        assert seen[0] == (c.leader(), (False, None, []))
        assert c.queue(c.leader()) == [], "it starts the others, and not itself"
        wanted = {K.BECAME_LEADER, K.ISR_CHANGE_PROPOSED, K.ISR_CHANGED}
        assert steps_of(c, c.leader(), wanted) == [
            K.BECAME_LEADER,
            K.ISR_CHANGE_PROPOSED,
            K.ISR_CHANGED,
        ]

    cluster.run(story)


def test_a_closed_replica_stops_its_fetcher_first_and_then_its_log_is_deleted() -> None:
    cluster = Cluster()
    seen = seen_at(cluster, K.FETCHER_STOPPED, lambda broker: has_folder(cluster, broker))

    async def story(c: Cluster) -> None:
        followers = [each for each in c.world.brokers if each != c.leader()]
        wanted = {K.FETCHER_STOPPED, K.REPLICA_STOPPED}
        del seen[:]
        assert await c.client.delete_topic("t", WITHIN_MS) is ErrorCode.NONE
        await c.until(lambda: not any(has_folder(c, each) for each in c.world.brokers), "deleted")
        assert sorted(seen) == [(each, True) for each in followers]
        for broker in followers:
            assert steps_of(c, broker, wanted) == [K.FETCHER_STOPPED, K.REPLICA_STOPPED]

    cluster.run(story)
