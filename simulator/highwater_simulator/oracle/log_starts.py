"""I11, for log starts: a log begins where a leader's log began, or where retention may move it.

The logs at the end do not show a log start that is too high: once the leader has dropped records,
its followers drop them too.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from highwater_broker.partition import Partition
from highwater_broker.settings import BrokerSettings
from highwater_core import znodes
from highwater_core.ids import NodeId, TopicPartition
from highwater_core.topic_configs import TOPIC_CONFIG_KEYS, BadTopicConfig
from highwater_simulator.disk import Disk
from highwater_simulator.oracle.batches import parse_batches
from highwater_simulator.oracle.shadow import LOG_SUFFIX, ReplicaShadow

if TYPE_CHECKING:
    from highwater_simulator.world import World

_TIMESTAMPS = struct.Struct(">qq")
"""The first record's, and the largest."""
_TIMESTAMPS_AT = 27
_UNLIMITED = -1
_DEFAULTS = BrokerSettings(node_id=NodeId(0))

Report = Callable[[TopicPartition | None, str, str, int], None]


class _Segment(NamedTuple):
    """A segment, from its file. newest_ms: negative when no batch has a timestamp."""

    base_offset: int
    next_offset: int
    size_bytes: int
    newest_ms: int


class _Kept(NamedTuple):
    """The loosest retention limits configured so far; None keeps everything."""

    size_bytes: int | None
    age_ms: int | None

    def or_less(self, other: _Kept) -> _Kept:
        return _Kept(_least(self.size_bytes, other.size_bytes), _least(self.age_ms, other.age_ms))


class _Seen(NamedTuple):
    """A replica when it was last checked, and how often its disk had lost data by then."""

    replica: Partition
    start_offset: int
    losses: int


class LogStartChecks:
    """Follows the log start offset of every replica.

    A follower's log starts at an offset at which the log of some leader of its partition started,
    of any epoch. Every replica removes whole segments, the oldest first, that retention does not
    keep. Where it removes the last one, too, another begins at the log's end. A segment without a
    timestamp is as old as the next one that has one. The loosest limits that were ever configured
    count, since brokers learn of a change late. The log of a restarted replica starts no higher
    than before, unless its disk lost data.
    """

    def __init__(
        self, world: World, shadows: Mapping[str, Mapping[int, ReplicaShadow]], report: Report
    ) -> None:
        self._world = world
        self._shadows = shadows
        self._report = report
        self._kept: dict[str, _Kept] = {}
        """The loosest limits ever configured, by topic, deleted topics too."""
        self._led_from: dict[TopicPartition, int] = {}
        """The highest start of a leader."""
        self._own: dict[tuple[int, TopicPartition], int] = {}
        """The highest start of each replica."""
        self._seen: dict[tuple[int, TopicPartition], _Seen] = {}
        self._losses: dict[int, int] = {}
        self._before: dict[tuple[int, TopicPartition], list[_Segment]] = {}
        """The segments of each log whose start has moved in this event, before the move."""

    def disk_lost(self, broker: int) -> None:
        """Take note that the disk lost data: the log may start elsewhere after a restart."""
        self._losses[broker] = self._losses.get(broker, 0) + 1

    def config_written(self, topic: str) -> None:
        self._kept[topic] = self._kept_of(topic).or_less(self._configured(topic))

    def topic_forgotten(self, topic: str) -> None:
        """Forget the log starts of a topic; the next topic of that name begins at 0."""
        for at in [at for at in self._led_from if at.topic == topic]:
            del self._led_from[at]
        for key in [key for key in self._seen if key[1].topic == topic]:
            del self._seen[key], self._own[key]

    def start_moved(self, broker: int, at: TopicPartition, start_offset: int) -> None:
        """Take note of the log's segments before their files are removed.

        The broker removes them at once where the disk refuses to write the log start checkpoint.
        """
        seen = self._seen.get((broker, at))
        if seen is not None and start_offset > self._highest(broker, at):
            disk, home = self._world.brokers[broker].disk, self._shadows[str(at)][broker].home
            held = list(_segments_from(disk, home, seen.start_offset))
            self._before.setdefault((broker, at), held)

    def check(self, broker: int, replica: Partition) -> None:
        """Check the log start of a replica that has changed."""
        at, start_offset = replica.topic_partition, replica.log_start_offset
        key, losses = (broker, at), self._losses.get(broker, 0)
        seen = self._seen.get(key)
        if seen is None or seen != (replica, start_offset, losses):
            self._judge(broker, replica, seen, losses)
            self._seen[key] = _Seen(replica, start_offset, losses)
            self._own[key] = max(start_offset, self._own.get(key, 0))
        self._before.pop(key, None)
        if replica.is_leader and start_offset > self._led_from.get(at, -1):
            self._led_from[at] = start_offset

    def _judge(self, broker: int, replica: Partition, seen: _Seen | None, losses: int) -> None:
        at, start_offset = replica.topic_partition, replica.log_start_offset
        if start_offset <= self._highest(broker, at):
            return
        if seen is not None and seen.replica is replica:
            if self._may_go(broker, replica):
                return
        elif losses > (0 if seen is None else seen.losses):
            return
        self._report(
            at,
            "I11",
            f"broker {broker} lets its log begin at {start_offset}; no leader's began above "
            f"{self._led_from.get(at, 0)}, and retention keeps what it lets go of",
            start_offset,
        )

    def _highest(self, broker: int, at: TopicPartition) -> int:
        """Return the highest offset at which this replica's log, or a leader's, has started."""
        return max(self._led_from.get(at, 0), self._own.get((broker, at), 0))

    def _may_go(self, broker: int, replica: Partition) -> bool:
        """Return whether retention may remove all segments below the replica's log start."""
        at, runtime = replica.topic_partition, self._world.brokers[broker].runtime
        if runtime is None:
            return False
        kept, now_ms = self._kept_of(at.topic), runtime.wall_clock_ms()
        known = self._highest(broker, at)
        segments = self._before.get((broker, at), [])
        left_bytes = sum(segment.size_bytes for segment in segments)
        for number, segment in enumerate(segments):
            if segment.base_offset >= replica.log_start_offset:
                return segment.base_offset == replica.log_start_offset
            left_bytes -= segment.size_bytes
            dated = (each for each in segments[number:] if each.newest_ms >= 0)
            newest_ms = next(dated, segment).newest_ms
            is_old = kept.age_ms is not None and 0 <= newest_ms < now_ms - kept.age_ms
            is_excess = kept.size_bytes is not None and left_bytes >= kept.size_bytes
            if segment.next_offset > known and not (is_old or is_excess):
                return False
        # The disk may refuse the segment in which the emptied log is to go on.
        return bool(segments) and segments[-1].next_offset == replica.log_start_offset

    # ------------------------------------------------------------ configurations

    def _kept_of(self, topic: str) -> _Kept:
        found = self._kept.get(topic)
        if found is None:
            settings = self._world.topology.broker_settings
            found = self._kept[topic] = _Kept(
                _limit(settings.get("retention_bytes", _DEFAULTS.retention_bytes)),
                _limit(settings.get("retention_ms", _DEFAULTS.retention_ms)),
            )
        return found

    def _configured(self, topic: str) -> _Kept:
        path = znodes.topic_config_path(topic)
        found = self._world.zookeeper.data(path)
        if found is None:
            return _Kept(None, None)
        config = znodes.decode(znodes.TopicConfigZnode, found[0], path).config
        return _Kept(
            _parsed("retention.bytes", config.get("retention.bytes")),
            _parsed("retention.ms", config.get("retention.ms")),
        )


def _segments_from(disk: Disk, folder: str, offset: int) -> Iterator[_Segment]:
    """Yield the segment with the offset and the segments that follow without a gap.

    Others may be there too: files that the disk refused to remove.
    """
    paths = {
        int(path.rpartition("/")[2].removesuffix(LOG_SUFFIX)): path
        for path in disk.paths(folder)
        if path.endswith(LOG_SUFFIX)
    }
    base_offset = max((each for each in paths if each <= offset), default=None)
    while base_offset is not None:
        content = disk.content(paths[base_offset]) or b""
        batches = parse_batches(content, 0)
        times = [
            max(_TIMESTAMPS.unpack_from(content, batch.position + _TIMESTAMPS_AT))
            for batch in batches
        ]
        end = batches[-1].next_offset if batches else base_offset
        yield _Segment(base_offset, end, len(content), max(times, default=-1))
        base_offset = end if end > base_offset and end in paths else None


def _parsed(name: str, text: str | None) -> int | None:
    """Return the limit that the configuration sets, None where there is none or it is malformed."""
    if text is None:
        return None
    try:
        value = TOPIC_CONFIG_KEYS[name].parse(text)
    except BadTopicConfig:
        return None
    return _limit(int(value))


def _limit(value: int) -> int | None:
    return None if value == _UNLIMITED else value


def _least(one: int | None, other: int | None) -> int | None:
    return min((each for each in (one, other) if each is not None), default=None)
