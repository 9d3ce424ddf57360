"""A small effect of each planted bug of highwater_planted.sequences, by its name."""

from __future__ import annotations

from typing import Any

from highwater_broker.log.log import Log
from highwater_broker.log.log_config import LogConfig
from highwater_broker.log.record_batch import LogRefused
from highwater_core.ids import LeaderEpoch, Offset
from highwater_wire.kafka.record_batch import build_batch
from tests.support.open_logs import open_log

FOLDER = "sequences-0"
PRODUCER = 7


def _opened(bench: Any) -> Log:
    log, _ = open_log(
        bench.files, FOLDER, LogConfig(), clean_shutdown=True, recovery_point=Offset(0)
    )
    return log


def _end_after(log: Log, *sequences: int) -> object:
    """Return where the log ends after batches with these sequences, or why one is refused."""
    for sequence in sequences:
        batch = build_batch([(None, b"v", 1_000)], producer=(PRODUCER, 0, sequence))
        try:
            log.append_as_leader(batch, LeaderEpoch(0), 1_000)
        except LogRefused as refused:
            return refused.error.name
    return log.log_end_offset


def repeated_after_a_start(bench: Any) -> object:
    _end_after(_opened(bench), 0)
    return _end_after(_opened(bench), 0)


def repeated_after_it_followed(bench: Any) -> object:
    log = _opened(bench)
    log.append_as_follower(build_batch([(None, b"v", 1_000)], producer=(PRODUCER, 0, 0)), 1_000)
    return _end_after(log, 0)


def repeated(bench: Any) -> object:
    return _end_after(_opened(bench), 0, 0)


def after_a_gap(bench: Any) -> object:
    return _end_after(_opened(bench), 0, 2)


def again_after_it_was_cut(bench: Any) -> object:
    log = _opened(bench)
    _end_after(log, 0, 1)
    log.truncate_to(Offset(1))
    return _end_after(log, 1)


def of_an_earlier_epoch(bench: Any) -> object:
    log = _opened(bench)
    batch = build_batch([(None, b"v", 1_000)], producer=(PRODUCER, 1, 0))
    log.append_as_leader(batch, LeaderEpoch(0), 1_000)
    return _end_after(log, 1)


SEQUENCES: dict[str, tuple[Any, object, object]] = {
    "sequences_not_read_at_start": (repeated_after_a_start, 1, 2),
    "sequences_not_followed": (repeated_after_it_followed, 1, 2),
    "repeats_appended": (repeated, 1, 2),
    "sequence_gaps_accepted": (after_a_gap, "OUT_OF_ORDER_SEQUENCE_NUMBER", 2),
    "producer_epoch_not_fenced": (of_an_earlier_epoch, "INVALID_PRODUCER_EPOCH", 2),
    "sequences_not_cut": (again_after_it_was_cut, 2, 1),
}
"""Each with its probe's result without the mistake, and with it."""
