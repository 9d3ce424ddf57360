"""How many partitions `__consumer_offsets` has: what all brokers must agree on to place groups.

By its znode. Metadata will not do: while the topic is being made, or a controller takes over, they
may list some of its partitions only, and a group would be looked for in another than its own.
"""

from __future__ import annotations

from highwater_broker.current_session import CurrentSession
from highwater_core.events import EventKind
from highwater_core.internal_topics import OFFSETS_TOPIC
from highwater_core.ports import CoordinationError, NoNode, Trace
from highwater_core.topic_znode import decode_topic
from highwater_core.znodes import MalformedZnode, topic_path


class OffsetsTopicSize:
    """The number, read once: nobody may change it as long as the topic is there."""

    def __init__(self, session: CurrentSession, trace: Trace) -> None:
        self._session = session
        self._trace = trace
        self._count = 0

    @property
    def count(self) -> int:
        """0 while it is not known."""
        return self._count

    def forget(self) -> None:
        """Read it again when it is needed: the topic was deleted."""
        self._count = 0

    async def learn(self) -> int:
        """Return the number; 0 where there is no such topic, or nobody says so now."""
        if self._count:
            return self._count
        path = topic_path(OFFSETS_TOPIC)
        try:
            data, _ = await self._session.get().get(path)
            self._count = len(decode_topic(data, path).assignment)
        except NoNode:
            self._count = 0
        except CoordinationError:
            pass  # whoever needs it asks again
        except MalformedZnode as error:
            self._trace.emit(EventKind.BAD_INPUT_MET, where=path, what=str(error)[:300])
        return self._count
