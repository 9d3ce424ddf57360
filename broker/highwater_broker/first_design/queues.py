"""The queues of state changes in ZooKeeper: this broker's own, and those that it sends to.

Source: the first design (V2), "State change communication".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from highwater_broker.current_session import CurrentSession
from highwater_broker.first_design.told_once import ToldOnce
from highwater_broker.logic.state_change_queue import (
    FollowerStateChangeQueueFull,
    is_full,
    superfluous,
)
from highwater_core.first_design_znodes import (
    StateChangeRequest,
    decode_request,
    encode_request,
    is_request_name,
    queue_path,
    request_prefix,
)
from highwater_core.ids import NodeId
from highwater_core.ports import CreateOp, NoNode, NotEmpty
from highwater_core.znodes import MalformedZnode


@dataclass(frozen=True, slots=True)
class QueuedRequest:
    """A request as it was read. czxid: ZooKeeper's number of the transaction that sent it."""

    request: StateChangeRequest
    czxid: int


class StateChangeQueues:
    """Ordering: the names of a queue's requests sort in the order in which they were sent."""

    def __init__(self, session: CurrentSession, told: ToldOnce, most: int) -> None:
        """most: the requests that a queue takes."""
        self._session = session
        self._told = told
        self._most = most
        self._not_dropped: dict[str, None] = {}
        """The paths of requests that could not be removed, of any broker's queue."""

    # ------------------------------------------------------------ receiving

    async def pending(self, broker_id: NodeId) -> list[str]:
        """Return the names of the requests that are not carried out, and watch for more."""
        path, names = queue_path(broker_id), await self.names(broker_id, watch=True)
        there = {f"{path}/{name}": name for name in names}
        self._not_dropped = {each: None for each in self._not_dropped if each in there}
        return [name for each, name in there.items() if each not in self._not_dropped]

    async def names(self, broker_id: NodeId, *, watch: bool = False) -> list[str]:
        """Return the names of the queue's requests, in order; other names are traced."""
        path = queue_path(broker_id)
        await self._session.get().ensure_path(path)
        names = await self._session.get().children(path, watch=watch)
        for name in names:
            if not is_request_name(name):
                self._told.tell(f"{path}/{name}", "it is no request")
        return [name for name in names if is_request_name(name)]

    async def read(self, broker_id: NodeId, name: str) -> QueuedRequest | None:
        """Return the request; None where it is malformed, which is traced, or gone."""
        path = f"{queue_path(broker_id)}/{name}"
        try:
            data, stat = await self._session.get().get(path)
        except NoNode:
            return None
        try:
            return QueuedRequest(decode_request(data, path), stat.czxid)
        except MalformedZnode as fault:
            self._told.tell(path, str(fault), stat.mzxid)
            return None

    async def drop(self, broker_id: NodeId, name: str) -> None:
        """Remove the request; one with children, which nobody here writes, is traced and stays.

        It is carried out, and not pending any more, in both cases.
        """
        path = f"{queue_path(broker_id)}/{name}"
        try:
            await self._session.get().delete(path)
        except NoNode:
            return
        except NotEmpty:
            self._told.tell(path, "a request has children")
            self._not_dropped[path] = None

    # ------------------------------------------------------------ sending

    async def put(self, broker_id: NodeId, request: StateChangeRequest) -> None:
        """Send the request.

        Raises:
            FollowerStateChangeQueueFull: nothing was sent.
        """
        await self.make_room(broker_id, 1)
        operation = self.operation(broker_id, request)
        await self._session.get().create(operation.path, operation.data, sequential=True)

    def operation(self, broker_id: NodeId, request: StateChangeRequest) -> CreateOp:
        """Return the operation that sends the request, for a transaction; first make room."""
        return CreateOp(request_prefix(broker_id), encode_request(request), sequential=True)

    async def operations(
        self, requests: Sequence[tuple[NodeId, StateChangeRequest]]
    ) -> list[CreateOp]:
        """Make room for all of the requests; return the operations that send them.

        Raises:
            FollowerStateChangeQueueFull: a broker's queue does not take its requests.
        """
        counts = Counter(broker for broker, _ in requests)
        for broker in sorted(counts):
            await self.make_room(broker, counts[broker])
        return [self.operation(broker, request) for broker, request in requests]

    async def make_room(self, broker_id: NodeId, count: int) -> None:
        """Shrink the queue if it does not take so many more requests.

        Raises:
            FollowerStateChangeQueueFull: it does not take them even so.
        """
        names = await self.names(broker_id)
        if not is_full(len(names) + count - 1, self._most):
            return
        await self._shrink(broker_id, names)
        left = len(await self.names(broker_id))
        if is_full(left + count - 1, self._most):
            raise FollowerStateChangeQueueFull(
                f"the queue of broker {broker_id} has {left} requests, and takes {self._most}"
            )

    async def _shrink(self, broker_id: NodeId, names: list[str]) -> None:
        read = {name: await self.read(broker_id, name) for name in names}
        sound = {name: found.request for name, found in read.items() if found is not None}
        malformed = [name for name in names if name not in sound]
        for name in (*malformed, *superfluous(sound)):
            with suppress(NoNode):
                await self.drop(broker_id, name)
