"""Planted: the mistakes of the catalogue's rows from 25 on, which no preset has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

from highwater_broker.log import log
from highwater_broker.log.log_config import LogConfig
from highwater_broker.log.recovery import Recovery
from highwater_broker.log.retention import count_deletable
from highwater_broker.log.segment import Segment
from highwater_broker.replica_logs import ReplicaLogs
from highwater_controller.election import Election, Lost, Won
from highwater_controller.patience import RACE_ATTEMPTS, GaveUp
from highwater_core import znodes
from highwater_core.ids import Offset
from highwater_core.ports import Buffer
from highwater_planted.bug import FaultFamily, PlantedBug, Replacement

_note_epoch = Recovery._note_epoch
_write = Segment.write

_torn: WeakKeyDictionary[Segment, bytes] = WeakKeyDictionary()
"""What a refused write has left at the end of a segment."""


def _note_epochs_above_0(self: Recovery, header: Any) -> None:
    if header.leader_epoch > 0:
        _note_epoch(self, header)


def _write_behind_a_torn_batch(self: Segment, buffers: Sequence[Buffer]) -> int:
    left = _torn.pop(self, b"")
    try:
        position = _write(self, [left, *buffers] if left else buffers)
    except OSError:
        whole = b"".join(map(bytes, buffers))
        _torn[self] = left or whole[: len(whole) // 2]
        raise
    return position + len(left)


async def _stand_unless_one_was_elected(self: Election) -> Won | Lost:
    for _ in range(RACE_ATTEMPTS):
        if await self._reader.exists(znodes.CONTROLLER, watch=True) is not None:
            active_id = await self._active_id()
            if active_id is not None:
                return Lost(active_id)
            continue
        patience = self._reader.patience()
        epoch, _ = await self._read_epoch(patience)
        won = await self._try_to_win(epoch, patience)
        if won is not None:
            return Won(won)
    raise GaveUp(znodes.CONTROLLER)


def _count_those_above_the_high_watermark_too(
    config: LogConfig, segments: Sequence[Segment], now_ms: int, high_watermark: Offset
) -> int:
    return count_deletable(config, segments, now_ms, Offset(segments[-1].next_offset))


BUGS = (
    PlantedBug(
        name="epoch_0_not_recovered",
        summary="recovery leaves leader epoch 0 out of the epoch cache: epochs begin with 1",
        source="KAFKA-10432",
        breaks=("I10", "I11", "I1"),
        shows_under=(FaultFamily.PROCESS,),
        replacements=(Replacement(Recovery, "_note_epoch", _note_epochs_above_0),),
    ),
    PlantedBug(
        name="append_after_failed_write",
        summary="a log goes on behind what a failed write has left of its batch",
        source="KAFKA-10778",
        breaks=("I4", "I1", "I3", "L4"),
        shows_under=(FaultFamily.NONE,),
        replacements=(Replacement(Segment, "write", _write_behind_a_torn_batch),),
        is_rare=True,
    ),
    PlantedBug(
        name="elected_and_idle",
        summary="a controller takes its own election, whose reply it lost, for another's",
        source="KAFKA-13407, KAFKA-13461",
        breaks=("L1", "L2"),
        shows_under=(FaultFamily.NETWORK,),
        replacements=(Replacement(Election, "stand", _stand_unless_one_was_elected),),
        is_rare=True,
    ),
    PlantedBug(
        name="clean_stop_with_unopened_log",
        summary="a stop leaves the marker of a clean one though a log could not be opened",
        source="KAFKA-13773, KAFKA-15375",
        breaks=("I1", "I2", "I4"),
        shows_under=(FaultFamily.POWER_LOSS,),
        replacements=(Replacement(ReplicaLogs, "are_all_open", True),),
        is_rare=True,
    ),
    PlantedBug(
        name="retention_beyond_high_watermark",
        summary="retention removes segments with records that are not committed yet",
        source="KAFKA-5634",
        breaks=("I4",),
        shows_under=(FaultFamily.NETWORK,),
        replacements=(
            Replacement(log, "count_deletable", _count_those_above_the_high_watermark_too),
        ),
        is_rare=True,
    ),
)
