"""How large a request may be and which paths there are: the simulator's ZooKeeper and a real one.

The real one's address is in HIGHWATER_TEST_ZOOKEEPER (host:port).
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

import pytest

from highwater_adapters.coordination import KazooCoordinationFactory
from highwater_core.ports import (
    ConnectionLost,
    Coordination,
    CoordinationEvent,
    CoordinationEventKind,
    CoordinationFactory,
    CreateOp,
    NodeExists,
    NoNode,
    SetOp,
    TooLarge,
)
from highwater_core.request_sizes import (
    MAX_REQUEST_BYTES,
    SERVER_LIMIT_BYTES,
    size_of_create,
    size_of_multi,
)
from highwater_core.runtime import Runtime
from highwater_simulator.network import Network
from highwater_simulator.rng import SeededRng
from highwater_simulator.zookeeper import ZooKeeper
from highwater_simulator.zookeeper_session import SimulatedCoordinationFactory

SESSION_TIMEOUT_MS = 20_000
ESTABLISHED = CoordinationEvent(CoordinationEventKind.SESSION_ESTABLISHED)

Body = Callable[[Coordination, str], Coroutine[Any, Any, None]]


class Run(Protocol):
    def __call__(self, body: Body, max_request_bytes: int = MAX_REQUEST_BYTES) -> None:
        """Run the body in a session that sends nothing larger, under a root of its own."""


@pytest.fixture(params=["kernel", pytest.param("asyncio", marks=pytest.mark.docker)])
def run(request: pytest.FixtureRequest) -> Run:
    world = request.getfixturevalue(f"{request.param}_world")
    address = "" if request.param == "kernel" else request.getfixturevalue("zookeeper_address")

    def factory(runtime: Any, max_request_bytes: int) -> CoordinationFactory:
        if address:
            return KazooCoordinationFactory(address, max_request_bytes=max_request_bytes)
        server = ZooKeeper(world.kernel, Network(world.kernel, SeededRng(1)))
        return SimulatedCoordinationFactory(server, runtime, max_request_bytes)

    def run_body(body: Body, max_request_bytes: int = MAX_REQUEST_BYTES) -> None:
        async def with_session(runtime: Runtime) -> None:
            session = await factory(runtime, max_request_bytes).open(SESSION_TIMEOUT_MS)
            try:
                assert await session.events.get(5_000) == ESTABLISHED
                root = f"/limits-{uuid.uuid4().hex}"
                await session.create(root, b"")
                await body(session, root)
            finally:
                await session.close()

        world.run(with_session)

    return run_body


@pytest.fixture(scope="session")
def zookeeper_address(request: pytest.FixtureRequest) -> str:
    """Return the server that HIGHWATER_TEST_ZOOKEEPER names, else a container's."""
    named = os.environ.get("HIGHWATER_TEST_ZOOKEEPER", "")
    return named or str(request.getfixturevalue("highwater_zookeeper"))


def filled(path: str, size_bytes: int) -> CreateOp:
    """A creation that is, by itself, a request of just that size."""
    return CreateOp(path, bytes(size_bytes - size_of_create(path, b"")))


async def read(s: Coordination, path: str) -> bytes:
    """Read, also where the connection is just being lost."""
    while True:
        try:
            return (await s.get(path))[0]
        except ConnectionLost:
            continue


def test_what_is_too_large_is_not_sent_and_the_session_lives_on(run: Run) -> None:
    async def body(s: Coordination, root: str) -> None:
        path = f"{root}/a"
        fits = filled(path, MAX_REQUEST_BYTES)
        with pytest.raises(TooLarge):
            await s.create(path, fits.data + b"x")
        with pytest.raises(TooLarge):
            await s.multi([fits])
        long_path = f"{root}/{'x' * MAX_REQUEST_BYTES}"
        for call in (s.get, s.exists, s.children, s.delete):
            with pytest.raises(TooLarge):
                await call(long_path)
        assert await s.exists(path) is None
        assert await s.create(path, fits.data) == path
        with pytest.raises(TooLarge):
            await s.set(path, bytes(MAX_REQUEST_BYTES))
        assert (await s.get(path))[0] == fits.data
        assert len(s.events) == 0

    run(body)


def test_a_multi_of_the_largest_size_is_carried_out(run: Run) -> None:
    async def body(s: Coordination, root: str) -> None:
        operations = [CreateOp(f"{root}/{number}", b"") for number in range(2_000)]
        left_bytes = MAX_REQUEST_BYTES - size_of_multi(operations)
        assert left_bytes > 0
        operations[-1] = CreateOp(operations[-1].path, bytes(left_bytes))
        assert size_of_multi(operations) == MAX_REQUEST_BYTES
        await s.multi(operations)
        assert len(await s.children(root)) == 2_000

    run(body)


def test_a_server_closes_the_connection_that_sends_more_than_it_reads(run: Run) -> None:
    """What a node would meet that does not ask: again and again, and its session lives."""

    async def body(s: Coordination, root: str) -> None:
        path = f"{root}/a"
        largest = filled(path, SERVER_LIMIT_BYTES)
        await s.create(path, largest.data)
        for _ in range(2):
            with pytest.raises(ConnectionLost):
                await s.multi([SetOp(path, bytes(SERVER_LIMIT_BYTES))])
            assert await read(s, path) == largest.data
        with pytest.raises(ConnectionLost):
            await s.create(f"{root}/b", largest.data + b"x")
        assert await read(s, path) == largest.data
        assert await s.children(root) == ["a"]

    run(body, max_request_bytes=2 * SERVER_LIMIT_BYTES)


def test_a_list_of_children_may_be_larger_than_a_request(run: Run) -> None:
    """A server bounds what it reads, not what it answers, and the client library takes it."""

    async def body(s: Coordination, root: str) -> None:
        names = sorted(f"{number:04}{'x' * 245}" for number in range(4_500))
        for first in range(0, len(names), 1_500):
            some = names[first : first + 1_500]
            await s.multi([CreateOp(f"{root}/{name}", b"") for name in some])
        assert sum(map(len, names)) > SERVER_LIMIT_BYTES
        assert await s.children(root) == names

    run(body)


@pytest.mark.parametrize("part", ["..", "."])
def test_a_path_that_is_allowed_nowhere_does_not_exist(run: Run, part: str) -> None:
    async def body(s: Coordination, root: str) -> None:
        for path in (f"{root}/{part}", f"{root}/{part}/a"):
            assert await s.exists(path) is None
            for call in (s.get, s.children, s.delete):
                with pytest.raises(NoNode):
                    await call(path)
            with pytest.raises(NoNode):
                await s.create(path, b"")
        await s.create(f"{root}/a b", b"")
        with pytest.raises(NodeExists):
            await s.create(f"{root}/a b", b"")

    run(body)
