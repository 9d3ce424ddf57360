"""A helper's work on a node's volume, here in a folder; only a disk of its own can be full."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from highwater.faults.disks import on_volume
from highwater.faults.disks.on_volume import BALLAST, PROBE, main
from highwater_chaos.faults import FILE_SUFFIXES, FileKind


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    for name, content in (
        ("t-0/00000000000000000000.log", b"0123456789"),
        ("t-0/00000000000000000000.index", bytes(8)),
        ("t-0/00000000000000000007.log", b""),
        ("t-0/leader-epoch-checkpoint", b"0\n1\n0 0\n"),
        ("replication-offset-checkpoint", b"0\n1\nt 0 5\n"),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    return tmp_path


def contents(disk: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(disk)): path.read_bytes() for path in disk.rglob("*") if path.is_file()
    }


def test_a_disk_is_emptied_of_files_and_folders(disk: Path) -> None:
    assert main({"do": "empty", "folder": str(disk)}) == {"files": 5, "left": []}
    assert list(disk.iterdir()) == []


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        (FileKind.LOG, "t-0/00000000000000000000.log"),
        (FileKind.INDEX, "t-0/00000000000000000000.index"),
        (FileKind.CHECKPOINT, "replication-offset-checkpoint"),
        (FileKind.EPOCHS, "t-0/leader-epoch-checkpoint"),
    ],
)
def test_one_bit_of_a_file_of_the_kind_flips_and_nothing_else(
    disk: Path, kind: FileKind, path: str
) -> None:
    before = contents(disk)
    told = main({"do": "flip", "folder": str(disk), "suffixes": FILE_SUFFIXES[kind]})
    after = contents(disk)
    assert told["path"] == path
    assert told["before"] != told["after"]
    changed = bytes(a ^ b for a, b in zip(before.pop(path), after.pop(path), strict=True))
    assert after == before
    expected = bytearray(len(changed))
    expected[told["position"]] = 1 << told["bit"]
    assert changed == expected


def test_without_a_file_of_the_kind_that_has_a_byte_nothing_flips(disk: Path) -> None:
    (disk / "t-0/00000000000000000000.log").write_bytes(b"")
    before = contents(disk)
    told = main({"do": "flip", "folder": str(disk), "suffixes": FILE_SUFFIXES[FileKind.LOG]})
    assert told["path"] == ""
    assert contents(disk) == before


def test_a_disk_that_is_larger_than_ours_are_is_not_filled(disk: Path) -> None:
    told = main({"do": "fill", "folder": str(disk), "most_bytes": 1 << 20})
    assert (told["refused"], told["ballast_bytes"]) == ("", 0)
    assert not (disk / BALLAST).exists()


def test_room_is_made_and_a_page_can_be_written(disk: Path) -> None:
    (disk / BALLAST).write_bytes(b"x")
    look: dict[str, Any] = {"do": "look", "folder": str(disk)}
    assert main(dict(look)) == {"ballast": True}
    told = main({"do": "make_room", "folder": str(disk)})
    assert told == {"ballast": True, "refused_before": "", "refused": ""}
    assert main(look) == {"ballast": False}
    assert not (disk / PROBE).exists()


def test_it_is_a_program_of_its_own() -> None:
    """A helper has it as text alone, with nothing of ours to import."""
    imports = [
        line
        for line in Path(on_volume.__file__).read_text().splitlines()
        if line.startswith(("import ", "from ")) and "highwater" in line
    ]
    assert imports == []
