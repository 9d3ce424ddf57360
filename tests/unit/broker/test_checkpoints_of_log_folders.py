"""Each log folder's checkpoints have the offsets of the moment in which their write begins.

Found by seed 600000076 of preset v2: a recovery point that had been taken before the log of the
second folder was cut was written there after the lower one, and records were appended below it.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from highwater_broker.checkpointer import Checkpointer
from highwater_broker.settings import BrokerSettings
from highwater_core.ids import TopicPartition

from .conftest import ME, T0, Bench

T1, T2 = TopicPartition("t", 1), TopicPartition("t", 2)
Change = Callable[["Two"], None]


class Checkpoint:
    """Remembers what is written; before a write ends it lets something happen."""

    name = "a checkpoint"

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        self.written: list[Mapping[TopicPartition, int]] = []
        self._meanwhile = meanwhile

    async def write(self, entries: Mapping[TopicPartition, int]) -> bool:
        self.written.append(dict(entries))
        self._meanwhile()
        return True


class Replica:
    """A hosted partition whose offsets are all 9."""

    high_watermark = log_start_offset = 9
    checkpoints_due = 1
    role = None

    def __init__(self, key: TopicPartition) -> None:
        self.topic_partition = key
        self.log = SimpleNamespace(recovery_point=9, remove_retired=lambda start, count: 0)

    def checkpointed(self, count: int) -> None:
        """Its checkpoints are on the disk."""


class Two:
    """Two partitions, each in a log folder of its own."""

    def __init__(self, bench: Bench, change: Change) -> None:
        self.hosted: dict[TopicPartition, Replica] = {key: Replica(key) for key in (T0, T1)}
        self.first = self._folder(lambda: change(self))
        self.second = self._folder(lambda: None)
        homes = {T0: self.first, T1: self.second, T2: self.second}
        folders: Any = SimpleNamespace(
            sound=lambda: (self.first, self.second), home_of=lambda key: homes[key]
        )
        replicas: Any = SimpleNamespace(
            partitions=lambda: tuple(self.hosted.values()), get=lambda key: self.hosted.get(key)
        )
        self.checkpointer = Checkpointer(
            BrokerSettings(node_id=ME),
            bench.toggles,
            bench.runtime,
            bench.ports.trace,
            folders,
            replicas,
            bench.fail_points(),
        )
        self._bench = bench

    def _folder(self, meanwhile: Callable[[], None]) -> Any:
        return SimpleNamespace(
            high_watermarks=Checkpoint(meanwhile),
            recovery_points=Checkpoint(meanwhile),
            log_starts=Checkpoint(lambda: None),
            entries_of_unopened=lambda checkpoint: {},
            tell_written=lambda checkpoint, count: None,
        )

    def do(self, work: Coroutine[Any, Any, object]) -> None:
        self._bench.runtime.start("test", work)  # type: ignore[arg-type]
        self._bench.kernel.run_for(50)


def cut(two: Two) -> None:
    two.hosted[T1].high_watermark = two.hosted[T1].log.recovery_point = 3


def delete(two: Two) -> None:
    del two.hosted[T1]


def create_again(two: Two) -> None:
    """Its own offsets are written, not the deleted one's."""
    two.hosted[T1] = Replica(T1)
    two.hosted[T1].high_watermark = 5


def create(two: Two) -> None:
    """Another write may have listed it already: this one must not take it out again."""
    two.hosted[T2] = Replica(T2)
    two.hosted[T2].high_watermark = 7


@pytest.mark.parametrize(
    ("change", "written"),
    [(cut, {T1: 3}), (delete, {}), (create_again, {T1: 5}), (create, {T1: 9, T2: 7})],
)
def test_what_changes_while_the_first_folder_is_written_is_in_the_second_ones(
    change: Change, written: Mapping[TopicPartition, int], make_bench: Callable[..., Bench]
) -> None:
    two = Two(make_bench(), change)
    two.do(two.checkpointer.write_high_watermarks())
    assert two.first.high_watermarks.written == [{T0: 9}]
    assert two.second.high_watermarks.written == [written]


def test_a_recovery_point_that_falls_while_the_first_folder_is_written_is_written_lower(
    make_bench: Callable[..., Bench],
) -> None:
    two = Two(make_bench(), cut)
    two.do(two.checkpointer.write_recovery_points())
    assert two.first.recovery_points.written == [{T0: 9}]
    assert two.second.recovery_points.written == [{T1: 3}]


def test_a_log_start_that_moves_while_the_first_folder_is_written_is_written_as_it_is_then(
    make_bench: Callable[..., Bench],
) -> None:
    def begin_anew(two: Two) -> None:
        two.hosted[T1].log_start_offset = 4

    two = Two(make_bench(), lambda _: None)
    two.first.log_starts = Checkpoint(lambda: begin_anew(two))
    two.do(two.checkpointer.write_log_starts())
    assert two.first.log_starts.written == [{T0: 9}]
    assert two.second.log_starts.written == [{T1: 4}]


def test_a_replica_that_is_hosted_since_has_its_log_start_and_no_recovery_point_yet(
    make_bench: Callable[..., Bench],
) -> None:
    """Its log start may not be on the disk when the recovery point is: all of it is checked."""
    two = Two(make_bench(), lambda _: None)
    two.second.log_starts = Checkpoint(lambda: create(two))
    two.do(two.checkpointer.write_recovery_points())
    assert two.second.recovery_points.written == [{T1: 9, T2: 0}]
    assert two.second.log_starts.written == [{T1: 9}]
