"""A recorded producer of librdkafka: its promises, its history, its refusals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from highwater.errors import HarnessError
from highwater.runs.judged import producing
from highwater.runs.judged.producing import RecordedProducer, Values, promised_by
from highwater.runs.stock.recording import ClientHistory
from highwater_checker.history import OperationType, decode
from highwater_checker.run_folder.documents import PromisedProducer
from highwater_checker.run_folder.histories import sends_in


class FakeError:
    def name(self) -> str:
        return "_MSG_TIMED_OUT"


class FakeMessage:
    def __init__(self, partition: int, offset: int) -> None:
        self._place = partition, offset

    def partition(self) -> int:
        return self._place[0]

    def offset(self) -> int:
        return self._place[1]


class FakeLibrary:
    """Takes records, and reports their outcomes when the test calls the callbacks."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = config
        self.callbacks: list[Callable[[Any, Any], object]] = []
        self.is_full = False

    def produce(self, topic: str, *, on_delivery: Callable[[Any, Any], object], **_: Any) -> None:
        if self.is_full:
            raise BufferError
        self.callbacks.append(on_delivery)

    def flush(self, timeout: float) -> int:
        return 0


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> list[FakeLibrary]:
    made: list[FakeLibrary] = []

    def make(config: Mapping[str, Any]) -> FakeLibrary:
        made.append(FakeLibrary(config))
        return made[-1]

    monkeypatch.setattr(producing.confluent_kafka, "Producer", make)
    return made


def recorded(folder: Path, **config: Any) -> RecordedProducer:
    return RecordedProducer(config, "p0", ClientHistory(folder, "p0", 0), Values())


@pytest.mark.parametrize(
    ("config", "promised"),
    [
        ({}, PromisedProducer("p0")),
        ({"acks": "all", "max.in.flight": 1}, PromisedProducer("p0", -1, 1)),
        ({"acks": 1}, PromisedProducer("p0", 1)),
        ({"request.required.acks": "0"}, PromisedProducer("p0", 0)),
        (
            {"enable.idempotence": True, "max.in.flight.requests.per.connection": "5"},
            PromisedProducer("p0", -1, 5, True),
        ),
        ({"enable.idempotence": "false"}, PromisedProducer("p0")),
    ],
)
def test_promises_follow_librdkafkas_meaning_of_a_configuration(
    config: Mapping[str, Any], promised: PromisedProducer
) -> None:
    assert promised_by("p0", config) == promised


def test_a_send_is_recorded_before_it_is_sent_and_its_outcome_when_it_is_reported(
    library: list[FakeLibrary], tmp_path: Path
) -> None:
    producer = recorded(tmp_path)
    told: list[object] = []
    producer.produce("orders", b"a", key="k", on_delivery=lambda error, _: told.append(error))
    (invoke,) = decode((tmp_path / "p0.jsonl").read_bytes().splitlines())
    assert (invoke.type, invoke.partition, invoke.value) == (OperationType.INVOKE, -1, "a")
    library[0].callbacks[0](None, FakeMessage(2, 7))
    producer.produce("orders", "b", partition=0)
    library[0].callbacks[1](FakeError(), FakeMessage(0, -1))
    producer.finish()
    _, ok, _, info = decode((tmp_path / "p0.jsonl").read_bytes().splitlines())
    assert (ok.type, ok.partition, ok.offset, ok.key) == (OperationType.OK, 2, 7, "k")
    assert (info.type, info.error) == (OperationType.INFO, "_MSG_TIMED_OUT")
    assert told == [None]


def test_an_answer_to_a_record_sent_without_acks_acknowledges_nothing(
    library: list[FakeLibrary], tmp_path: Path
) -> None:
    producer = recorded(tmp_path, acks=0)
    producer.produce("orders", "a", partition=0)
    library[0].callbacks[0](None, FakeMessage(0, 0))
    producer.finish()
    _, outcome = decode((tmp_path / "p0.jsonl").read_bytes().splitlines())
    assert (outcome.type, outcome.offset) == (OperationType.INFO, -1)


def test_a_record_that_the_library_refuses_was_never_sent(
    library: list[FakeLibrary], tmp_path: Path
) -> None:
    producer = recorded(tmp_path)
    library[0].is_full = True
    with pytest.raises(BufferError):
        producer.produce("orders", "a")
    producer.finish()
    _, outcome = decode((tmp_path / "p0.jsonl").read_bytes().splitlines())
    assert (outcome.type, outcome.error) == (OperationType.FAIL, "_QUEUE_FULL")


def test_a_refused_record_can_be_given_again_and_its_value_is_no_failed_one(
    library: list[FakeLibrary], tmp_path: Path
) -> None:
    """Found: users of librdkafka poll after a BufferError, and give it the same record again. The
    value was refused as one that was sent before."""
    producer = recorded(tmp_path)
    library[0].is_full = True
    with pytest.raises(BufferError):
        producer.produce("orders", "a", partition=0)
    library[0].is_full = False
    producer.produce("orders", "a", partition=0)
    library[0].callbacks[0](None, FakeMessage(0, 3))
    producer.finish()
    events = decode((tmp_path / "p0.jsonl").read_bytes().splitlines())
    sends = sends_in({"p0": list(events)})
    assert [(each.value, each.offset) for each in sends.acknowledged] == [("a", 3)]
    assert sends.failed == ()


@pytest.mark.usefixtures("library")
def test_a_value_that_was_sent_before_is_refused_and_leaves_no_line(tmp_path: Path) -> None:
    producer = recorded(tmp_path)
    producer.produce("orders", "a")
    with pytest.raises(ValueError, match="'a' was sent before: a run's values must be unique"):
        producer.produce("payments", b"a")
    producer.finish()
    assert len((tmp_path / "p0.jsonl").read_bytes().splitlines()) == 1


@pytest.mark.usefixtures("library")
def test_a_producer_of_an_ended_run_sends_no_more(tmp_path: Path) -> None:
    producer = recorded(tmp_path)
    producer.finish()
    with pytest.raises(HarnessError, match="the run has ended"):
        producer.produce("orders", "a")


def test_once_the_test_is_over_its_callbacks_are_called_no_more(
    library: list[FakeLibrary], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found: one that raised left its run without a verdict."""
    producer = recorded(tmp_path)
    called: list[str] = []
    producer.produce("t", "a", on_delivery=lambda error, message: called.append("a"))
    producer.produce("t", "b", on_delivery=lambda error, message: called.append("b"))
    library[0].callbacks[0](None, FakeMessage(0, 0))
    monkeypatch.setattr(
        FakeLibrary, "flush", lambda self, timeout: self.callbacks[1](None, FakeMessage(0, 1))
    )
    producer.finish()
    assert called == ["a"]
    found = decode((tmp_path / "p0.jsonl").read_bytes().splitlines())
    assert [each.offset for each in found if each.type is OperationType.OK] == [0, 1]
