"""Batches, requests in flight, retries and outcomes of a record sender."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from highwater_checker.history import HistoryEvent, OperationType
from highwater_client.recorder import HistoryRecorder
from highwater_client.sender import RecordSender
from highwater_client.settings import ACKS_ALL, ACKS_LEADER, ACKS_NONE, ProducerSettings
from highwater_core.check import BugFound
from highwater_core.errors import ErrorCode
from highwater_wire.kafka.messages import MetadataRequest, ProduceRequest
from highwater_wire.kafka.record_batch import decode_records, parse_header

NEVER = "never answers"
LOSE_ANSWER = "does as asked, then dies before it answers"
E = ErrorCode


class Client:
    """A sender with its history, on a topic of `partition_count` partitions led by broker 0."""

    def __init__(self, brokers: Any, partition_count: int = 1, **settings: Any) -> None:
        for partition in range(partition_count):
            assert brokers.partitions["t", partition].leader == 0
        self.acknowledged: list[tuple[Any, ...]] = []
        self.runtime, transport = brokers.client()
        self.recorder = HistoryRecorder(self.runtime.now_ns, "client")
        self.sender = RecordSender(
            self.runtime,
            transport,
            brokers.bootstrap,
            ProducerSettings("t", **settings),
            self.recorder,
            lambda *batch: self.acknowledged.append(batch),
        )

    def send(self, values: str, partition: int = 0) -> None:
        for value in values:
            self.sender.send("t", partition, value)

    def outcomes(self) -> dict[str, HistoryEvent]:
        ends = [event for event in self.recorder.events if event.type is not OperationType.INVOKE]
        assert len({event.operation_id for event in ends}) == len(ends)
        return {event.value: event for event in ends}

    def kinds(self) -> str:
        return " ".join(f"{value}:{event.type}" for value, event in self.outcomes().items())


@pytest.fixture
def make(brokers: Any) -> Callable[..., Client]:
    return lambda **settings: Client(brokers, **settings)


def sent_values(brokers: Any) -> list[str]:
    """Return the values of each Produce request, in the order in which they came."""
    requests = brokers.asked(ProduceRequest)
    return [
        "".join((r.value or b"").decode() for r in decode_records(request.partitions[0].records))
        for request in requests
    ]


def test_record_is_acknowledged_at_its_offset(brokers: Any, run: Any, make: Any) -> None:
    async def story() -> None:
        client = make()
        client.send("abc")
        await client.sender.flush()
        assert brokers.partitions["t", 0].values == list("abc")
        assert [(e.type, e.offset) for e in client.outcomes().values()] == [
            (OperationType.OK, 0),
            (OperationType.OK, 1),
            (OperationType.OK, 2),
        ]

    run(story())


def test_an_acknowledged_batch_is_reported_with_its_crc(brokers: Any, run: Any, make: Any) -> None:
    async def story() -> None:
        client = make(batch_max_records=3, linger_ms=5, acks=ACKS_LEADER)
        client.send("abc")
        await client.sender.flush()
        crc = parse_header(brokers.partitions["t", 0].batches[0][1]).crc
        assert client.acknowledged == [("t", 0, 0, crc, ["a", "b", "c"], ACKS_LEADER)]

    run(story())


def test_batch_leaves_when_it_is_full_or_has_lingered(brokers: Any, run: Any, make: Any) -> None:
    async def story() -> None:
        client = make(batch_max_records=3, linger_ms=40)
        client.send("abcd")
        await client.runtime.sleep(30)
        assert sent_values(brokers) == ["abc"]
        await client.runtime.sleep(15)
        assert sent_values(brokers) == ["abc", "d"]
        client.send("e")
        await client.runtime.sleep(30)
        client.send("f")
        await client.runtime.sleep(15)
        assert sent_values(brokers) == ["abc", "d", "ef"]

    run(story())


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_no_more_requests_than_allowed_wait_on_a_brokers_connection(
    limit: int, brokers: Any, run: Any, make: Any
) -> None:
    async def story() -> None:
        brokers.produce_ms = 20
        client = make(max_in_flight=limit, partition_count=10)
        for partition in range(10):
            client.send("ab", partition)
        await client.sender.flush()
        assert brokers.most_in_flight == limit
        assert all(log.values == ["a", "b"] for log in brokers.partitions.values())

    run(story())


def test_one_busy_partition_does_not_starve_the_others(brokers: Any, run: Any, make: Any) -> None:
    async def story() -> None:
        client = make(partition_count=2)
        client.send("abcdefgh", 0)
        client.send("z", 1)
        await client.sender.flush()
        assert "z" in sent_values(brokers)[:3]

    run(story())


def test_failed_batch_goes_before_younger_ones(brokers: Any, run: Any, make: Any) -> None:
    async def story() -> None:
        client = make(max_in_flight=1)
        brokers.script[0, ProduceRequest].extend([E.NOT_ENOUGH_REPLICAS, E.NOT_ENOUGH_REPLICAS])
        client.send("abc")
        await client.sender.flush()
        assert brokers.partitions["t", 0].values == list("abc")
        assert client.outcomes()["a"].type is OperationType.OK

    run(story())


def test_with_several_in_flight_a_failed_batch_may_end_behind_younger_ones(
    brokers: Any, run: Any, make: Any
) -> None:
    """Without idempotence librdkafka promises no more."""

    async def story() -> None:
        client = make(max_in_flight=3)
        brokers.script[0, ProduceRequest].append(E.NOT_ENOUGH_REPLICAS)
        client.send("abcd")
        await client.sender.flush()
        assert brokers.partitions["t", 0].values == list("bcad")
        assert {e.value: e.offset for e in client.outcomes().values()} == {
            v: n for n, v in enumerate("bcad")
        }

    run(story())


def test_batches_that_fail_together_keep_their_order(brokers: Any, run: Any, make: Any) -> None:
    async def story() -> None:
        client = make(max_in_flight=3)
        brokers.script[0, ProduceRequest].extend([E.NOT_ENOUGH_REPLICAS] * 3)
        client.send("abcd")
        await client.sender.flush()
        assert brokers.partitions["t", 0].values == list("abcd")

    run(story())


def test_lost_answer_is_retried_and_the_record_may_be_there_twice(
    brokers: Any, run: Any, make: Any
) -> None:
    async def story() -> None:
        client = make()
        brokers.script[0, ProduceRequest].append(LOSE_ANSWER)
        client.send("a")
        await client.sender.flush()
        assert brokers.partitions["t", 0].values == ["a", "a"]
        assert client.outcomes()["a"].offset == 1
        crcs = [parse_header(data).crc for _, data in brokers.partitions["t", 0].batches]
        assert crcs[0] == crcs[1] == client.acknowledged[0][3]

    run(story())


@pytest.mark.parametrize(
    ("script", "settings", "kind"),
    [
        ([E.MESSAGE_TOO_LARGE], {}, "fail"),
        ([LOSE_ANSWER, E.MESSAGE_TOO_LARGE], {}, "info"),
        ([E.REQUEST_TIMED_OUT, E.NOT_ENOUGH_REPLICAS, E.MESSAGE_TOO_LARGE], {}, "info"),
        ([E.NOT_ENOUGH_REPLICAS, E.MESSAGE_TOO_LARGE], {}, "fail"),
        ([E.UNKNOWN_SERVER_ERROR], {}, "info"),
        ([E.NOT_ENOUGH_REPLICAS], {"retries": False}, "fail"),
        ([E.NOT_LEADER_OR_FOLLOWER], {"retries": False}, "info"),
        ([LOSE_ANSWER], {"retries": False}, "info"),
        ([NEVER], {"retries": False, "request_timeout_ms": 100}, "info"),
        ([E.NOT_ENOUGH_REPLICAS] * 50, {"delivery_timeout_ms": 300}, "fail"),
        ([E.NOT_ENOUGH_REPLICAS_AFTER_APPEND] * 50, {"delivery_timeout_ms": 300}, "info"),
        ([E.NOT_ENOUGH_REPLICAS_AFTER_APPEND], {}, "ok"),
    ],
)
def test_outcome_says_no_more_than_the_tries_prove(
    script: list[Any], settings: dict[str, Any], kind: str, brokers: Any, run: Any, make: Any
) -> None:
    async def story() -> None:
        client = make(**settings)
        brokers.script[0, ProduceRequest].extend(script)
        client.send("a")
        await client.sender.flush()
        assert client.kinds() == f"a:{kind}"
        if kind == "fail":
            assert brokers.partitions["t", 0].values == []
            assert client.outcomes()["a"].error in [str(getattr(e, "name", e)) for e in script]

    run(story())


@pytest.mark.parametrize(("retries", "most"), [(False, 1), (True, 0)])
def test_a_send_without_an_outcome_tells_whether_it_is_sent_once(
    retries: bool, most: int, brokers: Any, run: Any, make: Any
) -> None:
    async def story() -> None:
        client = make(retries=retries)
        client.send("a")
        client.sender.close()
        assert [(event.type, event.tries) for event in client.recorder.events] == [("invoke", most)]

    run(story())


def test_with_acks_0_a_record_is_unknown_once_it_is_sent(brokers: Any, run: Any, make: Any) -> None:
    async def story() -> None:
        brokers.produce_ms = 1_000
        client = make(acks=ACKS_NONE)
        client.send("ab")
        await client.sender.flush()
        assert client.runtime.now_ms() < 100
        assert client.kinds() == "a:info b:info"
        assert {event.error for event in client.outcomes().values()} == {"unacknowledged"}
        await client.runtime.sleep(100)
        assert brokers.partitions["t", 0].values == ["a", "b"]
        assert client.acknowledged == []

    run(story())


def test_with_acks_0_a_record_that_never_left_is_retried(brokers: Any, run: Any, make: Any) -> None:
    async def story() -> None:
        client = make(acks=ACKS_NONE)
        client.send("a")
        await client.runtime.sleep(10)
        brokers.stop(0)
        await client.runtime.sleep(10)
        client.send("b")
        await client.runtime.sleep(100)
        brokers.start(0)
        await client.sender.flush()
        await client.runtime.sleep(100)
        assert brokers.partitions["t", 0].values == ["a", "b"]

    run(story())


def test_an_idempotent_producer_whose_epochs_are_used_up_asks_for_another_id(
    brokers: Any, run: Any, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("highwater_client.sequencing.MAX_PRODUCER_EPOCH", 0)

    async def story() -> None:
        client = make(partition_count=2, is_idempotent=True, linger_ms=0)
        brokers.script[0, ProduceRequest] += [E.NONE, E.INVALID_RECORD]
        for value, partition in (("a", 1), ("b", 0), ("c", 0), ("d", 1)):
            client.send(value, partition)
            await client.sender.flush()
        assert client.kinds() == "a:ok b:fail c:ok d:ok"

    run(story())
    headers = [parse_header(each.partitions[0].records) for each in brokers.asked(ProduceRequest)]
    assert [(header.producer_id, header.base_sequence) for header in headers] == [
        (1, 0),
        (1, 0),
        (2, 0),
        (1, 1),
    ]


def test_new_leader_is_looked_for_when_the_old_one_refuses(
    brokers: Any, run: Any, make: Any
) -> None:
    async def story() -> None:
        client = make()
        client.send("a")
        await client.sender.flush()
        brokers.partitions["t", 0].leader = 1
        client.send("b")
        await client.sender.flush()
        assert [broker_id for broker_id, request in brokers.requests
                if type(request) is ProduceRequest] == [0, 0, 1]  # fmt: skip
        assert client.outcomes()["b"].offset == 1

    run(story())


def test_new_leader_is_looked_for_when_the_old_one_is_gone(
    brokers: Any, run: Any, make: Any
) -> None:
    async def story() -> None:
        client = make(acks=ACKS_ALL)
        client.send("a")
        await client.sender.flush()
        brokers.stop(0)
        client.send("b")
        await client.runtime.sleep(500)
        brokers.partitions["t", 0].leader = 1
        await client.sender.flush()
        assert brokers.partitions["t", 0].values == ["a", "b"]

    run(story())


def test_other_bootstrap_brokers_are_asked_when_one_is_dead(
    brokers: Any, run: Any, make: Any
) -> None:
    async def story() -> None:
        client = make()
        brokers.partitions["t", 0].leader = 1
        brokers.stop(0)
        client.send("a")
        await client.sender.flush()
        assert client.kinds() == "a:ok"

    run(story())


def test_leader_that_nobody_knows_is_asked_for_with_backoff(
    brokers: Any, run: Any, make: Any
) -> None:
    async def story() -> None:
        client = make(retry_backoff_ms=100, delivery_timeout_ms=20_000)
        brokers.partitions["t", 0].leader = -1
        client.send("a")
        await client.runtime.sleep(1_000)
        assert len(brokers.asked(MetadataRequest)) == 4  # at 0, 100, 300, 700 ms
        await client.runtime.sleep(8_000)
        assert 13 <= len(brokers.asked(MetadataRequest)) <= 14  # then every 800 ms
        brokers.partitions["t", 0].leader = 1
        await client.sender.flush()
        assert client.kinds() == "a:ok"

    run(story())


def test_metadata_is_refreshed_when_it_is_old(brokers: Any, run: Any, make: Any) -> None:
    async def story() -> None:
        client = make(metadata_max_age_ms=1_000)
        client.send("a")
        await client.runtime.sleep(3_500)
        assert len(brokers.asked(MetadataRequest)) == 4

    run(story())


def test_record_without_any_broker_fails_at_its_deadline(brokers: Any, run: Any, make: Any) -> None:
    async def story() -> None:
        client = make(delivery_timeout_ms=1_500)
        for broker_id in (0, 1):
            brokers.runtimes[broker_id].pause()
        client.send("ab")
        await client.sender.flush()
        assert client.kinds() == "a:fail b:fail"
        assert 1_500 <= client.runtime.now_ms() <= 2_600

    run(story())


def test_closed_sender_leaves_its_records_unknown(brokers: Any, run: Any, make: Any) -> None:
    async def story() -> None:
        client = make()
        brokers.script[0, ProduceRequest].append(NEVER)
        client.send("a")
        await client.runtime.sleep(100)
        client.sender.close()
        await client.runtime.sleep(10_000)
        assert client.outcomes() == {}

    run(story())


@pytest.mark.parametrize(
    "settings",
    [{"acks": 2}, {"max_in_flight": 0}, {"max_in_flight": 6}, {"partition_count": 0},
     {"rate_per_s": 0}, {"batch_max_records": 0}, {"retry_backoff_ms": 0}],
)  # fmt: skip
def test_settings_that_no_producer_can_have_are_refused(settings: dict[str, int]) -> None:
    with pytest.raises(BugFound):
        ProducerSettings("t", **settings)  # type: ignore[arg-type]
