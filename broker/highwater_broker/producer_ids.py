"""Allocates unique producer ids from blocks that this broker reserves in ZooKeeper.

A broker reserves the thousand ids after the block in /latest_producer_id_block, by a conditional
write, and allocates them one by one. Ids that are left when it ends are never used. Source: KIP-98;
Kafka's ZkProducerIdManager, whose znode this is. The controller is not involved: brokers have
conditional writes of their own, and in KIP-730 the controller allocates blocks only because there
is no ZooKeeper.
"""

from __future__ import annotations

from highwater_broker.current_session import CurrentSession
from highwater_core.events import EventKind
from highwater_core.ids import NodeId, ProducerId
from highwater_core.ports import BadVersion, CoordinationError, NodeExists, NoNode, Trace
from highwater_core.runtime import Future, Runtime, TaskScope, TimedOut
from highwater_core.znodes import (
    LATEST_PRODUCER_ID_BLOCK,
    MalformedZnode,
    ProducerIdBlockZnode,
    decode,
    encode,
)

BLOCK_IDS = 1_000
RACE_ATTEMPTS = 100
"""Most conflicts with other brokers between a read and a write; each time one got a block."""
WAIT_MS = 5_000
"""How long a producer waits for a block before it must retry."""
_LAST_ID = 2**63 - 1


class ProducerIds:
    """This broker's present block, and the reservation of the next one."""

    def __init__(
        self,
        session: CurrentSession,
        runtime: Runtime,
        scope: TaskScope,
        trace: Trace,
        broker_id: NodeId,
    ) -> None:
        """scope: runs reservations, also without a waiting caller."""
        self._session = session
        self._runtime = runtime
        self._scope = scope
        self._trace = trace
        self._broker_id = broker_id
        self._unused = iter(range(0))
        self._taking: Future[bool] | None = None
        """The reservation under way, which all callers share."""

    async def next_id(self) -> ProducerId | None:
        """Return an id that was never used before, None when there is none at present."""
        while True:
            for producer_id in self._unused:
                return ProducerId(producer_id)
            if self._taking is None:
                self._taking = self._runtime.future()
                self._scope.spawn("ProducerIdBlock", self._take_block(self._taking))
            try:
                if not await self._taking.wait(WAIT_MS):
                    return None
            except TimedOut:
                return None

    async def _take_block(self, taken: Future[bool]) -> None:
        """Reserve the next block; after an unknown outcome that block stays unused."""
        block: range | None = None
        problem = f"others wrote it {RACE_ATTEMPTS} times between a read and a write"
        try:
            for _ in range(RACE_ATTEMPTS):
                block = await self._attempt()
                if block is not None:
                    break
        except (CoordinationError, MalformedZnode) as error:
            problem = f"{type(error).__name__} {error}"
        finally:
            self._taking = None
        if block is None:
            self._trace.emit(
                EventKind.BAD_INPUT_MET, where=LATEST_PRODUCER_ID_BLOCK, what=problem[:300]
            )
        else:
            self._unused = iter(block)
        taken.set(block is not None)

    async def _attempt(self) -> range | None:
        """Return the block that this broker has reserved, None if another one was quicker.

        Raises:
            CoordinationError: the outcome is not known.
            MalformedZnode: it is unknown which ids are reserved, or none are left.
        """
        session, path = self._session.get(), LATEST_PRODUCER_ID_BLOCK
        try:
            data, stat = await session.get(path)
        except NoNode:
            block = range(BLOCK_IDS)
            try:
                await session.create(path, self._content(block))
            except NodeExists:
                return None
            return block
        start = int(decode(ProducerIdBlockZnode, data, path).block_end) + 1
        block = range(start, start + BLOCK_IDS)
        if block[-1] > _LAST_ID:
            raise MalformedZnode(f"{path}: no ids are left after {start - 1}")
        try:
            await session.set(path, self._content(block), stat.node_version)
        except (BadVersion, NoNode):
            return None
        return block

    def _content(self, block: range) -> bytes:
        return encode(ProducerIdBlockZnode(self._broker_id, str(block[0]), str(block[-1])))
