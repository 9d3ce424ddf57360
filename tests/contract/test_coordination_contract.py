"""What node code may rely on of ZooKeeper: one suite for the simulator's and for the real one.

The real one's address is in HIGHWATER_TEST_ZOOKEEPER (host:port).
"""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Protocol, cast

import pytest

from highwater_adapters.coordination import KazooCoordinationFactory
from highwater_core.ports import (
    BadVersion,
    CheckOp,
    Coordination,
    CoordinationEvent,
    CoordinationEventKind,
    CoordinationFactory,
    CreateOp,
    DeleteOp,
    MultiFailed,
    NodeExists,
    NoNode,
    NotEmpty,
    SessionExpired,
    SetOp,
)
from highwater_core.runtime import Runtime, TimedOut
from highwater_simulator.network import Network
from highwater_simulator.rng import SeededRng
from highwater_simulator.tasks import NodeRuntime
from highwater_simulator.zookeeper import ZooKeeper
from highwater_simulator.zookeeper_session import SimulatedCoordinationFactory

SESSION_TIMEOUT_MS = 6_000

KIND = CoordinationEventKind


class Ensemble:
    """Opens sessions on one ensemble, under a root znode of the test's own."""

    def __init__(self, runtime: Runtime, factory: CoordinationFactory, root: str) -> None:
        self.runtime = runtime
        self.root = root
        self._factory = factory
        self._open: list[Coordination] = []

    async def session(self) -> Coordination:
        session = await self._factory.open(SESSION_TIMEOUT_MS)
        self._open.append(session)
        established = CoordinationEvent(KIND.SESSION_ESTABLISHED)
        assert await session.events.get(5_000) == established
        return session

    async def close(self) -> None:
        for session in self._open:
            await session.close()


Body = Callable[[Ensemble], Coroutine[Any, Any, None]]
Run = Callable[[Body], None]


class World(Protocol):
    name: str

    def run(self, body: Callable[[Runtime], Coroutine[Any, Any, None]]) -> None: ...


@asynccontextmanager
async def ensemble(runtime: Runtime, factory: CoordinationFactory) -> AsyncIterator[Ensemble]:
    root = f"/contract-{uuid.uuid4().hex}"
    opened = Ensemble(runtime, factory, root)
    try:
        await (await opened.session()).ensure_path(root)
        yield opened
    finally:
        await opened.close()


@pytest.fixture(params=["kernel", pytest.param("asyncio", marks=pytest.mark.docker)])
def run(request: pytest.FixtureRequest) -> Run:
    """Run a body against the simulator's ZooKeeper or the one at the address."""
    world: World = request.getfixturevalue(f"{request.param}_world")
    if request.param == "kernel":
        kernel = request.getfixturevalue("kernel_world").kernel
        server = ZooKeeper(kernel, Network(kernel, SeededRng(1)))

        def make(runtime: Runtime) -> CoordinationFactory:
            return SimulatedCoordinationFactory(server, cast(NodeRuntime, runtime))

    else:
        address = request.getfixturevalue("zookeeper_address")

        def make(_: Runtime) -> CoordinationFactory:
            return KazooCoordinationFactory(address)

    async def with_ensemble(runtime: Runtime, body: Body) -> None:
        async with ensemble(runtime, make(runtime)) as opened:
            await body(opened)

    return lambda body: world.run(lambda runtime: with_ensemble(runtime, body))


@pytest.fixture(scope="session")
def zookeeper_address(request: pytest.FixtureRequest) -> str:
    """Return the server that HIGHWATER_TEST_ZOOKEEPER names, else a container's."""
    named = os.environ.get("HIGHWATER_TEST_ZOOKEEPER", "")
    return named or str(request.getfixturevalue("highwater_zookeeper"))


def test_created_znode_has_its_data_version_zero_and_a_growing_czxid(run: Run) -> None:
    async def body(e: Ensemble) -> None:
        s = await e.session()
        assert await s.create(f"{e.root}/a", b"one") == f"{e.root}/a"
        assert await s.create(f"{e.root}/b", b"", ephemeral=True) == f"{e.root}/b"
        data, a = await s.get(f"{e.root}/a")
        _, b = await s.get(f"{e.root}/b")
        assert data == b"one"
        assert (a.node_version, a.ephemeral_owner, a.mzxid) == (0, 0, a.czxid)
        assert b.ephemeral_owner == s.session_id
        assert b.czxid > a.czxid
        assert await s.children(e.root) == ["a", "b"]

    run(body)


def test_create_is_refused_when_it_exists_or_its_parent_does_not(run: Run) -> None:
    async def body(e: Ensemble) -> None:
        s = await e.session()
        await s.create(f"{e.root}/a", b"")
        with pytest.raises(NodeExists):
            await s.create(f"{e.root}/a", b"")
        with pytest.raises(NoNode):
            await s.create(f"{e.root}/missing/a", b"")

    run(body)


def test_sequential_znodes_number_the_creations_under_their_parent(run: Run) -> None:
    async def body(e: Ensemble) -> None:
        s = await e.session()
        first = await s.create(f"{e.root}/n_", b"", sequential=True)
        await s.delete(first)
        await s.create(f"{e.root}/other", b"")
        third = await s.create(f"{e.root}/n_", b"", sequential=True)
        assert (first, third) == (f"{e.root}/n_0000000000", f"{e.root}/n_0000000002")

    run(body)


def test_ensure_path_makes_what_is_missing_and_keeps_what_is_there(run: Run) -> None:
    async def body(e: Ensemble) -> None:
        s = await e.session()
        await s.create(f"{e.root}/a", b"kept")
        await s.ensure_path(f"{e.root}/a/b/c")
        await s.ensure_path(f"{e.root}/a/b/c")
        assert (await s.get(f"{e.root}/a"))[0] == b"kept"
        assert (await s.get(f"{e.root}/a/b/c"))[0] == b""

    run(body)


def test_set_raises_the_version_and_refuses_another_one(run: Run) -> None:
    async def body(e: Ensemble) -> None:
        s = await e.session()
        await s.create(f"{e.root}/a", b"0")
        stat = await s.set(f"{e.root}/a", b"1", 0)
        assert stat.node_version == 1
        assert stat.mzxid > stat.czxid
        with pytest.raises(BadVersion):
            await s.set(f"{e.root}/a", b"2", 0)
        assert (await s.set(f"{e.root}/a", b"3")).node_version == 2
        assert (await s.get(f"{e.root}/a"))[0] == b"3"
        with pytest.raises(NoNode):
            await s.set(f"{e.root}/missing", b"")

    run(body)


def test_delete_is_refused_for_another_version_for_children_and_for_nothing(run: Run) -> None:
    async def body(e: Ensemble) -> None:
        s = await e.session()
        await s.ensure_path(f"{e.root}/a/b")
        with pytest.raises(NotEmpty):
            await s.delete(f"{e.root}/a")
        with pytest.raises(BadVersion):
            await s.delete(f"{e.root}/a/b", 7)
        await s.delete(f"{e.root}/a/b", 0)
        await s.delete(f"{e.root}/a")
        with pytest.raises(NoNode):
            await s.delete(f"{e.root}/a")
        assert await s.exists(f"{e.root}/a") is None

    run(body)


def test_reads_of_what_does_not_exist(run: Run) -> None:
    async def body(e: Ensemble) -> None:
        s = await e.session()
        with pytest.raises(NoNode):
            await s.get(f"{e.root}/a")
        with pytest.raises(NoNode):
            await s.children(f"{e.root}/a")
        assert await s.exists(f"{e.root}/a") is None

    run(body)


def test_multi_is_carried_out_whole_as_one_transaction(run: Run) -> None:
    async def body(e: Ensemble) -> None:
        s = await e.session()
        await s.create(f"{e.root}/epoch", b"1")
        await s.create(f"{e.root}/old", b"")
        stats = await s.multi(
            [
                CheckOp(f"{e.root}/epoch", 0),
                CreateOp(f"{e.root}/lock", b"me", ephemeral=True),
                SetOp(f"{e.root}/epoch", b"2", 0),
                DeleteOp(f"{e.root}/old"),
                CreateOp(f"{e.root}/lock2", b""),
            ]
        )
        assert [None if stat is None else stat.node_version for stat in stats] == [
            None,
            None,
            1,
            None,
            None,
        ]
        lock, lock2 = await s.exists(f"{e.root}/lock"), await s.exists(f"{e.root}/lock2")
        assert lock is not None
        assert lock2 is not None
        assert lock.ephemeral_owner == s.session_id
        assert lock.czxid == lock2.czxid == (await s.get(f"{e.root}/epoch"))[1].mzxid
        assert await s.exists(f"{e.root}/old") is None

    run(body)


def test_refused_multi_changes_nothing_and_names_the_operation_at_fault(run: Run) -> None:
    async def body(e: Ensemble) -> None:
        s = await e.session()
        await s.create(f"{e.root}/a", b"0")
        await s.ensure_path(f"{e.root}/full/child")
        cases: list[tuple[Any, type[Exception]]] = [
            (SetOp(f"{e.root}/a", b"x", 9), BadVersion),
            (CheckOp(f"{e.root}/a", 9), BadVersion),
            (CheckOp(f"{e.root}/missing", 0), NoNode),
            (CreateOp(f"{e.root}/a", b""), NodeExists),
            (CreateOp(f"{e.root}/missing/b", b""), NoNode),
            (DeleteOp(f"{e.root}/full"), NotEmpty),
            (DeleteOp(f"{e.root}/missing"), NoNode),
        ]
        for at_fault, error in cases:
            with pytest.raises(MultiFailed) as failure:
                await s.multi(
                    [
                        SetOp(f"{e.root}/a", b"never"),
                        CreateOp(f"{e.root}/new", b""),
                        at_fault,
                        CreateOp(f"{e.root}/later", b""),
                    ]
                )
            assert failure.value.index == 2
            assert isinstance(failure.value.error, error)
        data, stat = await s.get(f"{e.root}/a")
        assert (data, stat.node_version) == (b"0", 0)
        assert await s.children(e.root) == ["a", "full"]
        assert await s.children(f"{e.root}/full") == ["child"]

    run(body)


def test_later_operations_of_a_multi_see_the_earlier_ones(run: Run) -> None:
    async def body(e: Ensemble) -> None:
        s = await e.session()
        await s.multi(
            [
                CreateOp(f"{e.root}/t", b""),
                CreateOp(f"{e.root}/t/p", b""),
                SetOp(f"{e.root}/t", b"x", 0),
                CheckOp(f"{e.root}/t", 1),
            ]
        )
        assert await s.children(f"{e.root}/t") == ["p"]
        await s.multi([DeleteOp(f"{e.root}/t/p"), DeleteOp(f"{e.root}/t", 1)])
        assert await s.exists(f"{e.root}/t") is None

    run(body)


def test_data_watch_fires_once_at_a_change_and_at_a_deletion(run: Run) -> None:
    async def body(e: Ensemble) -> None:
        s, other = await e.session(), await e.session()
        path = f"{e.root}/a"
        await s.create(path, b"")
        await s.get(path, watch=True)
        await other.set(path, b"1")
        await other.set(path, b"2")
        assert await s.events.get(5_000) == CoordinationEvent(KIND.NODE_CHANGED, path)
        assert (await s.get(path, watch=True))[0] == b"2"
        await other.delete(path)
        assert await s.events.get(5_000) == CoordinationEvent(KIND.NODE_CHANGED, path)
        assert len(s.events) == 0

    run(body)


def test_exists_watch_fires_at_the_creation(run: Run) -> None:
    async def body(e: Ensemble) -> None:
        s, other = await e.session(), await e.session()
        path = f"{e.root}/a"
        assert await s.exists(path, watch=True) is None
        await other.create(path, b"")
        assert await s.events.get(5_000) == CoordinationEvent(KIND.NODE_CHANGED, path)
        assert await s.exists(path) is not None
        assert len(s.events) == 0

    run(body)


def test_children_watch_fires_at_creation_and_deletion_of_children_not_at_their_changes(
    run: Run,
) -> None:
    async def body(e: Ensemble) -> None:
        s, other = await e.session(), await e.session()
        await other.create(f"{e.root}/a", b"")
        assert await s.children(e.root, watch=True) == ["a"]
        await other.set(f"{e.root}/a", b"1")
        await other.create(f"{e.root}/b", b"")
        await other.create(f"{e.root}/c", b"")
        changed = CoordinationEvent(KIND.CHILDREN_CHANGED, e.root)
        assert await s.events.get(5_000) == changed
        assert await s.children(e.root, watch=True) == ["a", "b", "c"]
        await other.delete(f"{e.root}/a")
        assert await s.events.get(5_000) == changed
        assert len(s.events) == 0

    run(body)


def test_children_watch_fires_when_the_znode_itself_is_deleted(run: Run) -> None:
    async def body(e: Ensemble) -> None:
        s, other = await e.session(), await e.session()
        path = f"{e.root}/a"
        await other.create(path, b"")
        assert await s.children(path, watch=True) == []
        await other.delete(path)
        assert await s.events.get(5_000) == CoordinationEvent(KIND.CHILDREN_CHANGED, path)

    run(body)


def test_watch_that_is_set_twice_fires_once(run: Run) -> None:
    async def body(e: Ensemble) -> None:
        s = await e.session()
        path = f"{e.root}/a"
        await s.create(path, b"")
        await s.get(path, watch=True)
        await s.exists(path, watch=True)
        await s.get(path, watch=True)
        await s.set(path, b"1")
        await s.get(path)
        assert s.events.drain() == [CoordinationEvent(KIND.NODE_CHANGED, path)]

    run(body)


def test_watch_of_a_refused_read_is_not_set(run: Run) -> None:
    async def body(e: Ensemble) -> None:
        s = await e.session()
        with pytest.raises(NoNode):
            await s.get(f"{e.root}/a", watch=True)
        with pytest.raises(NoNode):
            await s.children(f"{e.root}/a", watch=True)
        await s.create(f"{e.root}/a", b"")
        await s.create(f"{e.root}/a/b", b"")
        await s.get(f"{e.root}/a")
        assert len(s.events) == 0

    run(body)


def test_watchs_event_is_there_before_the_answer_that_shows_its_change(run: Run) -> None:
    async def body(e: Ensemble) -> None:
        s, other = await e.session(), await e.session()
        path = f"{e.root}/a"
        await s.create(path, b"0")
        for version in range(10):
            await s.get(path, watch=True)
            written = b"%d" % version
            await other.set(path, written)
            while (await s.get(path))[0] != written:
                assert len(s.events) == 0
            assert s.events.drain() == [CoordinationEvent(KIND.NODE_CHANGED, path)]

    run(body)


def test_calls_of_one_session_are_carried_out_and_answered_in_order(run: Run) -> None:
    async def body(e: Ensemble) -> None:
        s = await e.session()
        answered: list[int] = []
        await s.create(f"{e.root}/a", b"")

        async def write(number: int) -> None:
            stat = await s.set(f"{e.root}/a", b"%d" % number, number)
            assert stat.node_version == number + 1
            answered.append(number)

        scope = e.runtime.scope("writers")
        tasks = [scope.spawn("writer", write(number)) for number in range(20)]
        for _ in range(500):
            if all(task.is_done() for task in tasks):
                break
            await e.runtime.sleep(10)
        assert answered == list(range(20))

    run(body)


def test_closed_session_takes_its_ephemeral_znodes_along_and_refuses_calls(run: Run) -> None:
    async def body(e: Ensemble) -> None:
        s, other = await e.session(), await e.session()
        await s.create(f"{e.root}/ephemeral", b"", ephemeral=True)
        await s.create(f"{e.root}/persistent", b"")
        assert await other.children(e.root, watch=True) == ["ephemeral", "persistent"]
        await s.close()
        changed = CoordinationEvent(KIND.CHILDREN_CHANGED, e.root)
        assert await other.events.get(5_000) == changed
        assert await other.children(e.root) == ["persistent"]
        with pytest.raises(SessionExpired):
            await s.get(e.root)
        await s.close()

    run(body)


def test_each_session_has_its_own_id(run: Run) -> None:
    async def body(e: Ensemble) -> None:
        first, second = await e.session(), await e.session()
        assert first.session_id != second.session_id
        with pytest.raises(TimedOut):
            await first.events.get(1)

    run(body)
