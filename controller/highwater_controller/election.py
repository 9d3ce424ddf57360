"""Becoming the active controller through the ephemeral znode /controller.

Source: docs/explanation/replication.md, "The controller", Election; KAFKA-1451 (/controller is read
first, so that a controller recognises its own ephemeral znode).
"""

from __future__ import annotations

from dataclasses import dataclass

from highwater_controller.patience import RACE_ATTEMPTS, GaveUp, Patience, PatientReader
from highwater_controller.store import TermEpoch
from highwater_core import znodes
from highwater_core.events import EventKind
from highwater_core.ids import NO_CONTROLLER_EPOCH, NO_LEADER, ControllerEpoch, NodeId
from highwater_core.ports import (
    ConnectionLost,
    Coordination,
    CreateOp,
    MultiFailed,
    NodeExists,
    NoNode,
    SetOp,
    Stat,
    Trace,
)
from highwater_core.runtime import Runtime
from highwater_core.znodes import ControllerZnode, MalformedZnode


@dataclass(frozen=True, slots=True)
class Won:
    epoch: TermEpoch


@dataclass(frozen=True, slots=True)
class Lost:
    """Another controller is active; NO_LEADER when its znode, or the epoch's, is malformed."""

    active_id: NodeId


class Election:
    """One session's candidacy. Its watch on /controller fires when it must stand again."""

    def __init__(
        self,
        controller_id: NodeId,
        session: Coordination,
        runtime: Runtime,
        trace: Trace,
        retry_ms: int,
        give_up_ms: int,
    ) -> None:
        self._controller_id = controller_id
        self._session = session
        self._runtime = runtime
        self._trace = trace
        self._reader = PatientReader(session, runtime, retry_ms, give_up_ms)
        self._last_won = NO_CONTROLLER_EPOCH

    async def stand(self) -> Won | Lost:
        """Return the winner; in either case a watch on /controller is set.

        Raises:
            GaveUp, SessionExpired: this session cannot win, nor learn the winner.
        """
        patience = self._reader.patience()
        stat: Stat | None = None
        for _ in range(RACE_ATTEMPTS):
            stat = await self._reader.exists(znodes.CONTROLLER, watch=True)
            if stat is not None and stat.ephemeral_owner != self._session.session_id:
                active_id = await self._active_id()
                if active_id is None:
                    continue
                return Lost(active_id)
            try:
                epoch, written_zxid = await self._read_epoch(patience)
            except MalformedZnode as fault:
                self._trace.emit(
                    EventKind.BAD_INPUT_MET, where=znodes.CONTROLLER_EPOCH, what=str(fault)[:200]
                )
                return Lost(NO_LEADER)
            if stat is None:
                won = await self._try_to_win(epoch, patience)
            elif epoch.controller_epoch > self._last_won and stat.czxid == written_zxid:
                won = epoch  # both are our own writes, from a multi whose reply was lost
            else:
                await self._delete_own()  # left over from an earlier term
                continue
            if won is not None:
                self._last_won = won.controller_epoch
                return Won(won)
        raise GaveUp(
            f"{znodes.CONTROLLER}: changed {RACE_ATTEMPTS} times between a look and the next step; "
            f"last seen: {stat or 'none'}"
        )

    async def is_still_won(self) -> bool:
        """Return whether /controller is this session's; a watch fires when that changes."""
        stat = await self._reader.exists(znodes.CONTROLLER, watch=True)
        return stat is not None and stat.ephemeral_owner == self._session.session_id

    async def _delete_own(self) -> None:
        try:
            await self._reader.patiently(
                lambda: self._session.delete(znodes.CONTROLLER), f"delete {znodes.CONTROLLER}"
            )
        except NoNode:
            return

    async def _try_to_win(self, last: TermEpoch, patience: Patience) -> TermEpoch | None:
        """Create /controller and raise the epoch, both or none; None: read /controller again."""
        epoch = ControllerEpoch(last.controller_epoch + 1)
        znode = ControllerZnode(
            brokerid=self._controller_id, timestamp=str(self._runtime.wall_clock_ms())
        )
        try:
            results = await self._session.multi(
                (
                    CreateOp(znodes.CONTROLLER, znodes.encode(znode), ephemeral=True),
                    SetOp(znodes.CONTROLLER_EPOCH, str(epoch).encode(), last.node_version),
                )
            )
        except MultiFailed:
            return None
        except ConnectionLost:
            await patience.lost(f"create {znodes.CONTROLLER}")
            return None
        stat = results[1]
        return None if stat is None else TermEpoch(epoch, stat.node_version)

    async def _read_epoch(self, patience: Patience) -> tuple[TermEpoch, int]:
        """Return /controller_epoch, created with 0 by the first controller ever, and its mzxid.

        Raises:
            MalformedZnode: the content is no number; a watch fires when it is repaired.
            GaveUp: others changed it again and again.
        """
        found: tuple[bytes, Stat] | None = None
        for _ in range(RACE_ATTEMPTS):
            found = await self._reader.get(znodes.CONTROLLER_EPOCH)
            if found is not None:
                data, stat = found
                try:
                    epoch = znodes.decode_controller_epoch(data)
                    return TermEpoch(epoch, stat.node_version), stat.mzxid
                except MalformedZnode:
                    again = await self._reader.get(znodes.CONTROLLER_EPOCH, watch=True)
                    if again is not None and again[0] == data:
                        raise
                    continue
            try:
                await self._session.create(znodes.CONTROLLER_EPOCH, b"0")
            except NodeExists:
                continue
            except ConnectionLost:
                await patience.lost(f"create {znodes.CONTROLLER_EPOCH}")
        raise GaveUp(
            f"{znodes.CONTROLLER_EPOCH}: changed {RACE_ATTEMPTS} times between two reads; "
            f"last seen: {found}"[:300]
        )

    async def _active_id(self) -> NodeId | None:
        """Return the active controller's id; None when /controller is gone again."""
        found = await self._reader.get(znodes.CONTROLLER, watch=True)
        if found is None:
            return None
        try:
            return NodeId(znodes.decode(ControllerZnode, found[0], znodes.CONTROLLER).brokerid)
        except MalformedZnode as fault:
            self._trace.emit(
                EventKind.BAD_INPUT_MET, where=znodes.CONTROLLER, what=str(fault)[:200]
            )
            return NO_LEADER
