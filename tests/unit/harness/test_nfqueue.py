"""How packets and verdicts are written on the kernel's netlink socket for its queue."""

from __future__ import annotations

import struct

from highwater.faults.links.nfqueue import Packet, packets_in

QUEUE_PACKET, ERROR = 3 << 8, 2


def attribute(kind: int, content: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(content), kind) + content + bytes(-len(content) % 4)


def message(kind: int, attributes: bytes) -> bytes:
    head = struct.pack("=IHHIIBBH", 20 + len(attributes), kind, 0, 0, 0, 2, 0, 0)
    return head + attributes


def number_and_mark(number: int, mark: int) -> bytes:
    return attribute(1, struct.pack(">IHBx", number, 0x800, 1)) + attribute(
        3, struct.pack(">I", mark)
    )


def test_a_packet_that_was_cut_short_tells_its_whole_length() -> None:
    cut = number_and_mark(7, 0xABC) + attribute(10, b"head") + attribute(13, b"\0\0\5\xdc")
    assert list(packets_in(message(QUEUE_PACKET, cut))) == [Packet(7, 0xABC, 1_500)]


def test_a_packet_that_was_not_cut_has_its_whole_length() -> None:
    short = number_and_mark(8, 1) + attribute(10, bytes(3))
    assert list(packets_in(message(QUEUE_PACKET, short))) == [Packet(8, 1, 3)]


def test_attributes_and_messages_that_are_not_asked_for_are_passed_over() -> None:
    odd = attribute(9, bytes(9)) + number_and_mark(1, 2) + attribute(99, bytes(5))
    both = message(ERROR, bytes(16)) + message(QUEUE_PACKET, odd)
    assert list(packets_in(both)) == [Packet(1, 2, 0)]
    assert list(packets_in(b"")) == []
