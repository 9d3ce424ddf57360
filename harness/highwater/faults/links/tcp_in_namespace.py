"""Runs inside a node's network namespace: lists its TCP connections with peers, and breaks them.

A program of its own, in the faults image: it imports the standard library alone. It reads its
task, JSON, from its argument, and writes its report, JSON, to standard output.

The kernel destroys a connection as for `ss -K`: the node's program gets ECONNABORTED, and the peer
gets a reset. For a half-open connection nft drops the connection's resets for a time: the one that
the kernel sends when it destroys the connection, and those that answer the peer's data. The kernel
ends that rule by itself.
Source: sock_diag(7), linux/inet_diag.h.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import struct
import sys
import time
from collections.abc import Iterable, Iterator
from ipaddress import IPv6Address
from typing import Any, NamedTuple

from highwater.faults.links.in_namespace import load

UNTOLD_TABLE = "highwater_untold"
NO_UNTOLD = f"add table inet {UNTOLD_TABLE}\ndelete table inet {UNTOLD_TABLE}\n"
"""Nft's script that removes the table, whether it is there or not."""
_SOCK_DIAG = 4
_BY_FAMILY, _DESTROY = 20, 21
_REQUEST_ACK, _DUMP = 5, 0x301
_ERROR, _DONE = 2, 3
# Established, both FIN_WAITs, CLOSE_WAIT, LAST_ACK, CLOSING: a program may still hold these.
STATES = sum(1 << number for number in (1, 4, 5, 8, 9, 11))
_ESTABLISHED = 1
_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBBxI")
_ID = struct.Struct("!HH16s16s4s8s")
"""Ports and addresses in network byte order; interface and cookie are passed back unchanged."""
_POLL_S = 0.05

Connection = tuple[str, int, str, int]
"""This side's address and port, then the peer's."""


def main(task: dict[str, Any]) -> dict[str, Any]:
    """Do the task.

    The task's keys:
        of: which connections, as a list of {peer, ports}: connections with the address peer that
            use one of the ports at either end.
        break: whether to break them.
        untold_ms: how long resets to the peers are dropped; 0: not at all.
        gone: connections of which the task waits until they are gone.
        within_s: how long to wait.
    The report's keys:
        found: the connections that were there at the beginning.
        established: the found connections that were not being closed.
        left: the connections that should be gone, and are not.
        error: why the kernel does not break a connection, "" when it does.
    """
    wanted = {each["peer"]: frozenset(each["ports"]) for each in task["of"]}
    found = [
        each
        for each in _connections()
        if wanted.get(each.ends[2], frozenset()) & {each.ends[1], each.ends[3]}
    ]
    ends, error = {each.ends for each in found}, ""
    gone = {tuple(each) for each in task["gone"]}
    if task["break"]:
        error = load(untold(ends, task["untold_ms"])) if task["untold_ms"] and ends else ""
        if not error:
            error = next(filter(None, [_destroy(each) for each in found]), "")
        gone |= ends
    deadline = time.monotonic() + task["within_s"]
    while (left := gone & {each.ends for each in _connections()}) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    return {
        "found": sorted(ends),
        "established": sorted(each.ends for each in found if each.state == _ESTABLISHED),
        "left": sorted(left),
        "error": error,
    }


def untold(connections: Iterable[Connection], for_ms: int) -> str:
    """Return nft's script that drops the resets of these connections for a time.

    Other connections whose resets are dropped already keep their own times.
    """
    elements = ", ".join(
        f"{peer} . {port} . {peer_port} timeout {for_ms}ms"
        for _, port, peer, peer_port in sorted(connections)
    )
    table = f"inet {UNTOLD_TABLE}"
    return "\n".join(
        [
            f"add table {table}",
            f"add chain {table} leaving {{ type filter hook output priority 0; }}",
            f"add set {table} untold "
            "{ type ipv4_addr . inet_service . inet_service; flags timeout; }",
            f"flush chain {table} leaving",
            f"add rule {table} leaving tcp flags & rst == rst "
            "ip daddr . tcp sport . tcp dport @untold drop",
            f"add element {table} untold {{ {elements} }}",
            "",
        ]
    )


class _Connection(NamedTuple):
    """One connection in the kernel's list. socket_id: the kernel's identification of it."""

    family: int
    socket_id: bytes
    state: int
    ends: Connection


def _connections() -> Iterator[_Connection]:
    """Yield the connections that a program holds, in the kernel's order."""
    for family in (socket.AF_INET, socket.AF_INET6):
        about = _REQUEST.pack(family, socket.IPPROTO_TCP, 0, STATES) + bytes(_ID.size)
        with _kernel() as kernel:
            kernel.send(_message(_BY_FAMILY, _DUMP, about))
            for content in _answers(kernel):
                socket_id = content[4 : 4 + _ID.size]
                port, peer_port, address, peer, _, _ = _ID.unpack(socket_id)
                ends = _text(family, address), port, _text(family, peer), peer_port
                yield _Connection(family, socket_id, content[1], ends)


def _destroy(connection: _Connection) -> str:
    """Break one connection; return why the kernel did not, "" when it is broken or gone."""
    about = _REQUEST.pack(connection.family, socket.IPPROTO_TCP, 0, STATES) + connection.socket_id
    with _kernel() as kernel:
        kernel.send(_message(_DESTROY, _REQUEST_ACK, about))
        (code,) = struct.unpack_from("=i", kernel.recv(1 << 16), _HEADER.size)
    return "" if -code in (0, errno.ENOENT) else os.strerror(-code)


def _kernel() -> socket.socket:
    kernel = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG)
    kernel.settimeout(10)
    return kernel


def _message(kind: int, flags: int, content: bytes) -> bytes:
    return _HEADER.pack(_HEADER.size + len(content), kind, flags, 1, 0) + content


def _answers(kernel: socket.socket) -> Iterator[bytes]:
    """Yield the content of each message of a dump.

    Raises:
        OSError: the kernel refuses the request.
    """
    while True:
        data = kernel.recv(1 << 16)
        while data:
            length, kind, _, _, _ = _HEADER.unpack_from(data)
            content, data = data[_HEADER.size : length], data[(length + 3) & ~3 :]
            if kind == _DONE:
                return
            if kind == _ERROR:
                (code,) = struct.unpack_from("=i", content)
                raise OSError(-code, os.strerror(-code))
            yield content


def _text(family: int, address: bytes) -> str:
    """Return the address as text; an IPv4 address of an IPv6 socket in IPv4's form."""
    if family == socket.AF_INET:
        return socket.inet_ntop(family, address[:4])
    mapped = IPv6Address(address).ipv4_mapped
    return str(mapped) if mapped is not None else socket.inet_ntop(family, address)


if __name__ == "__main__":
    json.dump(main(json.loads(sys.argv[1])), sys.stdout)
