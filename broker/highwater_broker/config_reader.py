"""Keeps the values of ZooKeeper's configuration znodes current.

All known configurations are read again in each session and after each lost connection, so that a
change without an announcement, or with a missed one, is found then at the latest.
Source: docs/explanation/replication.md, /config/topics/T and /config/changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from highwater_broker.current_session import CurrentSession
from highwater_core.config_layers import ConfigOwner
from highwater_core.config_znodes import config_path, decode_config, decode_config_change
from highwater_core.events import EventKind
from highwater_core.ports import (
    CoordinationError,
    CoordinationEvent,
    CoordinationEventKind,
    NoNode,
    Trace,
)
from highwater_core.runtime import Queue, Runtime
from highwater_core.znodes import CONFIG_CHANGES, MalformedZnode

RETRY_MS = 500


@dataclass(frozen=True, slots=True)
class _Reload:
    """Read this configuration again."""

    owner: ConfigOwner


@dataclass(frozen=True, slots=True)
class _ReadChanges:
    """Read and watch /config/changes. whole: read all known configurations again."""

    whole: bool


class ConfigReader:
    """The set values, by owner; run() is the task that reads them from ZooKeeper.

    standing: the owners whose configurations are read in every session; others' are read when
        needed.
    """

    def __init__(
        self,
        runtime: Runtime,
        trace: Trace,
        session: CurrentSession,
        on_change: Callable[[ConfigOwner], None],
        standing: Sequence[ConfigOwner],
    ) -> None:
        self._runtime = runtime
        self._trace = trace
        self._session = session
        self._on_change = on_change
        self._standing = tuple(standing)
        self._known: dict[ConfigOwner, dict[str, str]] = {}
        self._work: Queue[_Reload | _ReadChanges] = runtime.queue()
        self._seen: frozenset[str] = frozenset()

    def get(self, owner: ConfigOwner) -> Mapping[str, str] | None:
        """Return the owner's set values, None when they were not read so far."""
        return self._known.get(owner)

    def forget(self, owner: ConfigOwner) -> None:
        self._known.pop(owner, None)

    def reread(self, owner: ConfigOwner) -> None:
        """Forget the configuration, if it was known, and read it again."""
        if self._known.pop(owner, None) is not None:
            self._work.put(_Reload(owner))

    async def load(self, owner: ConfigOwner) -> bool:
        """Read the configuration now, unless it is known; return whether it is known then.

        If ZooKeeper does not answer, it is read as soon as it does.
        """
        if owner not in self._known:
            try:
                await self._read(owner)
            except CoordinationError:
                self._work.put(_Reload(owner))
        return owner in self._known

    def on_event(self, event: CoordinationEvent) -> None:
        """Note a session's event; run() does the work."""
        if event.kind is CoordinationEventKind.SESSION_ESTABLISHED:
            self._work.put(_ReadChanges(whole=True))
        elif event.kind is CoordinationEventKind.CHILDREN_CHANGED and event.path == CONFIG_CHANGES:
            self._work.put(_ReadChanges(whole=False))

    async def run(self) -> None:
        while True:
            work = await self._work.get()
            try:
                match work:
                    case _Reload(owner):
                        await self._read(owner)
                    case _ReadChanges(whole):
                        await self._read_changes(whole=whole)
            except CoordinationError:
                await self._runtime.sleep(RETRY_MS)
                self._work.put(work)

    async def _read_changes(self, *, whole: bool) -> None:
        """Read announced configurations again; all known ones where an announcement is gone."""
        names = await self._session.get().children(CONFIG_CHANGES, watch=True)
        changed: dict[ConfigOwner, None] = {}
        for name in names:
            if name in self._seen:
                continue
            path = f"{CONFIG_CHANGES}/{name}"
            try:
                data, _ = await self._session.get().get(path)
                changed[decode_config_change(data, path)] = None
            except NoNode:
                whole = True
            except MalformedZnode as error:
                self._trace.emit(EventKind.BAD_INPUT_MET, where=path, what=str(error)[:300])
        if whole:
            changed = dict.fromkeys((*self._standing, *self._known))
        for owner in changed:
            if owner in self._known or owner in self._standing:
                await self._read(owner)
        self._seen = frozenset(names)

    async def _read(self, owner: ConfigOwner) -> None:
        """Store the znode's values; a malformed one leaves the known values."""
        path = config_path(owner)
        config: dict[str, str] = {}
        try:
            data, _ = await self._session.get().get(path)
            config = decode_config(data, owner)
        except NoNode:
            config = {}
        except MalformedZnode as error:
            self._trace.emit(EventKind.BAD_INPUT_MET, where=path, what=str(error)[:300])
            config = self._known.get(owner, {})
        if self._known.get(owner) != config:
            self._known[owner] = config
            self._on_change(owner)
