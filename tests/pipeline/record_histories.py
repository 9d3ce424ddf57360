"""Small runs for the checks of operations and records: a clean one, and planted ones.

The clean run: p0 (acks=all, one in flight) sends a, b, c to offsets 0 to 2; p1 (acks=1) sends d
to 3; p2 (of which nothing is known) sends e to 4, one that fails, and g, lying at 5, of which it
hears nothing. c0 reads all of it. Brokers 0, 1, 2 hold the same three batches of two records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from highwater_checker.history import HistoryEvent, OperationType
from highwater_checker.segments import Batch, ReplicaLog
from highwater_core.events import EventKind
from tests.pipeline.frames import Damaged, Run
from tests.support import made_again
from tests.support.made_again import NEW, OLD, Sent

OK, FAIL, INFO = OperationType.OK, OperationType.FAIL, OperationType.INFO
ACKS = {"p0": -1, "p1": 1}
MAX_IN_FLIGHT = {"p0": 1, "p1": 1, "p3": 5}
Value = str | bytes | None


def batch(base_offset: int, *values: Value, leader_epoch: int = 0) -> Batch:
    builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 1_000_000)
    for index, value in enumerate(values):
        held = value.encode() if isinstance(value, str) else value
        builder.append(index, timestamp=1, key=None, value=held, headers=[])
    data = bytearray(builder.build())
    data[0:8] = base_offset.to_bytes(8, "big")
    data[12:16] = leader_epoch.to_bytes(4, "big")
    next_offset = DefaultRecordBatch(bytes(data)).next_offset
    return Batch(base_offset, next_offset, leader_epoch, bytes(data))


def log(broker: int, *batches: Batch, high_watermark: int = 6, start: int = 0) -> ReplicaLog:
    return ReplicaLog(broker, "t", 0, batches, high_watermark, start)


def send(
    process: str,
    number: int,
    value: str,
    offset: int = -1,
    outcome: OperationType | None = OK,
    *,
    at_ns: tuple[int, int] | None = None,
    tries: int = 1,
) -> list[HistoryEvent]:
    """Return a send's lines; one without an outcome never completed. It takes one nanosecond."""
    begun_ns, ended_ns = (10 * max(offset, 0), 10 * max(offset, 0) + 1) if at_ns is None else at_ns
    begun = HistoryEvent(begun_ns, OperationType.INVOKE, number, process, "send", "t", 0, value)
    if outcome is None:
        return [begun]
    return [begun, replace(begun, time_ns=ended_ns, type=outcome, offset=offset, tries=tries)]


def read(process: str, offset: int, value: str, high_watermark: int = 6) -> HistoryEvent:
    return HistoryEvent(
        100, OK, offset, process, "poll", "t", 0, value, offset, high_watermark=high_watermark
    )


def read_all(process: str, values: Sequence[str] = "abcdeg") -> list[HistoryEvent]:
    return [read(process, offset, value) for offset, value in enumerate(values)]


SENDS = [
    *send("p0", 0, "a", 0),
    *send("p0", 1, "b", 1),
    *send("p0", 2, "c", 2),
    *send("p1", 0, "d", 3),
    *send("p2", 0, "e", 4),
    *send("p2", 1, "f", outcome=FAIL),
    *send("p2", 2, "g", outcome=None),
]
AB, CD, EG = batch(0, "a", "b"), batch(2, "c", "d"), batch(4, "e", "g")
CLEAN = Run(
    "clean",
    [*SENDS, *read_all("c0")],
    ACKS,
    MAX_IN_FLIGHT,
    [log(broker, AB, CD, EG) for broker in range(3)],
)


def with_logs(*logs: ReplicaLog) -> Run:
    return replace(CLEAN, replicas=logs)


def with_third(*batches: Batch, high_watermark: int = 6) -> Run:
    """Return the clean run, but that broker 2 holds these batches."""
    third = log(2, *batches, high_watermark=high_watermark)
    return replace(CLEAN, replicas=[*CLEAN.replicas[:2], third])


def with_same(*batches: Batch, high_watermark: int = 6, start: int = 0) -> Run:
    """Return the clean run, but that every broker holds these batches."""
    logs = [
        log(broker, *batches, high_watermark=high_watermark, start=start) for broker in range(3)
    ]
    return replace(CLEAN, replicas=logs)


def with_history(*events: HistoryEvent) -> Run:
    return replace(CLEAN, history=events)


OVERTAKEN = with_history(*send("p0", 0, "e", 4, at_ns=(0, 9)), *send("p0", 1, "b", 1, at_ns=(1, 8)))

ORPHAN = replace(with_history(send("p0", 0, "x", 0)[1]), run_id="orphan")
"""An acknowledgement alone: the line of its send was not taken in. Its run is unproven."""

Found = dict[str, list[tuple[str, int, int]]]
"""By check: (invariant, offset, broker) of each finding, sorted."""


@dataclass(frozen=True, slots=True)
class Planted:
    """A run with a violation, or one that looks so and is sound."""

    name: str
    run: Run
    found: Found


BEYOND: tuple[Sent, ...] = (("v1", 1, 795, 805), ("v2", 2, 796, 806))
"""Records of the topic's second life at offset 2, where its first life had none."""


def with_two_lives(*more: HistoryEvent) -> Run:
    """Return a run of made_again.py and BEYOND; c0 reads each record once it is acknowledged."""
    history: list[HistoryEvent] = []
    for number, (value, offset, begun_ns, ended_ns) in enumerate((*OLD, *NEW, *BEYOND)):
        history += send("p0", number, value, offset, at_ns=(begun_ns, ended_ns))
        told = read("c0", offset, value, high_watermark=offset + 1)
        history.append(replace(told, time_ns=ended_ns + 1, operation_id=number))
    appended = made_again.traced(800, EventKind.LOG_APPENDED, made_again.SECOND, 1, end_offset=3)
    events = [
        replace(each, ts_ns=each.ts_ns - made_again.START_WALL_NS, seq=seq)
        for seq, each in enumerate([*made_again.two_lives(), appended])
    ]
    run = with_same(batch(0, "v0", "v1", "v2"), high_watermark=3)
    return replace(run, history=[*history, *more], events=events)


PLANTED = [
    Planted("clean", CLEAN, {}),
    Planted("no evidence at all", Run("nothing"), {}),
    # ------------------------------------------------ I1, I3, I4
    Planted(
        "broker 2 lost its last batch",
        with_third(AB, CD),
        {
            "acknowledged_records": [("I1", 4, 2)],
            "replica_equality": [("I3", 4, 2)],
            "high_watermarks_are_held": [("I4", 4, 2)],
            "reads": [("I9", 4, 2), ("I9", 5, 2)],
        },
    ),
    Planted(
        "another record took an acknowledged one's offset on broker 2",
        with_third(AB, batch(2, "it's", "d"), EG),
        {
            "acknowledged_records": [("I1", 2, 2)],
            "replica_equality": [("I3", 2, 2)],
            "reads": [("I9", 2, 2)],
        },
    ),
    Planted(
        "what acks=1 acknowledged is lost everywhere",
        replace(with_same(AB, batch(2, "c"), EG), history=SENDS),
        {},
    ),
    Planted(
        "no replica of the partition was read",
        with_logs(),
        {"acknowledged_records": [("I1", offset, -1) for offset in (0, 1, 2, 4)]},
    ),
    Planted(
        "no replica of the partition was left in sync",
        replace(with_logs(), cut_off=[log(2, AB)], only_in_sync=True),
        {},
    ),
    Planted("nobody saw the end", replace(with_logs(), saw_the_end=False), {}),
    Planted(
        "a replica that was cut off for good holds less, and another record",
        replace(
            with_logs(log(0, AB, CD, EG), log(1, AB, CD, EG)),
            cut_off=[log(2, AB, batch(2, "x"))],
            only_in_sync=True,
        ),
        {},
    ),
    Planted(
        "every log is damaged",
        replace(CLEAN, replicas=[], damaged=[Damaged("t", 0, b, "bad CRC") for b in range(3)]),
        {
            "acknowledged_records": [("I1", offset, -1) for offset in (0, 1, 2, 4)],
            "segments_decode": [("I3", -1, 0), ("I3", -1, 1), ("I3", -1, 2)],
        },
    ),
    Planted("the final look tells of no broker 2", with_third(AB, high_watermark=-1), {}),
    Planted("retention removed the first batch", with_same(CD, EG, start=2), {}),
    Planted(
        "records without a value, and one that is no text",
        replace(
            with_same(batch(0, None, b"\xff")),
            history=[*send("p0", 0, "", 0), *send("p0", 1, "\ufffd", 1)],
        ),
        {"high_watermarks_are_held": [("I4", 2, 0), ("I4", 2, 1), ("I4", 2, 2)]},
    ),
    Planted(
        "the same records in other batches",
        with_third(batch(0, "a"), batch(1, "b"), CD, EG),
        {"replica_equality": [("I3", 0, 2)]},
    ),
    Planted(
        "the same batch in another leader epoch",
        with_third(AB, CD, batch(4, "e", "g", leader_epoch=1)),
        {"replica_equality": [("I3", 4, 2)]},
    ),
    Planted(
        "a batch too many, below the high watermark",
        replace(
            with_logs(log(0, AB), log(1, AB, CD), log(2, AB)), history=[*send("p0", 0, "a", 0)]
        ),
        {
            "replica_equality": [("I3", 2, 1)],
            "high_watermarks_are_held": [("I4", 2, 0), ("I4", 2, 2), ("I4", 4, 1)],
        },
    ),
    Planted(
        "logs differ above the lowest high watermark",
        replace(with_third(AB, CD, batch(4, "e", "x"), high_watermark=4), history=SENDS),
        {},
    ),
    # ------------------------------------------------ duplicates
    Planted(
        "sent once, and there twice",
        replace(with_same(AB, batch(2, "c", "a"), EG), history=SENDS),
        {"duplicates": [("duplicate", 3, 0)]},
    ),
    Planted(
        "an idempotent producer's, sent again, and there twice",
        replace(
            with_same(AB, batch(2, "c", "a"), EG),
            history=send("p0", 0, "a", 0, tries=2),
            idempotent=("p0",),
        ),
        {"duplicates": [("I20", 3, 0)]},
    ),
    Planted(
        "sent once, its outcome unknown, and there three times",
        replace(
            with_same(AB, batch(2, "a", "a"), EG),
            history=send("p0", 0, "a", outcome=INFO, tries=1),
        ),
        {"duplicates": [("duplicate", 2, 0)]},
    ),
    Planted(
        "never completed, of a client that sends once, and there twice",
        replace(
            with_same(AB, batch(2, "c", "a"), EG),
            history=[replace(SENDS[0], tries=1), *SENDS[2:]],
        ),
        {"duplicates": [("duplicate", 3, 0)]},
    ),
    Planted(
        "twice there: sent again, tries not told, never completed, and nobody's",
        replace(
            with_same(batch(0, "a", "a", "b", "b"), batch(4, "g", "g"), batch(6, "x", "x")),
            history=[
                *send("p0", 0, "a", 0, tries=2),
                *send("p0", 1, "b", 2, tries=0),
                *send("p0", 2, "g", outcome=None),
            ],
        ),
        {},
    ),
    Planted(
        "records without a value, where one was sent once",
        replace(
            with_same(batch(0, None), batch(1, None), high_watermark=2),
            history=send("p0", 0, "", 0),
        ),
        {"duplicates": [("duplicate", 1, 0)]},
    ),
    Planted(
        "failed for certain, and there",
        replace(with_same(AB, batch(2, "c", "f"), EG), history=SENDS),
        {"duplicates": [("aborted-read", 3, 0)]},
    ),
    Planted(
        "twice there on the replica with the most committed",
        replace(
            CLEAN,
            replicas=[log(0, AB, CD, EG), log(1, AB, CD, EG, batch(6, "a"), high_watermark=7)],
            history=SENDS,
        ),
        {"duplicates": [("duplicate", 6, 1)]},
    ),
    # ------------------------------------------------ order
    Planted(
        "sent after an acknowledgement, and below it",
        with_history(*send("p3", 0, "e", 4, at_ns=(0, 1)), *send("p2", 0, "b", 1, at_ns=(2, 3))),
        {"order": [("realtime-send", 1, -1)]},
    ),
    Planted(
        "sent below an offset that two acknowledgements tell of",
        with_history(
            *send("p3", 0, "e", 4, at_ns=(0, 1)),
            *send("p2", 0, "x", 4, at_ns=(0, 2)),
            *send("p2", 1, "b", 1, at_ns=(3, 4)),
        ),
        {
            "order": [("realtime-send", 1, -1)],
            "acknowledged_records": [("I1", 4, broker) for broker in range(3)],
            "inconsistent_offsets": [("inconsistent-offsets", 4, -1)],
        },
    ),
    Planted(
        "sent in the nanosecond of an acknowledgement",
        with_history(*send("p3", 0, "e", 4, at_ns=(0, 1)), *send("p2", 0, "b", 1, at_ns=(1, 3))),
        {},
    ),
    Planted("one in flight, out of order", OVERTAKEN, {"order": [("nonmonotonic-send", 1, -1)]}),
    Planted(
        "one in flight, out of order after it was sent again",
        with_history(
            *send("p0", 0, "e", 4, at_ns=(0, 9), tries=2), *send("p0", 1, "b", 1, at_ns=(1, 8))
        ),
        {},
    ),
    Planted("five in flight, out of order", replace(OVERTAKEN, max_in_flight={"p0": 5}), {}),
    Planted("any number in flight, out of order", replace(OVERTAKEN, max_in_flight={}), {}),
    Planted(
        "an idempotent producer's, out of order after it was sent again",
        replace(
            with_history(
                *send("p0", 0, "e", 4, at_ns=(0, 9), tries=2), *send("p0", 1, "b", 1, at_ns=(1, 8))
            ),
            max_in_flight={"p0": 5},
            idempotent=("p0",),
        ),
        {"order": [("I20", 1, -1)]},
    ),
    Planted("acks=1, out of order", replace(OVERTAKEN, acks={"p0": 1}), {}),
    Planted(
        "acknowledged at no offset",
        with_history(*send("p0", 0, "a", -1)),
        {},
    ),
    # ------------------------------------------------ inconsistent offsets, reads
    Planted(
        "two producers were told of one offset",
        with_history(*send("p0", 0, "a", 0), *send("p3", 0, "b", 0)),
        {
            "inconsistent_offsets": [("inconsistent-offsets", 0, -1)],
            "acknowledged_records": [("I1", 0, broker) for broker in range(3)],
        },
    ),
    Planted(
        "a consumer read another record than was acknowledged",
        with_history(*send("p0", 0, "a", 0), *read_all("c0", "xbcdeg")),
        {
            "inconsistent_offsets": [("inconsistent-offsets", 0, -1)],
            "reads": [("I9", 0, broker) for broker in range(3)],
        },
    ),
    Planted(
        "a consumer read another record than acks=1 acknowledged",
        with_history(*send("p1", 0, "x", 0), *read_all("c0")),
        {},
    ),
    Planted(
        "two consumers read different records",
        with_history(*read_all("c0"), *read_all("c1", "abcdex")),
        {
            "inconsistent_offsets": [("inconsistent-offsets", 5, -1)],
            "reads": [("I9", 5, broker) for broker in range(3)],
        },
    ),
    Planted(
        "a consumer read one place twice, differently",
        with_history(*read_all("c0"), read("c0", 0, "x")),
        {
            "inconsistent_offsets": [("inconsistent-offsets", 0, -1)],
            "reads": [("I9", 0, -1)],
        },
    ),
    Planted(
        "a consumer read at the high watermark",
        with_history(*read_all("c0", "abcde"), read("c0", 5, "g", high_watermark=5)),
        {"reads": [("I9", 5, -1)]},
    ),
    Planted(
        "a consumer did not read to the end",
        with_history(*read_all("c0", "abcde")),
        {"reads": [("unseen", 5, broker) for broker in range(3)]},
    ),
    Planted(
        "a consumer was not let read to the end",
        replace(with_history(*read_all("c0", "abcde")), to_the_end=False),
        {},
    ),
    Planted(
        "a consumer cannot read what is not committed",
        replace(with_same(AB, high_watermark=1), history=[read("c0", 0, "a")]),
        {},
    ),
    Planted(
        "killed incarnations did not read to the end",
        with_history(*read_all("c0", "ab"), *read_all("c0.2", "abc"), *read_all("c0.10")),
        {},
    ),
    Planted(
        "a member of a group read on from where others were",
        with_history(
            *read_all("c0"),
            HistoryEvent(0, OperationType.INVOKE, 0, "g0m0", "fetch_committed", "t", 0, "g0"),
            HistoryEvent(1, OK, 0, "g0m0", "fetch_committed", "t", 0, "g0", 5),
            read("g0m0", 5, "g"),
        ),
        {},
    ),
    Planted(
        "a consumer asked, and read nothing",
        replace(
            with_same(AB, high_watermark=2),
            history=[HistoryEvent(0, OK, 0, "c0", "latest", "t", 0, "", 2)],
        ),
        {"reads": sorted(("unseen", at, broker) for at in range(2) for broker in range(3))},
    ),
    # ------------------------------------------------ lives of a topic
    Planted("a topic was made again, and read in both lives", with_two_lives(), {}),
    Planted(
        "a consumer read one place of the second life twice, differently",
        with_two_lives(replace(read("c0", 2, "x"), time_ns=820, operation_id=9)),
        {
            "inconsistent_offsets": [("inconsistent-offsets", 2, -1)],
            "reads": [("I9", 2, -1)],
        },
    ),
    Planted(
        "a consumer read one place of the first life twice, differently",
        with_two_lives(replace(read("c0", 1, "x"), time_ns=310, operation_id=9)),
        {
            "inconsistent_offsets": [("inconsistent-offsets", 1, -1)],
            "reads": [("I9", 1, -1)],
        },
    ),
    Planted(
        "what was read of the second life is gone",
        replace(
            with_two_lives(),
            replicas=with_same(batch(0, "v0", "v1", "x"), high_watermark=3).replicas,
        ),
        {
            "acknowledged_records": [("I1", 2, broker) for broker in range(3)],
            "reads": [("I9", 2, broker) for broker in range(3)],
        },
    ),
]
