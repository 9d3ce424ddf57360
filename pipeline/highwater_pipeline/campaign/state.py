"""What is kept of a campaign beside its rows: its settings, and a receipt for each group.

store/_campaigns/<name>/settings.json says what its schedules are; group-<number>.json that all
rows of a group are there. A group's receipt is written after its rows, so that a campaign that was
killed goes on with the groups that have none. One process at a time has a campaign open.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from highwater_pipeline.locking import InUse, writing
from highwater_pipeline.receipts import read_kept, write_kept

_CAMPAIGNS = "_campaigns"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,120}")


class CannotGoOn(Exception):
    """The name is another campaign's or none, or it is being run; the message says which."""


class Group(NamedTuple):
    """Schedules that are run and written at once: [first, after) of the campaign's numbers."""

    number: int
    first: int
    after: int


class Settings(msgspec.Struct, frozen=True):
    """What decides a campaign's rows.

    seeds: each is run once in every family. code: digest of what schedules run on and rows are made
    by. commit: theirs, "" where there is none; it decides nothing that code does not.
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
        """Return the groups in order; the last may be shorter."""
        starts = range(0, self.schedules, self.group_length)
        return [
            Group(number, first, min(first + self.group_length, self.schedules))
            for number, first in enumerate(starts)
        ]


class GroupReceipt(msgspec.Struct, frozen=True):
    """All rows of a group are in the table. Units: wall_s of running and writing it."""

    group: int
    schedules: int
    failing: int
    lost: int
    events: int
    cpu_ns: int
    wall_s: float


class ShrunkReceipt(msgspec.Struct, frozen=True):
    """All that was to be shrunk is in the table."""

    schedules: int
    max_runs: int


def differences(kept: Settings, asked: Settings) -> list[str]:
    """Return in which settings two campaigns differ, commits left aside."""
    return [
        f"{name} {_said(getattr(kept, name))}, not {_said(getattr(asked, name))}"
        for name in Settings.__struct_fields__
        if name != "commit" and getattr(kept, name) != getattr(asked, name)
    ]


def _said(value: object) -> str:
    return "+".join(value) if isinstance(value, tuple) else str(value) or "none"


@contextmanager
def open_campaign(store: Path, name: str, asked: Settings) -> Iterator[Settings]:
    """Give the settings that are kept under the name, or keep these; nobody else opens it then.

    Raises:
        CannotGoOn: those kept differ, or do not decode, the name is no name, or another process has
            the campaign open.
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


def _settings(store: Path, name: str, asked: Settings) -> Settings:
    path = _folder(store, name) / "settings.json"
    try:
        kept = msgspec.json.decode(path.read_bytes(), type=Settings)
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


def group_receipts(store: Path, name: str) -> dict[int, GroupReceipt]:
    """Return the receipts of the groups that are done, by number, in order."""
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
    """Return where the table has the rows of a group."""
    return table / f"campaign={name}" / f"group={number}"


def _folder(store: Path, name: str) -> Path:
    return store / _CAMPAIGNS / name
