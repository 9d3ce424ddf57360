"""How a broker repeats requests to the active controller, and how often."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from highwater_broker.controller_client import BUSY_RETRY_MS, ControllerClient
from highwater_core.errors import ErrorCode
from highwater_core.ids import BrokerEpoch, ControllerEpoch, Endpoint, NodeId
from highwater_core.messages import (
    AlterPartitionRequest,
    ControlledShutdownRequest,
    ControllerCommand,
    CreateTopicsRequest,
    NewTopic,
    refusal,
)
from highwater_core.ports import CallFailed, NoNode

from .conftest import Bench

BUSY = ErrorCode.THROTTLING_QUOTA_EXCEEDED
RETRY_MS = 50
REQUEST = CreateTopicsRequest((NewTopic("t", 1, 1),))


class World:
    """An elected controller that answers with `answer`, and counts the requests."""

    def __init__(self, bench: Bench) -> None:
        self._runtime, self._kernel = bench.runtime, bench.kernel
        self.answer: Callable[[], ErrorCode] = lambda: ErrorCode.NONE
        self.asked = 0
        self.looked_up = 0
        self.is_zookeeper_silent = False
        self.is_elected = True
        self.ended: list[ErrorCode | CallFailed] = []
        self.elected = 1_000
        self.is_slow = False
        """Whether ZooKeeper takes 10 ms to answer."""
        self.silent: set[int] = set()
        """Controllers that do not answer."""
        self.asked_of: list[tuple[int, Any]] = []
        scope = self._runtime.scope("client")
        self.client = ControllerClient(self, self, self._runtime, scope, RETRY_MS)  # type: ignore[arg-type]

    def now_ms(self) -> int:
        return self._runtime.now_ms()

    def get(self, path: str | None = None) -> Any:
        return self if path is None else self._read(path)

    async def _read(self, path: str) -> tuple[bytes, None]:
        self.looked_up += path == "/controller"
        if self.is_zookeeper_silent:
            await self._runtime.event().wait()
        if not self.is_elected:
            raise NoNode(path)
        elected = self.elected
        if self.is_slow:
            await self._runtime.sleep(10)
        if path == "/controller":
            return f'{{"version":1,"brokerid":{elected},"timestamp":"0"}}'.encode(), None
        return f'{{"version":1,"host":"c","port":{path.split("/")[-1]}}}'.encode(), None

    async def call(self, endpoint: Endpoint, request: Any, timeout_ms: int) -> object:
        self.asked += 1
        self.asked_of.append((endpoint.port, request))
        await self._runtime.sleep(timeout_ms if endpoint.port in self.silent else 1)
        if endpoint.port in self.silent:
            raise CallFailed("no answer")
        return refusal(request, self.answer())

    def ask(
        self, count: int, *, timeout_ms: int, for_ms: int, request: ControllerCommand = REQUEST
    ) -> None:
        response_type = type(refusal(request, ErrorCode.NONE))

        async def one() -> None:
            try:
                response = await self.client.call(request, response_type, timeout_ms)  # type: ignore[type-var]
                self.ended.append(response.error)
            except CallFailed as failure:
                self.ended.append(failure)

        for _ in range(count):
            self._runtime.scope("asking").spawn("ask", one())
        self._kernel.run_for(for_ms)

    def all_ended_unsent(self, count: int) -> bool:
        """Return whether that many ended, each knowing that the controller carried nothing out."""
        unsent = [one for one in self.ended if isinstance(one, CallFailed) and not one.sent]
        return len(unsent) == len(self.ended) == count


@pytest.fixture
def world(make_bench: Callable[..., Bench]) -> World:
    return World(make_bench())


def test_a_busy_controller_is_asked_by_one_request_at_a_time(world: World) -> None:
    """Hundreds of clients wait, and each request may be large: their number must not matter."""
    freed_at_ms = world.now_ms() + 5_000
    world.answer = lambda: BUSY if world.now_ms() < freed_at_ms else ErrorCode.NONE
    world.ask(300, timeout_ms=120_000, for_ms=5_000)
    assert 300 < world.asked <= 300 + 5_000 / BUSY_RETRY_MS
    assert world.looked_up <= 300
    world.ask(0, timeout_ms=0, for_ms=300 * BUSY_RETRY_MS)
    assert world.ended == [ErrorCode.NONE] * 300


def test_a_controller_that_stays_busy_did_nothing(world: World) -> None:
    world.answer = lambda: BUSY
    world.ask(20, timeout_ms=1_000, for_ms=1_100)
    assert world.all_ended_unsent(20)


def test_those_that_give_up_do_not_delay_who_comes_after_them(world: World) -> None:
    world.answer = lambda: BUSY
    world.ask(1_000, timeout_ms=500, for_ms=600)
    world.answer = iter([BUSY, ErrorCode.NONE]).__next__
    world.ended.clear()
    world.ask(1, timeout_ms=5_000, for_ms=2 * BUSY_RETRY_MS)
    assert world.ended == [ErrorCode.NONE]


def test_a_controller_that_is_active_no_more_is_looked_up_again_soon(world: World) -> None:
    answers = [ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_CONTROLLER, ErrorCode.NONE]
    world.answer = lambda: answers.pop(0)
    world.ask(1, timeout_ms=1_000, for_ms=3 * RETRY_MS)
    assert world.ended == [ErrorCode.NONE]
    assert world.looked_up == 3


def test_a_silent_zookeeper_holds_nobody_longer_than_was_asked(world: World) -> None:
    """Found: a broker that was to stop waited for ZooKeeper without bound."""
    world.is_zookeeper_silent = True
    world.ask(3, timeout_ms=200, for_ms=210)
    assert world.all_ended_unsent(3)


def test_those_who_ask_at_once_share_one_look_up(world: World) -> None:
    world.ask(100, timeout_ms=1_000, for_ms=100)
    assert world.ended == [ErrorCode.NONE] * 100
    assert world.looked_up == 1


def test_a_look_up_that_failed_is_begun_anew(world: World) -> None:
    world.is_elected = False
    world.ask(1, timeout_ms=5_000, for_ms=1_000)
    world.is_elected = True
    world.ask(0, timeout_ms=0, for_ms=1_000)
    assert world.ended == [ErrorCode.NONE]


def test_a_controller_is_forgotten_once_another_commands_at_a_higher_epoch(world: World) -> None:
    """Found: one that only ZooKeeper could not reach was asked as long as it answered."""
    world.ask(1, timeout_ms=1_000, for_ms=100)
    world.elected = 1_001
    world.ask(1, timeout_ms=1_000, for_ms=100)
    world.client.commanded_by(NodeId(1_001), ControllerEpoch(2))
    world.ask(1, timeout_ms=1_000, for_ms=100)
    assert [controller for controller, _ in world.asked_of] == [1_000, 1_000, 1_001]
    assert world.ended == [ErrorCode.NONE] * 3


def test_a_call_to_a_deposed_controller_is_given_up(world: World) -> None:
    world.silent.add(1_000)
    world.ask(1, timeout_ms=60_000, for_ms=100)
    world.elected = 1_001
    world.client.commanded_by(NodeId(1_001), ControllerEpoch(2))
    world.ask(0, timeout_ms=0, for_ms=2 * RETRY_MS)
    assert [controller for controller, _ in world.asked_of] == [1_000, 1_001]
    assert world.ended == [ErrorCode.NONE]


def test_a_call_to_the_controller_that_begins_to_command_goes_on(world: World) -> None:
    """It is not sent again: a topic would be there already."""
    world.ask(1, timeout_ms=1_000, for_ms=0)
    world.client.commanded_by(NodeId(1_000), ControllerEpoch(1))
    world.ask(0, timeout_ms=0, for_ms=100)
    assert (world.asked, world.ended) == (1, [ErrorCode.NONE])


def test_an_earlier_controllers_command_changes_nothing(world: World) -> None:
    world.client.commanded_by(NodeId(1_000), ControllerEpoch(2))
    world.ask(1, timeout_ms=1_000, for_ms=100)
    world.client.commanded_by(NodeId(1_001), ControllerEpoch(1))
    world.ask(1, timeout_ms=1_000, for_ms=100)
    assert (world.asked, world.looked_up) == (2, 1)


def test_a_look_up_from_before_the_successors_command_is_not_believed(world: World) -> None:
    world.is_slow = True
    world.ask(1, timeout_ms=1_000, for_ms=5)
    world.elected = 1_001
    world.client.commanded_by(NodeId(1_001), ControllerEpoch(2))
    world.ask(0, timeout_ms=0, for_ms=200)
    assert [controller for controller, _ in world.asked_of] == [1_001]
    assert world.ended == [ErrorCode.NONE]


@pytest.mark.parametrize(
    "request_",
    [
        AlterPartitionRequest(NodeId(1), BrokerEpoch(7), ()),
        ControlledShutdownRequest(NodeId(1), BrokerEpoch(7)),
    ],
)
def test_requests_about_leads_tell_the_known_controller_epoch(
    world: World, request_: ControllerCommand
) -> None:
    world.client.commanded_by(NodeId(1_000), ControllerEpoch(3))
    world.ask(1, timeout_ms=1_000, for_ms=100, request=request_)
    ((_, sent),) = world.asked_of
    assert sent.controller_epoch == 3
