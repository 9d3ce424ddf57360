"""What the kernel is answered, by a server whose device is a pipe."""

from __future__ import annotations

import errno
import json
import os
import random
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from highwater_adapters.faulty_disk import kernel
from highwater_adapters.faulty_disk.ailing import ORDERS
from highwater_adapters.faulty_disk.kernel import Op, Request
from highwater_adapters.faulty_disk.served import Server

_DIRENT_HEAD = 24


class Mount:
    """The kernel's side: asks, and reads the answer."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        self._answers, self._device = os.pipe()
        self.server = Server(self._device, folder, self.root)

    def close(self) -> None:
        self.server._durable.close()
        for descriptor in (self.root, self._answers, self._device):
            os.close(descriptor)

    def ask(self, op: Op, node: int, body: bytes) -> bytes:
        """Return the answer's body.

        Raises:
            OSError: it is an error.
        """
        self.tell(op, node, body)
        answer = os.read(self._answers, 1 << 16)
        _, error, unique = struct.unpack_from("<IiQ", answer)
        assert unique == 7
        if error:
            raise OSError(-error, os.strerror(-error))
        return answer[16:]

    def tell(self, op: Op, node: int, body: bytes) -> None:
        self.server._answer(Request(op, 7, node, body))

    def create(self, name: str) -> tuple[int, int]:
        """Return the new file's node and handle."""
        body = struct.pack("<IIII", os.O_RDWR, 0o644, 0o022, 0) + name.encode() + b"\0"
        answer = self.ask(Op.CREATE, kernel.ROOT, body)
        return struct.unpack_from("<Q", answer)[0], struct.unpack_from("<Q", answer, 128)[0]

    def names(self, handle: int, offset: int, size: int) -> list[str]:
        body = struct.pack("<QQI", handle, offset, size)
        listed, found = self.ask(Op.READDIR, kernel.ROOT, body), []
        while listed:
            (length,) = struct.unpack_from("<I", listed, 16)
            found.append(listed[_DIRENT_HEAD : _DIRENT_HEAD + length].decode())
            listed = listed[_DIRENT_HEAD + -(-length // 8) * 8 :]
        return found


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    made = Mount(tmp_path / "data")
    yield made
    made.close()


def test_a_listing_in_pieces_skips_nothing_when_a_name_goes_meanwhile(mount: Mount) -> None:
    for name in ("a", "b", "c", "d"):
        mount.create(name)
    (handle,) = struct.unpack_from("<Q", mount.ask(Op.OPENDIR, kernel.ROOT, bytes(8)))
    assert mount.names(handle, 0, 64) == ["a", "b"]
    mount.ask(Op.UNLINK, kernel.ROOT, b"a\0")
    assert mount.names(handle, 2, 64) == ["c", "d"]
    assert mount.names(handle, 0, 4096) == ["b", "c", "d"]  # rewinddir
    mount.ask(Op.RELEASEDIR, kernel.ROOT, struct.pack("<Q", handle))


def test_nodes_that_the_kernel_forgets_together_are_dropped(mount: Mount) -> None:
    nodes = [mount.create(name)[0] for name in ("a", "b")]
    for name in (b"a\0", b"b\0"):
        mount.ask(Op.UNLINK, kernel.ROOT, name)
    mount.tell(Op.BATCH_FORGET, 0, struct.pack("<IIQQQQ", 2, 0, nodes[0], 1, nodes[1], 3))
    assert set(mount.server._entries) == {kernel.ROOT}


def test_a_sync_of_a_file_that_was_closed_meanwhile_touches_no_other(mount: Mount) -> None:
    _, handle = mount.create("a")
    mount.ask(Op.RELEASE, 0, struct.pack("<Q", handle))
    with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
        mount.ask(Op.FSYNC, 0, struct.pack("<Q", handle))


def test_a_request_that_meets_a_fault_of_the_server_is_answered(
    mount: Mount, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        mount.ask(Op.READ, 0, struct.pack("<QQI", 99, 0, 1))
    assert "KeyError: 99" in capsys.readouterr().err


def test_a_refused_write_leaves_a_part_of_its_bytes_in_chosen_files_alone(
    mount: Mount, tmp_path: Path
) -> None:
    """As a disk does that fails half-way. The node cuts it off, or writes over it."""
    orders = {"number": 1, "percent": {"append": 100}, "within": {"append": "log"}}
    (tmp_path / ORDERS).write_text(json.dumps({**orders, "sync_delay_ms": 0}), encoding="utf-8")
    mount.server._ailing._rng = random.Random(1)  # noqa: S311
    mount.server._ailing.look()
    content = bytes(range(1, 251))
    (_, chosen), (_, other) = mount.create("a.log"), mount.create("checkpoint")
    mount.ask(Op.WRITE, 0, write_of(other, content))
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        mount.ask(Op.WRITE, 0, write_of(chosen, content))
    assert (tmp_path / "data" / "checkpoint").read_bytes() == content
    left = (tmp_path / "data" / "a.log").read_bytes()
    assert 0 < len(left) < len(content)
    assert content.startswith(left)


def write_of(handle: int, content: bytes) -> bytes:
    return struct.pack("<QQIIQII", handle, 0, len(content), 0, 0, 0, 0) + content
