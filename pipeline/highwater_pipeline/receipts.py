"""Receipts: small files of a store that record finished work; each is there whole or not."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeVar

import msgspec

_Kept = TypeVar("_Kept", bound=msgspec.Struct)


def read_kept(path: Path, kind: type[_Kept]) -> _Kept | None:
    """Return the file's content; None if there is no file, or another version wrote it."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def write_kept(path: Path, kept: msgspec.Struct) -> None:
    """Write the file, and return once it is on disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    staged = path.with_name(f".tmp-{path.name}")
    with staged.open("wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(kept), indent=2))
        file.flush()
        os.fsync(file.fileno())
    staged.replace(path)
