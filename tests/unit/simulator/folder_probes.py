"""A small effect of each planted bug of highwater_planted.folders, by its name."""

from __future__ import annotations

from typing import Any

from highwater_broker.current_session import CurrentSession
from highwater_broker.log.log_config import LogConfig
from highwater_broker.log_folder_announcer import LogFolderAnnouncer
from highwater_broker.log_folders import LogFolders
from highwater_broker.replica_logs import ReplicaLogs
from highwater_controller import storage_failures
from highwater_core.errors import ErrorCode
from highwater_core.ids import NodeId, TopicPartition

ME = NodeId(1)
T0 = TopicPartition("t", 0)


def refused_by_an_answer(bench: Any) -> object:
    errors = [(T0, ErrorCode.KAFKA_STORAGE_ERROR)]
    return storage_failures.read_answer(errors, frozenset()).refused


def announces(bench: Any) -> object:
    announcer = LogFolderAnnouncer(ME, bench.runtime, CurrentSession())
    announcer.changed()
    return announcer._is_due.is_set()


def folders_that_serve(bench: Any) -> object:
    folders = LogFolders(
        [
            ReplicaLogs(
                bench.files,
                bench.trace,
                ME,
                "cluster",
                lambda topic: LogConfig(),
                bench.fail_points(),
                name=name,
            )
            for name in ("d0", "d1")
        ],
        None,
    )
    folders.fail("d0")
    return [folder.name for folder in folders.sound()]


FOLDERS: dict[str, tuple[Any, object, object]] = {
    "failed_replica_leads_on": (refused_by_an_answer, (T0,), ()),
    "failed_folder_not_announced": (announces, True, False),
    "failed_folder_takes_all": (folders_that_serve, ["d1"], []),
}
"""Each with its probe's result without the mistake, and with it."""
