"""When a checkpoint that somebody waits for counts as written."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from highwater_broker.checkpointer import Checkpointer
from highwater_broker.log.checkpoints import RECOVERY_POINT_CHECKPOINT, OffsetCheckpoint
from highwater_broker.partition import Partition
from highwater_broker.replica_logs import ReplicaLogs
from highwater_broker.settings import BrokerSettings
from highwater_core.ids import LeaderEpoch, Offset

from .conftest import ME, T0, Bench, batch


class Broker:
    """A partition whose log was flushed at offset 3, and what writes its recovery point."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.partition: Partition = bench.partition()
        files, trace, points = bench.ports.files, bench.ports.trace, bench.fail_points()
        config = self.partition.log.config
        logs = ReplicaLogs(files, trace, ME, "cluster", lambda topic: config, points)
        hosted: Any = SimpleNamespace(partitions=lambda: (self.partition,))
        self.checkpointer = Checkpointer(
            BrokerSettings(node_id=ME),
            bench.toggles,
            bench.runtime,
            trace,
            files,
            logs,
            hosted,
            points,
        )
        for value in "abc":
            self.partition.log.append_as_leader(batch(value), LeaderEpoch(1), 0)
        self.do(self.partition.log.flush())
        self.do(self.checkpointer.write_recovery_points())
        assert self.written() == 3

    def do(self, work: Coroutine[Any, Any, None]) -> None:
        self.bench.runtime.start("test", work)
        self.bench.kernel.run_for(500)

    def written(self) -> int | None:
        checkpoint = OffsetCheckpoint(self.bench.ports.files, RECOVERY_POINT_CHECKPOINT)
        return checkpoint.read().entries.get(T0)


@pytest.fixture
def broker(make_bench: Callable[..., Bench]) -> Broker:
    return Broker(make_bench())


def test_a_recovery_point_that_fell_is_due_until_it_is_written(broker: Broker) -> None:
    assert not broker.partition.must_checkpoint
    broker.partition.truncate_to(Offset(1), "a test's")
    assert broker.partition.must_checkpoint
    broker.do(broker.checkpointer.write_recovery_points())
    assert (broker.written(), broker.partition.must_checkpoint) == (1, False)


def test_a_write_that_is_cancelled_leaves_it_due(broker: Broker) -> None:
    """A fetcher that waits for it is cancelled by the next command. Seed 1003032 found it."""
    broker.partition.truncate_to(Offset(1), "a test's")
    scope = broker.bench.runtime.scope("fetcher")
    scope.spawn("fetcher", broker.checkpointer.write_recovery_points())
    broker.bench.kernel.run_until(lambda: len(broker.bench.ports.files.list("")) > 3, 500)
    scope.cancel()
    broker.bench.kernel.run_for(500)
    assert broker.written() == 3
    assert broker.partition.must_checkpoint


def test_one_that_falls_while_it_is_written_is_due_again(broker: Broker) -> None:
    broker.partition.truncate_to(Offset(2), "a test's")
    broker.bench.runtime.start("test", broker.checkpointer.write_recovery_points())
    assert broker.partition.must_checkpoint
    broker.bench.kernel.run_until(lambda: len(broker.bench.ports.files.list("")) > 3, 500)
    broker.partition.truncate_to(Offset(1), "a test's")
    broker.bench.kernel.run_for(500)
    assert broker.partition.must_checkpoint
    broker.do(broker.checkpointer.write_recovery_points())
    assert (broker.written(), broker.partition.must_checkpoint) == (1, False)
