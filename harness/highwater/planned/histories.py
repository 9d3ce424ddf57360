"""Which files the clients of a run left: one for each incarnation of each client.

The first incarnation's file goes by the client's name, p0.jsonl; the second's is p0.2.jsonl.
"""

from __future__ import annotations

import os
from pathlib import Path

from highwater_client.planned import client_of, incarnation_of


def histories_of(history_folder: Path, client: str) -> list[Path]:
    """Return the histories of the client's incarnations, in their order; the last one lived on."""
    found = [path for path in history_folder.glob("*.jsonl") if client_of(path.stem) == client]
    return sorted(found, key=lambda path: incarnation_of(path.stem))


def torn_histories(history_folder: Path) -> list[str]:
    """Return the processes whose history ends in the middle of a line, which no reader counts."""
    return sorted(path.stem for path in history_folder.glob("*.jsonl") if _is_torn(path))


def torn_while_alive(history_folder: Path) -> list[str]:
    """Return those of them that nobody killed: the last incarnation of each client."""
    torn = torn_histories(history_folder)
    return [name for name in torn if _last_of(history_folder, client_of(name)).stem == name]


def _is_torn(path: Path) -> bool:
    """Look at the last byte alone: histories of a soak are long."""
    with path.open("rb") as history:
        if not history.seek(0, os.SEEK_END):
            return False
        history.seek(-1, os.SEEK_END)
        return history.read(1) != b"\n"


def _last_of(history_folder: Path, client: str) -> Path:
    return histories_of(history_folder, client)[-1]
