"""Slow and lossy links, reset and half-open connections: TCP repairs some, users see others."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from highwater_core.ids import Endpoint
from highwater_core.ports import CallFailed
from highwater_simulator.calls import (
    KEEPALIVE_PERCENT,
    Carriage,
    Listener,
    Listeners,
    SimulatedControlPlane,
    SimulatedTransport,
)
from highwater_simulator.clocks import NS_PER_MS
from highwater_simulator.kernel import Kernel
from highwater_simulator.network import (
    MAX_RETRANSMISSIONS,
    RETRANSMISSION_TIMEOUT_MS,
    EvenLatency,
    HeavyTailedLatency,
    Latency,
    Network,
    Plane,
)
from highwater_simulator.rng import SeededRng
from highwater_simulator.tasks import NodeRuntime

DATA, CONTROL = Plane.REPLICATION, Plane.CONTROL
DATA_AT, CONTROL_AT = Endpoint("server", 1), Endpoint("server", 2)
AS_IT_IS = Carriage(lambda request: request, lambda _, response: response)
CALL_MS = 5_000
CALLS_UNTIL_GIVEN_UP = -(-KEEPALIVE_PERCENT // 100)
LOST_AT_MOST_MS = RETRANSMISSION_TIMEOUT_MS * (2**MAX_RETRANSMISSIONS - 1)


class Pair:
    """A client and a server that answers each request with itself, on both planes."""

    def __init__(self, seed: int = 3) -> None:
        self.kernel = Kernel()
        self.network = Network(self.kernel, SeededRng(seed))
        self.listeners = Listeners()
        self.client = self.kernel.runtime("client")
        self.server = self.kernel.runtime("server")
        self.transport = SimulatedTransport(self.client, self.network, self.listeners)
        self.control = self._control_plane(self.client, Endpoint("client", 2))
        self.slow_ms = 0
        self.arrived: list[str] = []
        self.answers: list[str] = []
        self.listeners.listen(
            DATA_AT, Listener(self.server, DATA, self._handle, AS_IT_IS, answers_in_order=True)
        )
        self._control_plane(self.server, CONTROL_AT).serve(self._handle)  # type: ignore[arg-type]

    def _control_plane(self, runtime: NodeRuntime, at: Endpoint) -> SimulatedControlPlane:
        return SimulatedControlPlane(runtime, self.network, self.listeners, at, AS_IT_IS)

    async def _handle(self, request: str) -> str:
        self.arrived.append(request)
        await self.server.sleep(self.slow_ms)
        return request

    def ask(self, request: str, timeout_ms: int = 1_000, connection: str = "c") -> None:
        self.client.start(
            request,
            self._answer(request, self.transport.call(DATA_AT, connection, request, timeout_ms)),
        )

    def command(self, request: str, timeout_ms: int) -> None:
        call = self.control.call(CONTROL_AT, request, timeout_ms)  # type: ignore[arg-type]
        self.client.start(request, self._answer(request, call))

    async def _answer(self, request: str, call: Coroutine[Any, Any, Any]) -> None:
        try:
            self.answers.append(await call)
        except CallFailed as failure:
            self.answers.append(f"{request} failed, sent={failure.sent}")


@pytest.fixture
def pair() -> Pair:
    return Pair()


# ---------------------------------------------------------------- latencies


@pytest.mark.parametrize(
    ("latency", "median_ns", "share_beyond", "largest_ns"),
    [
        (EvenLatency(100_000, 600_000), 350_000, 0.0, 600_001),
        (HeavyTailedLatency(100_000, 600_000), 133_333, 1 / 16, 137_000_000),
    ],
)
def test_latencies_have_the_median_and_the_tail_that_they_say(
    latency: Latency, median_ns: int, share_beyond: float, largest_ns: int
) -> None:
    rng = SeededRng(1)
    drawn = sorted(latency.draw_ns(rng) for _ in range(20_000))
    assert drawn[0] >= 100_000
    assert drawn[10_000] == pytest.approx(median_ns, rel=0.03)
    assert sum(each >= 600_000 for each in drawn) / 20_000 == pytest.approx(share_beyond, abs=0.01)
    assert drawn[-1] <= latency.maximum_ns + latency.tail_ns < largest_ns


def test_one_link_may_have_a_nature_of_its_own(pair: Pair) -> None:
    pair.network.link("client", "server", DATA).latency = EvenLatency(50_000_000, 50_000_001)
    pair.ask("a")
    pair.kernel.run_for(99)
    assert pair.arrived == []
    pair.kernel.run_for(5)
    assert pair.answers == ["a"]


# ---------------------------------------------------------------- loss and slowness


def arrivals(arm: Callable[[Network], None], count: int = 200) -> list[tuple[int, int]]:
    """Return each message's number and delay, sent 1 ms apart, in the order of arrival."""
    kernel = Kernel()
    network = Network(kernel, SeededRng(4))
    pipe = network.pipe("a", "b", DATA)
    arm(network)
    arrived: list[tuple[int, int]] = []
    for number in range(count):
        sent_ns = kernel.time_ns
        pipe.send(lambda n=number, s=sent_ns: arrived.append((n, kernel.time_ns - s)))  # type: ignore[misc]
        kernel.run_for(1)
    kernel.run_for(60_000)
    return arrived


def test_lost_segment_arrives_when_it_is_sent_again_and_keeps_later_ones_waiting() -> None:
    arrived = arrivals(lambda network: network.lose("a", "b", DATA, 50))
    delays_ns = [delay_ns for _, delay_ns in arrived]
    assert [number for number, _ in arrived] == list(range(200))
    assert max(delays_ns) > 3 * RETRANSMISSION_TIMEOUT_MS * NS_PER_MS
    assert max(delays_ns) <= LOST_AT_MOST_MS * NS_PER_MS + 600_000


def test_timeout_of_a_segment_doubles_with_each_loss() -> None:
    kernel = Kernel()
    network = Network(kernel, SeededRng(2))
    network.lose("a", "b", DATA, 60)
    timeouts = {
        (network.link("a", "b", DATA).arrival_ns()) // (RETRANSMISSION_TIMEOUT_MS * NS_PER_MS)
        for _ in range(500)
    }
    assert sorted(timeouts) == [0, 1, 3, 7, 15, 31]


def test_link_that_loses_in_one_direction_only_delays_that_one(pair: Pair) -> None:
    pair.network.lose("server", "client", DATA, 99)
    pair.ask("a", timeout_ms=100)
    pair.kernel.run_for(50)
    assert (pair.arrived, pair.answers) == ([], [])  # the handshake's answer is under way
    pair.network.lose("server", "client", DATA, 0)
    pair.ask("b", connection="d")
    pair.kernel.run_for(10)
    assert pair.answers == ["b"]


def test_retransmission_of_one_who_died_never_arrives(pair: Pair) -> None:
    arrived: list[str] = []
    pipe = pair.network.pipe("client", "server", DATA, pair.client)
    pair.network.lose("client", "server", DATA, 99)
    pipe.send(lambda: arrived.append("a"))
    pair.kernel.run_for(50)
    pair.client.kill()
    pair.kernel.run_for(LOST_AT_MOST_MS)
    assert arrived == []


def test_slow_link_adds_its_latency_and_jitter_until_it_is_sped_up() -> None:
    plain = arrivals(lambda _: None)
    slow = arrivals(lambda network: network.slow_down("a", "b", DATA, 50))
    assert [(number, delay_ns - 50 * NS_PER_MS) for number, delay_ns in slow] == plain
    jittered = [ns for _, ns in arrivals(lambda network: network.slow_down("a", "b", DATA, 5, 20))]
    assert min(jittered) >= 5 * NS_PER_MS
    assert 20 * NS_PER_MS < max(jittered) <= 25 * NS_PER_MS + 600_000


def test_fault_that_is_over_has_shifted_no_latency_of_its_link() -> None:
    def faulty_for_one(network: Network) -> None:
        network.slow_down("a", "b", DATA, 50, 50)
        network.lose("a", "b", DATA, 50)
        network.link("a", "b", DATA).arrival_ns()
        network.heal_all()

    def whole(network: Network) -> None:
        network.link("a", "b", DATA).arrival_ns()

    assert arrivals(faulty_for_one) == arrivals(whole)


def test_all_faults_are_described_until_all_are_healed(pair: Pair) -> None:
    network = pair.network
    assert network.describe() == []
    network.cut_both_ways("a", "b", CONTROL)
    network.slow_down("a", "b", DATA, 5, 10)
    network.lose("a", "b", DATA, 30)
    network.lose("b", "a", CONTROL, 7)
    assert network.describe() == [
        "a -> b : control: cut",
        "b -> a : control: cut, loses 7 %",
        "a -> b : replication: slower by 5 to 15 ms, loses 30 %",
    ]
    network.heal("a", "b", CONTROL)
    network.speed_up("a", "b", DATA)
    assert network.describe() == [
        "b -> a : control: cut, loses 7 %",
        "a -> b : replication: loses 30 %",
    ]
    network.heal_all()
    assert network.describe() == []
    assert network.is_connected("a", "b", CONTROL)


# ---------------------------------------------------------------- broken connections


def test_reset_fails_calls_on_the_connection_and_the_next_call_opens_another(pair: Pair) -> None:
    pair.slow_ms = 50
    pair.ask("a")
    pair.kernel.run_for(10)
    pair.network.reset_connections("server", "client", DATA)
    pair.kernel.run_for(0)
    assert (pair.arrived, pair.answers) == (["a"], ["a failed, sent=True"])
    pair.ask("b")
    pair.kernel.run_for(100)
    assert (pair.arrived, pair.answers[1:]) == (["a", "b"], ["b"])


def test_reset_loses_a_call_under_way_and_fails_an_unsent_one_as_not_sent(pair: Pair) -> None:
    pair.network.slow_down("client", "server", DATA, 50)
    pair.ask("a", connection="opening")
    pair.kernel.run_for(10)
    pair.network.reset_connections("client", "server", DATA)
    pair.kernel.run_for(1_000)
    assert (pair.arrived, pair.answers) == ([], ["a failed, sent=False"])
    pair.ask("b")
    pair.kernel.run_for(60)
    pair.network.reset_connections("client", "server", DATA)
    pair.kernel.run_for(1_000)
    assert (pair.arrived, pair.answers[1:]) == ([], ["b failed, sent=True"])


def test_reset_on_one_plane_leaves_the_others_alone(pair: Pair) -> None:
    pair.slow_ms = 50
    pair.ask("a")
    pair.kernel.run_for(10)
    pair.network.reset_connections("client", "server", CONTROL)
    pair.kernel.run_for(100)
    assert pair.answers == ["a"]


def test_a_call_on_a_half_open_connection_ends_with_its_own_timeout(
    pair: Pair,
) -> None:
    pair.ask("a")
    pair.kernel.run_for(10)
    pair.network.break_half_open("client", "server", DATA)
    pair.ask("b", timeout_ms=500)
    pair.kernel.run_for(499)
    assert pair.answers == ["a"]
    pair.kernel.run_for(10)
    assert pair.answers == ["a", "b failed, sent=True"]
    pair.ask("c")
    pair.kernel.run_for(10)
    assert pair.arrived == pair.answers[::2] == ["a", "c"]


def test_answers_over_a_connection_that_the_one_who_opened_it_forgot_disappear(pair: Pair) -> None:
    pair.slow_ms = 50
    pair.ask("a")
    pair.kernel.run_for(10)
    pair.network.break_half_open("server", "client", DATA)
    pair.kernel.run_for(100)
    assert (pair.arrived, pair.answers) == (["a"], ["a failed, sent=True"])


def test_control_calls_over_a_half_open_connection_time_out_until_a_keepalive_ends_it(
    pair: Pair,
) -> None:
    pair.command("a", 1_000)
    pair.kernel.run_for(10)
    pair.network.break_half_open("client", "server", CONTROL)
    for _ in range(CALLS_UNTIL_GIVEN_UP):
        pair.command("b", CALL_MS)
        pair.kernel.run_for(CALL_MS)
    pair.command("c", CALL_MS)
    pair.kernel.run_for(10)
    assert pair.answers == ["a", *["b failed, sent=True"] * CALLS_UNTIL_GIVEN_UP, "c"]
    assert pair.arrived == ["a", "c"]


def test_slow_handler_is_no_reason_to_give_a_control_connection_up(pair: Pair) -> None:
    pair.slow_ms = 1_000
    pair.command("a", 100)
    pair.kernel.run_for(500)
    pair.command("b", 100)
    pair.command("c", 1_500)
    pair.kernel.run_for(2_000)
    assert pair.arrived == ["a", "b", "c"]
    assert pair.answers == ["a failed, sent=True", "b failed, sent=True", "c"]


# ---------------------------------------------------------------- late first copies


def test_command_given_up_on_a_cut_link_may_arrive_after_its_repetition_and_later_ones() -> None:
    """A StopReplica's first copy is handled after the next LeaderAndIsr. Source: KAFKA-9539."""
    outcomes: list[bool] = []
    for seed in range(12):
        pair = Pair(seed)
        pair.command("hello", 5_000)
        pair.kernel.run_for(10)
        pair.network.cut("client", "server", CONTROL)
        for _ in range(CALLS_UNTIL_GIVEN_UP):
            pair.command("stop", CALL_MS)
            pair.kernel.run_for(CALL_MS)
        pair.command("stop", CALL_MS)
        pair.kernel.run_for(10)
        pair.network.heal_all()
        pair.kernel.run_for(10)
        assert pair.answers[-1] == "stop"
        pair.command("start", CALL_MS)
        pair.kernel.run_for(4 * CALL_MS)
        copies = CALLS_UNTIL_GIVEN_UP + 1
        assert sorted(pair.arrived) == ["hello", "start", *["stop"] * copies]
        outcomes.append(pair.arrived[-1] == "stop")
    assert any(outcomes)
    assert not all(outcomes)


def test_node_that_was_stopped_reads_its_connections_in_an_order_of_chance() -> None:
    first: list[str] = []
    for seed in range(12):
        pair = Pair(seed)
        for name in "ab":
            pair.ask(f"hello {name}", connection=name)
        pair.kernel.run_for(10)
        pair.arrived.clear()
        pair.server.pause()
        for request in ("a1", "b1", "a2", "b2"):
            pair.ask(request, timeout_ms=10_000, connection=request[0])
            pair.kernel.run_for(10)
        pair.server.resume()
        pair.ask("a3", connection="a")
        pair.kernel.run_for(100)
        assert sorted(pair.arrived) == ["a1", "a2", "a3", "b1", "b2"]
        for name in "ab":
            of_one = [request for request in pair.arrived if request[0] == name]
            assert of_one == sorted(of_one)
        first.append(pair.arrived[0])
    assert sorted(set(first)) == ["a1", "b1"]
