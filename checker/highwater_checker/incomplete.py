"""Which histories are incomplete, and which groups' checks rest on them. No I/O.

A record that nobody read by the histories may have been read by a line that is missing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from highwater_checker.history import SEND, HistoryEvent, client_of
from highwater_checker.run_folder.documents import Promises


@dataclass(frozen=True, slots=True)
class Incomplete:
    """The processes whose histories may lack lines, and the groups of which they may be members.

    groups: None stands for every group.
    """

    processes: frozenset[str] = frozenset()
    groups: frozenset[str] | None = frozenset()

    def is_of(self, group: str) -> bool:
        """Return whether a process with an incomplete history may be a member of the group.

        Or it may commit offsets for the group.
        """
        return self.groups is None or group in self.groups


ALL_WHOLE = Incomplete()
"""Every history is whole."""


def incomplete_of(
    processes: Iterable[str],
    promises: Promises,
    histories: Mapping[str, Sequence[HistoryEvent]],
) -> Incomplete:
    """Return the processes with the groups of which they may be members.

    Promised members are of their groups. Promised consumers are of none, nor are processes that
    sent records by the lines that are left. Any other process may be of any group.
    """
    found = frozenset(processes)
    consumers = {each.client for each in promises.consumers}
    groups: frozenset[str] | None = frozenset()
    for process in found:
        client = client_of(process)
        own = {each.group_id for each in promises.groups if client in each.members}
        if own:
            groups = None if groups is None else groups | own
        elif client not in consumers and not _sends(histories.get(process, ())):
            groups = None
    return Incomplete(found, groups)


def _sends(events: Collection[HistoryEvent]) -> bool:
    return any(event.function == SEND for event in events)
