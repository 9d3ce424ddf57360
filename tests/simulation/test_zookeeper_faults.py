"""The simulator's ZooKeeper under faults: lost replies, a slow quorum, a restart, bad links; and
its report of each change."""

from __future__ import annotations

from typing import Any

import pytest

from highwater_core.ports import (
    BadVersion,
    ConnectionLost,
    Coordination,
    CoordinationEvent,
    CoordinationEventKind,
    CreateOp,
    DeleteOp,
    SessionExpired,
    SetOp,
)
from highwater_simulator.network import Plane
from highwater_simulator.tasks import NodeRuntime
from highwater_simulator.zookeeper import HEARTBEATS_PER_TIMEOUT, HOST

KIND = CoordinationEventKind
SUSPENDED = CoordinationEvent(KIND.SESSION_SUSPENDED)
ESTABLISHED = CoordinationEvent(KIND.SESSION_ESTABLISHED)
EXPIRED = CoordinationEvent(KIND.SESSION_EXPIRED)
TIMEOUT_MS = 6_000
SILENCE_MS = 4_000
"""The silence after which a client gives its connection up."""
BEAT_MS = TIMEOUT_MS // HEARTBEATS_PER_TIMEOUT


# ---------------------------------------------------------------- reported changes


def test_each_change_is_reported_with_its_author_and_paths_in_order(ensemble: Any) -> None:
    told: list[tuple[str, tuple[str, ...]]] = []
    ensemble.server.applied = lambda author, paths: told.append((author, paths))

    async def body(runtime: NodeRuntime) -> None:
        a, b = await ensemble.open("a"), await ensemble.open("b")
        await a.ensure_path("/x/y")
        await a.create("/x/e", b"", ephemeral=True)
        await a.create("/x/f", b"", ephemeral=True)
        await b.set("/x", b"1")
        await b.get("/x", watch=True)
        await b.multi([SetOp("/x", b"2"), CreateOp("/z", b""), DeleteOp("/x/y")])
        with pytest.raises(BadVersion):
            await b.set("/x", b"", 9)
        await b.create("/g", b"", ephemeral=True)
        ensemble.server.expire(a.session_id)
        await b.close()
        assert told == [
            ("a", ("/x", "/x/y")),
            ("a", ("/x/e",)),
            ("a", ("/x/f",)),
            ("b", ("/x",)),
            ("b", ("/x", "/z", "/x/y")),
            ("b", ("/g",)),
            ("", ("/x/e", "/x/f")),
            ("b", ("/g",)),
        ]

    ensemble.run(body)


def test_a_reported_change_can_be_read_at_that_moment(ensemble: Any) -> None:
    read: list[bytes | None] = []

    def applied(_: str, paths: tuple[str, ...]) -> None:
        found = ensemble.server.data(paths[0])
        read.append(None if found is None else found[0])

    async def body(runtime: NodeRuntime) -> None:
        session = await ensemble.open("a")
        ensemble.server.applied = applied
        await session.create("/x", b"0")
        await session.set("/x", b"1")
        await session.delete("/x")
        assert read == [b"0", b"1", None]

    ensemble.run(body)


# ---------------------------------------------------------------- lost replies


def test_reply_is_lost_after_the_change_was_carried_out(ensemble: Any) -> None:
    async def body(runtime: NodeRuntime) -> None:
        session, other = await ensemble.open("a"), await ensemble.open("b")
        await session.create("/x", b"0")
        ensemble.server.lose_replies("a", 2)
        assert ensemble.server.describe() == ["zookeeper loses 2 replies to a"]
        for version, data in enumerate((b"1", b"2")):
            assert await session.exists("/x") is not None  # reads are answered
            with pytest.raises(ConnectionLost):
                await session.set("/x", data, version)
            assert await other.get("/x") == ensemble.server.data("/x")
            assert (await session.get("/x"))[0] == data
        assert (await session.set("/x", b"3", 2)).node_version == 3
        assert session.events.drain() == [SUSPENDED, ESTABLISHED, SUSPENDED, ESTABLISHED]
        assert ensemble.server.describe() == []

    ensemble.run(body)


def test_refused_change_is_answered_while_replies_are_to_be_lost(ensemble: Any) -> None:
    async def body(runtime: NodeRuntime) -> None:
        session, other = await ensemble.open("a"), await ensemble.open("b")
        ensemble.server.lose_replies("a", 1)
        await other.create("/x", b"")
        with pytest.raises(BadVersion):
            await session.set("/x", b"", 7)
        with pytest.raises(ConnectionLost):
            await session.create("/y", b"")
        assert ensemble.server.data("/y") is not None

    ensemble.run(body)


# ---------------------------------------------------------------- a slow quorum


def test_slow_server_carries_each_change_out_late_in_the_order_of_arrival(
    ensemble: Any,
) -> None:
    async def body(runtime: NodeRuntime) -> None:
        session, other = await ensemble.open("a"), await ensemble.open("b")
        await session.create("/x", b"")
        ensemble.server.slow_down(500)
        began_ms = runtime.now_ms()
        task = runtime.start("other", _set(other, "/x", b"first"))
        await runtime.sleep(10)
        ensemble.server.slow_down(0)
        assert (await session.get("/x"))[0] == b"first"
        assert task.is_done() or runtime.now_ms() - began_ms >= 500
        assert 500 <= runtime.now_ms() - began_ms <= 502
        began_ms = runtime.now_ms()
        await session.get("/x")
        assert runtime.now_ms() - began_ms <= 2
        assert session.events.drain() == other.events.drain() == []

    ensemble.run(body)


async def _set(session: Coordination, path: str, data: bytes) -> None:
    await session.set(path, data)


def test_server_slower_than_the_heartbeats_loses_its_clients_but_not_their_sessions(
    ensemble: Any,
) -> None:
    async def body(runtime: NodeRuntime) -> None:
        session = await ensemble.open("a")
        await session.create("/e", b"", ephemeral=True)
        ensemble.server.slow_down(SILENCE_MS + 500)
        with pytest.raises(ConnectionLost):
            await session.set("/e", b"late")
        assert ensemble.server.data("/e")[0] == b""  # type: ignore[index]
        await runtime.sleep(5 * TIMEOUT_MS)
        assert ensemble.server.data("/e")[0] == b"late"  # type: ignore[index]
        assert session.events.drain() == [SUSPENDED]
        ensemble.server.heal()
        assert await session.events.get() == ESTABLISHED

    ensemble.run(body)


# ---------------------------------------------------------------- a restart


def test_restarted_server_keeps_tree_and_sessions_and_gives_each_its_whole_timeout(
    ensemble: Any,
) -> None:
    async def body(runtime: NodeRuntime) -> None:
        session, dead = await ensemble.open("a"), await ensemble.open("dead")
        for each in (session, dead):
            await each.create(f"/{each.session_id}", b"", ephemeral=True)
        await session.children("/", watch=True)
        ensemble.runtimes["dead"].kill()
        ensemble.server.stop()
        assert ensemble.server.describe() == ["zookeeper is down"]
        assert session.events.drain() == [SUSPENDED]
        await runtime.sleep(3 * TIMEOUT_MS)
        assert len(ensemble.server.dump()) == 2
        ensemble.server.go_on()
        started_ms = runtime.now_ms()
        assert await session.events.get() == ESTABLISHED
        assert await session.events.get() == CoordinationEvent(KIND.CHILDREN_CHANGED, "/")
        assert len(await session.children("/", watch=True)) == 2
        assert await session.events.get() == CoordinationEvent(KIND.CHILDREN_CHANGED, "/")
        assert TIMEOUT_MS <= runtime.now_ms() - started_ms <= TIMEOUT_MS + BEAT_MS + 1

    ensemble.run(body)


def test_requests_that_a_slow_server_had_not_carried_out_are_lost_when_it_stops(
    ensemble: Any,
) -> None:
    async def body(runtime: NodeRuntime) -> None:
        session = await ensemble.open("a")
        ensemble.server.slow_down(500)
        outcomes: list[str] = []

        async def create() -> None:
            try:
                await session.create("/x", b"")
            except ConnectionLost:
                outcomes.append("lost")

        runtime.start("create", create())
        await runtime.sleep(100)
        ensemble.server.stop()
        ensemble.server.heal()
        await runtime.sleep(1_000)
        assert outcomes == ["lost"]
        assert ensemble.server.dump() == {}
        await session.create("/x", b"")

    ensemble.run(body)


@pytest.mark.parametrize("trouble", ["down", "cut", "reset", "half-open", "slow", "slow link"])
def test_session_is_opened_once_its_server_can_be_reached(ensemble: Any, trouble: str) -> None:
    server, network = ensemble.server, ensemble.network
    opened: list[Coordination] = []

    async def open_session() -> None:
        opened.append(await ensemble.open("a"))

    async def body(runtime: NodeRuntime) -> None:
        if trouble == "down":
            server.stop()
        elif trouble == "cut":
            network.cut("a", HOST, Plane.ZOOKEEPER)
        elif trouble == "slow":
            server.slow_down(2 * SILENCE_MS)
        elif trouble == "slow link":
            network.slow_down(HOST, "a", Plane.ZOOKEEPER, SILENCE_MS + 500)
        runtime.start("open", open_session())
        await runtime.sleep_ns(50_000)
        if trouble == "reset":
            network.reset_connections("a", HOST, Plane.ZOOKEEPER)
        elif trouble == "half-open":
            network.break_half_open("a", HOST, Plane.ZOOKEEPER)
        await runtime.sleep(SILENCE_MS - 1_000)
        assert bool(opened) == (trouble == "reset")
        await runtime.sleep(2_000)
        network.heal_all()
        server.heal()
        await runtime.sleep(2 * SILENCE_MS)
        await opened[0].create("/x", b"")
        await runtime.sleep(2 * TIMEOUT_MS)
        assert server.session_ids("a") == [opened[0].session_id]
        assert opened[0].events.drain() == []

    ensemble.run(body)


# ---------------------------------------------------------------- bad links


@pytest.mark.parametrize(
    ("source", "expires_after_ms"),
    [("node", TIMEOUT_MS), (HOST, SILENCE_MS + TIMEOUT_MS)],
    ids=["what it sends is lost", "what it is sent is lost"],
)
def test_node_cut_off_one_way_loses_its_session_a_timeout_after_it_was_last_heard(
    ensemble: Any, source: str, expires_after_ms: int
) -> None:
    """Unanswered heartbeats still arrive, until the client gives its connection up."""

    async def body(runtime: NodeRuntime) -> None:
        session = await ensemble.open("node")
        target = HOST if source == "node" else "node"
        ensemble.network.cut(source, target, Plane.ZOOKEEPER)
        cut_ms = runtime.now_ms()
        assert await session.events.get() == SUSPENDED
        assert runtime.now_ms() - cut_ms == pytest.approx(SILENCE_MS, abs=BEAT_MS + 1)
        while ensemble.server.session_ids("node"):
            await runtime.sleep(10)
        assert runtime.now_ms() - cut_ms == pytest.approx(expires_after_ms, abs=2 * BEAT_MS)
        ensemble.network.heal_all()
        assert await session.events.get() == EXPIRED

    ensemble.run(body)


def test_reset_connection_suspends_the_session_and_keeps_it(ensemble: Any) -> None:
    async def body(runtime: NodeRuntime) -> None:
        session = await ensemble.open("node")
        ensemble.network.reset_connections(HOST, "node", Plane.ZOOKEEPER)
        assert [await session.events.get() for _ in range(2)] == [SUSPENDED, ESTABLISHED]
        assert ensemble.server.session_ids("node") == [session.session_id]

    ensemble.run(body)


def test_half_open_connection_is_noticed_by_its_silence_and_the_session_is_kept(
    ensemble: Any,
) -> None:
    async def body(runtime: NodeRuntime) -> None:
        session, other = await ensemble.open("node"), await ensemble.open("other")
        await session.create("/x", b"")
        await session.get("/x", watch=True)
        ensemble.network.break_half_open("node", HOST, Plane.ZOOKEEPER)
        broken_ms = runtime.now_ms()
        await other.set("/x", b"1")
        with pytest.raises(ConnectionLost):
            await session.set("/x", b"never")
        assert runtime.now_ms() - broken_ms == pytest.approx(SILENCE_MS, abs=BEAT_MS + 1)
        assert (await session.get("/x"))[0] == b"1"
        changed = CoordinationEvent(KIND.NODE_CHANGED, "/x")
        assert session.events.drain() == [SUSPENDED, ESTABLISHED, changed]

    ensemble.run(body)


def test_slow_and_lossy_links_keep_the_session_and_only_delay_its_calls(ensemble: Any) -> None:
    async def body(runtime: NodeRuntime) -> None:
        session = await ensemble.open("node")
        for source, target in (("node", HOST), (HOST, "node")):
            ensemble.network.slow_down(source, target, Plane.ZOOKEEPER, 500)
            ensemble.network.lose(source, target, Plane.ZOOKEEPER, 20)
        began_ms = runtime.now_ms()
        await session.create("/x", b"")
        assert runtime.now_ms() - began_ms >= 1_000
        await runtime.sleep(10 * TIMEOUT_MS)
        assert EXPIRED not in session.events.drain()
        assert ensemble.server.session_ids("node") == [session.session_id]

    ensemble.run(body)


def test_write_that_its_client_gave_up_may_still_be_carried_out(ensemble: Any) -> None:
    async def body(runtime: NodeRuntime) -> None:
        session = await ensemble.open("node")
        ensemble.network.slow_down("node", HOST, Plane.ZOOKEEPER, SILENCE_MS + 1_000)
        with pytest.raises(ConnectionLost):
            await session.create("/x", b"")
        assert ensemble.server.dump() == {}
        await runtime.sleep(2_000)
        assert list(ensemble.server.dump()) == ["/x"]

    ensemble.run(body)


def test_write_of_an_old_connection_is_not_read_once_the_session_has_the_next(
    ensemble: Any,
) -> None:
    async def body(runtime: NodeRuntime) -> None:
        session = await ensemble.open("node")
        ensemble.network.slow_down("node", HOST, Plane.ZOOKEEPER, 2 * SILENCE_MS)
        with pytest.raises(ConnectionLost):
            await session.create("/x", b"")
        ensemble.network.speed_up("node", HOST, Plane.ZOOKEEPER)
        assert await session.exists("/x") is None
        await runtime.sleep(4 * SILENCE_MS)
        assert ensemble.server.dump() == {}
        assert session.events.drain() == [SUSPENDED, ESTABLISHED]

    ensemble.run(body)


def test_attempt_to_reconnect_that_was_given_up_takes_nothing_from_the_next(
    ensemble: Any,
) -> None:
    async def body(runtime: NodeRuntime) -> None:
        session = await ensemble.open("node")
        ensemble.network.slow_down("node", HOST, Plane.ZOOKEEPER, 3 * SILENCE_MS)
        ensemble.server.lose_connection(session.session_id)
        await runtime.sleep(SILENCE_MS)
        ensemble.network.speed_up("node", HOST, Plane.ZOOKEEPER)
        await runtime.sleep(4 * SILENCE_MS)
        assert session.events.drain() == [SUSPENDED, ESTABLISHED]

    ensemble.run(body)


def test_watch_of_a_read_that_its_client_gave_up_is_not_set(ensemble: Any) -> None:
    async def body(runtime: NodeRuntime) -> None:
        session, other = await ensemble.open("node"), await ensemble.open("other")
        ensemble.network.slow_down("node", HOST, Plane.ZOOKEEPER, SILENCE_MS + 1_000)
        with pytest.raises(ConnectionLost):
            await session.children("/", watch=True)
        await runtime.sleep(2_000)
        ensemble.network.speed_up("node", HOST, Plane.ZOOKEEPER)
        await runtime.sleep(3 * SILENCE_MS)
        await other.create("/x", b"")
        await runtime.sleep(100)
        assert session.events.drain() == [SUSPENDED, ESTABLISHED]

    ensemble.run(body)


def test_close_of_a_session_that_cannot_be_reached_returns_and_leaves_it_to_expire(
    ensemble: Any,
) -> None:
    async def body(runtime: NodeRuntime) -> None:
        session = await ensemble.open("node")
        await session.create("/e", b"", ephemeral=True)
        ensemble.network.cut("node", HOST, Plane.ZOOKEEPER)
        began_ms = runtime.now_ms()
        await session.close()
        assert runtime.now_ms() - began_ms == pytest.approx(SILENCE_MS, abs=BEAT_MS + 1)
        assert list(ensemble.server.dump()) == ["/e"]
        with pytest.raises(SessionExpired):
            await session.exists("/e")
        await runtime.sleep(TIMEOUT_MS - SILENCE_MS + BEAT_MS)
        assert ensemble.server.dump() == {}
        assert session.events.drain() == []

    ensemble.run(body)


def test_close_whose_reply_never_came_may_still_end_the_session(ensemble: Any) -> None:
    async def body(runtime: NodeRuntime) -> None:
        session = await ensemble.open("node")
        await session.create("/e", b"", ephemeral=True)
        ensemble.network.cut(HOST, "node", Plane.ZOOKEEPER)
        await session.close()
        assert ensemble.server.dump() == {}
        assert session.events.drain() == []

    ensemble.run(body)


def test_node_that_is_stopped_for_less_than_the_timeout_notices_nothing(ensemble: Any) -> None:
    async def body(runtime: NodeRuntime) -> None:
        session = await ensemble.open("node")
        ensemble.runtimes["node"].pause()
        await runtime.sleep(TIMEOUT_MS - 2 * BEAT_MS)
        ensemble.runtimes["node"].resume()
        await runtime.sleep(TIMEOUT_MS)
        assert session.events.drain() == []
        assert ensemble.server.session_ids("node") == [session.session_id]

    ensemble.run(body)
