"""The number of partitions of `__consumer_offsets`, on which a group's placement depends.

All brokers must agree on it, so it is read from the topic's znode. Metadata may list only some
partitions while the topic is created or a controller takes over; a group would then be looked for
in a wrong partition.
"""

from __future__ import annotations

from highwater_broker.current_session import CurrentSession
from highwater_core.events import EventKind
from highwater_core.internal_topics import OFFSETS_TOPIC
from highwater_core.ports import CoordinationError, NoNode, Trace
from highwater_core.topic_znode import decode_topic
from highwater_core.znodes import MalformedZnode, topic_path


class OffsetsTopicSize:
    """The number is read once: it cannot change while the topic exists."""

    def __init__(self, session: CurrentSession, trace: Trace) -> None:
        self._session = session
        self._trace = trace
        self._count = 0

    @property
    def count(self) -> int:
        """The number of partitions; 0 while it is not known."""
        return self._count

    def forget(self) -> None:
        """Read the number again when it is needed next: the topic was deleted."""
        self._count = 0

    async def learn(self) -> int:
        """Return the number; 0 if there is no such topic, or it cannot be read now."""
        if self._count:
            return self._count
        path = topic_path(OFFSETS_TOPIC)
        try:
            data, _ = await self._session.get().get(path)
            self._count = len(decode_topic(data, OFFSETS_TOPIC).assignment)
        except NoNode:
            self._count = 0
        except CoordinationError:
            pass  # the next caller asks again
        except MalformedZnode as error:
            self._trace.emit(EventKind.BAD_INPUT_MET, where=path, what=str(error)[:300])
        return self._count
