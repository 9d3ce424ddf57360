"""Planted: wrong ISR members, and leaders with wrong beliefs about the written ISR."""

from __future__ import annotations

from highwater_broker import partition
from highwater_broker.isr_writer import AlterPartitionWriter, Pending
from highwater_broker.partition import Partition
from highwater_broker.roles import IsrProposal
from highwater_core.config import IsrJoin
from highwater_core.ids import NodeId, Offset, PartitionEpoch
from highwater_planted.bug import FaultFamily, PlantedBug, Replacement

_adopt_isr = Partition.adopt_isr
_write = AlterPartitionWriter._write


def _join_at_first_fetch(
    follower_log_end_offset: Offset,
    high_watermark: Offset,
    epoch_start_offset: Offset,
    rule: IsrJoin,
) -> bool:
    return True


def _never_shrink(self: Partition, now_ms: int) -> bool:
    return False


def _keep_version(
    self: Partition,
    proposal: IsrProposal,
    isr: tuple[NodeId, ...],
    partition_epoch: PartitionEpoch,
    elr: tuple[NodeId, ...],
) -> bool:
    known = self.partition_epoch
    is_adopted = _adopt_isr(self, proposal, isr, partition_epoch, elr)
    self.partition_epoch = known
    return is_adopted


async def _take_unknown_for_done(self: AlterPartitionWriter, batch: list[Pending]) -> list[Pending]:
    for unresolved, proposal in await _write(self, batch):
        next_version = PartitionEpoch(proposal.partition_epoch + 1)
        unresolved.adopt_isr(proposal, proposal.isr, next_version, ())
    return []


BUGS = (
    PlantedBug(
        name="isr_joins_too_early",
        summary="a follower joins the ISR with its first fetch, however far behind",
        source="own; KAFKA-7128",
        breaks=("I2", "I4", "I1"),
        shows_under=(FaultFamily.PROCESS, FaultFamily.NETWORK),
        replacements=(Replacement(partition, "may_join", _join_at_first_fetch),),
    ),
    PlantedBug(
        name="isr_joins_at_high_watermark",
        summary="a follower joins at a new leader's high watermark, which lags what is committed",
        source="KAFKA-7128",
        breaks=("I2", "I1"),
        shows_under=(FaultFamily.PROCESS, FaultFamily.NETWORK),
        toggles={"isr_join": "high_watermark"},
        is_rare=True,
    ),
    PlantedBug(
        name="isr_join_ignores_broker_epoch",
        summary="a follower joins by the progress of an incarnation that is gone, disk and all",
        source="KIP-903, KIP-841, KAFKA-14139",
        breaks=("I2", "I1"),
        shows_under=(FaultFamily.LOST_DISK,),
        toggles={"isr_join_checks_broker_epoch": False},
        is_rare=True,
    ),
    PlantedBug(
        name="isr_never_shrinks",
        summary="a member that lags stays in the ISR: nothing is committed until it is back",
        source="own",
        breaks=("L4", "L5"),
        shows_under=(FaultFamily.NETWORK,),
        replacements=(Replacement(Partition, "maybe_shrink_isr", _never_shrink),),
    ),
    PlantedBug(
        name="partition_epoch_not_adopted",
        summary="a leader keeps the version from before its ISR write: every later one conflicts",
        source="KAFKA-2729, KAFKA-1382",
        breaks=("L3", "L4"),
        shows_under=(FaultFamily.PROCESS, FaultFamily.NETWORK),
        replacements=(Replacement(Partition, "adopt_isr", _keep_version),),
    ),
    PlantedBug(
        name="unknown_isr_write_taken_for_done",
        summary="a leader takes an ISR write without an answer for written",
        source="own; KAFKA-1382, KIP-497",
        breaks=("I5", "I4", "L3"),
        shows_under=(FaultFamily.NETWORK, FaultFamily.PROCESS),
        replacements=(Replacement(AlterPartitionWriter, "_write", _take_unknown_for_done),),
    ),
)
