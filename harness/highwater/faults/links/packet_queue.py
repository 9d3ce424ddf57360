"""Holds a node's packets back: runs in its network namespace as long as a link is slow or narrow.

A program of its own, in the faults image: it imports the standard library, and modules that do so.
It gets the packets that have a mark (rules.py), and packet_pipes decides when each goes on. It gets
effects over a socket whose name exists in this network namespace only. It ends by itself, LINGER_NS
after its last effect, or FIRST_WITHIN_NS after its start if it gets none. With it ends the rule
that sends packets here.
"""

from __future__ import annotations

import json
import selectors
import socket
import time
from typing import Any

from highwater.faults.links.in_namespace import QUEUE_ADDRESS
from highwater.faults.links.nfqueue import ACCEPT, DROP, PacketQueue
from highwater.faults.links.packet_pipes import NEVER_NS, Effect, Pipes

LINGER_NS = 15_000_000_000
FIRST_WITHIN_NS = 120_000_000_000
"""How long it waits for its first effect. A busy engine takes most of a minute to start the helper
that tells it; until then no packet comes here."""
LONGEST_MESSAGE = 1 << 17


def main() -> None:
    """Hold packets until there were no more effects for a while.

    Where the kernel has no queue for packets, every message with effects gets its error as answer.
    """
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener,
        selectors.DefaultSelector() as selector,
    ):
        listener.bind(QUEUE_ADDRESS)
        listener.listen()
        selector.register(listener, selectors.EVENT_READ)
        try:
            queue = PacketQueue()
        except OSError as error:
            _Holding(selector, listener, None, str(error)).run()
            return
        selector.register(queue.socket, selectors.EVENT_READ)
        _Holding(selector, listener, queue, "").run()
        queue.close()


class _Holding:
    """The program's loop over its three kinds of sockets."""

    def __init__(
        self,
        selector: selectors.BaseSelector,
        listener: socket.socket,
        queue: PacketQueue | None,
        error: str,
    ) -> None:
        self._selector = selector
        self._listener = listener
        self._queue = queue
        self._error = error
        self._pipes = Pipes()
        self._until_ns = time.monotonic_ns() + FIRST_WITHIN_NS

    def run(self) -> None:
        while (now_ns := time.monotonic_ns()) < self._until_ns:
            self._let_go(now_ns)
            next_ns = min(self._pipes.next_ns(now_ns), self._until_ns)
            for key, _ in self._selector.select(max(0, next_ns - time.monotonic_ns()) / 1e9):
                self._read(key.fileobj)
        self._let_go(NEVER_NS)

    def _read(self, ready: Any) -> None:
        if ready is self._listener:
            opened, _ = self._listener.accept()
            self._selector.register(opened, selectors.EVENT_READ)
        elif self._queue is not None and ready is self._queue.socket:
            self._take_in(self._queue)
        else:
            self._hear(ready)

    def _take_in(self, queue: PacketQueue) -> None:
        for packet in queue.packets():
            now_ns = time.monotonic_ns()
            if not self._pipes.arrive(packet.mark, packet.number, packet.size, now_ns):
                queue.decide(DROP, [packet.number])

    def _let_go(self, now_ns: int) -> None:
        if self._queue is not None:
            self._queue.decide(ACCEPT, self._pipes.due(now_ns))

    def _hear(self, teller: socket.socket) -> None:
        """Replace all effects by those in the message, and answer it."""
        message = teller.recv(LONGEST_MESSAGE)
        if not message:
            self._selector.unregister(teller)
            teller.close()
            return
        now_ns = time.monotonic_ns()
        self._pipes.tell(effect_of(fields, now_ns) for fields in json.loads(message))
        self._let_go(now_ns)
        self._until_ns = max(now_ns, self._pipes.end_ns) + LINGER_NS
        teller.send(json.dumps({"error": self._error}).encode())


def effect_of(fields: dict[str, Any], now_ns: int) -> Effect:
    """Return the effect. fields: Effect's, with lasts_ns instead of until_ns."""
    return Effect(until_ns=now_ns + fields.pop("lasts_ns"), **fields)


if __name__ == "__main__":
    main()
