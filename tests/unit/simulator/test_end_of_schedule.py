"""The checks at a run's end, on logs written by hand and on clients' histories."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

from highwater_checker.finding import Finding
from highwater_checker.history import HistoryEvent, OperationType
from highwater_checker.lives_of_records import LivesOfRecords
from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import LeaderEpoch, TopicPartition
from highwater_simulator.disk import Disk
from highwater_simulator.disk_tree import FileNode, FolderNode
from highwater_simulator.end_of_schedule import ONE_LIFE, ReadBy, SentBy, check_end, lives_in
from highwater_simulator.oracle.losses import Excuse
from highwater_simulator.rng import SeededRng
from highwater_simulator.trace_log import TraceLog
from highwater_wire.kafka.record_batch import build_batch

AT, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)
LOG = "00000000000000000000.log"


def log_of(values: Iterable[str], start_offset: int = 0) -> bytes:
    return b"".join(
        build_batch([(None, value.encode(), 0)], offset, LeaderEpoch(0))
        for offset, value in enumerate(values, start_offset)
    )


def disk_with(content: bytes) -> Disk:
    disk, folder = Disk(SeededRng(1)), FolderNode()
    folder.assign((LOG, FileNode(bytearray(content))))
    disk.root.assign((str(AT), folder))
    return disk


class Client:
    """Writes a history, whose stamps rise as those of a world's clients do."""

    def __init__(self) -> None:
        self.history: list[HistoryEvent] = []

    def note(
        self,
        kind: OperationType,
        function: str,
        value: str,
        offset: int,
        at_ns: int,
        number: int,
        tries: int = 0,
    ) -> None:
        stamp_ns = at_ns + len(self.history)
        event = HistoryEvent(
            stamp_ns, kind, number, "c", function, "t", 0, value, offset, tries=tries
        )
        self.history.append(event)

    def send(
        self,
        value: str,
        offset: int = -1,
        kind: OperationType = OperationType.OK,
        at_ns: int = 5,
        tries: int = 2,
    ) -> Client:
        """Send at at_ns, and get an answer at once."""
        number = len(self.history)
        self.note(OperationType.INVOKE, "send", value, -1, at_ns, number)
        self.note(kind, "send", value, offset, at_ns, number, tries)
        return self

    def poll(self, value: str, offset: int, at_ns: int = 5) -> Client:
        self.note(OperationType.OK, "poll", value, offset, at_ns, -1)
        return self


def problems(
    logs: Mapping[int, Iterable[str] | bytes],
    *,
    sent: Client | None = None,
    read: Client | None = None,
    high_watermark: int | None = None,
    committed_end: int | None = None,
    excuses: tuple[Excuse, ...] = (),
    lives: LivesOfRecords = ONE_LIFE,
    stopped: tuple[int, ...] = (),
    **settings: Any,
) -> list[tuple[str, int]]:
    contents = {
        broker: log if isinstance(log, bytes) else log_of(log) for broker, log in logs.items()
    }
    world: Any = SimpleNamespace(
        brokers={
            broker: SimpleNamespace(disk=disk_with(content), is_running=broker not in stopped)
            for broker, content in contents.items()
        },
        zookeeper=SimpleNamespace(data=lambda _: None),
    )
    sender = SentBy([] if sent is None else sent.history, **{"acks": -1, **settings})
    readers = [] if read is None else [ReadBy(read.history, "t")]
    end_offset = len(list(logs[0])) if high_watermark is None else high_watermark
    led = {AT: end_offset} if committed_end is None else {}
    ends = {} if committed_end is None else {AT: committed_end}
    found: list[Finding] = list(
        check_end(
            world,
            {AT: list(logs)},
            led,
            [sender],
            readers,
            excuses,
            committed_ends=ends,
            lives=lives,
        )
    )
    return [(finding.invariant, finding.offset) for finding in found]


def test_equal_logs_with_true_acknowledgements_show_nothing() -> None:
    sent = Client().send("a", 0).send("x", kind=OperationType.FAIL).send("b", 1)
    sent.send("y", kind=OperationType.INFO)
    read = Client().poll("a", 0).poll("b", 1)
    assert problems({0: "ab", 1: "ab"}, sent=sent, read=read) == []


def test_isr_members_have_equal_logs() -> None:
    assert problems({0: "ab", 1: "ax"}) == [("I3", 1)]
    assert problems({0: "ab", 1: "a"}) == [("I3", 1)]


def test_isr_members_have_equal_logs_beyond_the_high_watermark() -> None:
    """The judge of a run's folder compares the records below it alone."""
    assert problems({0: "abx", 1: "aby"}, high_watermark=2) == [("I3", 2)]


def test_in_a_partition_without_a_leader_reads_must_stay_and_need_not_reach_the_end() -> None:
    """Its committed end is the oracle's, since no leader reports a high watermark."""
    lost, whole = Client().poll("x", 1), Client().poll("a", 0)
    assert problems({0: "abc"}, read=lost, committed_end=2) == [("I9", 1)]
    assert problems({0: "abc"}, read=whole, committed_end=2) == []
    assert problems({0: "abc"}, read=whole, high_watermark=2) == [("unseen", 1)]


def test_a_damaged_log_is_no_log_to_its_end() -> None:
    content = bytearray(log_of("ab"))
    content[-1] ^= 1
    assert problems({0: bytes(content), 1: bytes(content)}) == [("I3", -1), ("I3", -1)]


def test_a_log_that_nobody_recovers_any_more_may_be_damaged() -> None:
    """Found: a bit of a broker's log was flipped, and nobody started it again."""
    content = bytearray(log_of("ab"))
    content[-1] ^= 1
    both = {0: bytes(content), 1: bytes(content)}
    assert problems(both, stopped=(1,)) == [("I3", -1)]
    assert problems({0: "ab", 1: "aX"}, stopped=(1,)) == [("I3", 1)]


def test_an_acknowledged_record_is_at_its_offset() -> None:
    assert problems({0: "ab"}, sent=Client().send("a", 0).send("c", 2)) == [("I1", 2)]
    assert problems({0: "ab"}, sent=Client().send("b", 0)) == [("I1", 0)]


def test_records_with_acks_1_may_be_lost() -> None:
    assert problems({0: "ab"}, sent=Client().send("c", 2), acks=1) == []


def test_a_failed_send_is_not_there_an_unknown_one_may_be() -> None:
    assert problems({0: "ab"}, sent=Client().send("b", kind=OperationType.FAIL)) == [
        ("aborted-read", 1)
    ]
    assert problems({0: "ab"}, sent=Client().send("b", kind=OperationType.INFO)) == []


def test_a_record_is_there_twice_only_where_its_producer_tries_again() -> None:
    again, once = Client().send("a", 0, tries=2), Client().send("a", 0, tries=1)
    assert problems({0: "aab"}, sent=again.send("b", 2)) == []
    assert problems({0: "aab"}, sent=once.send("b", 2)) == [("duplicate", 1)]


def test_a_send_after_an_acknowledgement_has_a_higher_offset() -> None:
    sent = Client().send("b", 1).send("a", 0)
    assert problems({0: "ab"}, sent=sent) == [("realtime-send", 0)]
    assert problems({0: "ab"}, sent=sent, acks=1) == []


def test_a_repetition_that_arrives_late_is_no_disorder() -> None:
    assert problems({0: "aba"}, sent=Client().send("a", 0).send("b", 1)) == []


def test_records_that_were_read_are_still_there() -> None:
    assert problems({0: "ab"}, read=Client().poll("a", 0).poll("x", 1)) == [("I9", 1)]
    read = Client().poll("a", 0).poll("b", 1).poll("c", 2)
    assert problems({0: "ab"}, read=read) == [("I9", 2)]


def test_all_that_is_committed_is_read() -> None:
    assert problems({0: "abc"}, read=Client().poll("a", 0).poll("c", 2)) == [("unseen", 1)]
    assert problems({0: "abc"}, read=Client().poll("a", 0), high_watermark=1) == []


def test_a_consumer_that_read_nothing_at_all_has_not_seen_it() -> None:
    assert problems({0: "ab"}, read=Client()) == [("unseen", 0), ("unseen", 1)]


# ---------------------------------------------------------------- topics created again


def lives_of_two_topics() -> LivesOfRecords:
    """The first one had one record and was deleted at 200 ns, its namesake got two from 300 ns."""
    times_ns = iter((10, 200, 300))
    trace = TraceLog(lambda: next(times_ns))
    sink = trace.sink("broker-0")
    for kind, offset, detail in (
        (EventKind.LOG_APPENDED, 0, {"end_offset": 1}),
        (EventKind.TOPICS_CHANGED, None, {"deleted": ["t"]}),
        (EventKind.LOG_APPENDED, 0, {"end_offset": 2}),
    ):
        topic, partition = (None, None) if offset is None else ("t", 0)
        sink(TraceEvent(7, 0, 1, 1, kind, topic, partition, offset=offset, detail=detail))
    assert lives_in(trace, {"u"}) is ONE_LIFE
    return lives_in(trace, {"t"})


def test_records_of_a_topic_that_was_deleted_need_not_be_there() -> None:
    sent = Client().send("a", 0, at_ns=8).send("x", 0, at_ns=298)
    read = Client().poll("a", 0, at_ns=30).poll("x", 0, at_ns=400)
    assert problems({0: "x"}, sent=sent, read=read, lives=lives_of_two_topics()) == []
    assert problems({0: "x"}, sent=sent) == [("I1", 0), ("realtime-send", 0)]
    assert problems({0: "x"}, read=read) == [("I9", 0), ("I9", 0)]


def test_records_of_the_topic_that_was_created_again_are_there() -> None:
    sent = Client().send("a", 0, at_ns=8).send("x", 0, at_ns=290).send("y", 1, at_ns=298)
    read = Client().poll("x", 0, at_ns=400).poll("y", 1, at_ns=400)
    assert problems({0: "x"}, sent=sent, lives=lives_of_two_topics()) == [("I1", 1)]
    assert problems({0: "x"}, read=read, lives=lives_of_two_topics()) == [("I9", 1)]


# ---------------------------------------------------------------- lost by disks

LOSS = Excuse(AT, 1, 3, 100)


def test_records_lost_by_disks_are_required_of_no_replica() -> None:
    sent = Client().send("a", 0).send("b", 1).send("c", 2)
    read = Client().poll("a", 0).poll("b", 1)
    found = problems({0: "axy"}, sent=sent, read=read, excuses=(LOSS,))
    assert found == []


def test_an_excuse_ends_where_that_began_which_was_lost() -> None:
    assert problems({0: "xbc"}, sent=Client().send("a", 0), excuses=(LOSS,)) == [("I1", 0)]
    assert problems({0: "xbc"}, read=Client().poll("a", 0), excuses=(LOSS,)) == [("I9", 0)]
    assert problems({0: "abc"}, read=Client().poll("b", 1), excuses=(LOSS,)) == [("unseen", 0)]


def test_a_disks_loss_excuses_no_records_beyond_it() -> None:
    assert problems({0: "abc"}, sent=Client().send("d", 3), excuses=(LOSS,)) == [("I1", 3)]


def test_a_disks_loss_excuses_no_records_written_or_read_after_it() -> None:
    sent, read = Client().send("b", 1, at_ns=101), Client().poll("a", 0).poll("b", 1, at_ns=101)
    assert problems({0: "ax"}, sent=sent, excuses=(LOSS,)) == [("I1", 1)]
    assert problems({0: "ax"}, read=read, excuses=(LOSS,)) == [("I9", 1)]


def test_an_excuse_is_none_for_another_partition() -> None:
    loss = Excuse(OTHER, 0, 9, 100)
    assert problems({0: "a"}, sent=Client().send("b", 1), excuses=(loss,)) == [("I1", 1)]
