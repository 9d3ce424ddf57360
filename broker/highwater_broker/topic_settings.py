"""What each topic's configuration znode says, kept current; defaults are the broker's settings.

Source: replication.md, /config/topics/T and /config/changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from highwater_broker.current_session import CurrentSession
from highwater_broker.log.log_config import LOG_CONFIG_KEYS, LogConfig
from highwater_broker.settings import BrokerSettings
from highwater_core.events import EventKind
from highwater_core.ports import (
    CoordinationError,
    CoordinationEvent,
    CoordinationEventKind,
    NoNode,
    Trace,
)
from highwater_core.runtime import Queue, Runtime
from highwater_core.topic_configs import BadTopicConfig, parse_topic_config
from highwater_core.topic_names import find_name_fault
from highwater_core.znodes import (
    CONFIG_CHANGES,
    MalformedZnode,
    TopicConfigZnode,
    decode,
    topic_config_path,
)

INDEX_INTERVAL = "index.interval.bytes"
LEAST_INDEX_INTERVAL_BYTES = 1024

RETRY_MS = 500
_TOPIC_ENTITY = "topics/"


@dataclass(frozen=True, slots=True)
class ConfigChangeZnode:
    """/config/changes/config_change_N: whose configuration was written."""

    entity_path: str
    version: int = 2


@dataclass(frozen=True, slots=True)
class _Reload:
    """Read this topic's configuration again."""

    topic: str


@dataclass(frozen=True, slots=True)
class _ReadChanges:
    """See what /config/changes has, and watch it; everything known is reread when whole."""

    whole: bool


class TopicSettings:
    """Topic configurations by topic; run() is the task that reads them from ZooKeeper."""

    def __init__(
        self,
        settings: BrokerSettings,
        runtime: Runtime,
        trace: Trace,
        session: CurrentSession,
        on_change: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._runtime = runtime
        self._trace = trace
        self._session = session
        self._on_change = on_change
        self._overrides: dict[str, dict[str, str]] = {}
        self._work: Queue[_Reload | _ReadChanges] = runtime.queue()
        self._seen: frozenset[str] = frozenset()

    # ------------------------------------------------------------ what they say

    async def topic_overrides(self, topic: str) -> Mapping[str, str] | None:
        """Return what the topic's znode sets, None when it cannot be read at present."""
        if topic not in self._overrides:
            try:
                await self._read(topic)
            except CoordinationError:
                return None
        return self._overrides.get(topic, {})

    def _values(self, topic: str) -> dict[str, int]:
        parsed = parse_topic_config(self._overrides.get(topic, {}))
        return {name: value for name, value in parsed.items() if isinstance(value, int)}

    def is_known(self, topic: str) -> bool:
        """Return whether the topic's configuration was read; the defaults serve until then."""
        return topic in self._overrides

    def min_insync_replicas(self, topic: str) -> int:
        default = self._settings.min_insync_replicas
        return self._values(topic).get("min.insync.replicas", default)

    def log_config(self, topic: str) -> LogConfig:
        """Return the topic's own values, the broker's settings of the same names for the rest.

        Deviation: a topic's index interval counts as LEAST_INDEX_INTERVAL_BYTES at least: indexes
        are kept in memory, and clients choose it.
        """
        values = self._values(topic)
        if INDEX_INTERVAL in values:
            values[INDEX_INTERVAL] = max(values[INDEX_INTERVAL], LEAST_INDEX_INTERVAL_BYTES)
        return LogConfig(
            **{
                field: values.get(key.name, getattr(self._settings, field))
                for field, key in LOG_CONFIG_KEYS.items()
            }
        )

    # ------------------------------------------------------------ keeping them current

    def on_event(self, event: CoordinationEvent) -> None:
        """Take note of a session's event; the work is done in run()."""
        if event.kind is CoordinationEventKind.SESSION_ESTABLISHED:
            self._work.put(_ReadChanges(whole=True))
        elif event.kind is CoordinationEventKind.CHILDREN_CHANGED and event.path == CONFIG_CHANGES:
            self._work.put(_ReadChanges(whole=False))

    def forget(self, topic: str) -> None:
        self._overrides.pop(topic, None)

    def reread(self, topic: str) -> None:
        """Forget the topic's configuration, if it was known, and have it read again."""
        if self._overrides.pop(topic, None) is not None:
            self._work.put(_Reload(topic))

    async def load(self, topic: str) -> None:
        """Read the topic's configuration now, unless it is known.

        Where ZooKeeper does not answer, the defaults serve until it does.
        """
        if topic in self._overrides:
            return
        try:
            await self._read(topic)
        except CoordinationError:
            self._work.put(_Reload(topic))

    async def run(self) -> None:
        while True:
            work = await self._work.get()
            try:
                match work:
                    case _Reload(topic):
                        await self._read(topic)
                    case _ReadChanges(whole):
                        await self._read_changes(whole=whole)
            except CoordinationError:
                await self._runtime.sleep(RETRY_MS)
                self._work.put(work)

    async def _read_changes(self, *, whole: bool) -> None:
        session = self._session.get()
        names = await session.children(CONFIG_CHANGES, watch=True)
        topics = dict.fromkeys(self._overrides) if whole else {}
        for name in names:
            if name not in self._seen:
                topic = await self._changed_topic(f"{CONFIG_CHANGES}/{name}")
                if topic is not None:
                    topics[topic] = None
        self._seen = frozenset(names)
        for topic in topics:
            await self._read(topic)

    async def _changed_topic(self, path: str) -> str | None:
        try:
            data, _ = await self._session.get().get(path)
            entity = decode(ConfigChangeZnode, data, path).entity_path
        except NoNode:
            return None
        except MalformedZnode as error:
            self._trace.emit(EventKind.BAD_INPUT_MET, where=path, what=str(error))
            return None
        if not entity.startswith(_TOPIC_ENTITY):
            return None
        topic = entity.removeprefix(_TOPIC_ENTITY)
        fault = find_name_fault(topic)
        if fault:
            self._trace.emit(EventKind.BAD_INPUT_MET, where=path, what=fault)
            return None
        return topic

    async def _read(self, topic: str) -> None:
        """Take over what the znode says; a malformed one leaves what was known."""
        path = topic_config_path(topic)
        overrides: dict[str, str] = {}
        try:
            data, _ = await self._session.get().get(path)
            overrides = decode(TopicConfigZnode, data, path).config
            parse_topic_config(overrides)
        except NoNode:
            overrides = {}
        except (MalformedZnode, BadTopicConfig) as error:
            self._trace.emit(EventKind.BAD_INPUT_MET, where=path, what=str(error))
            overrides = self._overrides.get(topic, {})
        if self._overrides.get(topic) != overrides:
            self._overrides[topic] = overrides
            self._on_change(topic)
