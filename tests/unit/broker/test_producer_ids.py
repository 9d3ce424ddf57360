"""How brokers take blocks of producer ids, so that no id is given twice in a cluster."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from highwater_broker.current_session import CurrentSession
from highwater_broker.producer_ids import BLOCK_IDS, WAIT_MS, ProducerIds
from highwater_core.events import EventKind
from highwater_core.ids import NodeId
from highwater_core.ports import ConnectionLost, Coordination
from highwater_core.znodes import LATEST_PRODUCER_ID_BLOCK
from highwater_simulator.network import Network
from highwater_simulator.rng import SeededRng
from highwater_simulator.zookeeper import ZooKeeper
from highwater_simulator.zookeeper_session import SimulatedCoordinationFactory

from .conftest import Bench


class LosingSession:
    """A session whose next answers to conditional writes are lost after they were carried out."""

    def __init__(self, session: Coordination, losses: int) -> None:
        self._session = session
        self._losses = losses

    def __getattr__(self, name: str) -> object:
        return getattr(self._session, name)

    async def set(self, path: str, data: bytes, expected_version: int = -1) -> object:
        stat = await self._session.set(path, data, expected_version)
        if self._losses:
            self._losses -= 1
            raise ConnectionLost("no answer")
        return stat


class Scene:
    """A ZooKeeper and the brokers that take blocks there."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.zookeeper = ZooKeeper(bench.kernel, Network(bench.kernel, SeededRng(2)))
        self.current = CurrentSession()
        self.session: Coordination | None = None
        self.run(self._open())

    async def _open(self) -> None:
        factory = SimulatedCoordinationFactory(self.zookeeper, self.bench.runtime)
        self.session = await factory.open(6_000)
        self.current.put(self.session)

    def broker(self, number: int) -> ProducerIds:
        runtime = self.bench.runtime
        scope = runtime.scope(f"broker-{number}")
        return ProducerIds(self.current, runtime, scope, self.bench.ports.trace, NodeId(number))

    def ask(self, *brokers: ProducerIds) -> list[int | None]:
        """Return the ids that the brokers give when all are asked at once."""
        found: list[int | None] = []

        async def one(broker: ProducerIds) -> None:
            found.append(await broker.next_id())

        scope = self.bench.runtime.scope("producers")
        for broker in brokers:
            scope.spawn("ask", one(broker))
        self.bench.kernel.run_for(2 * WAIT_MS)
        return found

    def run(self, work: object) -> None:
        self.bench.runtime.scope("test").spawn("work", work)  # type: ignore[arg-type]
        self.bench.kernel.run_for(1_000)

    def content(self) -> str:
        found: list[bytes] = []

        async def read() -> None:
            assert self.session is not None
            found.append((await self.session.get(LATEST_PRODUCER_ID_BLOCK))[0])

        self.run(read())
        return found[0].decode()

    def write(self, data: bytes) -> None:
        async def write() -> None:
            assert self.session is not None
            await self.session.create(LATEST_PRODUCER_ID_BLOCK, data)

        self.run(write())

    def problems(self) -> list[str]:
        return [
            event.detail["what"]
            for event in self.bench.events
            if event.kind is EventKind.BAD_INPUT_MET
        ]


@pytest.fixture
def scene(make_bench: Callable[..., Bench]) -> Scene:
    return Scene(make_bench())


def test_the_first_block_is_written_in_kafkas_own_form(scene: Scene) -> None:
    assert scene.ask(scene.broker(3)) == [0]
    assert scene.content() == '{"version":1,"broker":3,"block_start":"0","block_end":"999"}'


def test_brokers_that_ask_at_once_get_blocks_of_their_own(scene: Scene) -> None:
    one, two = scene.broker(1), scene.broker(2)
    found = scene.ask(*[one, two] * BLOCK_IDS, one)
    assert len(set(found)) == len(found) == 2 * BLOCK_IDS + 1
    assert None not in found


def test_a_broker_that_starts_again_leaves_its_block_unused(scene: Scene) -> None:
    assert scene.ask(scene.broker(1)) == [0]
    assert scene.ask(scene.broker(1)) == [BLOCK_IDS]


def test_a_block_whose_write_has_no_answer_is_left_unused(scene: Scene) -> None:
    scene.ask(scene.broker(1))
    assert scene.session is not None
    scene.current.put(LosingSession(scene.session, 1))  # type: ignore[arg-type]
    broker = scene.broker(2)
    assert scene.ask(broker) == [None]
    assert scene.ask(broker) == [2 * BLOCK_IDS]


def test_nobody_waits_for_ever_for_a_zookeeper_that_cannot_be_reached(scene: Scene) -> None:
    scene.current.put(None)
    broker = scene.broker(1)
    assert scene.ask(broker, broker) == [None, None]
    assert "no session yet" in scene.problems()[0]
    scene.current.put(scene.session)
    assert scene.ask(broker) == [0]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b'{"version":1,"broker":0,"block_start":"0","block_end":"x"}',
        b'{"version":1,"broker":0,"block_start":"0","block_end":"-5"}',
        b'{"version":1,"broker":0,"block_start":"0","block_end":"9223372036854775000"}',
    ],
)
def test_a_block_that_cannot_be_read_or_continued_gives_no_ids_and_is_traced(
    scene: Scene, data: bytes
) -> None:
    scene.write(data)
    assert scene.ask(scene.broker(1)) == [None]
    assert scene.problems()
    assert scene.content() == data.decode()
