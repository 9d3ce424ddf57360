"""Coverage marks that schedules are known to reach, to compare a search's coverage with.

known_marks.json is recorded by a big search: `highwater sim run --schedules 20000 --family all
--record-marks simulator/highwater_simulator/known_marks.json`, once for each preset.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from highwater_core.config import Preset
from highwater_core.events import EventKind
from highwater_simulator.generate import Family

KNOWN_MARKS = Path(__file__).with_name("known_marks.json")

Known = dict[Preset, dict[Family, list[str]]]


def read_known_marks(path: Path = KNOWN_MARKS) -> Known:
    """Return the marks by preset and family; none without the file.

    Raises:
        msgspec.DecodeError: the file is no such table.
    """
    return msgspec.json.decode(path.read_bytes(), type=Known) if path.exists() else {}


def write_known_marks(known: Known, path: Path) -> None:
    text = msgspec.json.Encoder(order="deterministic").encode(known)
    path.write_bytes(msgspec.json.format(text, indent=2) + b"\n")


def merge_marks(known: Known, preset: Preset, reached: Mapping[Family, Iterable[str]]) -> Known:
    """Return the table with these marks as well, sorted."""
    families = dict(known.get(preset, {}))
    for family, marks in reached.items():
        families[family] = sorted({*families.get(family, ()), *marks})
    return {**known, preset: families}


def never_reached(
    known: Known, preset: Preset, families: Iterable[Family], reached: Iterable[str]
) -> list[str]:
    """Return known marks of these families, and kinds of events, that are not in reached."""
    seen = set(reached)
    kinds = {mark.partition(":")[0] for mark in seen}
    marks = {mark for family in families for mark in known.get(preset, {}).get(family, ())}
    missing_kinds = [kind.value for kind in EventKind if kind.value not in kinds]
    return sorted({*(marks - seen), *missing_kinds})
