"""Produce: acknowledgements, errors by partition, waiting for the high watermark."""

from __future__ import annotations

from typing import Any

import pytest

from highwater_core.config import Preset
from highwater_core.errors import ErrorCode
from highwater_wire.kafka.codec import release_records
from highwater_wire.kafka.messages import PRODUCE_PARTITION_BYTES, ProducePartition, ProduceRequest
from highwater_wire.kafka.record_batch import build_batch
from tests.support.batches import with_wrong_crc
from tests.support.hosted import batch

BATCH = batch(b"batch")


def produce(
    *partitions: tuple[str, int], acks: int = -1, timeout_ms: int = 1_000, records: Any = BATCH
) -> ProduceRequest:
    items = tuple(ProducePartition(topic, number, records) for topic, number in partitions)
    return ProduceRequest(acks, timeout_ms, items)


def errors(response: Any) -> list[tuple[str, int, str]]:
    return [(one.topic, one.partition, one.error.name) for one in response.partitions]


def test_acks_all_is_answered_when_the_high_watermark_has_passed_the_records(world: Any) -> None:
    partition = world.host("t")
    partition.fill(b"earlier")
    asked = world.start(produce(("t", 0)))
    world.kernel.run_for(50)
    assert not asked.is_done
    partition.commit(2)
    world.kernel.run_for(0)
    (result,) = asked.answer.partitions
    assert (result.error, result.base_offset, asked.took_ms) == (ErrorCode.NONE, 1, 50)


def test_acks_one_is_answered_after_the_append(world: Any) -> None:
    partition = world.host("t")
    response = world.ask(produce(("t", 0), acks=1))
    assert errors(response) == [("t", 0, "NONE")]
    assert (partition.log_end_offset, partition.high_watermark) == (1, 0)


@pytest.mark.parametrize("leads", [True, False])
def test_acks_zero_is_never_answered(world: Any, leads: bool) -> None:
    partition = world.host("t")
    if not leads:
        partition.lose_leadership()
    assert world.ask(produce(("t", 0), acks=0)) is None
    assert partition.values == [b"batch"] * leads


def test_acks_zero_without_any_right_is_not_answered_either(world: Any) -> None:
    assert world.ask(produce(("t", 0), acks=0), "REPLICATION") is None


@pytest.mark.parametrize("acks", [-2, 2, 32767])
def test_other_acks_append_nothing(world: Any, acks: int) -> None:
    partition = world.host("t")
    assert errors(world.ask(produce(("t", 0), acks=acks))) == [("t", 0, "INVALID_REQUIRED_ACKS")]
    assert partition.values == []
    assert world.trace.events[-1][0] == "request_refused"


def test_the_replication_listener_takes_no_records(world: Any) -> None:
    partition = world.host("t")
    response = world.ask(produce(("t", 0)), "REPLICATION")
    assert errors(response) == [("t", 0, "INVALID_REQUEST")]
    assert partition.values == []


def test_transactions_are_refused(world: Any) -> None:
    world.host("t")
    request = ProduceRequest(-1, 10, (ProducePartition("t", 0, b"x"),), "my-transaction")
    assert errors(world.ask(request)) == [("t", 0, "INVALID_REQUEST")]


@pytest.mark.parametrize("records", [None, b"", memoryview(b"")])
def test_no_records_are_invalid(world: Any, records: Any) -> None:
    world.host("t")
    response = world.ask(produce(("t", 0), records=records))
    assert errors(response) == [("t", 0, "INVALID_RECORD")]


def test_a_partition_hosted_elsewhere_and_an_unknown_one_have_their_own_errors(world: Any) -> None:
    world.cluster({"elsewhere": [1]})
    response = world.ask(produce(("elsewhere", 0), ("elsewhere", 9), ("unknown", 0)))
    assert errors(response) == [
        ("elsewhere", 0, "NOT_LEADER_OR_FOLLOWER"),
        ("elsewhere", 9, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("unknown", 0, "UNKNOWN_TOPIC_OR_PARTITION"),
    ]


def test_a_partition_in_a_failed_log_folder_has_the_disks_error(world: Any) -> None:
    world.cluster({"here": [1]})
    world.hosted.failed.add(("here", 0))
    assert errors(world.ask(produce(("here", 0)))) == [("here", 0, "KAFKA_STORAGE_ERROR")]


def test_one_failing_partition_keeps_the_others_and_the_order_of_results(world: Any) -> None:
    good, other = world.host("t", 0), world.host("t", 2)
    world.host("t", 1)
    items = [
        ProducePartition("t", number, BATCH if number != 1 else with_wrong_crc(BATCH))
        for number in range(3)
    ]
    asked = world.start(ProduceRequest(-1, 1_000, tuple(items)))
    good.commit(1)
    world.kernel.run_for(0)
    assert not asked.is_done
    other.commit(1)
    world.kernel.run_for(0)
    assert errors(asked.answer) == [
        ("t", 0, "NONE"),
        ("t", 1, "CORRUPT_MESSAGE"),
        ("t", 2, "NONE"),
    ]


def test_only_failed_appends_are_answered_without_waiting(world: Any) -> None:
    world.host("t").min_insync_replicas = 4
    asked = world.start(produce(("t", 0)))
    assert (asked.took_ms, errors(asked.answer)) == (0, [("t", 0, "NOT_ENOUGH_REPLICAS")])


def test_a_timeout_names_only_the_partitions_that_are_not_committed(world: Any) -> None:
    first = world.host("t", 0)
    world.host("t", 1)
    asked = world.start(produce(("t", 0), ("t", 1), timeout_ms=300))
    first.commit(1)
    world.kernel.run_for(300)
    assert asked.took_ms == 300
    assert errors(asked.answer) == [("t", 0, "NONE"), ("t", 1, "REQUEST_TIMED_OUT")]


@pytest.mark.parametrize("timeout_ms", [0, -5])
def test_no_time_to_wait_is_a_timeout_at_once(world: Any, timeout_ms: int) -> None:
    world.host("t")
    asked = world.start(produce(("t", 0), timeout_ms=timeout_ms))
    assert errors(asked.answer) == [("t", 0, "REQUEST_TIMED_OUT")]


def test_lost_leadership_ends_the_wait_with_an_indefinite_error(world: Any) -> None:
    partition = world.host("t")
    asked = world.start(produce(("t", 0)))
    world.kernel.run_for(20)
    partition.lose_leadership()
    world.kernel.run_for(0)
    assert asked.took_ms == 20
    assert errors(asked.answer) == [("t", 0, "NOT_LEADER_OR_FOLLOWER")]


def test_an_acknowledged_partition_stays_so_while_the_request_waits_for_another(world: Any) -> None:
    first, second = world.host("t", 0), world.host("t", 1)
    asked = world.start(produce(("t", 0), ("t", 1)))
    first.commit(1)
    first.lose_leadership()
    second.commit(1)
    world.kernel.run_for(0)
    assert errors(asked.answer) == [("t", 0, "NONE"), ("t", 1, "NONE")]


def test_too_few_in_sync_after_the_append_is_an_error(world: Any) -> None:
    partition = world.host("t", preset=Preset.V3)
    asked = world.start(produce(("t", 0)))
    partition.min_insync_replicas = 4
    partition.commit(1)
    world.kernel.run_for(0)
    assert errors(asked.answer) == [("t", 0, "NOT_ENOUGH_REPLICAS_AFTER_APPEND")]


def test_many_waiting_produces_are_answered_in_order(world: Any) -> None:
    partition = world.host("t")
    asked = [world.start(produce(("t", 0))) for _ in range(20)]
    partition.commit(10)
    world.kernel.run_for(0)
    assert [one.is_done for one in asked] == [True] * 10 + [False] * 10
    partition.commit(20)
    world.kernel.run_for(0)
    offsets = [one.answer.partitions[0].base_offset for one in asked]
    assert offsets == list(range(20))


def _of_producer(producer: int, timeout_ms: int = 1_000) -> ProduceRequest:
    """Return the first batch of an idempotent producer."""
    records = build_batch([(None, b"x", 1_000)], producer=(producer, 0, 0))
    return produce(("t", 0), timeout_ms=timeout_ms, records=records)


def test_a_repeated_batch_waits_for_its_own_records_alone(world: Any) -> None:
    """Another producer's batch, whose records come later in the log, waits longer."""
    partition = world.host("t")
    world.ask(_of_producer(7))  # its answer is lost
    later = world.start(_of_producer(8))
    repeat = world.start(_of_producer(7))
    assert partition.log_end_offset == 2
    partition.commit(1)
    world.kernel.run_for(0)
    assert errors(repeat.answer) == [("t", 0, "NONE")]
    assert repeat.answer.partitions[0].base_offset == 0
    assert not later.is_done
    partition.commit(2)
    world.kernel.run_for(0)
    assert errors(later.answer) == [("t", 0, "NONE")]


def test_the_last_batch_repeated_waits_in_turn_and_leaves_nothing_behind(world: Any) -> None:
    partition = world.host("t")
    first, repeat = world.start(_of_producer(7, 2_000)), world.start(_of_producer(7))
    world.kernel.run_for(1_000)
    assert errors(repeat.answer) == [("t", 0, "REQUEST_TIMED_OUT")]
    partition.commit(1)
    world.kernel.run_for(0)
    assert errors(first.answer) == [("t", 0, "NONE")]


def test_records_that_are_committed_when_the_time_has_passed_are_acknowledged(world: Any) -> None:
    """Whether or not their turn to be asked has come."""
    partition = world.host("t")
    before = world.purgatory.parts()
    before.add(partition.topic_partition, lambda: False)
    asked = world.start(produce(("t", 0), timeout_ms=100))
    partition.commit(1)
    world.kernel.run_for(100)
    assert errors(asked.answer) == [("t", 0, "NONE")]
    before.close()


def test_a_request_without_partitions_is_answered_empty(world: Any) -> None:
    assert world.ask(produce()).partitions == ()


# ---------------------------------------------------------------- many partitions


def test_a_partition_that_is_named_twice_gets_nothing_and_the_others_do(world: Any) -> None:
    twice, once = world.host("t", 0), world.host("t", 1)
    response = world.ask(produce(("t", 0), ("t", 1), ("t", 0), acks=1))
    assert errors(response) == [
        ("t", 0, "INVALID_REQUEST"),
        ("t", 1, "NONE"),
        ("t", 0, "INVALID_REQUEST"),
    ]
    assert (twice.values, once.values) == ([], [b"batch"])


@pytest.mark.parametrize("acks", [0, 1, -1])
@pytest.mark.parametrize("count", [16, 17, 1000])
def test_thousands_of_partitions_are_appended_to_in_order(
    world: Any, acks: int, count: int
) -> None:
    hosted = [world.host("t", number) for number in range(count)]
    asked = world.start(produce(*[("t", number) for number in range(count)], acks=acks))
    for partition in hosted:
        partition.commit(1)
    world.kernel.run_for(0)
    assert asked.is_done
    assert all(partition.values == [b"batch"] for partition in hosted)
    if acks != 0:
        assert errors(asked.answer) == [("t", number, "NONE") for number in range(count)]


@pytest.mark.parametrize("as_decoded", [memoryview, bytes])
def test_a_large_request_lets_others_in_between_but_not_before_it_in_a_partition(
    world: Any, as_decoded: Any
) -> None:
    """Its records are its own: the request's are released with the first wait."""
    count = 500
    hosted = [world.host("t", number) for number in range(count)]
    other = world.host("u")
    frame = bytearray(batch(b"large"))
    items = tuple(ProducePartition("t", number, as_decoded(frame)) for number in range(count))
    request = ProduceRequest(1, 1_000, items)
    large = world.api.handle(request, "CLIENT")
    lengths: dict[str, int] = {}

    async def send(name: str, partition: tuple[str, int]) -> None:
        request = produce(partition, acks=1, records=batch(name.encode()))
        await world.api.handle(request, "CLIENT")
        lengths[name] = sum(each.log_end_offset for each in hosted)

    world.scope.spawn("large", large)
    world.scope.spawn("elsewhere", send("elsewhere", ("u", 0)))
    world.scope.spawn("first", send("first", ("t", count - 1)))
    world.scope.spawn("second", send("second", ("t", count - 1)))

    async def reuse_the_frame() -> None:
        release_records(request)
        frame[:] = batch(b"other")

    world.scope.spawn("reuse", reuse_the_frame())
    world.kernel.run_for(0)
    assert lengths["elsewhere"] <= 16
    assert len(other.values) == 1
    assert hosted[0].values == [b"large"]
    assert hosted[-1].values == [b"large", b"first", b"second"]


def test_a_large_request_that_is_cancelled_lets_the_next_one_go_on(world: Any) -> None:
    hosted = [world.host("t", number) for number in range(100)]
    request = produce(*[("t", number) for number in range(100)], acks=1)
    task = world.scope.spawn("large", world.api.handle(request, "CLIENT"))
    later = world.scope.spawn("later", world.api.handle(produce(("t", 99), acks=1), "CLIENT"))

    async def cancel() -> None:
        while not hosted[0].log_end_offset:
            await world.runtime.sleep(0)
        task.cancel()

    world.scope.spawn("cancel", cancel())
    world.kernel.run_for(0)
    assert later.is_done()
    assert hosted[99].log_end_offset == 1
    with pytest.raises(StopIteration):  # nobody is waited for any more
        world.api.handle(produce(("t", 98), acks=1), "CLIENT").send(None)


@pytest.mark.parametrize("records", [None, b""])
def test_a_large_request_without_records_keeps_nothing_and_waits_for_nobody(
    world: Any, monkeypatch: pytest.MonkeyPatch, records: Any
) -> None:
    monkeypatch.setattr("highwater_broker.kafka_api.produce.WAITING_BYTES_MAX", 1)
    count = 1_000
    hosted = [world.host("t", number) for number in range(count)]
    names = [("t", number) for number in range(count)]
    ended: list[str] = []

    async def send(name: str, request: ProduceRequest, expected: list[str]) -> None:
        work = world.api.handle(request, "CLIENT")
        world.scope.spawn("release", release(request))
        response = await work
        assert [error for *_, error in errors(response)] == expected
        ended.append(name)

    async def release(request: ProduceRequest) -> None:
        release_records(request)

    full = produce(*names, acks=1)
    empty = produce(*names, *[("t", count)] * 2, ("u", 0), acks=1, records=records)
    refused = ["INVALID_RECORD"] * count + ["INVALID_REQUEST"] * 2 + ["UNKNOWN_TOPIC_OR_PARTITION"]
    world.scope.spawn("full", send("full", full, ["NONE"] * count))
    for _ in range(2):
        world.scope.spawn("empty", send("empty", empty, refused))
    world.kernel.run_for(0)
    assert ended == ["empty", "empty", "full"]
    assert {tuple(each.values) for each in hosted} == {(b"batch",)}


def test_partitions_without_records_among_others_outlast_the_request(world: Any) -> None:
    hosted = [world.host("t", number) for number in range(100)]
    items = tuple(
        ProducePartition("t", number, memoryview(BATCH) if number % 2 else None)
        for number in range(100)
    )
    request = ProduceRequest(1, 1_000, items)
    answers: list[list[str]] = []

    async def send() -> None:
        response = await world.api.handle(request, "CLIENT")
        answers.append([error for *_, error in errors(response)])

    async def release() -> None:
        release_records(request)

    world.scope.spawn("send", send())
    world.scope.spawn("release", release())
    world.kernel.run_for(0)
    assert answers == [["INVALID_RECORD", "NONE"] * 50]
    assert [each.values for each in hosted] == [[], [b"batch"]] * 50


def test_records_of_many_partitions_that_wait_weigh_more_than_their_bytes(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A waiting partition takes more memory than a record of a byte."""
    waiting_max = 3 * 100 * PRODUCE_PARTITION_BYTES
    monkeypatch.setattr("highwater_broker.kafka_api.produce.WAITING_BYTES_MAX", waiting_max)
    for number in range(100):
        world.host("t", number)
    outcomes: list[set[str]] = []

    async def send() -> None:
        names = [("t", number) for number in range(100)]
        response = await world.api.handle(produce(*names, acks=1, records=batch(b"x")), "CLIENT")
        outcomes.append({error for *_, error in errors(response)})

    for number in range(4):
        world.scope.spawn(f"{number}", send())
    world.kernel.run_for(0)
    assert outcomes == [*[{"REQUEST_TIMED_OUT"}] * 2, *[{"NONE"}] * 2]


def test_large_requests_that_wait_for_their_turn_keep_a_bounded_number_of_bytes(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first may be as large as it likes; beyond it one appends at once, or is refused."""
    monkeypatch.setattr("highwater_broker.kafka_api.produce.WAITING_BYTES_MAX", 1_000)
    """Less than one of them keeps."""
    hosted = [world.host("t", number) for number in range(100)]
    others = [world.host("u", number) for number in range(100)]

    def large(topic: str) -> ProduceRequest:
        names = [(topic, number) for number in range(100)]
        return produce(*names, acks=1, records=memoryview(batch(bytes(PRODUCE_PARTITION_BYTES))))

    outcomes: list[tuple[str, set[str]]] = []

    async def send(name: str, topic: str) -> None:
        response = await world.api.handle(large(topic), "CLIENT")
        outcomes.append((name, {error for *_, error in errors(response)}))

    for name, topic in (("first", "t"), ("elsewhere", "u"), ("behind it", "t")):
        world.scope.spawn(name, send(name, topic))
    world.kernel.run_for(0)
    assert outcomes == [
        ("elsewhere", {"NONE"}),
        ("behind it", {"REQUEST_TIMED_OUT"}),
        ("first", {"NONE"}),
    ]
    assert {each.log_end_offset for each in (*hosted, *others)} == {1}
    for name, topic in (("again", "t"), ("behind again", "t")):
        world.scope.spawn(name, send(name, topic))
    world.kernel.run_for(0)
    assert outcomes[3:] == [("behind again", {"REQUEST_TIMED_OUT"}), ("again", {"NONE"})]


def test_clients_produce_nothing_to_the_topics_that_brokers_keep(world: Any) -> None:
    internal = world.host("__consumer_offsets")
    response = world.ask(produce(("__consumer_offsets", 0), acks=1))
    assert errors(response) == [("__consumer_offsets", 0, "INVALID_TOPIC_EXCEPTION")]
    assert internal.log_end_offset == 0
