"""The log folders that brokers have reported as failed, read from their traces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater_core.events import EventKind, TraceEvent

if TYPE_CHECKING:
    from highwater_simulator.world import NodeHandle, World


class FailureReports:
    """The failed log folders of each incarnation of a broker, in the order of their failures.

    They are taken from the report of what the probes met, not from the broker's own account: a
    broker that takes a sound folder for failed is to be found out.
    """

    def __init__(self) -> None:
        self._failed: dict[tuple[int, int], dict[str, None]] = {}

    def event_traced(self, event: TraceEvent) -> None:
        if event.kind is EventKind.LOG_FOLDER_FAILED:
            key = event.node, event.incarnation
            self._failed.setdefault(key, {})[event.detail["folder"]] = None

    def of(self, broker: NodeHandle) -> tuple[str, ...]:
        """Return the names of the latest incarnation's; a broker's only log folder has "".

        Also of a broker that has stopped since.
        """
        runtime = broker.runtime
        found = None if runtime is None else self._failed.get((broker.node_id, runtime.incarnation))
        return tuple(found or ())


def failed_folders(world: World, broker: int) -> tuple[str, ...]:
    """Return the names of the running broker's failed log folders."""
    handle = world.brokers[broker]
    return world.failure_reports.of(handle) if handle.is_running else ()


def stopped_for_want_of_folders(world: World, broker: int) -> bool:
    """Return whether the broker does not run, and all of its named log folders had failed."""
    handle = world.brokers[broker]
    failed = world.failure_reports.of(handle)
    return not handle.is_running and sorted(failed) == sorted(handle.disk.log_folders)
