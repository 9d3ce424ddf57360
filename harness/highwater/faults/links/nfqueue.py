"""The kernel's queue of packets for a program: netfilter's messages, and the rule that fills it.

The table that sends marked packets to the queue belongs to the socket that made it (flag owner).
The kernel removes the table when that socket's process ends, even by SIGKILL. Until then its rule
passes packets on if nobody listens (bypass).
nft itself has no queue where the kernel lacks CONFIG_NFT_QUEUE. So the rule uses iptables' target
NFQUEUE, which nf_tables accepts too.
Part of the faults image: it imports the standard library alone.
Source: linux/netfilter/nfnetlink_queue.h, nf_tables.h, nf_tables_compat.h, xt_NFQUEUE.h.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

TABLE = "highwater_queue"
"""A table of family ip."""
PRIORITY = -150
"""The priority of the table's chains: after packets are marked, and before any are dropped.

So a cut also drops the packets that the queue held and lets go.
"""
NUMBER = 1
LONGEST = 65_536
"""How many packets may wait; the kernel drops those beyond that."""
ACCEPT, DROP = 1, 0

_NETFILTER = 12
_OF_TABLES, _OF_QUEUES = 10, 3
_REQUEST, _ACK, _CREATE, _APPEND = 0x1, 0x4, 0x400, 0x800
_BATCH_BEGIN, _BATCH_END = 0x10, 0x11
_NEW_TABLE, _NEW_CHAIN, _NEW_RULE = 0, 3, 6
_PACKET, _VERDICT, _CONFIG = 0, 1, 2
_ERROR = 2
_IPV4 = 2
_ARRIVING, _LEAVING = ("arriving", 1), ("leaving", 3)
"""The chains, each with the number of its hook: input, output."""
_NESTED = 0x8000
_BYPASS = 1
_GSO = 4
_COPIED_BYTES = 4
_NO_ENOBUFS = 5
_OPTIONS_OF_NETLINK = 270
_RECEIVE_BUFFER_BYTES = 16 << 20
"""Packets wait in this buffer while the program waits for a core; the kernel drops the excess."""
_FORCE_RECEIVE_BUFFER = 33
"""Sets a buffer beyond the host's limit; needs NET_ADMIN. Source: socket(7), SO_RCVBUFFORCE."""
_PER_ROUND = 256
"""How many packets are read before verdicts are given."""


@dataclass(frozen=True, slots=True)
class Packet:
    """A packet that waits for its verdict: its number, its mark, and its length in bytes."""

    number: int
    mark: int
    size: int


class PacketQueue:
    """Marked packets that arrive at or leave a network namespace, each held until its verdict."""

    def __init__(self) -> None:
        """Begin to take packets.

        Raises:
            OSError: the kernel has no such queue, or another process has it.
        """
        with contextlib.ExitStack() as stack:
            self.socket = stack.enter_context(_netfilter())
            self._owner = stack.enter_context(_netfilter())
            self.socket.setsockopt(_OPTIONS_OF_NETLINK, _NO_ENOBUFS, 1)
            _make_room(self.socket)
            for message in _settings():
                _ask(self.socket, message, answers=1)
            _ask(self._owner, _table(), answers=5)
            self.socket.setblocking(False)
            self._open = stack.pop_all()

    def packets(self) -> Iterator[Packet]:
        """Yield the packets that have come, as far as they can be read at once."""
        for _ in range(_PER_ROUND):
            try:
                content = self.socket.recv(65_536)
            except BlockingIOError:
                return
            yield from packets_in(content)

    def decide(self, verdict: int, numbers: Iterable[int]) -> None:
        """Let packets go on (ACCEPT) or DROP them, in this order."""
        for number in numbers:
            body = _attribute(2, struct.pack(">II", verdict, number))
            self.socket.send(_message(_OF_QUEUES, _VERDICT, _REQUEST, body, NUMBER))

    def close(self) -> None:
        self._open.close()


def packets_in(content: bytes) -> Iterator[Packet]:
    """Yield the packets in the messages that the kernel wrote."""
    at = 0
    while at + 20 <= len(content):
        length, kind = struct.unpack_from("=IH", content, at)
        if kind == (_OF_QUEUES << 8 | _PACKET):
            yield _packet(content[at + 20 : at + length])
        at += max(16, (length + 3) & ~3)


def _packet(attributes: bytes) -> Packet:
    """Return the packet of a message.

    Attributes: 1 number and hook, 3 mark, 10 the packet's first bytes, 13 its whole length if only
    those are here.
    """
    number = mark = size = at = 0
    while at + 4 <= len(attributes):
        length, kind = struct.unpack_from("=HH", attributes, at)
        if kind == 1:
            (number,) = struct.unpack_from(">I", attributes, at + 4)
        elif kind == 3:
            (mark,) = struct.unpack_from(">I", attributes, at + 4)
        elif kind == 10:
            size = size or length - 4
        elif kind == 13:
            (size,) = struct.unpack_from(">I", attributes, at + 4)
        at += max(4, (length + 3) & ~3)
    return Packet(number, mark, size)


# ---------------------------------------------------------------- messages


def _netfilter() -> socket.socket:
    opened = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETFILTER)
    opened.bind((0, 0))
    opened.settimeout(10)
    return opened


def _make_room(receiving: socket.socket) -> None:
    try:
        receiving.setsockopt(socket.SOL_SOCKET, _FORCE_RECEIVE_BUFFER, _RECEIVE_BUFFER_BYTES)
    except PermissionError:
        receiving.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)


def _ask(kernel: socket.socket, messages: bytes, answers: int) -> None:
    """Send messages, and wait until the kernel has acknowledged `answers` of them.

    Raises:
        OSError: the kernel refused one.
    """
    kernel.send(messages)
    while answers > 0:
        content, at = kernel.recv(65_536), 0
        while at < len(content):
            length, kind, _, _, _ = struct.unpack_from("=IHHII", content, at)
            if kind == _ERROR:
                (code,) = struct.unpack_from("=i", content, at + 16)
                if code:
                    raise OSError(-code, f"no queue of packets: {os.strerror(-code)}")
                answers -= 1
            at += (length + 3) & ~3


def _settings() -> Iterator[bytes]:
    """Yield the messages that make the queue.

    They bind it, set its length and GSO, and have each packet's first bytes passed to the program.
    """
    flags = _REQUEST | _ACK
    yield _message(_OF_QUEUES, _CONFIG, flags, _attribute(1, struct.pack(">BxH", 1, _IPV4)), NUMBER)
    longest = _u32(3, LONGEST) + _u32(4, _GSO) + _u32(5, _GSO)
    yield _message(_OF_QUEUES, _CONFIG, flags, longest, NUMBER)
    copied = _attribute(2, struct.pack(">IB", _COPIED_BYTES, 2))
    yield _message(_OF_QUEUES, _CONFIG, flags, copied, NUMBER)


def _table() -> bytes:
    """Return the transaction that makes the table, with a chain and its rule for each way."""
    flags = _REQUEST | _ACK | _CREATE
    owner = 2
    parts = [
        _message(0, _BATCH_BEGIN, _REQUEST, b"", _OF_TABLES),
        _message(_OF_TABLES, _NEW_TABLE, flags, _text(1, TABLE) + _u32(2, owner)),
        *(
            _message(_OF_TABLES, _NEW_CHAIN, flags, _chain(name, hook))
            for name, hook in (_ARRIVING, _LEAVING)
        ),
        *(
            _message(_OF_TABLES, _NEW_RULE, flags | _APPEND, _rule(name))
            for name, _ in (_ARRIVING, _LEAVING)
        ),
        _message(0, _BATCH_END, _REQUEST, b"", _OF_TABLES),
    ]
    return b"".join(parts)


def _chain(name: str, hook: int) -> bytes:
    at = _u32(1, hook) + _u32(2, PRIORITY & 0xFFFF_FFFF)
    accept = _u32(5, ACCEPT)
    return _text(1, TABLE) + _text(3, name) + _nested(4, at) + accept + _text(7, "filter")


def _rule(chain: str) -> bytes:
    """Return the rule that sends marked packets to the queue, or on if nobody listens."""
    no_mark = _nested(3, _attribute(1, bytes(4)))
    to_queue = struct.pack("=HHHH", NUMBER, 1, _BYPASS, 0)
    expressions = (
        _expression("meta", _u32(1, 1) + _u32(2, 3))  # load the mark into register 1
        + _expression("cmp", _u32(1, 1) + _u32(2, 1) + no_mark)  # go on if it is not 0
        + _expression("target", _text(1, "NFQUEUE") + _u32(2, 3) + _attribute(3, to_queue))
    )
    return _text(1, TABLE) + _text(2, chain) + _nested(4, expressions)


def _expression(name: str, content: bytes) -> bytes:
    return _nested(1, _text(1, name) + _nested(2, content))


def _message(of: int, kind: int, flags: int, body: bytes, number: int = 0) -> bytes:
    """Return a message. number: the queue's, or the subsystem to which a batch belongs."""
    head = struct.pack("=IHHII", 20 + len(body), of << 8 | kind, flags, 0, 0)
    return head + struct.pack(">BBH", _IPV4, 0, number) + body


def _attribute(kind: int, content: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(content), kind) + content + bytes(-len(content) % 4)


def _nested(kind: int, content: bytes) -> bytes:
    return _attribute(kind | _NESTED, content)


def _text(kind: int, text: str) -> bytes:
    return _attribute(kind, text.encode() + b"\0")


def _u32(kind: int, number: int) -> bytes:
    return _attribute(kind, struct.pack(">I", number))
