"""A power loss: the folder is made as the disk has it, with a drawn part of what was not synced.

    python -m highwater_adapters.faulty_disk.loss FOLDER SEED

runs beside a dead node, on its volume, and prints the losses as JSON. Names are left as of their
folders' last syncs. Of what was written to a file since its last sync a prefix survives: nothing,
all, or a drawn part, whose end may be zeros where the file's size was written and its bytes were
not. Synced bytes always survive. The next start finds another boot id, as on a machine that lost
power.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path

from highwater_adapters.faulty_disk.durable import (
    BALLAST,
    JOURNAL,
    boot_id_of,
    forget,
    read_journal,
    store_of,
)
from highwater_adapters.faulty_disk.tree import Entry, Tree
from highwater_core.common_prefix import common_prefix_bytes

MOST_TOLD = 20


@dataclass(frozen=True, slots=True)
class Loss:
    """What one file lost. what: "cut", "torn", "truncation undone", "name gone", "name is back"."""

    path: str
    kept_bytes: int
    lost_bytes: int
    what: str


def kept_of(synced: bytes, seen: bytes | None, rng: random.Random) -> bytes:
    """Return a file's content after a power loss.

    synced: its content as of the last sync.
    seen: its content as everybody saw it; None where another file, or none, had its name.
    """
    if seen is None or not seen.startswith(synced) or len(seen) == len(synced):
        return synced
    unsynced = len(seen) - len(synced)
    kept = rng.choice((0, unsynced, rng.randint(0, unsynced)))
    content = seen[: len(synced) + kept]
    if kept and not rng.randrange(4):  # the size is on the disk, and the last bytes are not
        torn = rng.randint(1, kept)
        content = content[:-torn] + bytes(torn)
    return content


def loss_of(path: str, before: bytes | None, after: bytes | None) -> Loss | None:
    """Return what readers of the path have lost, None if nothing."""
    if before == after:
        return None
    if before is None:
        return Loss(path, len(after or b""), 0, "name is back")
    if after is None:
        return Loss(path, 0, len(before), "name gone")
    kept = common_prefix_bytes(before, after)
    if len(after) > len(before):
        what = "truncation undone"
    else:
        what = "cut" if kept == len(after) else "torn"
    return Loss(path, kept, len(before) - kept, what)


def lose_unsynced(folder: Path, rng: random.Random) -> list[Loss]:
    """Make the folder as a power loss leaves it, and return the losses by path.

    A folder of which nothing was served since it last counted as synced loses nothing.
    """
    losses = _lose(folder, rng) if (store_of(folder) / JOURNAL).exists() else []
    forget(folder)
    boot_id_of(folder).write_text(f"{uuid.UUID(int=rng.getrandbits(128), version=4)}\n")
    return losses


def _lose(folder: Path, rng: random.Random) -> list[Loss]:
    store = store_of(folder)
    tree = Tree.replayed(read_journal(store))
    before = {str(path.relative_to(folder)): path for path in _files(folder)}
    after: dict[str, bytes] = {}
    folders = []
    for path, entry in tree.durable_files().items():
        if entry.is_folder:
            folders.append(path)
        else:
            synced = (store / "files" / str(entry.key)).read_bytes()
            after[path] = kept_of(synced, _seen(folder, tree, entry), rng)
    losses = [
        loss
        for path in sorted({*before, *after})
        if (loss := loss_of(path, _bytes(before.get(path)), after.get(path))) is not None
    ]
    _make(folder, folders, after)
    return losses


def _seen(folder: Path, tree: Tree, entry: Entry) -> bytes | None:
    path = entry.path
    if not path or tree.find(path) is not entry:
        return None
    return _bytes(folder / path)


def _bytes(path: Path | None) -> bytes | None:
    return path.read_bytes() if path is not None and path.is_file() else None


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name != BALLAST)


def _make(folder: Path, folders: list[str], files: dict[str, bytes]) -> None:
    """Replace all that is in the folder; the folder itself may be a mount, and stays."""
    for place in list(folder.iterdir()):
        if place.name == BALLAST:
            continue
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        else:
            place.unlink()
    for path in folders:
        (folder / path).mkdir()
    for path, content in files.items():
        (folder / path).write_bytes(content)


def main(folder: str, seed: str) -> None:
    losses = lose_unsynced(Path(folder), random.Random(seed))  # noqa: S311 (drawn, no secret)
    told = [asdict(each) for each in losses[:MOST_TOLD]]
    report = {
        "files": len(losses),
        "lost_bytes": sum(each.lost_bytes for each in losses),
        "losses": told,
    }
    json.dump(report, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
