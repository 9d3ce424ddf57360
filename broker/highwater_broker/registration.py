"""Keeps this broker registered: its ZooKeeper session and /brokers/ids/N.

An expired session's znode is removed. The next session registers again, which is a new incarnation
for the controller (KIP-380). Meanwhile the broker goes on serving until it is refused. Without
broker epochs a controller cannot tell registrations apart, and must notice the removal of the old
one first: then the broker waits for a whole session timeout after meeting an old registration.
Source: Kafka before KIP-380 (ZkUtils.createEphemeralPathExpectConflictHandleZKBug).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from highwater_broker.cluster_membership import why_not_to_join
from highwater_broker.current_session import CurrentSession
from highwater_broker.log.storage_identity import StorageIdentity
from highwater_broker.settings import BrokerSettings
from highwater_core.config import Toggles
from highwater_core.events import EventKind
from highwater_core.fail_points import FailPoint, FailPoints
from highwater_core.ids import NO_BROKER_EPOCH, NO_STORAGE_ID, BrokerEpoch, StorageId
from highwater_core.messages import BrokerEndpoints
from highwater_core.ports import (
    ConnectionLost,
    Coordination,
    CoordinationError,
    CoordinationEvent,
    CoordinationEventKind,
    NodeExists,
    NoNode,
    Ports,
    SessionExpired,
)
from highwater_core.runtime import Event, TimedOut
from highwater_core.session_pace import SessionPace
from highwater_core.znodes import PERSISTENT_PATHS, broker_path, encode_broker

RETRY_MS = 500
"""How often an occupied or unreachable registration is tried again, beside its watch."""


class Registration:
    """Opens one session after another and registers in each.

    Invariant: broker_epoch is the czxid of the last registration that succeeded.
    """

    def __init__(
        self,
        settings: BrokerSettings,
        toggles: Toggles,
        ports: Ports,
        session: CurrentSession,
        on_event: Callable[[CoordinationEvent], None],
        fail_points: FailPoints,
        storage: StorageIdentity | None = None,
        on_refusal: Callable[[], None] = lambda: None,
    ) -> None:
        """on_refusal: called once `refusal` says why the broker must not register."""
        self._settings = settings
        self._waits_conflicts_out = not toggles.broker_epoch
        self._ports = ports
        self._session = session
        self._on_event = on_event
        self._fail_points = fail_points
        self._storage = storage
        self._on_refusal = on_refusal
        self._path = broker_path(settings.broker_id)
        self._old_session_ids: list[int] = []
        self._named: StorageId = NO_STORAGE_ID
        """The storage id in the last znode that this broker is known to have created."""
        self.broker_epoch: BrokerEpoch = NO_BROKER_EPOCH
        self.registered: Event = ports.runtime.event()
        """Set once the first registration succeeded."""
        self.refusal = ""
        """Why the broker's logs are not of this ZooKeeper's cluster, "" where they are."""

    async def run(self) -> None:
        pace = SessionPace(self._ports.runtime)
        while True:
            await pace.wait()
            session = await self._ports.coordination.open(self._settings.session_timeout_ms)
            self._session.put(session)
            self._trace(EventKind.SESSION_OPENED, session)
            if await self._register(session):
                await self._follow(session)
            if self.refusal:
                self._on_refusal()
                return
            self._old_session_ids.append(session.session_id)
            self._trace(EventKind.SESSION_LOST, session)

    def had_session(self, session_id: int) -> bool:
        """Return whether it was a session of this broker, since its start."""
        return session_id in self._old_session_ids

    async def close(self) -> None:
        """End the session, so that the controller need not wait for its expiry."""
        try:
            await self._session.get().close()
        except CoordinationError:
            return  # the session is over, or will expire

    async def names(self, storage_id: StorageId) -> bool:
        """Return whether the registration has this storage id; else register again.

        The next registration is of the same session. Controllers notice it by its broker epoch.
        """
        if self._named == storage_id:
            return True
        with suppress(CoordinationError):  # the next call tries again
            await self._session.get().delete(self._path)
        return False

    async def _follow(self, session: Coordination) -> None:
        """Pass the session's events on; return when it has expired."""
        self._on_event(CoordinationEvent(CoordinationEventKind.SESSION_ESTABLISHED))
        while True:
            event = await session.events.get()
            if event.kind is CoordinationEventKind.SESSION_EXPIRED:
                return
            if event.kind is CoordinationEventKind.NODE_CHANGED and event.path == self._path:
                if not await self._register(session):
                    return
            else:
                self._on_event(event)

    async def _register(self, session: Coordination) -> bool:
        """Return True once our znode is there, False when the session has expired, or at a refusal.

        Other errors of ZooKeeper are traced once, and retried: a parent znode may be removed at
        that moment.
        """
        told: set[str] = set()
        while True:
            must_wait_out = False
            epoch: BrokerEpoch | None = None
            try:
                for path in PERSISTENT_PATHS:
                    await session.ensure_path(path)
                if self._storage is not None:
                    self.refusal = await why_not_to_join(session, self._storage, self._ports.rng)
                if self.refusal:
                    return False
                epoch = await self._try_once(session)
                must_wait_out = epoch is None and self._waits_conflicts_out
            except SessionExpired:
                return False
            except CoordinationError as fault:
                self._tell(fault, told)
            if epoch is not None:
                self._take_epoch(epoch)
                return True
            if await self._expires_while_waiting(session, must_wait_out=must_wait_out):
                return False

    def _tell(self, fault: CoordinationError, told: set[str]) -> None:
        """Trace an error that prevents the registration, each kind once; no lost connection."""
        kind = type(fault).__name__
        if isinstance(fault, ConnectionLost) or kind in told:
            return
        told.add(kind)
        self._ports.trace.emit(
            EventKind.REQUEST_REFUSED,
            request="registration",
            error=kind,
            message=str(fault)[:200],
        )

    async def _try_once(self, session: Coordination) -> BrokerEpoch | None:
        """Return our registration's czxid, None when an earlier incarnation's is in the way."""
        await self._fail_points.reach(FailPoint.BEFORE_BROKER_REGISTRATION)
        storage_id = NO_STORAGE_ID if self._storage is None else self._storage.storage_id
        with suppress(NodeExists):
            await session.create(self._path, self._content(storage_id), ephemeral=True)
            self._named = storage_id
        found = await session.exists(self._path, watch=True)
        if found is None:
            return None
        if found.ephemeral_owner == session.session_id:
            return BrokerEpoch(found.czxid)
        if found.ephemeral_owner in self._old_session_ids:
            with suppress(NoNode):
                await session.delete(self._path)
        return None

    def _content(self, storage_id: StorageId) -> bytes:
        settings = self._settings
        endpoints = BrokerEndpoints(
            broker_id=settings.broker_id,
            broker_epoch=NO_BROKER_EPOCH,
            client=settings.client,
            client_external=settings.client_external,
            replication=settings.replication,
            control=settings.control,
        )
        return encode_broker(endpoints, self._ports.runtime.wall_clock_ms(), storage_id)

    def _take_epoch(self, epoch: BrokerEpoch) -> None:
        if epoch != self.broker_epoch:
            self.broker_epoch = epoch
            self._ports.trace.emit(EventKind.BROKER_REGISTERED, broker_epoch=epoch)
        self.registered.set()

    async def _expires_while_waiting(self, session: Coordination, *, must_wait_out: bool) -> bool:
        """Wait for the session's next event, at most RETRY_MS, or for a whole session timeout.

        Return whether the session expired meanwhile.
        """
        now_ms = self._ports.runtime.now_ms
        until_ms = now_ms() + (self._settings.session_timeout_ms if must_wait_out else RETRY_MS)
        while (left_ms := until_ms - now_ms()) > 0:
            try:
                event = await session.events.get(left_ms)
            except TimedOut:
                return False
            if event.kind is CoordinationEventKind.SESSION_EXPIRED:
                return True
            if event.path not in ("", self._path):
                self._on_event(event)
            if not must_wait_out:
                return False
        return False

    def _trace(self, kind: EventKind, session: Coordination) -> None:
        self._ports.trace.emit(kind, session_id=session.session_id)
