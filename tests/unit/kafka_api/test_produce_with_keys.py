"""Produce to compacted topics: the keys of many records are looked at while others are served."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from highwater_broker.kafka_api import produce as produce_module
from highwater_broker.log import record_batch
from highwater_broker.log.log_config import LogConfig
from highwater_broker.log.record_batch import COMPRESSED_KEYS_MAX, KEYS_PER_STEP
from highwater_wire.kafka.codec import release_records
from highwater_wire.kafka.messages import ProducePartition, ProduceRequest
from highwater_wire.kafka.record_batch import build_batch, encode_batch, parse_header
from tests.support.batches import oracle_batch
from tests.support.hosted import batch

COMPACTED = LogConfig(cleanup_policy="compact")
COUNT = 8 * KEYS_PER_STEP


def keyed(count: int, *, compression: int = 0, last: bytes | None = b"k") -> bytes:
    """Return a batch of so many records; last: the key of the last one."""
    values = [(b"k", b"v", 1_000)] * (count - 1) + [(last, b"v", 1_000)]
    return oracle_batch(values, compression) if compression else build_batch(values)


def produce(topic: str, records: Any, *, partitions: int = 1) -> ProduceRequest:
    items = [ProducePartition(topic, number, records) for number in range(partitions)]
    return ProduceRequest(1, 1_000, tuple(items))


class Senders:
    """Requests that begin in one pass of the loop, in order; each is noted when it is answered."""

    def __init__(self, world: Any) -> None:
        self._world = world
        self.answered: list[tuple[str, tuple[str, ...]]] = []

    def send(self, name: str, request: ProduceRequest) -> Any:
        async def ask() -> None:
            work = self._world.api.handle(request, "CLIENT")
            response = await work
            self.answered.append((name, tuple(each.error.name for each in response.partitions)))

        return self._world.scope.spawn(name, ask())

    def run(self) -> list[tuple[str, tuple[str, ...]]]:
        self._world.kernel.run_for(0)
        return self.answered


@pytest.fixture
def senders(world: Any) -> Senders:
    return Senders(world)


def hosted(world: Any, topic: str = "t", number: int = 0) -> Any:
    partition = world.host(topic, number)
    partition.log.config = COMPACTED
    return partition


@pytest.mark.parametrize("compression", [0, 1, 3])
def test_a_batch_of_many_keys_lets_others_go_first_but_not_in_its_partition(
    world: Any, senders: Senders, compression: int
) -> None:
    partition = hosted(world)
    world.host("u")
    frame = bytearray(keyed(COUNT, compression=compression))
    large = produce("t", memoryview(frame))
    senders.send("large", large)
    senders.send("second", produce("t", keyed(1)))
    senders.send("elsewhere", produce("u", batch(b"v")))

    async def reuse_the_frame() -> None:
        release_records(large)
        frame[:] = bytes(len(frame))

    world.scope.spawn("reuse", reuse_the_frame())
    answered = senders.run()
    assert [name for name, _ in answered] == ["elsewhere", "large", "second"]
    assert {errors for _, errors in answered} == {("NONE",)}
    assert partition.log_end_offset == COUNT + 1


def test_a_step_looks_at_a_few_hundred_keys(
    world: Any, senders: Senders, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sixteen partitions of one request, each with as many as an append may look at itself."""
    looked_at = 0
    stored_records = record_batch.stored_records

    def counted(*batch: Any) -> Any:
        nonlocal looked_at
        for record in stored_records(*batch):
            looked_at += 1
            yield record

    monkeypatch.setattr(record_batch, "stored_records", counted)
    for number in range(16):
        hosted(world, number=number)
    passes: list[int] = []

    async def watch() -> None:
        while len(senders.answered) < 3:
            passes.append(looked_at)
            await world.runtime.sleep(0)

    world.scope.spawn("watch", watch())
    for count in (KEYS_PER_STEP // 16, KEYS_PER_STEP // 8, KEYS_PER_STEP):
        senders.send(f"{count}", produce("t", keyed(count), partitions=16))
    answered = senders.run()
    assert [set(errors) for _, errors in answered] == [{"NONE"}] * 3
    assert looked_at > 16 * KEYS_PER_STEP
    steps = [after - before for before, after in pairwise(passes)]
    assert 0 < max(steps) <= 2 * KEYS_PER_STEP


@pytest.mark.parametrize("compression", [0, 1])
def test_a_last_record_without_a_key_refuses_the_batch_and_the_next_one_goes_on(
    world: Any, senders: Senders, compression: int
) -> None:
    partition = hosted(world)
    senders.send("bad", produce("t", keyed(COUNT, compression=compression, last=None)))
    senders.send("good", produce("t", keyed(1)))
    assert senders.run() == [("bad", ("INVALID_RECORD",)), ("good", ("NONE",))]
    assert partition.log_end_offset == 1
    kind, refused = next(each for each in world.trace.events if each[0] == "request_refused")
    assert (kind, refused["error"]) == ("request_refused", "INVALID_RECORD")
    assert f"record {COUNT - 1} has no key" in refused["what"]


@pytest.mark.parametrize(
    ("topic", "count", "error"),
    [
        ("compacted", COMPRESSED_KEYS_MAX + 1, "MESSAGE_TOO_LARGE"),
        ("compacted", COMPRESSED_KEYS_MAX, "CORRUPT_MESSAGE"),  # now it is unpacked
        ("other", COMPRESSED_KEYS_MAX + 1, "NONE"),
    ],
)
def test_a_compacted_topic_takes_a_bounded_number_of_compressed_records(
    world: Any, senders: Senders, topic: str, count: int, error: str
) -> None:
    hosted(world, "compacted")
    world.host("other")
    header = parse_header(keyed(1))
    claims = header._replace(attributes=1, record_count=count, last_offset_delta=count - 1)
    senders.send("claims", produce(topic, encode_batch(claims, b"no gzip." * 2_000)))
    assert senders.run() == [("claims", (error,))]


def test_what_changes_during_the_look_counts_for_the_append(world: Any, senders: Senders) -> None:
    """The first loses its leader. The second's topic becomes compacted only while it waits."""
    lost, changed = hosted(world), world.host("u")
    senders.send("lost", produce("t", keyed(COUNT)))
    senders.send("first", produce("u", batch(b"v"), partitions=17))
    senders.send("changed", produce("u", keyed(COUNT, last=None)))

    async def change() -> None:
        lost.lose_leadership()
        changed.log.config = COMPACTED

    world.scope.spawn("change", change())
    answered = dict(senders.run())
    assert answered["lost"] == ("NOT_LEADER_OR_FOLLOWER",)
    assert answered["changed"] == ("INVALID_RECORD",)
    assert lost.log_end_offset == 0


def test_a_cancelled_look_lets_the_next_request_go_on(world: Any, senders: Senders) -> None:
    partition = hosted(world)
    large = senders.send("large", produce("t", keyed(COUNT)))
    senders.send("next", produce("t", keyed(COUNT + 1)))

    async def cancel() -> None:
        for _ in range(3):
            await world.runtime.sleep(0)
        large.cancel()

    world.scope.spawn("cancel", cancel())
    assert senders.run() == [("next", ("NONE",))]
    assert partition.log_end_offset == COUNT + 1


def test_one_large_batch_at_a_time_is_unpacked_and_small_ones_do_not_wait_for_it(
    world: Any, senders: Senders, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpacked_now = most = 0
    stored_records = record_batch.stored_records

    def counted(*batch: Any) -> Any:
        nonlocal unpacked_now, most
        unpacked_now += 1
        most = max(most, unpacked_now)
        yield from stored_records(*batch)
        unpacked_now -= 1

    monkeypatch.setattr(record_batch, "stored_records", counted)
    for number in range(5):
        hosted(world, f"t{number}")
        senders.send(f"large {number}", produce(f"t{number}", keyed(COUNT, compression=1)))
    hosted(world, "small")
    senders.send("small", produce("small", keyed(10, compression=1)))
    answered = senders.run()
    assert [name for name, _ in answered] == ["small", *[f"large {each}" for each in range(5)]]
    assert most == 2


def test_requests_that_wait_for_a_look_keep_a_bounded_number_of_bytes(
    world: Any, senders: Senders, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is a batch of many keys appended at once when others keep too many bytes."""
    monkeypatch.setattr(produce_module, "WAITING_BYTES_MAX", 1_000)
    for topic in ("t", "u", "v"):
        hosted(world, topic)
    for topic in ("t", "u"):
        senders.send(topic, produce(topic, keyed(COUNT)))
    senders.send("v", produce("v", keyed(1)))
    assert senders.run() == [("u", ("REQUEST_TIMED_OUT",)), ("v", ("NONE",)), ("t", ("NONE",))]


def test_records_for_a_topic_of_brokers_are_refused_without_a_look(
    world: Any, senders: Senders, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosted(world, "__consumer_offsets")
    monkeypatch.setattr(record_batch, "stored_records", None)
    senders.send("ours", produce("__consumer_offsets", keyed(COUNT)))
    assert senders.run() == [("ours", ("INVALID_TOPIC_EXCEPTION",))]
