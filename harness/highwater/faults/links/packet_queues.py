"""The packet queues: programs that hold packets back, each a container in a node's namespace.

A node's queue is begun when a link to the node becomes slow or narrow, and ended when no link to it
is. A queue that is not ended ends by itself, some time after its last effect.
"""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from highwater.faults.links.namespaces import PACKET_QUEUE, Namespaces


@dataclass(frozen=True, slots=True)
class _Queue:
    """A queue that was begun.

    incarnation: the node's when the queue began. A restarted node has another network namespace.
    """

    container: str
    incarnation: str


class PacketQueues:
    """The packet queues of one cluster's nodes; one thread at a time."""

    def __init__(self, namespaces: Namespaces) -> None:
        self._namespaces = namespaces
        self._queues: dict[int, _Queue] = {}

    def is_at(self, node: int) -> bool:
        """Return whether the node's queue was begun and not ended."""
        return node in self._queues

    def begin(self, nodes: Collection[int]) -> None:
        """Begin a queue at each of the nodes that has none in its present namespace.

        Raises:
            NotInNamespace: a queue does not run.
        """
        if nodes:
            with ThreadPoolExecutor(len(nodes), thread_name_prefix="queue") as pool:
                list(pool.map(self._begin, nodes))

    def end(self, nodes: Collection[int]) -> None:
        """End the queues of these nodes, if they have any."""
        at = [node for node in nodes if node in self._queues]
        if at:
            with ThreadPoolExecutor(len(at), thread_name_prefix="queue") as pool:
                list(pool.map(self._end, at))

    def end_all(self) -> None:
        self.end(tuple(self._queues))

    def _begin(self, node: int) -> None:
        incarnation = self._namespaces.incarnation(node)
        queue = self._queues.get(node)
        if queue is not None:
            if queue.incarnation == incarnation and self._namespaces.is_running(queue.container):
                return
            self._end(node)
        container = self._namespaces.begin(node, PACKET_QUEUE)
        self._queues[node] = _Queue(container, incarnation)

    def _end(self, node: int) -> None:
        self._namespaces.end(self._queues.pop(node).container)
