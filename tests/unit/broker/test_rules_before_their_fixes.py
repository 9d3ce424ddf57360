"""Rules of Apache Kafka from before a fix: each is a toggle's value, and what it lets happen."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from highwater_broker.become_follower import become_follower, gives_up
from highwater_broker.become_leader import become_leader
from highwater_broker.fetcher_registry import FetcherRegistry
from highwater_broker.partition import Partition
from highwater_broker.roles import Following, Offline
from highwater_core.config import Preset, resolve_toggles
from highwater_core.errors import ErrorCode
from highwater_core.ids import BrokerEpoch, NodeId, Offset, PartitionEpoch

from .conftest import CONTROLLER, LAG_MS, ME, THREE, TWO, Bench, batch, command

MakeBench = Callable[..., Bench]


def leading(bench: Bench) -> Partition:
    partition = bench.partition()
    lead(bench, partition, 5)
    return partition


def lead(bench: Bench, partition: Partition, epoch: int) -> None:
    become_leader(
        partition,
        command(ME, epoch),
        CONTROLLER,
        fetchers=bench.fetchers(),
        toggles=bench.toggles,
        now_ms=bench.runtime.now_ms(),
    )


def fetch(bench: Bench, partition: Partition, broker: NodeId, offset: int) -> None:
    bench.registered.setdefault(broker, BrokerEpoch(9))
    partition.record_follower_fetch(broker, BrokerEpoch(9), Offset(offset), bench.runtime.now_ms())


@pytest.mark.parametrize(("is_fixed", "high_watermark"), [(True, 1), (False, 0)])
def test_a_high_watermark_stays_when_a_smaller_isr_is_written(
    make_bench: MakeBench, is_fixed: bool, high_watermark: int
) -> None:
    bench = make_bench(toggles={"raise_high_watermark_on_isr_answer": is_fixed})
    partition = leading(bench)
    partition.append(batch("a"), 1, 0)
    fetch(bench, partition, TWO, 1)
    bench.kernel.run_for(LAG_MS + 1)
    fetch(bench, partition, TWO, 1)
    assert partition.maybe_shrink_isr(bench.runtime.now_ms())
    proposal = partition.proposal()
    assert proposal is not None
    partition.adopt_isr(proposal, (ME, TWO), PartitionEpoch(1), ())
    assert partition.high_watermark == high_watermark, "KAFKA-13091"
    assert not partition.maybe_raise_without_traffic()
    assert partition.high_watermark == high_watermark, "nobody looks before the next request"


@pytest.mark.parametrize("preset", [Preset.CLASSIC, Preset.KIP101])
def test_the_latest_offset_is_the_lagging_high_watermark(
    make_bench: MakeBench, preset: Preset
) -> None:
    bench = make_bench(preset)
    partition = leading(bench)
    partition.append(batch("a"), 1, 0)
    lead(bench, partition, 6)
    assert partition.latest_offset_for_clients() == (ErrorCode.NONE, 0), "KIP-207"


def test_a_follower_whose_leader_is_unknown_takes_no_role(
    make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KAFKA-4443, KAFKA-1647."""
    monkeypatch.setattr(FetcherRegistry, "knows", lambda self, leader: False)
    for is_fixed, role in ((True, Following(TWO)), (False, Offline())):
        bench = make_bench(toggles={"follow_unknown_leader": is_fixed})
        partition = bench.partition()
        become_follower(
            partition, command(TWO, 5), CONTROLLER, fetchers=bench.fetchers(), toggles=bench.toggles
        )
        assert partition.role == role


def test_a_follower_gives_up_on_an_unknown_leader_alone() -> None:
    fixed = resolve_toggles(Preset.FENCED)
    old = resolve_toggles(Preset.FENCED, {"follow_unknown_leader": False})
    table = [(is_known, toggles) for is_known in (True, False) for toggles in (fixed, old)]
    found = [gives_up(is_known=is_known, toggles=toggles) for is_known, toggles in table]
    assert found == [False, False, False, True]


@pytest.mark.parametrize("is_fixed", [True, False])
def test_whoever_fetches_may_join_the_isr(make_bench: MakeBench, is_fixed: bool) -> None:
    bench = make_bench(Preset.V3, {"refuse_unassigned_followers": is_fixed})
    partition = bench.partition()
    told = command(ME, 5, isr=(ME, TWO), assigned=(ME, TWO))
    become_leader(
        partition,
        told,
        CONTROLLER,
        fetchers=bench.fetchers(),
        toggles=bench.toggles,
        now_ms=bench.runtime.now_ms(),
    )
    fetch(bench, partition, THREE, 0)
    proposal = partition.proposal()
    assert (proposal is None) is is_fixed, "KAFKA-1097"
    assert proposal is None or proposal.isr == (ME, TWO, THREE)
