"""The simulator's ZooKeeper beyond the contract: expiry, lost connections, cuts, kills, pauses."""

from __future__ import annotations

from typing import Any

import pytest

from highwater_core.ports import (
    ConnectionLost,
    Coordination,
    CoordinationEvent,
    CoordinationEventKind,
    SessionExpired,
)
from highwater_simulator.network import Plane
from highwater_simulator.tasks import NodeRuntime
from highwater_simulator.zookeeper import HEARTBEATS_PER_TIMEOUT, HOST
from highwater_simulator.zookeeper_session import SimulatedCoordinationFactory

KIND = CoordinationEventKind
TIMEOUT_MS = 6_000
BEAT_MS = TIMEOUT_MS // HEARTBEATS_PER_TIMEOUT


def test_killed_nodes_session_expires_after_its_timeout(ensemble: Any) -> None:
    async def body(runtime: NodeRuntime) -> None:
        session, other = await ensemble.open("node"), await ensemble.open("other")
        await session.create("/e", b"", ephemeral=True)
        await runtime.sleep(60_000)
        assert list(ensemble.server.dump()) == ["/e"]
        assert await other.exists("/e", watch=True) is not None
        ensemble.runtimes["node"].kill()
        killed_ms = runtime.now_ms()
        assert await other.events.get() == CoordinationEvent(KIND.NODE_CHANGED, "/e")
        assert TIMEOUT_MS - 1_000 <= runtime.now_ms() - killed_ms <= TIMEOUT_MS + 1_000
        assert await other.exists("/e") is None
        assert ensemble.server.session_ids("node") == []

    ensemble.run(body)


def test_restarted_nodes_new_session_is_another_than_its_old_one(ensemble: Any) -> None:
    async def body(runtime: NodeRuntime) -> None:
        old = await ensemble.open("node")
        await old.create("/e", b"", ephemeral=True)
        ensemble.runtimes["node"].kill()
        new = await ensemble.open("node")
        stat = await new.exists("/e")
        assert stat is not None
        assert stat.ephemeral_owner == old.session_id != new.session_id
        await runtime.sleep(TIMEOUT_MS + 2_000)
        assert await new.exists("/e") is None
        assert ensemble.server.session_ids("node") == [new.session_id]

    ensemble.run(body)


def test_short_cut_suspends_the_session_and_keeps_it(ensemble: Any) -> None:
    async def body(runtime: NodeRuntime) -> None:
        session = await ensemble.open("node")
        await session.create("/e", b"", ephemeral=True)
        ensemble.cut("node")
        assert await session.events.get() == CoordinationEvent(KIND.SESSION_SUSPENDED)
        ensemble.network.heal_all()
        assert await session.events.get() == CoordinationEvent(KIND.SESSION_ESTABLISHED)
        assert await session.exists("/e") is not None

    ensemble.run(body)


def test_long_cut_expires_the_session_which_its_client_learns_after_the_heal(
    ensemble: Any,
) -> None:
    async def body(runtime: NodeRuntime) -> None:
        session = await ensemble.open("node")
        await session.create("/e", b"", ephemeral=True)
        ensemble.cut("node")
        await runtime.sleep(3 * TIMEOUT_MS)
        assert ensemble.server.dump() == {}
        assert session.events.drain() == [CoordinationEvent(KIND.SESSION_SUSPENDED)]
        ensemble.network.heal_all()
        assert await session.events.get() == CoordinationEvent(KIND.SESSION_EXPIRED)
        with pytest.raises(SessionExpired):
            await session.exists("/e")

    ensemble.run(body)


def test_call_made_while_suspended_waits_for_the_connection(ensemble: Any) -> None:
    async def body(runtime: NodeRuntime) -> None:
        session = await ensemble.open("node")
        ensemble.server.lose_connection(session.session_id)
        began_ms = runtime.now_ms()
        await session.create("/a", b"")
        assert runtime.now_ms() > began_ms
        assert [event.kind for event in session.events.drain()] == [
            KIND.SESSION_SUSPENDED,
            KIND.SESSION_ESTABLISHED,
        ]

    ensemble.run(body)


def test_call_in_flight_when_the_connection_is_lost_may_have_been_carried_out(
    ensemble: Any,
) -> None:
    async def body(runtime: NodeRuntime) -> None:
        session = await ensemble.open("node")
        outcomes: list[str] = []

        async def create(path: str) -> None:
            try:
                await session.create(path, b"")
            except ConnectionLost:
                outcomes.append("lost")

        scope = runtime.scope("calls")
        for number in range(200):
            scope.spawn("create", create(f"/{number:03}"))
            await runtime.sleep_ns(10_000)
        ensemble.server.lose_connection(session.session_id)
        await runtime.sleep(100)
        done = len(ensemble.server.dump())
        assert 0 < 200 - done < len(outcomes)

    ensemble.run(body)


def test_watches_fire_once_after_a_lost_connection_whether_or_not_anything_changed(
    ensemble: Any,
) -> None:
    async def body(runtime: NodeRuntime) -> None:
        session, other = await ensemble.open("node"), await ensemble.open("other")
        await session.create("/a", b"")
        await session.create("/b", b"")
        for path in ("/a", "/b"):
            await session.get(path, watch=True)
        await session.children("/", watch=True)
        ensemble.server.lose_connection(session.session_id)
        await other.set("/a", b"1")
        await runtime.sleep(10_000)
        assert session.events.drain() == [
            CoordinationEvent(KIND.SESSION_SUSPENDED),
            CoordinationEvent(KIND.SESSION_ESTABLISHED),
            CoordinationEvent(KIND.CHILDREN_CHANGED, "/"),
            CoordinationEvent(KIND.NODE_CHANGED, "/a"),
            CoordinationEvent(KIND.NODE_CHANGED, "/b"),
        ]

    ensemble.run(body)


def test_node_that_was_paused_for_longer_than_its_timeout_finds_its_session_expired(
    ensemble: Any,
) -> None:
    async def body(runtime: NodeRuntime) -> None:
        session = await ensemble.open("node")
        await session.create("/e", b"", ephemeral=True)
        ensemble.runtimes["node"].pause()
        await runtime.sleep(2 * TIMEOUT_MS)
        assert ensemble.server.dump() == {}
        ensemble.runtimes["node"].resume()
        kinds = [(await session.events.get()).kind for _ in range(2)]
        assert kinds == [KIND.SESSION_SUSPENDED, KIND.SESSION_EXPIRED]

    ensemble.run(body)


def test_session_that_expires_before_its_client_has_heard_of_it_is_noticed(
    ensemble: Any,
) -> None:
    async def body(runtime: NodeRuntime) -> None:
        node = ensemble.kernel.runtime("node")
        ensemble.network.slow_down(HOST, "node", Plane.ZOOKEEPER, 2 * BEAT_MS)
        opening = SimulatedCoordinationFactory(ensemble.server, node).open(TIMEOUT_MS)
        opened: list[Coordination] = []

        async def keep() -> None:
            opened.append(await opening)

        node.start("open", keep())
        while not (session_ids := ensemble.server.session_ids("node")):
            await runtime.sleep_ns(1_000)
        ensemble.server.expire(session_ids[0])
        assert opened == []
        await runtime.sleep(TIMEOUT_MS)
        assert opened[0].session_id == session_ids[0]
        with pytest.raises(SessionExpired):
            await opened[0].get("/")

    ensemble.run(body)


def test_expired_by_hand(ensemble: Any) -> None:
    async def body(runtime: NodeRuntime) -> None:
        session = await ensemble.open("node")
        await session.create("/e", b"", ephemeral=True)
        ensemble.server.expire(session.session_id)
        assert ensemble.server.dump() == {}
        assert await session.events.get(1) == CoordinationEvent(KIND.SESSION_SUSPENDED)
        assert await session.events.get(BEAT_MS + 100) == CoordinationEvent(KIND.SESSION_EXPIRED)
        await session.close()

    ensemble.run(body)
