"""Fuzzes the client and replication ports' handlers: frame, decoding, handler, encoded answer.

Fast: a simulated cluster, no sockets. The witness topic must notice nothing, and the brokers must
come up again on what the requests left on their disks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from highwater_simulator.tasks import NodeRuntime
from highwater_wire.kafka.codec import (
    MalformedRequest,
    RequestFrame,
    decode_request,
    encode_response,
    encode_unsupported,
)
from highwater_wire.kafka.messages import (
    FetchRequest,
    KafkaRequest,
    KafkaResponse,
    UnsupportedRequest,
    expects_response,
)
from tests.fuzz.cases import Broken, Case, Step
from tests.fuzz.clusters import READS_MAX, CountedReads, FuzzedCluster
from tests.fuzz.draws import Draws
from tests.fuzz.kafka_frames import PROFILES, draw_frame, simpler_frames

STEPS = 150
LEADER = "leader"
"""In a step's label: the broker that leads orders."""
BETWEEN_STEPS_MS = 3
SHORT_WAIT_MS = 1_000
ANSWERED_WITHIN_MS = 15_000
"""After the last request: those that asked for no longer wait must be answered by then."""
ANSWER_BYTES_MAX = 1 << 20
ANSWER_PER_REQUEST_BYTE_MAX = 4
"""Of one answer, beside the records in it: the one and the other together."""


@dataclass(slots=True)
class _Asked:
    step: Step
    request: KafkaRequest
    is_answered: bool = False


class HandlersFuzzer:
    """Requests to one broker after another, none waiting for the answer before."""

    name = "handlers"

    def draw(self, draws: Draws) -> Case:
        steps = []
        for _ in range(STEPS):
            listener = draws.one_of(("CLIENT", "CLIENT", "EXTERNAL", "REPLICATION"))
            frame = draw_frame(draws, PROFILES[listener])
            broker = LEADER if draws.chance(70) else str(draws.below(3))
            steps.append(Step(f"{broker} {listener}", frame))
        return tuple(steps)

    def run(self, case: Case) -> None:
        _Run(case).run()

    def simpler(self, step: Step) -> Iterator[Step]:
        listener = step.label.split(" ")[1]
        for frame in simpler_frames(step.payload, PROFILES[listener]):
            yield Step(step.label, frame)


class _Run:
    def __init__(self, case: Case) -> None:
        self._case = case
        self._cluster = FuzzedCluster()
        self._asked: list[_Asked] = []
        rng = self._cluster.world.rng
        self._reads = {broker: CountedReads(rng) for broker in self._cluster.world.brokers}

    def run(self) -> None:
        self._cluster.run(self._story)

    async def _story(self) -> None:
        world = self._cluster.world
        for broker_id, handle in world.brokers.items():
            handle.disk.faults = self._reads[broker_id]
        for step in self._case:
            before = {broker_id: counted.reads for broker_id, counted in self._reads.items()}
            self._feed(step)
            await world.sleep(BETWEEN_STEPS_MS)
            for broker_id, counted in self._reads.items():
                if counted.reads - before[broker_id] > READS_MAX:
                    raise Broken("work is bounded", f"more than {READS_MAX} reads after {step}")
        await world.sleep(ANSWERED_WITHIN_MS)
        self._check_answered()
        await self._cluster.check_serves()
        await self._cluster.restart_all_brokers()
        await self._cluster.check_serves()

    def _feed(self, step: Step) -> None:
        broker, listener = step.label.split(" ")
        handle, node = self._cluster.broker(
            self._cluster.leader() if broker == LEADER else int(broker)
        )
        profile = PROFILES[listener]
        try:
            frame = decode_request(step.payload, profile=profile)
        except MalformedRequest:
            return
        if isinstance(frame.request, UnsupportedRequest):
            encode_unsupported(frame, profile)
            return
        asked = _Asked(step, frame.request)
        self._asked.append(asked)

        async def answer() -> None:
            response = await node.handle_kafka(frame.request, listener)
            asked.is_answered = True
            _check_answer(asked, frame, response)

        runtime: NodeRuntime | None = handle.runtime
        if runtime is not None:
            runtime.start(f"{listener} {type(frame.request).__name__}", answer())

    def _check_answered(self) -> None:
        for asked in self._asked:
            if not asked.is_answered and _asked_wait_ms(asked.request) <= SHORT_WAIT_MS:
                raise Broken("an answer comes", f"none to {asked.request!r:.300}")


def _check_answer(asked: _Asked, frame: RequestFrame, response: KafkaResponse | None) -> None:
    """Encode the answer, as the listener does."""
    if response is None:
        if expects_response(asked.request):
            raise Broken("an answer comes", f"None to {asked.request!r:.300}")
        return
    pieces = encode_response(response, frame.api_version, frame.correlation_id)
    size_bytes = sum(len(piece) for piece in pieces if isinstance(piece, bytes))
    allowed_bytes = ANSWER_BYTES_MAX + ANSWER_PER_REQUEST_BYTE_MAX * len(asked.step.payload)
    if size_bytes > allowed_bytes:
        raise Broken("answers are bounded", f"{size_bytes} bytes to {asked.step}")


def _asked_wait_ms(request: KafkaRequest) -> int:
    if isinstance(request, FetchRequest):
        return request.max_wait_ms
    return getattr(request, "timeout_ms", 0)
