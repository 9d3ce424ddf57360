"""A small effect of each planted bug of highwater_planted.folders, by its name."""

from __future__ import annotations

from typing import Any

from highwater_broker.current_session import CurrentSession
from highwater_broker.log_folder_announcer import LogFolderAnnouncer
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


FOLDERS: dict[str, tuple[Any, object, object]] = {
    "failed_replica_leads_on": (refused_by_an_answer, (T0,), ()),
    "failed_folder_not_announced": (announces, True, False),
}
"""Each with what its probe gives without the mistake, and with it."""
