"""The controllers that know that a broker restarted after its disk had lost data (KIP-903)."""

from __future__ import annotations

from highwater_core.events import TraceEvent


class LostDisks:
    """Follows the registrations under which disks lost data, and those that controllers command.

    A controller knows of a registration once it has sent a command to it: it handles one event at
    a time, and reads a registration before it commands the broker. Where commands name no broker
    epoch (presets before KIP-380) no controller counts as knowing one.
    """

    def __init__(self) -> None:
        self._lost_as: dict[int, int] = {}
        self._commanded: dict[tuple[str, int], int] = {}

    def lost(self, broker: int, registration: int) -> None:
        """Note that the broker's disk lost data. registration: its last one before."""
        self._lost_as[broker] = registration

    def command_sent(self, controller: str, event: TraceEvent) -> None:
        key = controller, event.detail["broker"]
        self._commanded[key] = max(event.detail["broker_epoch"], self._commanded.get(key, -1))

    def knows_of_return(self, author: str, broker: int) -> bool:
        """Return whether that controller has sent a command to a later registration."""
        lost_as = self._lost_as.get(broker)
        return lost_as is not None and self._commanded.get((author, broker), -1) > lost_as

    def knows(self, author: str, broker: int, broker_epoch: int) -> bool:
        """Return whether that controller has sent a command to this registration."""
        return self._commanded.get((author, broker)) == broker_epoch
