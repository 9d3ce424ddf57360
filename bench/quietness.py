"""Whether the machine had anything else to do: the processor's time that others took.

A load average tells of the past minute, also of the set-up before the bench, and nothing of a
hypervisor that gives the cores to others. Source: proc_stat(5).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

STAT = Path("/proc/stat")
WATCHED_S = 3.0
"""How long nothing is measured, so that whatever works is somebody else's work."""
MOST_OTHERS = 0.1
MOST_STOLEN = 0.02
_TICKS = 8
"""user nice system idle iowait irq softirq steal; guests' time is in user's, too."""


@dataclass(frozen=True, slots=True)
class Ticks:
    """The processor's time since the boot, of all cores, in ticks."""

    all: int
    idle: int
    stolen: int

    def share_since(self, before: Ticks, of: Callable[[Ticks], int]) -> float:
        """Return what part of the time since then it was, 0 where none has passed."""
        passed = self.all - before.all
        return (of(self) - of(before)) / passed if passed > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Quietness:
    """Shares of all cores' time, 0 to 1.

    others_before, others_after: that other processes took right before and after the measuring.
    stolen: that the hypervisor gave to other machines while it went on.
    """

    others_before: float
    others_after: float
    stolen: float

    @property
    def is_quiet(self) -> bool:
        others = max(self.others_before, self.others_after)
        return others <= MOST_OTHERS and self.stolen <= MOST_STOLEN

    def __str__(self) -> str:
        told = (
            f"other processes took {self.others_before:.0%} of the cores before and "
            f"{self.others_after:.0%} after it, other machines {self.stolen:.0%} meanwhile"
        )
        return f"A {'quiet' if self.is_quiet else 'busy'} machine: {told}."


def read_ticks(stat: str) -> Ticks:
    """Return the first line of /proc/stat, which is of all cores."""
    told = [int(each) for each in stat.split("\n", 1)[0].split()[1:]][:_TICKS]
    told += [0] * (_TICKS - len(told))
    return Ticks(all=sum(told), idle=told[3] + told[4], stolen=told[7])


class Watch:
    """Reads the processor's time around a measuring; None of a machine without /proc/stat."""

    def __init__(
        self,
        read: Callable[[], str] = lambda: STAT.read_text(encoding="ascii"),
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Watch the others for a moment, and begin."""
        self._read, self._sleep = read, sleep
        self._others_before = self._others()
        self._began = self._ticks()

    def end(self) -> Quietness | None:
        """Watch the others once more."""
        ended = self._ticks()
        after = self._others()
        if self._others_before is None or after is None or self._began is None or ended is None:
            return None
        stolen = ended.share_since(self._began, lambda ticks: ticks.stolen)
        return Quietness(round(self._others_before, 3), round(after, 3), round(stolen, 4))

    def _others(self) -> float | None:
        before = self._ticks()
        self._sleep(WATCHED_S)
        after = self._ticks()
        if before is None or after is None:
            return None
        return after.share_since(before, lambda ticks: ticks.all - ticks.idle)

    def _ticks(self) -> Ticks | None:
        try:
            return read_ticks(self._read())
        except OSError:
            return None
