"""A planted bug, and its application to node code for a while.

A bug is other values of toggles, other functions in place of node code's, or both. It applies to
the whole process, to every node that is made meanwhile. Generators, judges and readers of traces do
not know of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from types import ModuleType

from highwater_core.check import check
from highwater_core.config import PRESETS, Overrides, Preset, resolve_toggles


class FaultFamily(StrEnum):
    """Faults under which a bug shows; any one of a bug's families is enough."""

    PROCESS = "process"
    """Nodes killed, stopped, paused and started again."""
    NETWORK = "network"
    """Links cut, slow or lossy; calls and answers late or lost."""
    POWER_LOSS = "power_loss"
    """Nodes that lose unsynced data."""
    LOST_DISK = "lost_disk"
    """Brokers started again on an empty disk."""
    FAILED_FOLDER = "failed_folder"
    """Brokers whose log folders refuse all operations."""
    TOPICS = "topics"
    """Topics deleted and created again."""
    NONE = "none"
    """It shows without any fault."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """One attribute of a module or class, and its replacement."""

    owner: ModuleType | type
    attribute: str
    planted: object


@dataclass(frozen=True, slots=True)
class PlantedBug:
    """One mistake in the protocol.

    breaks: the invariants that it should violate, the likeliest first.
    toggles: in place of preset fenced's; a topology's overrides go before them.
    """

    name: str
    summary: str
    source: str
    """The JIRA or KIP that describes it, or "own"."""
    breaks: tuple[str, ...]
    shows_under: tuple[FaultFamily, ...]
    toggles: Overrides = field(default_factory=dict)
    replacements: tuple[Replacement, ...] = ()
    is_rare: bool = False
    """It takes several faults in one order to show: thousands of schedules, not tens."""

    @contextmanager
    def apply(self) -> Iterator[None]:
        """Put the bug into all node code of this process for the length of the block."""
        sound = PRESETS[Preset.FENCED]
        originals: list[tuple[Replacement, object]] = []
        for each in self.replacements:
            check(
                each.attribute in vars(each.owner),
                f"{self.name}: {each.owner.__name__} has no {each.attribute}",
            )
            originals.append((each, vars(each.owner)[each.attribute]))
        PRESETS[Preset.FENCED] = resolve_toggles(Preset.FENCED, self.toggles)
        try:
            for each, _ in originals:
                setattr(each.owner, each.attribute, each.planted)
            yield
        finally:
            PRESETS[Preset.FENCED] = sound
            for each, original in reversed(originals):
                setattr(each.owner, each.attribute, original)
