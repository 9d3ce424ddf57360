"""Runs inside a node's network namespace, for a second: loads nft rules, exchanges canaries.

A program of its own, in the faults image: it imports the standard library alone. It reads its
task, JSON, from its argument, and writes its report, JSON, to standard output. Times are
CLOCK_MONOTONIC nanoseconds, which every container of one machine shares.

Canaries are UDP datagrams that carry their direction and the time when they were sent. The rules
drop packets of a port in every protocol, and nodes listen on TCP alone, so UDP ports are free for
canaries. They also show each direction of a link by itself, which a TCP handshake cannot.
"""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import subprocess
import sys
import time
from typing import Any

CANARY_PORT = 9099
"""The port to which canaries go that, like a server's answers, come from a plane's port."""
DATAGRAM_BYTES = 2048
RECEIVE_BUFFER_BYTES = 1 << 20
QUEUE_ADDRESS = "\0highwater-queue"
"""The socket on which packet_queue.py listens."""
SENT_WITHIN_NS = 4_000_000
"""Must be less than the time around a change that proof.py leaves out (SETTLE_NS)."""
QUEUE_WITHIN_NS = 10_000_000_000
ANSWER_WITHIN_S = 5.0


def main(task: dict[str, Any]) -> dict[str, Any]:
    """Do the task.

    The task's keys:
        ports: the UDP ports to open.
        send: canaries, a list of {name, to, from_port, to_port, bytes, times}: bytes is the least
            size of a datagram, times is how many are sent at once.
        every_ns: from one sending of all canaries to the next.
        until_ns: when the task ends.
        least_ns: how long the task takes at least, should it begin late.
        apply_at_ns: when the change is made.
        script: nft's text to load at apply_at_ns; may be left out.
        queue: the effects that packet_queue.py is sent just before; may be left out.
        show: the table to list; may be left out.
    The report's keys:
        opened_ns, closed_ns: when receiving canaries began, and when it ended.
        loading_ns, applied_ns: just before and just after nft ran, None without a script.
        error: nft's error or the queue's, "" without one.
        sent: when each canary was sent, by name.
        received: when each canary that arrived was sent, by name.
        arrived: when each of the received canaries arrived, in the same order.
        shown_before, shown: nft's list of the table at the beginning and at the end.
        queue_ready_ns: when packet_queue.py was first seen to listen.
        told_ns: just before packet_queue.py was sent its effects.
    """
    shown_before = show(task.get("show"))
    sockets = {port: _socket(port) for port in task["ports"]}
    change = _Change(task)
    next_ns = time.monotonic_ns()
    report: dict[str, Any] = {"opened_ns": next_ns, "sent": {}, "received": {}, "arrived": {}}
    with selectors.DefaultSelector() as selector:
        for each in sockets.values():
            selector.register(each, selectors.EVENT_READ)
        until_ns = max(task["until_ns"], next_ns + task["least_ns"])
        while (now_ns := time.monotonic_ns()) < until_ns or not change.is_done:
            change.go_on(now_ns)
            if now_ns >= next_ns:
                next_ns += task["every_ns"]
                for canary in task["send"]:
                    _send(sockets[canary["from_port"]], canary, report["sent"])
            wait_ns = next_ns - time.monotonic_ns()
            for key, _ in selector.select(max(0, wait_ns) / 1e9):
                _receive(key.fileobj, report["received"], report["arrived"])
    report["closed_ns"] = time.monotonic_ns()
    report |= {"shown_before": shown_before, "shown": show(task.get("show"))}
    return report | change.report


class _Change:
    """The change of a task: the packet queue gets its effects, then the script is loaded.

    In this order the queue has an effect for every packet that it gets, and no packet overtakes
    those that the queue lets go at the end of a fault.
    """

    def __init__(self, task: dict[str, Any]) -> None:
        self._script: str | None = task.get("script")
        self._told = task.get("queue")
        self._at_ns: int = task["apply_at_ns"] if self._script is not None else 0
        self._give_up_ns = max(self._at_ns, time.monotonic_ns()) + QUEUE_WITHIN_NS
        self._queue: socket.socket | None = None
        self.report: dict[str, Any] = {
            "loading_ns": None, "applied_ns": None, "error": "",
        }  # fmt: skip

    @property
    def is_done(self) -> bool:
        return self._script is None

    def go_on(self, now_ns: int) -> None:
        """Do the part of the change that can be done now."""
        if self._script is None:
            return
        if self._told is not None and self._queue is None:
            self._queue = _connect_to_queue()
            if self._queue is not None:
                self.report["queue_ready_ns"] = time.monotonic_ns()
            elif self._told and now_ns < self._give_up_ns:
                return
        if now_ns >= self._at_ns:
            error = self._tell()
            self.report["loading_ns"] = time.monotonic_ns()
            self.report["error"] = error or load(self._script)
            self.report["applied_ns"] = time.monotonic_ns()
            self._script = None

    def _tell(self) -> str:
        """Send the queue its effects; return its error, "" when there is none.

        A queue that has ended, also in this moment, has no effects any more.
        """
        if self._queue is None and not self._told:
            return ""
        if self._queue is None:
            return f"no packet queue listens within {QUEUE_WITHIN_NS // 1_000_000_000} s"
        self.report["told_ns"] = time.monotonic_ns()
        try:
            with self._queue:
                self._queue.send(json.dumps(self._told).encode())
                answer = self._queue.recv(DATAGRAM_BYTES)
        except TimeoutError:
            return f"the packet queue did not answer within {ANSWER_WITHIN_S:g} s"
        except ConnectionError:
            answer = b""
        if answer:
            return str(json.loads(answer)["error"])
        return "the packet queue ended" if self._told else ""


def _connect_to_queue() -> socket.socket | None:
    opened = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    opened.settimeout(ANSWER_WITHIN_S)
    try:
        opened.connect(QUEUE_ADDRESS)
    except ConnectionRefusedError:
        opened.close()
        return None
    return opened


def show(table: str | None) -> str:
    """Return nft's list of the table ("inet name"), and of tables whose names begin with its name.

    Returns "" when there are none.

    Raises:
        CalledProcessError: nft does not answer; it needs NET_ADMIN even to look.
    """
    if table is None:
        return ""
    begins = table.split()[1]
    there = [line.split()[1:3] for line in _nft("list", "tables").splitlines()]
    return "".join(
        _nft("list", "table", family, name) for family, name in there if name.startswith(begins)
    )


def _nft(*words: str) -> str:
    return subprocess.run(  # noqa: S603 (words of ours)
        ["nft", *words],  # noqa: S607 (the image's own)
        text=True,
        capture_output=True,
        check=True,
        timeout=10,
    ).stdout


def load(script: str) -> str:
    """Load nft's script, all of it or nothing; return nft's error, "" when there is none."""
    done = subprocess.run(
        ["nft", "-f", "-"],  # noqa: S607 (the image's own)
        input=script,
        text=True,
        capture_output=True,
        check=False,
        timeout=10,
    )
    return "" if done.returncode == 0 else done.stderr.strip() or f"nft: {done.returncode}"


def _socket(port: int) -> socket.socket:
    opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
    opened.bind(("0.0.0.0", port))  # noqa: S104 (inside the node's own namespace)
    opened.setblocking(False)
    return opened


def _send(sender: socket.socket, canary: dict[str, Any], sent: dict[str, list[int]]) -> None:
    """Send the canary, and note when it was sent, unless that time is too uncertain.

    On a busy machine another process may run between reading the clock and sending.
    """
    for _ in range(canary["times"]):
        at_ns = time.monotonic_ns()
        content = f"{canary['name']} {at_ns} ".encode().ljust(canary["bytes"], b".")
        with contextlib.suppress(OSError):  # sent and not received: the same as dropped
            sender.sendto(content, (canary["to"], canary["to_port"]))
        if time.monotonic_ns() - at_ns < SENT_WITHIN_NS:
            sent.setdefault(canary["name"], []).append(at_ns)


def _receive(receiver: Any, received: dict[str, list[int]], arrived: dict[str, list[int]]) -> None:
    while True:
        try:
            name, at_ns, _ = receiver.recv(DATAGRAM_BYTES).decode().split(" ")
        except BlockingIOError:
            return
        except OSError:
            continue  # an ICMP error for a datagram that we sent: that peer's socket is not open
        received.setdefault(name, []).append(int(at_ns))
        arrived.setdefault(name, []).append(time.monotonic_ns())


if __name__ == "__main__":
    json.dump(main(json.loads(sys.argv[1])), sys.stdout)
