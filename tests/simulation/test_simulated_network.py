"""Links, cuts and the failures of calls over them."""

from __future__ import annotations

import pytest

from highwater_core.ids import Endpoint
from highwater_core.ports import CallFailed
from highwater_simulator.calls import Carriage, Listener, Listeners, SimulatedTransport
from highwater_simulator.kernel import Kernel
from highwater_simulator.network import Network, Plane
from highwater_simulator.rng import SeededRng

ENDPOINT = Endpoint("server", 9092)
PLANE = Plane.REPLICATION
AS_IT_IS = Carriage(lambda request: request, lambda _, response: response)


class Pair:
    """A client and a server that answers each request with itself, after slow_ms."""

    def __init__(self) -> None:
        self.kernel = Kernel()
        self.network = Network(self.kernel, SeededRng(3))
        self.listeners = Listeners()
        self.client = self.kernel.runtime("client")
        self.server = self.kernel.runtime("server")
        self.transport = SimulatedTransport(self.client, self.network, self.listeners)
        self.arrived: list[str] = []
        self.answers: list[str] = []
        self.slow_ms = 0
        self.listen()

    def listen(self) -> None:
        self.listeners.listen(
            ENDPOINT, Listener(self.server, PLANE, self._handle, AS_IT_IS, answers_in_order=True)
        )

    async def _handle(self, request: str) -> str:
        self.arrived.append(request)
        await self.server.sleep(self.slow_ms)
        return request

    def ask(self, request: str, timeout_ms: int = 1_000) -> None:
        self.client.start(request, self._ask(request, timeout_ms))

    async def _ask(self, request: str, timeout_ms: int) -> None:
        try:
            answer = await self.transport.call(ENDPOINT, "c", request, timeout_ms)
        except CallFailed as failure:
            self.answers.append(f"{request} failed, sent={failure.sent}")
        else:
            self.answers.append(answer)

    def kill_server(self) -> None:
        self.server.kill()
        self.listeners.close(self.server)


@pytest.fixture
def pair() -> Pair:
    return Pair()


def test_messages_arrive_in_order_with_any_latency(pair: Pair) -> None:
    pipe, arrived = pair.network.pipe("a", "b", PLANE), []
    for number in range(50):
        pipe.send(lambda number=number: arrived.append(number))  # type: ignore[misc]
    pair.kernel.run_for(10)
    assert arrived == list(range(50))


def test_cut_link_holds_messages_until_it_is_healed(pair: Pair) -> None:
    pair.ask("a")
    pair.kernel.run_for(10)
    pair.network.cut("client", "server", PLANE)
    pair.ask("b")
    pair.ask("c")
    pair.kernel.run_for(100)
    assert pair.arrived == ["a"]
    pair.network.heal("client", "server", PLANE)
    pair.ask("d")
    pair.kernel.run_for(10)
    assert pair.arrived == pair.answers == ["a", "b", "c", "d"]


def test_call_over_a_link_cut_on_the_way_back_is_carried_out_and_times_out(pair: Pair) -> None:
    pair.ask("a")
    pair.kernel.run_for(10)
    pair.network.cut("server", "client", PLANE)
    pair.ask("b", timeout_ms=50)
    pair.kernel.run_for(100)
    assert pair.arrived == ["a", "b"]
    assert pair.answers == ["a", "b failed, sent=True"]


def test_call_that_timed_out_over_a_cut_link_may_be_carried_out_after_later_ones(
    pair: Pair,
) -> None:
    pair.ask("a")
    pair.kernel.run_for(10)
    pair.network.cut("client", "server", PLANE)
    pair.ask("late", timeout_ms=50)
    pair.kernel.run_for(100)
    pair.network.heal("client", "server", PLANE)
    pair.ask("next")
    pair.kernel.run_for(200)
    assert sorted(pair.arrived) == ["a", "late", "next"]
    assert pair.answers == ["a", "late failed, sent=True", "next"]


def test_cut_of_one_plane_leaves_the_others_alone(pair: Pair) -> None:
    pair.network.cut_both_ways("client", "server", Plane.CONTROL)
    pair.ask("a")
    pair.kernel.run_for(10)
    assert pair.answers == ["a"]


def test_connection_that_cannot_be_opened_in_time_sent_nothing(pair: Pair) -> None:
    pair.network.cut("client", "server", PLANE)
    pair.ask("a", timeout_ms=50)
    pair.kernel.run_for(100)
    pair.network.heal_all()
    pair.kernel.run_for(100)
    assert pair.answers == ["a failed, sent=False"]
    assert pair.arrived == []


def test_call_in_flight_to_a_peer_that_is_killed_fails_and_the_next_is_refused(pair: Pair) -> None:
    pair.slow_ms = 1_000
    pair.ask("a")
    pair.kernel.run_for(10)
    pair.kill_server()
    pair.kernel.run_for(10)
    assert pair.answers == ["a failed, sent=True"]
    pair.ask("b")
    pair.kernel.run_for(10)
    assert pair.answers[-1] == "b failed, sent=False"
    assert pair.arrived == ["a"]


def test_answer_held_by_a_cut_link_is_lost_with_the_one_who_sent_it(pair: Pair) -> None:
    pair.ask("a")
    pair.kernel.run_for(10)
    pair.network.cut("server", "client", PLANE)
    pair.ask("b", timeout_ms=5_000)
    pair.kernel.run_for(10)
    pair.kill_server()
    pair.network.heal_all()
    pair.kernel.run_for(100)
    assert pair.arrived == ["a", "b"]
    assert pair.answers == ["a", "b failed, sent=True"]


def test_restarted_peer_is_reached_again(pair: Pair) -> None:
    pair.kill_server()
    pair.server = pair.kernel.runtime("server")
    pair.listen()
    pair.ask("a")
    pair.kernel.run_for(10)
    assert pair.answers == ["a"]


def test_paused_peer_answers_when_it_resumes(pair: Pair) -> None:
    pair.server.pause()
    pair.ask("a", timeout_ms=10_000)
    pair.kernel.run_for(500)
    assert pair.answers == []
    pair.server.resume()
    pair.kernel.run_for(10)
    assert pair.answers == ["a"]


def test_traffic_on_one_link_does_not_shift_the_latencies_of_another() -> None:
    def arrival(noise: bool) -> int:
        kernel = Kernel()
        network = Network(kernel, SeededRng(5))
        if noise:
            network.pipe("x", "y", PLANE).send(lambda: None)
        arrived: list[int] = []
        network.pipe("a", "b", PLANE).send(lambda: arrived.append(kernel.now_ns()))
        kernel.run_for(10)
        return arrived[0]

    assert arrival(noise=False) == arrival(noise=True)
