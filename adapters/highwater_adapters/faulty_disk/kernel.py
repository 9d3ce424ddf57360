"""The kernel's side of FUSE: requests read from /dev/fuse, and replies, as bytes.

Only what a folder of ordinary files needs. The numbers and layouts are those of the Linux kernel's
include/uapi/linux/fuse.h, protocol 7.31, on a little-endian machine.
"""

from __future__ import annotations

import os
import stat
import struct
from dataclasses import dataclass
from enum import IntEnum

MAJOR, MINOR = 7, 31
MOST_WRITTEN = 1 << 17
REQUEST_BYTES = MOST_WRITTEN + (1 << 16)
"""The least buffer that the kernel reads a request into: a write's bytes and its headers."""
ROOT = 1

_BIG_WRITES, _MAX_PAGES = 1 << 5, 1 << 22
_PAGE_BYTES = 4096
_IN = struct.Struct("<IIQQIIIHH")
_OUT = struct.Struct("<IiQ")
_ATTR = struct.Struct("<QQQQQQIIIIIIIIII")
_ENTRY = struct.Struct("<QQQQII")
_ATTR_OUT = struct.Struct("<QII")
_OPEN_OUT = struct.Struct("<QII")
_WRITE_OUT = struct.Struct("<II")
_INIT_OUT = struct.Struct("<IIIIHHIIHH8I")
_STATFS = struct.Struct("<QQQQQIIII24x")
_DIRENT = struct.Struct("<QQII")


class Op(IntEnum):
    """The requests that are answered; the kernel gets ENOSYS for every other one."""

    LOOKUP = 1
    FORGET = 2
    GETATTR = 3
    SETATTR = 4
    MKDIR = 9
    UNLINK = 10
    RMDIR = 11
    RENAME = 12
    OPEN = 14
    READ = 15
    WRITE = 16
    STATFS = 17
    RELEASE = 18
    FSYNC = 20
    FLUSH = 25
    INIT = 26
    OPENDIR = 27
    READDIR = 28
    RELEASEDIR = 29
    FSYNCDIR = 30
    ACCESS = 34
    CREATE = 35
    INTERRUPT = 36
    DESTROY = 38
    BATCH_FORGET = 42
    RENAME2 = 45


UNANSWERED = (Op.FORGET, Op.BATCH_FORGET, Op.INTERRUPT)


@dataclass(frozen=True, slots=True)
class Request:
    """One request. node: the number of the file or folder; body: what follows the header."""

    op: int
    unique: int
    node: int
    body: bytes

    def take(self, layout: str) -> tuple[int, ...]:
        """Return the numbers at the start of the body."""
        return struct.unpack_from("<" + layout, self.body)

    def name(self, skipped: int = 0) -> str:
        """Return the name that begins after so many bytes of the body."""
        return os.fsdecode(self.body[skipped : self.body.index(b"\0", skipped)])

    def names(self, skipped: int) -> tuple[str, str]:
        """Return the two names that begin after so many bytes of the body."""
        first, second = self.body[skipped:].split(b"\0")[:2]
        return os.fsdecode(first), os.fsdecode(second)


def parse(data: bytes) -> Request:
    """Return the request in the bytes of one read from /dev/fuse."""
    length, op, unique, node, *_ = _IN.unpack_from(data)
    return Request(op, unique, node, data[_IN.size : length])


def forgotten(request: Request) -> tuple[int, ...]:
    """Return the nodes that a FORGET or a BATCH_FORGET says the kernel does not know any more."""
    if request.op == Op.FORGET:
        return (request.node,)
    (count,) = request.take("I")
    return request.take("8x" + "Q8x" * count)


def reply(unique: int, body: bytes = b"", error: int = 0) -> bytes:
    """Return the bytes of an answer. error: an errno; then it has no body."""
    content = b"" if error else body
    return _OUT.pack(_OUT.size + len(content), -error, unique) + content


def init_reply(request: Request) -> bytes:
    """Return the body of the answer to INIT: the protocol's version, and writes of 128 KiB."""
    _, _, max_readahead, _ = request.take("IIII")
    return _INIT_OUT.pack(
        MAJOR, MINOR, max_readahead, _BIG_WRITES | _MAX_PAGES, 16, 12, MOST_WRITTEN, 1,
        MOST_WRITTEN // _PAGE_BYTES, 0, *([0] * 8),
    )  # fmt: skip


def attributes(about: os.stat_result) -> bytes:
    """Return a file's attributes, as several answers have them."""
    times = (about.st_atime_ns, about.st_mtime_ns, about.st_ctime_ns)
    seconds, rests = zip(*(divmod(each, 1_000_000_000) for each in times), strict=True)
    return _ATTR.pack(
        about.st_ino, about.st_size, about.st_blocks, *seconds, *rests,
        about.st_mode, about.st_nlink, about.st_uid, about.st_gid, 0, _PAGE_BYTES, 0,
    )  # fmt: skip


def entry(node: int, about: os.stat_result) -> bytes:
    """Return the body of an answer with a name's node; the kernel must not remember either."""
    return _ENTRY.pack(node, 0, 0, 0, 0, 0) + attributes(about)


def attr_reply(about: os.stat_result) -> bytes:
    return _ATTR_OUT.pack(0, 0, 0) + attributes(about)


def open_reply(handle: int) -> bytes:
    return _OPEN_OUT.pack(handle, 0, 0)


def write_reply(size: int) -> bytes:
    return _WRITE_OUT.pack(size, 0)


def statfs_reply(about: os.statvfs_result) -> bytes:
    return _STATFS.pack(
        about.f_blocks, about.f_bfree, about.f_bavail, about.f_files, about.f_ffree,
        about.f_bsize, about.f_namemax, about.f_frsize, 0,
    )  # fmt: skip


def dirents(entries: list[tuple[str, os.stat_result]], offset: int, most_bytes: int) -> bytes:
    """Return as many of a folder's entries, from the one numbered offset on, as have room."""
    out = bytearray()
    for number, (name, about) in enumerate(entries[offset:], offset + 1):
        encoded = os.fsencode(name)
        padded = encoded.ljust(-(-len(encoded) // 8) * 8, b"\0")
        if len(out) + _DIRENT.size + len(padded) > most_bytes:
            break
        kind = stat.S_IFMT(about.st_mode) >> 12
        out += _DIRENT.pack(about.st_ino, number, len(encoded), kind) + padded
    return bytes(out)
