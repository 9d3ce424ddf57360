"""The options of a search; without the simulator, so that commands start quickly."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import StrEnum

from highwater_core.config import Preset

CORES = os.cpu_count() or 1


class Families(StrEnum):
    """The families of faults that schedules may have."""

    PROCESSES = "processes"
    DISKS = "disks"
    JOINS = "joins"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """jobs: worker processes; 0 runs everything in this one, for profilers and debuggers."""

    schedules: int
    first_seed: int = 1
    preset: Preset = Preset.FENCED
    families: Families = Families.ALL
    bug: str = ""
    has_feedback: bool = False
    stops_at_first: bool = False
    jobs: int = 1
