"""A campaign's files beside its rows: its settings, and a receipt for each group.

store/_campaigns/<name>/settings.json defines the schedules. group-<number>.json exists once all
rows of the group are stored: it is written after them, so that a campaign that was killed goes on
with the groups without a receipt. One process at a time has a campaign open.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from highwater_pipeline.locking import InUse, writing
from highwater_pipeline.receipts import read_kept, write_kept

_CAMPAIGNS = "_campaigns"
CONTAINERS = "containers"
"""The one family of a campaign of plans on containers."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,120}")


class CannotGoOn(Exception):
    """The campaign has a bad name or other settings, or is in use; the message says which."""


class Group(NamedTuple):
    """Schedules that are run and written together: numbers [first, after) of the campaign."""

    number: int
    first: int
    after: int


class Settings(msgspec.Struct, frozen=True):
    """The settings on which a campaign's rows depend.

    seeds: each is run once in every family.
    code: the digest of the code that runs schedules and makes rows.
    commit: of that code, "" where it is not known; for the reader only, since code has the digest.
    """

    first_seed: int
    seeds: int
    families: tuple[str, ...]
    preset: str
    planted: str
    code: str
    data_version: int
    group_length: int = 512
    commit: str = ""

    @property
    def schedules(self) -> int:
        return self.seeds * len(self.families)

    def groups(self) -> list[Group]:
        """Return the groups in order; the last may have fewer schedules."""
        starts = range(0, self.schedules, self.group_length)
        return [
            Group(number, first, min(first + self.group_length, self.schedules))
            for number, first in enumerate(starts)
        ]


S = TypeVar("S", bound=Settings)


class GroupReceipt(msgspec.Struct, frozen=True):
    """All rows of a group are in the table. Units: wall_s: seconds to run and write the group."""

    group: int
    schedules: int
    failing: int
    lost: int
    wall_s: float
    events: int = 0
    cpu_ns: int = 0


class ShrunkReceipt(msgspec.Struct, frozen=True):
    """All shrunk plans are in the table."""

    schedules: int
    max_runs: int


def differences(kept: Settings, asked: Settings) -> list[str]:
    """Return the settings in which two campaigns differ, without their commits."""
    return [
        f"{name} {_in_words(getattr(kept, name))}, not {_in_words(getattr(asked, name))}"
        for name in asked.__struct_fields__
        if name != "commit" and getattr(kept, name) != getattr(asked, name)
    ]


def _in_words(value: object) -> str:
    return "+".join(value) if isinstance(value, tuple) else str(value) or "none"


@contextmanager
def open_campaign(store: Path, name: str, asked: S) -> Iterator[S]:
    """Open the campaign for this process alone, and give its settings; store them if it is new.

    Raises:
        CannotGoOn: the stored settings differ or do not decode, the name is not valid, or another
            process has the campaign open.
    """
    if not _NAME.fullmatch(name):
        raise CannotGoOn(f"{name!r} is no campaign's name: letters, digits, '.', '_' and '-'")
    try:
        with writing(_folder(store, name)):
            yield _settings(store, name, asked)
    except InUse as error:
        raise CannotGoOn(
            f"campaign {name} is being run: {error}; wait until it has ended, or take another "
            "--name"
        ) from error


def _settings(store: Path, name: str, asked: S) -> S:
    path = _folder(store, name) / "settings.json"
    try:
        kept = msgspec.json.decode(path.read_bytes(), type=type(asked))
    except FileNotFoundError:
        write_kept(path, asked)
        return asked
    except msgspec.DecodeError as error:
        raise CannotGoOn(f"campaign {name} was begun by another version: {error}") from error
    if different := differences(kept, asked):
        raise CannotGoOn(
            f"campaign {name} was begun with {'; '.join(different)}: "
            "use the same settings and code to go on, or another --name"
        )
    return kept


def stored_settings(store: Path, name: str) -> Settings:
    """Return the settings of a campaign of the store.

    Raises:
        CannotGoOn: there is none of that name, another version began it, or it has no schedules.
    """
    path = _folder(store, name) / "settings.json"
    found = read_kept(path, Settings)
    if found is not None and CONTAINERS in found.families:
        raise CannotGoOn(f"campaign {name} is of plans on containers: it has no schedules")
    if found is not None:
        return found
    if path.exists():
        raise CannotGoOn(f"campaign {name} was begun by another version")
    there = sorted(each.parent.name for each in path.parent.parent.glob("*/settings.json"))
    raise CannotGoOn(f"no campaign {name!r} in {store}; there are: {', '.join(there) or 'none'}")


def group_receipts(store: Path, name: str) -> dict[int, GroupReceipt]:
    """Return the receipts of finished groups, by number, in order."""
    found = (read_kept(path, GroupReceipt) for path in _folder(store, name).glob("group-*.json"))
    return {each.group: each for each in sorted(filter(None, found), key=lambda each: each.group)}


def write_group_receipt(store: Path, name: str, receipt: GroupReceipt) -> None:
    write_kept(_folder(store, name) / f"group-{receipt.group:06}.json", receipt)


def shrunk_receipt(store: Path, name: str) -> ShrunkReceipt | None:
    return read_kept(_folder(store, name) / "shrunk.json", ShrunkReceipt)


def write_shrunk_receipt(store: Path, name: str, receipt: ShrunkReceipt) -> None:
    write_kept(_folder(store, name) / "shrunk.json", receipt)


def forget_unfinished(table: Path, name: str, done: Collection[int]) -> None:
    """Remove the rows of groups without a receipt: a group may have been half-written."""
    for folder in (table / f"campaign={name}").glob("group=*"):
        if int(folder.name.partition("=")[2]) not in done:
            shutil.rmtree(folder)


def group_folder(table: Path, name: str, number: int) -> Path:
    """Return the folder of the group's rows in the table."""
    return table / f"campaign={name}" / f"group={number}"


def _folder(store: Path, name: str) -> Path:
    return store / _CAMPAIGNS / name
