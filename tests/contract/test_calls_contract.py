"""What node code may rely on of Transport and ControlPlane: one suite for the simulator's calls,
Kafka's protocol over TCP, and gRPC."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Protocol

import pytest

from highwater_adapters.asyncio_runtime import AsyncioRuntime
from highwater_adapters.control_plane import GrpcControlPlane
from highwater_adapters.tcp_server import ConnectionContext, KafkaListener, ListenerSpec
from highwater_adapters.tcp_transport import TcpTransport
from highwater_core.admin_messages import TopicResult
from highwater_core.errors import ErrorCode
from highwater_core.ids import Endpoint, NodeId
from highwater_core.messages import DeleteTopicsRequest, DeleteTopicsResponse
from highwater_core.ports import CallFailed, ControlPlane, Transport
from highwater_core.runtime import Runtime
from highwater_core.traces import TraceRecorder
from highwater_simulator.calls import Listener, Listeners, SimulatedControlPlane, SimulatedTransport
from highwater_simulator.carriage import CONTROL_BY_CODEC, KAFKA_BY_CODEC
from highwater_simulator.network import Network, Plane
from highwater_simulator.rng import SeededRng
from highwater_simulator.tasks import NodeRuntime
from highwater_wire.kafka.committed_messages import (
    GroupToFetch,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from highwater_wire.kafka.messages import (
    HangUp,
    KafkaAnswer,
    MetadataRequest,
    MetadataResponse,
    ProducePartition,
    ProduceRequest,
)

LONG_MS = 10_000

Work = Callable[[str], Awaitable[None]]


class Stage:
    """A server that does `work` for each request, and a client that calls it.

    Each request carries a name; the answer gives it back.
    """

    def __init__(self, runtime: Runtime, server_runtime: Runtime) -> None:
        self.runtime = runtime
        self.server_runtime = server_runtime
        self.transport: Transport
        self.control: ControlPlane
        self.kafka_endpoint: Endpoint
        self.control_endpoint: Endpoint
        self.nowhere: Endpoint
        self.reset_kafka_connections: Callable[[], None]
        self.arrived: list[str] = []
        self.carried_out: list[str] = []
        self.slow_ms: dict[str, int] = {}
        self.sent_away: set[str] = set()
        """Who asks that over Kafka's protocol gets no answer, and has to ask somebody else."""

    async def serve(self, name: str) -> None:
        self.arrived.append(name)
        await self.server_runtime.sleep(self.slow_ms.get(name, 0))
        self.carried_out.append(name)

    async def serve_kafka(self, request: Any) -> KafkaAnswer:
        if isinstance(request, OffsetCommitRequest):
            await self.serve(request.group_id)
            return OffsetCommitResponse(())
        if isinstance(request, OffsetFetchRequest):
            await self.serve(request.groups[0].group_id)
            return OffsetFetchResponse(())
        if isinstance(request, ProduceRequest):
            await self.serve(request.partitions[0].topic)
            return None
        assert request.topics is not None
        await self.serve(request.topics[0])
        if request.topics[0] in self.sent_away:
            return HangUp("ask another")
        return MetadataResponse((), request.topics[0], NodeId(1), ())

    async def serve_control(self, request: Any) -> DeleteTopicsResponse:
        assert isinstance(request, DeleteTopicsRequest)
        await self.serve(request.names[0])
        result = TopicResult(request.names[0], ErrorCode.NONE)
        return DeleteTopicsResponse(ErrorCode.NONE, (result,))

    async def ask_kafka(
        self, name: str, timeout_ms: int = LONG_MS, connection: str = "c"
    ) -> str | None:
        request = MetadataRequest((name,))
        response: MetadataResponse = await self.transport.call(
            self.kafka_endpoint, connection, request, timeout_ms
        )
        return response.cluster_id

    async def ask_control(self, name: str, timeout_ms: int = LONG_MS) -> str | None:
        response = await self.control.call(
            self.control_endpoint, DeleteTopicsRequest((name,)), timeout_ms
        )
        assert isinstance(response, DeleteTopicsResponse)
        return response.results[0].name

    async def ask_all(self, ask: Callable[[str], Awaitable[str | None]], names: str) -> list[str]:
        """Ask for each name at once; return the answers in the order in which they came."""
        answers: list[str] = []

        async def one(name: str) -> None:
            try:
                answers.append(str(await ask(name)))
            except CallFailed as failure:
                answers.append(f"{name} failed, sent={failure.sent}")

        scope = self.runtime.scope("asking")
        for name in names:
            scope.spawn(f"ask-{name}", one(name))
        await self.until(lambda: len(answers) == len(names))
        return answers

    async def until(self, condition: Callable[[], bool]) -> None:
        for _ in range(1_000):
            if condition():
                return
            await self.runtime.sleep(5)
        raise AssertionError(f"arrived {self.arrived}, carried out {self.carried_out}")


Body = Callable[[Stage], Coroutine[Any, Any, None]]
Run = Callable[[Body], None]


class World(Protocol):
    name: str

    def run(self, body: Callable[[Runtime], Coroutine[Any, Any, None]]) -> None: ...


def simulated_stage(world: Any, runtime: NodeRuntime) -> Stage:
    server = world.kernel.runtime("server")
    network = Network(world.kernel, SeededRng(1))
    listeners = Listeners()
    stage = Stage(runtime, server)
    stage.kafka_endpoint, stage.control_endpoint = Endpoint("server", 1), Endpoint("server", 2)
    stage.nowhere = Endpoint("server", 3)
    listeners.listen(
        stage.kafka_endpoint,
        Listener(server, Plane.CLIENT, stage.serve_kafka, KAFKA_BY_CODEC, answers_in_order=True),
    )
    SimulatedControlPlane(
        server, network, listeners, stage.control_endpoint, CONTROL_BY_CODEC
    ).serve(stage.serve_control)
    stage.reset_kafka_connections = lambda: network.reset_connections(
        runtime.node_name, "server", Plane.CLIENT
    )
    stage.transport = SimulatedTransport(runtime, network, listeners)
    stage.control = SimulatedControlPlane(
        runtime, network, listeners, Endpoint("node", 2), CONTROL_BY_CODEC
    )
    return stage


@asynccontextmanager
async def real_stage(runtime: AsyncioRuntime) -> AsyncIterator[Stage]:
    stage = Stage(runtime, runtime)
    trace = TraceRecorder(runtime, 0, 1, lambda _: None)

    async def serve(request: Any, _: ConnectionContext) -> KafkaAnswer:
        return await stage.serve_kafka(request)

    spec = ListenerSpec("CLIENT", 0, serve, host="127.0.0.1")
    listener = KafkaListener(spec, trace, runtime.fail)
    closed = KafkaListener(spec, trace, runtime.fail)
    server, client = (GrpcControlPlane(trace, runtime.fail) for _ in range(2))
    server.serve(stage.serve_control)
    transport = TcpTransport("test")
    await listener.start()
    await closed.start()
    await server.start("127.0.0.1", 0)
    stage.kafka_endpoint = Endpoint("127.0.0.1", listener.port)
    stage.control_endpoint = Endpoint("127.0.0.1", server.port)
    stage.nowhere = Endpoint("127.0.0.1", closed.port)
    await closed.stop()

    def reset() -> None:
        for connection in tuple(listener._connections):
            connection._transport.abort()

    stage.reset_kafka_connections = reset
    stage.transport, stage.control = transport, client
    try:
        yield stage
    finally:
        transport.close()
        await client.stop()
        await listener.stop()
        await server.stop()


@pytest.fixture
def run(world: World) -> Run:
    """Run a body on a stage of the world that the test is in."""

    async def on_stage(runtime: Runtime, body: Body) -> None:
        if isinstance(runtime, NodeRuntime):
            await body(simulated_stage(world, runtime))
        else:
            assert isinstance(runtime, AsyncioRuntime)
            async with real_stage(runtime) as stage:
                await body(stage)

    return lambda body: world.run(lambda runtime: on_stage(runtime, body))


# ---------------------------------------------------------------- Transport


def test_requests_of_one_connection_are_handed_over_and_answered_in_order(run: Run) -> None:
    async def body(stage: Stage) -> None:
        stage.slow_ms = {"a": 40, "c": 20}
        assert await stage.ask_all(stage.ask_kafka, "abcdef") == list("abcdef")
        assert stage.arrived == list("abcdef")
        assert stage.carried_out == list("bdefca")

    run(body)


def test_groups_requests_behind_a_commit_are_handed_over_when_it_is_answered(run: Run) -> None:
    """Kafka hands over one request of a connection at a time."""

    async def body(stage: Stage) -> None:
        stage.slow_ms = {"first": 40, "second": 20}
        requests = [
            OffsetCommitRequest("first", ()),
            OffsetCommitRequest("second", ()),
            OffsetFetchRequest((GroupToFetch("fetch", ()),)),
            MetadataRequest(("other",)),
        ]
        answered: list[int] = []

        async def ask(number: int) -> None:
            await stage.transport.call(stage.kafka_endpoint, "c", requests[number], LONG_MS)
            answered.append(number)

        scope = stage.runtime.scope("asking")
        for number in range(len(requests)):
            scope.spawn("ask", ask(number))
        await stage.until(lambda: len(answered) == len(requests))
        assert stage.arrived == ["first", "other", "second", "fetch"]
        assert stage.carried_out == ["other", "first", "second", "fetch"]
        assert answered == [0, 1, 2, 3]

    run(body)


def test_a_commit_whose_connection_ends_lets_the_requests_of_the_next_one_begin(run: Run) -> None:
    async def body(stage: Stage) -> None:
        stage.slow_ms = {"first": 10_000}

        async def ask(name: str, timeout_ms: int) -> None:
            request = OffsetCommitRequest(name, ())
            await stage.transport.call(stage.kafka_endpoint, "c", request, timeout_ms)

        assert await stage.ask_kafka("open") == "open"
        asked = stage.runtime.scope("asking")
        failed: list[str] = []

        async def fail(name: str, timeout_ms: int) -> None:
            with pytest.raises(CallFailed):
                await ask(name, timeout_ms)
            failed.append(name)

        asked.spawn("first", fail("first", 50))
        asked.spawn("behind", fail("behind", LONG_MS))
        await stage.until(lambda: sorted(failed) == ["behind", "first"])
        await ask("next", LONG_MS)
        assert stage.arrived == ["open", "first", "next"]

    run(body)


def test_connections_of_other_names_do_not_wait_for_each_other(run: Run) -> None:
    async def body(stage: Stage) -> None:
        stage.slow_ms = {"a": 100}

        async def ask(name: str) -> str | None:
            return await stage.ask_kafka(name, connection=name)

        assert await stage.ask_all(ask, "ab") == ["b", "a"]

    run(body)


def test_kafka_call_that_timed_out_was_sent_and_has_begun(run: Run) -> None:
    """Its handler is cancelled once the server learns that the connection has ended."""

    async def body(stage: Stage) -> None:
        assert await stage.ask_kafka("first") == "first"
        stage.slow_ms = {"late": 100}
        with pytest.raises(CallFailed) as failure:
            await stage.ask_kafka("late", timeout_ms=30)
        assert failure.value.sent
        assert "late" in stage.arrived
        assert "late" not in stage.carried_out
        assert await stage.ask_kafka("next") == "next"

    run(body)


def test_kafka_call_that_timed_out_takes_all_on_its_connection_along(run: Run) -> None:
    async def body(stage: Stage) -> None:
        stage.slow_ms = {"a": 10_000}

        async def ask(name: str) -> str | None:
            return await stage.ask_kafka(name, timeout_ms=50 if name == "a" else LONG_MS)

        answers = await stage.ask_all(ask, "ab")
        assert sorted(answers) == ["a failed, sent=True", "b failed, sent=True"]
        assert await stage.ask_kafka("c") == "c"

    run(body)


def test_request_without_a_response_returns_once_sent_and_the_next_is_answered(run: Run) -> None:
    async def body(stage: Stage) -> None:
        stage.slow_ms = {"unanswered": 50}
        request = ProduceRequest(0, 1_000, (ProducePartition("unanswered", 0, b"records"),))
        for _ in range(2):  # as the connection's first request, and on an open one
            answer = await stage.transport.call(stage.kafka_endpoint, "c", request, LONG_MS)
            assert answer is None
            assert stage.carried_out.count("unanswered") < 2
        assert await stage.ask_kafka("next") == "next"
        assert stage.carried_out.count("unanswered") == 2

    run(body)


def test_request_without_a_response_to_nobody_was_never_sent(run: Run) -> None:
    async def body(stage: Stage) -> None:
        request = ProduceRequest(0, 1_000, (ProducePartition("t", 0, b"records"),))
        with pytest.raises(CallFailed) as failure:
            await stage.transport.call(stage.nowhere, "c", request, LONG_MS)
        assert not failure.value.sent

    run(body)


def test_kafka_call_to_nobody_was_never_sent(run: Run) -> None:
    async def body(stage: Stage) -> None:
        stage.kafka_endpoint = stage.nowhere
        with pytest.raises(CallFailed) as failure:
            await stage.ask_kafka("a")
        assert not failure.value.sent

    run(body)


def test_who_is_sent_away_gets_the_answers_to_what_was_asked_before_and_may_connect_again(
    run: Run,
) -> None:
    async def body(stage: Stage) -> None:
        stage.slow_ms["a"] = 100
        stage.sent_away.add("b")
        answers = await stage.ask_all(stage.ask_kafka, "abc")
        assert answers == ["a", "b failed, sent=True", "c failed, sent=True"]
        assert await stage.ask_kafka("d") == "d"

    run(body)


def test_disconnect_fails_the_calls_in_flight_and_the_next_one_connects_again(run: Run) -> None:
    async def body(stage: Stage) -> None:
        stage.slow_ms = {"a": 10_000}
        failures: list[bool] = []

        async def ask() -> None:
            try:
                await stage.ask_kafka("a")
            except CallFailed as failure:
                failures.append(failure.sent)

        stage.runtime.scope("asking").spawn("ask", ask())
        await stage.until(lambda: stage.arrived == ["a"])
        stage.transport.disconnect(stage.kafka_endpoint, "c")
        stage.transport.disconnect(stage.kafka_endpoint, "unknown")
        await stage.until(lambda: failures == [True])
        assert await stage.ask_kafka("b") == "b"

    run(body)


def test_reset_fails_the_calls_in_flight_and_the_next_are_answered(run: Run) -> None:
    async def body(stage: Stage) -> None:
        stage.slow_ms = {"a": 100}
        failures: list[bool] = []

        async def ask() -> None:
            try:
                await stage.ask_kafka("a")
            except CallFailed as failure:
                failures.append(failure.sent)

        stage.runtime.scope("asking").spawn("ask", ask())
        await stage.until(lambda: stage.arrived == ["a"])
        stage.reset_kafka_connections()
        await stage.until(lambda: failures == [True])
        assert await stage.ask_kafka("b") == "b"
        assert "b" in stage.carried_out

    run(body)


# ---------------------------------------------------------------- ControlPlane


def test_control_calls_are_handed_over_in_order_and_answered_when_they_are_done(
    run: Run,
) -> None:
    async def body(stage: Stage) -> None:
        assert await stage.ask_control("first") == "first"
        stage.slow_ms = {"a": 80}
        answers = await stage.ask_all(stage.ask_control, "abcdef")
        assert stage.arrived == ["first", *"abcdef"]
        assert answers[-1] == "a"
        assert sorted(answers) == list("abcdef")

    run(body)


def test_control_call_that_timed_out_is_carried_out_later_and_leaves_others_alone(
    run: Run,
) -> None:
    async def body(stage: Stage) -> None:
        assert await stage.ask_control("first") == "first"
        stage.slow_ms = {"l": 150, "m": 100}

        async def ask(name: str) -> str | None:
            return await stage.ask_control(name, timeout_ms=40 if name == "l" else LONG_MS)

        assert await stage.ask_all(ask, "lm") == ["l failed, sent=True", "m"]
        await stage.until(lambda: "l" in stage.carried_out)
        assert await stage.ask_control("next") == "next"

    run(body)


def test_control_call_to_nobody_was_never_sent(run: Run) -> None:
    async def body(stage: Stage) -> None:
        stage.control_endpoint = stage.nowhere
        with pytest.raises(CallFailed) as failure:
            await stage.ask_control("a")
        assert not failure.value.sent

    run(body)
