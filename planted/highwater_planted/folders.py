"""Planted: steps after a log folder's failure are left out."""

from __future__ import annotations

from collections.abc import Iterable, Set

from highwater_broker.log_folder_announcer import LogFolderAnnouncer
from highwater_broker.log_folders import LogFolders
from highwater_controller import storage_failures
from highwater_controller.logic.disk_answers import DiskAnswer
from highwater_core.errors import ErrorCode
from highwater_core.ids import TopicPartition
from highwater_planted.bug import FaultFamily, PlantedBug, Replacement


def _hear_nothing(
    errors: Iterable[tuple[TopicPartition, ErrorCode]], refused_before: Set[TopicPartition]
) -> DiskAnswer:
    return DiskAnswer((), ())


def _tell_nobody(self: LogFolderAnnouncer) -> None:
    return


def _fail_all(self: LogFolders, name: str) -> list[TopicPartition]:
    for folder in self._folders:
        folder.is_failed = True
    return sorted(self._homes)


BUGS = (
    PlantedBug(
        name="failed_replica_leads_on",
        summary="the controller takes a replica that the disk refuses for one that obeyed",
        source="own; KIP-112",
        breaks=("L11",),
        shows_under=(FaultFamily.FAILED_FOLDER,),
        replacements=(Replacement(storage_failures, "read_answer", _hear_nothing),),
    ),
    PlantedBug(
        name="failed_folder_not_announced",
        summary="a broker tells nobody that its log folder has failed",
        source="own; KIP-112",
        breaks=("L11", "L4"),
        shows_under=(FaultFamily.FAILED_FOLDER,),
        replacements=(Replacement(LogFolderAnnouncer, "changed", _tell_nobody),),
    ),
    PlantedBug(
        name="failed_folder_takes_all",
        summary="a broker with several log folders gives up all of them when one fails",
        source="own; KIP-112",
        breaks=("L11",),
        shows_under=(FaultFamily.FAILED_FOLDER,),
        replacements=(Replacement(LogFolders, "fail", _fail_all),),
    ),
)
