"""Which records a consumer reads, where it goes on, and its history."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from highwater_checker.history import HistoryEvent
from highwater_client.consumer import Consumer
from highwater_client.settings import ConsumerSettings, OffsetReset
from highwater_core.errors import ErrorCode
from highwater_wire.kafka.messages import FetchRequest, ListOffsetsRequest, MetadataRequest
from highwater_wire.kafka.record_batch import build_batch, parse_header

LOSE_ANSWER = "does as asked, then dies before it answers"


def batch(values: str) -> bytes:
    return build_batch([(None, value.encode(), 1_000) for value in values])


class Reader:
    def __init__(self, brokers: Any, **settings: Any) -> None:
        self.batches: list[tuple[int, ...]] = []
        self.runtime, transport = brokers.client()
        self.consumer = Consumer(
            self.runtime,
            transport,
            brokers.bootstrap,
            ConsumerSettings("t", **settings),
            on_read=lambda *read: self.batches.append(read[1:]),
        )
        self.runtime.scope("reader").spawn("Consumer", self.consumer.run())

    async def caught_up(self) -> None:
        assert await self.consumer.caught_up(20_000)

    def events(self, function: str = "poll") -> list[HistoryEvent]:
        return [event for event in self.consumer.history if event.function == function]

    def read(self, partition: int = 0) -> list[tuple[int, str]]:
        found = [e for e in self.events() if e.partition == partition and e.type == "ok"]
        return [(event.offset, event.value) for event in found]


@pytest.fixture
def make(brokers: Any) -> Callable[..., Reader]:
    return lambda **settings: Reader(brokers, **settings)


@pytest.fixture
def log(brokers: Any) -> Any:
    log = brokers.partitions["t", 0]
    log.append(batch("abc"))
    log.append(batch("de"))
    return log


def test_every_record_is_one_event_with_its_offset(log: Any, run: Any, make: Any) -> None:
    async def story() -> None:
        reader = make()
        await reader.caught_up()
        assert reader.read() == list(enumerate("abcde"))
        log.append(batch("f"))
        await reader.caught_up()
        assert reader.read() == list(enumerate("abcdef"))

    run(story())


def test_every_batch_is_reported_with_crc_and_epoch(log: Any, run: Any, make: Any) -> None:
    async def story() -> None:
        reader = make()
        await reader.caught_up()
        crcs = [parse_header(data).crc for _, data in log.batches]
        assert reader.batches == [(0, 0, 3, crcs[0], 3, 5), (0, 3, 5, crcs[1], 3, 5)]

    run(story())


def test_reading_begins_at_the_logs_start_in_the_middle_of_a_batch(
    log: Any, run: Any, make: Any
) -> None:
    async def story() -> None:
        log.log_start = 1
        reader = make()
        await reader.caught_up()
        assert reader.read() == list(enumerate("abcde"))[1:]
        assert reader.events("reset") == []

    run(story())


def test_partitions_of_one_broker_share_a_fetch(brokers: Any, run: Any, make: Any) -> None:
    async def story() -> None:
        for partition in range(4):
            log = brokers.partitions["t", partition]
            log.append(batch(f"{partition}"))
            log.leader = partition % 2
        reader = make(partitions=(0, 1, 2, 3))
        await reader.caught_up()
        assert [reader.read(p) for p in range(4)] == [[(0, str(p))] for p in range(4)]
        fetched = [[p.partition for p in r.partitions] for r in brokers.asked(FetchRequest)]
        assert sorted(fetched[:2]) == [[0, 2], [1, 3]]

    run(story())


@pytest.mark.parametrize(
    "trouble",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        LOSE_ANSWER,
    ],
)
@pytest.mark.parametrize("kind", [FetchRequest, ListOffsetsRequest])
def test_reading_goes_on_where_it_stood_after_an_error(
    trouble: Any, kind: type, brokers: Any, log: Any, run: Any, make: Any
) -> None:
    async def story() -> None:
        brokers.script[0, kind].extend([trouble, trouble])
        reader = make()
        await reader.caught_up()
        assert reader.read() == list(enumerate("abcde"))
        assert reader.consumer.position(0) == 5
        errors = [event.error for event in reader.events() if event.type == "fail"]
        assert errors == ["UNKNOWN_SERVER_ERROR"] * errors.count("UNKNOWN_SERVER_ERROR")

    run(story())


def test_reading_follows_the_leader(brokers: Any, log: Any, run: Any, make: Any) -> None:
    async def story() -> None:
        reader = make()
        await reader.caught_up()
        log.leader = 1
        log.append(batch("f"))
        await reader.caught_up()
        brokers.stop(1)
        await reader.runtime.sleep(1_000)
        log.leader = 0
        log.append(batch("g"))
        await reader.caught_up()
        assert reader.read() == list(enumerate("abcdefg"))

    run(story())


def test_broker_that_refuses_for_long_is_not_asked_without_rest(
    brokers: Any, log: Any, run: Any, make: Any
) -> None:
    async def story() -> None:
        brokers.script[0, FetchRequest].extend([ErrorCode.NOT_LEADER_OR_FOLLOWER] * 1_000)
        reader = make(retry_backoff_ms=100)
        await reader.runtime.sleep(1_000)
        assert len(brokers.asked(FetchRequest)) == 4  # at 0, 100, 300, 700 ms
        assert len(brokers.asked(MetadataRequest)) == 4
        await reader.runtime.sleep(8_000)
        assert 13 <= len(brokers.asked(FetchRequest)) <= 14  # then every 800 ms
        brokers.script[0, FetchRequest].clear()
        await reader.caught_up()
        brokers.script[0, FetchRequest].append(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        await reader.runtime.sleep(1_000)
        before = len(brokers.asked(FetchRequest))
        await reader.runtime.sleep(500)
        assert len(brokers.asked(FetchRequest)) > before

    run(story())


@pytest.mark.parametrize(
    ("policy", "goes_on_at", "reads"),
    [
        (OffsetReset.EARLIEST, 2, ["c", "d", "e"]),
        (OffsetReset.LATEST, 5, []),
        (OffsetReset.NONE, None, []),
    ],
)
def test_offset_out_of_range_follows_the_policy_and_is_recorded(
    policy: OffsetReset, goes_on_at: int | None, reads: list[str], log: Any, run: Any, make: Any
) -> None:
    async def story() -> None:
        reader = make(offset_reset=policy)
        await reader.caught_up()
        before = len(reader.read())
        log.append(batch("f"))
        await reader.caught_up()
        log.values.pop()  # an unclean election: the log ends before the consumer's offset
        log.batches.pop()
        log.log_start = 2
        await reader.caught_up()
        (failed,) = [event for event in reader.events() if event.type == "fail"]
        assert (failed.error, failed.offset) == ("OFFSET_OUT_OF_RANGE", 6)
        resets = [(event.value, event.offset) for event in reader.events("reset")]
        assert resets == ([] if goes_on_at is None else [(policy.value, goes_on_at)])
        assert [value for _, value in reader.read()[before + 1 :]] == reads
        if policy is not OffsetReset.NONE:
            log.append(batch("g"))
            await reader.caught_up()
            assert reader.read()[-1] == (5, "g")

    run(story())


def test_batch_that_cannot_be_read_is_recorded_and_asked_for_again(
    log: Any, run: Any, make: Any
) -> None:
    async def story() -> None:
        whole = log.batches[1]
        log.batches[1] = (whole[0], whole[1][:-1] + b"\xff")
        reader = make()
        await reader.runtime.sleep(200)
        assert not reader.read()
        failed = [event.error for event in reader.events() if event.type == "fail"]
        assert failed
        assert all(error.startswith("CORRUPT_MESSAGE") for error in failed)
        log.batches[1] = whole
        await reader.caught_up()
        assert reader.read() == list(enumerate("abcde"))

    run(story())


def test_high_watermarks_of_empty_fetches_are_recorded_when_asked_for(
    log: Any, run: Any, make: Any
) -> None:
    async def story() -> None:
        reader = make(record_high_watermarks=True)
        await reader.caught_up()
        await reader.runtime.sleep(2_000)
        assert reader.events("high_watermark") == []
        log.uncommitted = 2  # a new leader that does not know the high watermark yet
        await reader.runtime.sleep(2_000)
        log.uncommitted = 0
        await reader.runtime.sleep(2_000)
        assert [event.offset for event in reader.events("high_watermark")] == [3, 5]
        assert reader.consumer.position(0) == 5

    run(story())


def test_latest_offsets_are_asked_for_and_recorded(log: Any, run: Any, make: Any) -> None:
    async def story() -> None:
        reader = make(latest_every_ms=100)
        await reader.runtime.sleep(250)
        log.append(batch("f"))
        await reader.runtime.sleep(100)
        assert [event.offset for event in reader.events("latest")] == [5, 5, 6]
        assert await reader.consumer.latest(0) == 6

    run(story())


def test_latest_is_unknown_without_a_leader(brokers: Any, log: Any, run: Any, make: Any) -> None:
    async def story() -> None:
        log.leader = -1
        reader = make()
        await reader.runtime.sleep(100)
        assert await reader.consumer.latest(0) is None
        assert not await reader.consumer.caught_up(500)

    run(story())


def test_stopped_consumer_asks_for_nothing_more(
    brokers: Any, log: Any, run: Any, make: Any
) -> None:
    async def story() -> None:
        reader = make()
        await reader.caught_up()
        reader.consumer.stop()
        await reader.runtime.sleep(10)
        before = len(brokers.requests)
        await reader.runtime.sleep(5_000)
        assert len(brokers.requests) == before

    run(story())
