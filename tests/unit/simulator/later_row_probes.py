"""A small effect of each planted mistake of the later rows, and of row 20's, by its name.

Each entry has a probe and its results without and with the mistake.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from highwater_broker.log.log_config import LogConfig
from highwater_broker.log.recovery import Recovery
from highwater_broker.log.segment import Segment
from highwater_chaos.faults import DiskOperation
from highwater_controller.election import Election
from highwater_core import znodes
from highwater_core.counting_trace import CountingTrace
from highwater_core.events import EventKind
from highwater_core.ids import NodeId, Offset, TopicPartition
from highwater_core.znodes import ControllerZnode
from highwater_simulator.network import Network
from highwater_simulator.zookeeper import ZooKeeper
from highwater_simulator.zookeeper_session import SimulatedCoordinationFactory

T0 = TopicPartition("t", 0)
Probe = Callable[[Any], object]


def epochs_of_a_scanned_batch_of_epoch_0(bench: Any) -> object:
    recovery = Recovery(bench.files, "t-0", LogConfig(), False, 0, 0, 0, None)
    recovery._note_epoch(SimpleNamespace(leader_epoch=0, base_offset=0))  # type: ignore[arg-type]
    return len(recovery.epochs.entries)


def position_after_a_refused_write(bench: Any) -> object:
    bench.files.make_folder("u-0")
    segment = Segment(bench.files, "u-0", 0, 4096)
    bench.disk.fail(DiskOperation.APPEND, count=1)
    with suppress(OSError):
        segment.write([b"1234"])
    return segment.write([b"5678"])


def outcome_for_an_own_znode(bench: Any) -> object:
    zookeeper = ZooKeeper(bench.kernel, Network(bench.kernel, bench.rng.stream("network")))
    factory = SimulatedCoordinationFactory(zookeeper, bench.runtime)

    async def stand() -> str:
        session = await factory.open(10_000)
        znode = znodes.encode(ControllerZnode(1, "0"))
        await session.create(znodes.CONTROLLER, znode, ephemeral=True)
        election = Election(NodeId(1), session, bench.runtime, bench.trace, 100, 10_000)
        return type(await election.stand()).__name__

    return bench.do(stand())


def outcomes_for_a_controller_elected_before(bench: Any) -> object:
    zookeeper = ZooKeeper(bench.kernel, Network(bench.kernel, bench.rng.stream("network")))
    factory = SimulatedCoordinationFactory(zookeeper, bench.runtime)
    trace = CountingTrace(bench.trace, {EventKind.CONTROLLER_ELECTED: "elections_won"})
    outcomes: list[str] = []

    async def stand() -> list[str]:
        session = await factory.open(10_000)
        trace.emit(EventKind.CONTROLLER_ELECTED)
        election = Election(NodeId(1), session, bench.runtime, trace, 100, 10_000)

        async def until_it_is_over() -> None:
            outcomes.append(type(await election.stand()).__name__)

        bench.runtime.start("election", until_it_is_over())
        await bench.runtime.sleep(300)
        return outcomes

    return bench.do(stand())


def whether_all_are_open_beside_an_unopened_log(bench: Any) -> object:
    bench.logs._unopened[T0] = None
    return bench.logs.are_all_open


def segments_removed_while_nothing_is_committed(bench: Any) -> object:
    log = bench.lead(batches=2).log
    log._roll(log.log_end_offset)
    log.config = replace(log.config, retention_bytes=0)
    return log.delete_old_segments(0, Offset(0))


LATER_ROW_PROBES: dict[str, tuple[Probe, object, object]] = {
    "epoch_0_not_recovered": (epochs_of_a_scanned_batch_of_epoch_0, 1, 0),
    "append_after_failed_write": (position_after_a_refused_write, 0, 2),
    "controller_waits_for_itself": (outcomes_for_a_controller_elected_before, ["Won"], []),
    "elected_and_idle": (outcome_for_an_own_znode, "Won", "Lost"),
    "clean_stop_with_unopened_log": (whether_all_are_open_beside_an_unopened_log, False, True),
    "retention_beyond_high_watermark": (segments_removed_while_nothing_is_committed, 0, 1),
}
