"""A limit on the memory that connections hold together: requests received, answers unsent.

What a connection holds up to FREE_BYTES is not counted, so that small requests go on whatever
others do. Whoever needs more while the limit is reached waits, oldest first; but one connection at
a time may go beyond the limit until its frame is whole, lest all wait for each other in the middle
of theirs. Those who hold the memory may be ones that never let go (a client that stops amid its
frame, or does not read): when somebody has waited for PATIENCE_S, connections are closed; at once,
when answers, which nobody asks for beforehand, took twice the limit. They are those of whichever
address holds the most, by however many connections, and of these the ones that hold on the longest.
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
        """Whose it is."""
        ...

    @property
    def is_amid_frame(self) -> bool:
        """Whether it has received a part of a frame, and waits for the rest."""
        ...

    def have_room(self) -> None:
        """Its turn has come: it asks again, and may."""
        ...

    def give_back(self) -> None:
        """Drop the memory that it keeps only to be quick, and account for it."""
        ...

    def shed(self, why: str) -> None:
        """Close the connection: it holds what others wait for."""
        ...


@dataclass(slots=True)
class _Wait:
    growth_bytes: int
    looks: int = 0


class MemoryQuota:
    """What each connection holds, and who waits. limit_bytes None: no limit."""

    def __init__(self, limit_bytes: int | None = None) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self._held: dict[Holder, int] = {}
        """Whoever began to hold first comes first."""
        self._waiting: dict[Holder, _Wait] = {}
        self._beyond: Holder | None = None
        """Who may go beyond the limit, while it is amid its frame."""
        self._looking: asyncio.TimerHandle | None = None
        self._turns_are_due = False

    @property
    def is_short(self) -> bool:
        """Whether somebody waits: nothing is to be held only to be quick."""
        return bool(self._waiting)

    def is_waiting(self, holder: Holder) -> bool:
        return holder in self._waiting

    def hold(self, holder: Holder, held_bytes: int) -> None:
        """Account for all that a connection holds now."""
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
        """Return whether a connection may hold so much more than it does; it must then say so.

        If not, have_room is called once it may.
        """
        if self._has_room(growth_bytes):
            return True
        if not self._waiting:  # while somebody waits, nobody keeps anything
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
                continue  # it has ended in another's turn
            if self._has_room(wait.growth_bytes) or self._may_go_beyond(holder):
                del self._waiting[holder]
                holder.have_room()

    def _look(self) -> None:
        """Close some of those who hold the memory if somebody has waited since the last look."""
        self._looking = None
        if any(wait.looks for wait in self._waiting.values()):
            self._shed()
        for wait in self._waiting.values():
            wait.looks += 1
        if self._waiting:
            self._looking = asyncio.get_running_loop().call_later(PATIENCE_S, self._look)

    def _shed(self) -> None:
        """Close who has held on the longest at the address that holds the most, again and again.

        While somebody waits nobody keeps anything between two requests: who sends requests one
        after the other, however large, has begun to hold later than who never lets go.
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
