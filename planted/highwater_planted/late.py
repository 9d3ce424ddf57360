"""Planted: messages that arrive late or twice are taken for the expected ones."""

from __future__ import annotations

from highwater_broker import partition as partitions
from highwater_broker import replica_manager
from highwater_broker.logic.command_fencing import (
    CommandNumber,
    KnownReplica,
    Verdict,
    judge_stop_replica,
)
from highwater_broker.replica_manager import ReplicaManager
from highwater_controller import alter_partition, election
from highwater_controller.request_batch import RequestBatch
from highwater_controller.term import Term
from highwater_core.config import Toggles
from highwater_core.errors import ErrorCode
from highwater_core.ids import LeaderEpoch, NodeId, Offset, TopicPartition
from highwater_core.messages import (
    AlterPartitionItem,
    BrokerCommand,
    CommandResponse,
    LeaderAndIsrPartition,
    StopReplicaPartition,
)
from highwater_core.ports import SetOp
from highwater_planted.bug import FaultFamily, PlantedBug, Replacement

_carry_out = ReplicaManager.carry_out
_judge = ReplicaManager._judge
_stop_epoch = RequestBatch._stop_epoch
_find_refusal = alter_partition._find_refusal


def _stop_in_any_epoch(
    command: StopReplicaPartition, known: KnownReplica, toggles: Toggles
) -> ErrorCode:
    error = judge_stop_replica(command, known, toggles)
    return ErrorCode.NONE if error is ErrorCode.FENCED_LEADER_EPOCH else error


def _epoch_before(self: RequestBatch, partition: TopicPartition) -> LeaderEpoch:
    epoch = _stop_epoch(self, partition)
    return LeaderEpoch(epoch - 1) if epoch > 0 else epoch


async def _remember_the_last_to_come(
    self: ReplicaManager, request: BrokerCommand
) -> CommandResponse:
    response = await _carry_out(self, request)
    if response.error is ErrorCode.NONE:
        self._last_command = CommandNumber(request.controller_epoch, request.correlation_id)
    return response


def _begin_anew_on_a_repeat(
    self: ReplicaManager, command: LeaderAndIsrPartition, number: CommandNumber, *, is_late: bool
) -> tuple[Verdict, ErrorCode]:
    verdict, error = _judge(self, command, number, is_late=is_late)
    if verdict is Verdict.ALREADY_APPLIED:
        again = self._partitions[command.topic_partition]
        home = self._logs.home_of(command.topic_partition)
        entries = {} if home is None else home.high_watermarks.entries
        written = entries.get(command.topic_partition, Offset(0))
        again._high_watermark = min(again.high_watermark, max(again.log_start_offset, written))
    return verdict, error


def _take_any_version(term: Term, sender: NodeId, item: AlterPartitionItem) -> ErrorCode:
    error = _find_refusal(term, sender, item)
    return ErrorCode.NONE if error is ErrorCode.INVALID_UPDATE_VERSION else error


def _set_whatever_is_there(path: str, data: bytes, expected_version: int) -> SetOp:
    return SetOp(path, data)


def _wait_for_the_own_minimum_only(
    in_sync_count: int, needed: int, eligible_count: int, *, waits_for_min_isr: bool
) -> bool:
    return waits_for_min_isr and in_sync_count < needed


BUGS = (
    PlantedBug(
        name="older_stop_accepted",
        summary="a StopReplica names the epoch before the replica's, and stops it all the same",
        source="KAFKA-9539, KIP-570",
        breaks=("I16", "L8"),
        shows_under=(FaultFamily.PROCESS,),
        replacements=(
            Replacement(RequestBatch, "_stop_epoch", _epoch_before),
            Replacement(replica_manager, "judge_stop_replica", _stop_in_any_epoch),
        ),
    ),
    PlantedBug(
        name="late_command_is_the_last",
        summary="a late command is remembered as the last: the next late one counts as new",
        source="own; KAFKA-9539",
        breaks=("I13", "I16", "L6"),
        shows_under=(FaultFamily.NETWORK,),
        replacements=(Replacement(ReplicaManager, "carry_out", _remember_the_last_to_come),),
        is_rare=True,
    ),
    PlantedBug(
        name="repeat_resets_high_watermark",
        summary="a LeaderAndIsr that comes again takes the high watermark back to the checkpoint",
        source="own",
        breaks=("I4", "I9"),
        shows_under=(FaultFamily.NETWORK, FaultFamily.PROCESS),
        replacements=(Replacement(ReplicaManager, "_judge", _begin_anew_on_a_repeat),),
    ),
    PlantedBug(
        name="isr_of_any_version_written",
        summary="a controller writes an ISR that its leader proposed before the present one",
        source="KIP-497",
        breaks=("I2", "I5", "L3"),
        shows_under=(FaultFamily.NETWORK,),
        replacements=(Replacement(alter_partition, "_find_refusal", _take_any_version),),
        is_rare=True,
    ),
    PlantedBug(
        name="controller_epoch_unconditional",
        summary="a controller raises the epoch that it read, whatever another made of it meanwhile",
        source="own; KAFKA-6082",
        breaks=("I8", "I7"),
        shows_under=(FaultFamily.PROCESS, FaultFamily.NETWORK),
        replacements=(Replacement(election, "SetOp", _set_whatever_is_there),),
        is_rare=True,
    ),
    PlantedBug(
        name="eligible_not_waited_for",
        summary="a leader commits by the minimum that it has read, whoever is eligible to lead",
        source="own; KIP-966",
        breaks=("I4", "I2", "I1"),
        shows_under=(FaultFamily.PROCESS,),
        replacements=(Replacement(partitions, "is_frozen", _wait_for_the_own_minimum_only),),
        is_rare=True,
    ),
)
