"""The load of stock clients: pace, values, histories, and the libraries' settings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from highwater.runs.stock import confluent, kafka_python
from highwater.runs.stock.clients import NeverSent, OnDone, Read
from highwater.runs.stock.libraries import ClientKind, differences_of
from highwater.runs.stock.reading import ReadingThread
from highwater.runs.stock.recording import ClientHistory
from highwater.runs.stock.writing import MOST_AT_ONCE, WritingThread
from highwater.waiting import eventually
from highwater_chaos.plan import Group, Plan, Producer, Workload
from highwater_checker.history import HistoryEvent, OperationType
from highwater_checker.run_folder.histories import read_history

WITHIN_S = 60.0


class Broker:
    """A partition's log as a library would show it; every third send is answered with an error."""

    def __init__(self, *, sends_once: bool = False) -> None:
        self.sends_once = sends_once
        self.values: list[str] = []
        self.sends = 0

    def send(self, topic: str, partition: int, value: str, on_done: OnDone) -> None:
        self.sends += 1
        if self.sends % 5 == 0:
            raise NeverSent("_QUEUE_FULL")
        self.values.append(value)
        if self.sends % 3 == 0:
            on_done(-1, "_MSG_TIMED_OUT")
        else:
            on_done(len(self.values) - 1, "")

    def work(self, within_s: float) -> None:
        pass

    def finish(self, within_s: float) -> None:
        pass

    read_up_to = 0

    def poll(self, timeout_s: float) -> Sequence[Read]:
        if self.read_up_to == len(self.values):
            return [Read(0, -1, "", "_TRANSPORT")]
        self.read_up_to += 1
        return [Read(0, self.read_up_to - 1, self.values[self.read_up_to - 1])]

    def end_offset(self, partition: int) -> int | None:
        return len(self.values) if self.read_up_to else None

    def close(self) -> None:
        pass


def history_of(folder: Path, name: str) -> list[HistoryEvent]:
    return read_history(folder / f"{name}.jsonl")


def written_by(
    settings: Producer, folder: Path, *, sends_once: bool = False
) -> tuple[Broker, list[HistoryEvent]]:
    """Return the history of a producer with these settings until it had sent 15 records."""
    broker = Broker(sends_once=sends_once)
    history = ClientHistory(folder, "p0", 0)
    writing = WritingThread("p0", broker, settings, 2, history)
    writing.start()
    eventually(lambda: broker.sends >= 15, within=WITHIN_S, what="15 sends")
    writing.stop()
    assert writing.ended() == ""
    history.close()
    return broker, history_of(folder, "p0")


def test_every_send_has_its_outcome_by_the_error_table(tmp_path: Path) -> None:
    broker, events = written_by(Producer(rate_per_s=1_000), tmp_path)
    sends = [event for event in events if event.type is OperationType.INVOKE]
    assert len({event.value for event in sends}) == len(sends) == broker.sends
    assert {event.partition for event in sends} == {0, 1}
    kinds = {event.error: event.type for event in events if event.type is not OperationType.INVOKE}
    assert kinds == {
        "": OperationType.OK,
        "_MSG_TIMED_OUT": OperationType.INFO,
        "_QUEUE_FULL": OperationType.FAIL,
    }
    assert {event.tries for event in events} == {0}


class LateBroker(Broker):
    """Outcomes come when the client is let to work, as librdkafka's do."""

    def __init__(self) -> None:
        super().__init__()
        self.due: list[OnDone] = []
        self.most_due = 0
        self.outcomes = 0

    def send(self, topic: str, partition: int, value: str, on_done: OnDone) -> None:
        self.sends += 1
        self.due.append(on_done)
        self.most_due = max(self.most_due, len(self.due))

    def work(self, within_s: float) -> None:
        self.outcomes += len(self.due)
        for on_done in self.due:
            on_done(0, "")
        self.due = []


def test_outcomes_do_not_wait_for_a_client_that_cannot_keep_its_rate(tmp_path: Path) -> None:
    broker = LateBroker()
    history = ClientHistory(tmp_path, "p0", 0)
    writing = WritingThread("p0", broker, Producer(rate_per_s=1_000_000_000), 1, history)
    writing.start()
    eventually(lambda: broker.outcomes >= 3 * MOST_AT_ONCE, within=WITHIN_S, what="outcomes")
    writing.stop()
    assert writing.ended() == ""
    history.close()
    assert broker.most_due == MOST_AT_ONCE


@pytest.mark.parametrize("sends_once", [True, False])
def test_a_library_may_send_again_without_retries_and_acks_0_says_nothing(
    tmp_path: Path, sends_once: bool
) -> None:
    settings = Producer(rate_per_s=1_000, retries=False, acks=0)
    _, events = written_by(settings, tmp_path, sends_once=sends_once)
    kinds = {event.error: event.type for event in events if event.type is not OperationType.INVOKE}
    assert kinds["unacknowledged"] is OperationType.INFO
    assert OperationType.OK not in kinds.values()
    told = {event.tries for event in events if event.type is not OperationType.FAIL}
    assert told == {int(sends_once)}


def test_librdkafka_sends_again_without_retries() -> None:
    """Found: a soak's plan cut a leader off, which was deposed before it could answer. It had
    appended the record, answered NOT_LEADER_OR_FOLLOWER, and librdkafka sent it to the next leader:
    the judge called the second one a duplicate of a record that was sent once."""
    assert not confluent.ConfluentProducer.sends_once


def test_a_reader_records_its_records_and_knows_when_it_has_read_all(tmp_path: Path) -> None:
    broker = Broker()
    broker.values = ["a", "b", "c"]
    history = ClientHistory(tmp_path, "c0", 0)
    reading = ReadingThread("c0", broker, "t", 1, history)
    reading.start()
    assert reading.caught_up(WITHIN_S) == ""
    reading.stop()
    history.close()
    events = history_of(tmp_path, "c0")
    read = [(e.offset, e.value) for e in events if e.type is OperationType.OK]
    assert read == [(0, "a"), (1, "b"), (2, "c")]
    assert {e.error for e in events if e.type is OperationType.FAIL} <= {"_TRANSPORT"}


def test_a_history_takes_nothing_once_it_is_closed(tmp_path: Path) -> None:
    history = ClientHistory(tmp_path, "p0", 0)
    history.write(OperationType.INVOKE, 0, "send", "t", 0, "v")
    history.close()
    history.write(OperationType.OK, 0, "send", "t", 0, "v", 3)
    history.close()
    assert [event.type for event in history_of(tmp_path, "p0")] == [OperationType.INVOKE]


@pytest.mark.parametrize(
    ("planned", "librdkafka", "kafka_pythons"),
    [
        (
            Producer(),
            {"acks": -1, "max.in.flight.requests.per.connection": 1, "batch.num.messages": 1},
            {"acks": -1, "max_in_flight_requests_per_connection": 1, "batch_size": 0},
        ),
        (
            Producer(retries=False, max_in_flight=5, batch_max_records=10, linger_ms=7),
            {"message.send.max.retries": 0, "batch.num.messages": 10, "linger.ms": 7},
            {"retries": 0, "max_in_flight_requests_per_connection": 5, "batch_size": 16_384},
        ),
        (
            Producer(acks=1, request_timeout_ms=900, delivery_timeout_ms=4_000),
            {"acks": 1, "request.timeout.ms": 900, "message.timeout.ms": 4_000},
            {"acks": 1, "request_timeout_ms": 900, "delivery_timeout_ms": 4_000},
        ),
    ],
)
def test_a_plans_producer_in_the_words_of_each_library(
    planned: Producer, librdkafka: dict[str, Any], kafka_pythons: dict[str, Any]
) -> None:
    assert confluent.producer_settings("h:1,h:2", planned).items() >= librdkafka.items()
    settings = kafka_python.producer_settings("h:1,h:2", planned)
    assert settings.items() >= kafka_pythons.items()
    assert settings["enable_idempotence"] is False
    assert settings["bootstrap_servers"] == ["h:1", "h:2"]


def test_a_run_tells_where_its_stock_clients_differ_from_the_plans() -> None:
    plan = Plan(seed=1, workload=Workload(groups=(Group(),)))
    assert list(differences_of(ClientKind.OWN, plan)) == []
    of_clients, of_groups = differences_of(ClientKind.CONFLUENT, plan)
    assert "librdkafka" in of_clients
    assert "groups" in of_groups
    assert any("bytes" in each for each in differences_of(ClientKind.KAFKA_PYTHON, plan))


@pytest.mark.parametrize("kind", [ClientKind.CONFLUENT, ClientKind.KAFKA_PYTHON])
def test_a_plan_without_groups_has_none_that_are_left_out(kind: ClientKind) -> None:
    assert not any("groups" in each for each in differences_of(kind, Plan(seed=1)))
