"""A limit on the memory that connections hold together: requests received, answers unsent.

Up to FREE_BYTES of a connection are not counted, so that small requests always go on. A connection
that needs more while the limit is reached waits, oldest first. One connection at a time may go
beyond the limit until its frame is whole, so that connections do not all wait for each other in the
middle of their frames. A client may keep memory for ever (it stops in the middle of its frame, or
does not read). So connections are closed when one has waited for PATIENCE_S, and at once when
answers, whose memory is not requested beforehand, take twice the limit. Closed are connections of
the address with the most memory, over all its connections, first the one that has held memory the
longest.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from dataclasses import dataclass
from typing import Protocol

FREE_BYTES = 64 * 1024
PATIENCE_S = 2.0
_SHED_TO_PERCENT = 75


class Holder(Protocol):
    """A connection."""

    @property
    def address(self) -> str:
        """The address of its client."""
        ...

    @property
    def is_amid_frame(self) -> bool:
        """Whether it has received a part of a frame, and needs the rest."""
        ...

    def have_room(self) -> None:
        """Called when its turn has come: it asks again, and may grow."""
        ...

    def give_back(self) -> None:
        """Free the memory that it keeps only for speed, and account for it."""
        ...

    def shed(self, why: str) -> None:
        """Close the connection: others wait for its memory."""
        ...


@dataclass(slots=True)
class _Wait:
    growth_bytes: int
    looks: int = 0


class MemoryQuota:
    """The memory of each connection, and the waiting ones. limit_bytes None: no limit."""

    def __init__(self, limit_bytes: int | None = None) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self._held: dict[Holder, int] = {}
        """In the order in which they began to hold memory."""
        self._waiting: dict[Holder, _Wait] = {}
        self._beyond: Holder | None = None
        """The connection that may go beyond the limit, in the middle of its frame."""
        self._looking: asyncio.TimerHandle | None = None
        self._turns_are_due = False

    @property
    def is_short(self) -> bool:
        """Whether a connection waits: then no memory may be kept only for speed."""
        return bool(self._waiting)

    def is_waiting(self, holder: Holder) -> bool:
        return holder in self._waiting

    def hold(self, holder: Holder, held_bytes: int) -> None:
        """Account for all memory of a connection now."""
        if held_bytes <= FREE_BYTES:
            held_bytes = 0
        known = self._held.get(holder, 0)
        if held_bytes == known:
            return
        if held_bytes:
            self._held[holder] = held_bytes
        else:
            del self._held[holder]
        self.used_bytes += held_bytes - known
        if held_bytes < known:
            self._take_turns_soon()
        elif self.limit_bytes is not None and self.used_bytes > 2 * self.limit_bytes:
            asyncio.get_running_loop().call_soon(self._shed)

    def forget(self, holder: Holder) -> None:
        """Drop a connection that has ended."""
        self._waiting.pop(holder, None)
        self.hold(holder, 0)
        if self._beyond is holder:
            self._beyond = None
            self._take_turns_soon()

    def may_grow(self, holder: Holder, growth_bytes: int) -> bool:
        """Return whether a connection may hold so many more bytes; it must then account for them.

        If not, have_room is called once it may.
        """
        if self._has_room(growth_bytes):
            return True
        if not self._waiting:  # while a connection waits, none keeps idle memory
            for other in tuple(self._held):
                if other is not holder:
                    other.give_back()
        if self._has_room(growth_bytes) or self._may_go_beyond(holder):
            return True
        self._waiting.setdefault(holder, _Wait(growth_bytes))
        if self._looking is None:
            self._looking = asyncio.get_running_loop().call_later(PATIENCE_S, self._look)
        return False

    def _has_room(self, growth_bytes: int) -> bool:
        return self.limit_bytes is None or self.used_bytes + growth_bytes <= self.limit_bytes

    def _may_go_beyond(self, holder: Holder) -> bool:
        beyond = self._beyond
        if beyond is None or beyond is holder or not beyond.is_amid_frame:
            self._beyond = holder
            return True
        return False

    def _take_turns_soon(self) -> None:
        if self._waiting and not self._turns_are_due:
            self._turns_are_due = True
            asyncio.get_running_loop().call_soon(self._take_turns)

    def _take_turns(self) -> None:
        self._turns_are_due = False
        for holder, wait in tuple(self._waiting.items()):
            if holder not in self._waiting:
                continue  # it ended during another's turn
            if self._has_room(wait.growth_bytes) or self._may_go_beyond(holder):
                del self._waiting[holder]
                holder.have_room()

    def _look(self) -> None:
        """Close some holders of memory if a connection has waited since the last call."""
        self._looking = None
        if any(wait.looks for wait in self._waiting.values()):
            self._shed()
        for wait in self._waiting.values():
            wait.looks += 1
        if self._waiting:
            self._looking = asyncio.get_running_loop().call_later(PATIENCE_S, self._look)

    def _shed(self) -> None:
        """Close the longest holder at the address with the most memory, until there is room.

        While a connection waits, none keeps memory between two requests. So a client that sends
        requests one after the other, however large, began to hold later than one that never frees
        memory.
        """
        limit = self.limit_bytes or 0
        oldest_first: dict[str, deque[tuple[Holder, int]]] = {}
        for holder, held_bytes in self._held.items():
            oldest_first.setdefault(holder.address, deque()).append((holder, held_bytes))
        most_first = [
            (-sum(held_bytes for _, held_bytes in of_address), address)
            for address, of_address in oldest_first.items()
        ]
        heapq.heapify(most_first)
        while most_first and self.used_bytes * 100 > limit * _SHED_TO_PERCENT:
            total, address = most_first[0]
            holder, held_bytes = oldest_first[address].popleft()
            if oldest_first[address]:
                heapq.heapreplace(most_first, (total + held_bytes, address))
            else:
                heapq.heappop(most_first)
            self.forget(holder)
            holder.shed(
                f"it holds {held_bytes} bytes of the {limit} that all may hold, and its address "
                f"{-total}"
            )
