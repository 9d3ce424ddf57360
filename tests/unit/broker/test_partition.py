"""A partition's replica as leader: epochs, appends, reads, followers, ISR proposals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from highwater_broker.become_follower import become_follower
from highwater_broker.become_leader import become_leader
from highwater_broker.broker_counters import broker_counters
from highwater_broker.partition import Partition
from highwater_broker.partition_context import IsrChanges
from highwater_core.config import Preset
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.ids import (
    NO_EPOCH,
    NO_OFFSET,
    BrokerEpoch,
    LeaderEpoch,
    NodeId,
    Offset,
    PartitionEpoch,
)
from highwater_core.messages import LeaderAndIsrPartition
from highwater_wire.kafka.record_batch import split_batches

from .conftest import CONTROLLER, LAG_MS, ME, T0, THREE, TWO, Bench, batch, command

E = ErrorCode
MakeBench = Callable[..., Bench]


def lead(bench: Bench, partition: Partition, told: LeaderAndIsrPartition) -> None:
    become_leader(
        partition,
        told,
        CONTROLLER,
        fetchers=bench.fetchers(),
        toggles=bench.toggles,
        now_ms=bench.runtime.now_ms(),
    )


def follow(bench: Bench, partition: Partition, told: LeaderAndIsrPartition) -> None:
    become_follower(partition, told, CONTROLLER, fetchers=bench.fetchers(), toggles=bench.toggles)


def fetch(bench: Bench, partition: Partition, broker: NodeId, offset: int, epoch: int = 9) -> E:
    bench.registered.setdefault(broker, BrokerEpoch(epoch))
    return partition.record_follower_fetch(
        broker, BrokerEpoch(epoch), Offset(offset), bench.runtime.now_ms()
    )


def leading(make_bench: MakeBench, preset: Preset = Preset.FENCED) -> tuple[Bench, Partition]:
    bench = make_bench(preset)
    partition = bench.partition()
    lead(bench, partition, command(ME, 5))
    return bench, partition


@pytest.mark.parametrize(
    ("epoch", "as_leader", "as_follower"),
    [
        (NO_EPOCH, E.NONE, E.NOT_LEADER_OR_FOLLOWER),
        (5, E.NONE, E.NOT_LEADER_OR_FOLLOWER),
        (4, E.FENCED_LEADER_EPOCH, E.FENCED_LEADER_EPOCH),
        (6, E.UNKNOWN_LEADER_EPOCH, E.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_callers_of_another_epoch_are_fenced(
    make_bench: MakeBench, epoch: int, as_leader: ErrorCode, as_follower: ErrorCode
) -> None:
    _, partition = leading(make_bench)
    assert partition.check_leadership(LeaderEpoch(epoch)) is as_leader
    other = make_bench()
    follower = other.partition()
    follow(other, follower, command(TWO, 5))
    assert follower.check_leadership(LeaderEpoch(epoch)) is as_follower


def test_without_fencing_any_epoch_may_ask_the_leader(make_bench: MakeBench) -> None:
    _, partition = leading(make_bench, Preset.V3)
    assert partition.check_leadership(LeaderEpoch(2)) is E.NONE


def test_a_leader_appends_nothing_while_its_recovery_point_is_to_be_written(
    make_bench: MakeBench,
) -> None:
    _, partition = leading(make_bench)
    partition.checkpoints_due += 1
    assert partition.append(batch("a"), -1, 1_000).error is E.KAFKA_STORAGE_ERROR
    partition.checkpointed(partition.checkpoints_due)
    assert partition.append(batch("a"), -1, 1_000).error is E.NONE


def test_a_record_is_committed_once_every_isr_member_has_it(make_bench: MakeBench) -> None:
    bench, partition = leading(make_bench)
    outcome = partition.append(batch("a", "b"), -1, 1_000)
    assert (outcome.error, outcome.base_offset, outcome.end_offset) == (E.NONE, 0, 2)
    assert partition.acks_all_status(outcome.end_offset, LeaderEpoch(5)) is None
    fetch(bench, partition, TWO, 2)
    assert partition.high_watermark == 0
    bench.woken.clear()
    fetch(bench, partition, THREE, 2)
    assert partition.high_watermark == 2
    assert bench.woken == [T0]
    assert partition.acks_all_status(outcome.end_offset, LeaderEpoch(5)) is E.NONE
    (advanced,) = bench.traced(EventKind.HIGH_WATERMARK_ADVANCED)
    assert (advanced.offset, advanced.leader_epoch) == (2, 5)


def test_acks_all_is_refused_below_min_insync_replicas_and_acks_one_is_not(
    make_bench: MakeBench,
) -> None:
    bench = make_bench()
    partition = bench.partition(min_insync_replicas=2)
    lead(bench, partition, command(ME, 0, isr=(ME,)))
    assert partition.append(batch("a"), -1, 0).error is E.NOT_ENOUGH_REPLICAS
    assert partition.log_end_offset == 0
    assert partition.append(batch("a"), 1, 0).error is E.NONE
    assert partition.high_watermark == 0, "frozen while the ISR is too small"


def test_a_minimum_above_the_replication_factor_commits_records_of_all_replicas(
    make_bench: MakeBench,
) -> None:
    bench = make_bench()
    partition = bench.partition(min_insync_replicas=4)
    lead(bench, partition, command(ME, 0))
    epoch = partition.leader_epoch
    assert partition.append(batch("a"), -1, 0).error is E.NONE
    for broker in (TWO, THREE):
        assert (partition.high_watermark, partition.acks_all_status(1, epoch)) == (0, None)
        fetch(bench, partition, broker, 1)
    assert (partition.high_watermark, partition.acks_all_status(1, epoch)) == (1, E.NONE)


@pytest.mark.parametrize("had_records", [False, True])
def test_each_new_epoch_of_a_leader_is_in_its_epoch_cache_before_it_appends(
    make_bench: MakeBench, had_records: bool
) -> None:
    bench, partition = leading(make_bench)
    if had_records:
        partition.append(batch("a"), 1, 0)
    end = partition.log_end_offset
    lead(bench, partition, command(ME, 6))
    assert partition.log.epoch_cache.entries[-1] == (6, end), "KAFKA-7415"
    assert partition.offset_for_leader_epoch(LeaderEpoch(6)) == (E.NONE, 6, end)


def test_an_append_outlives_a_new_epoch_of_the_same_leader_but_not_a_lost_leadership(
    make_bench: MakeBench,
) -> None:
    bench, partition = leading(make_bench)
    partition.append(batch("a"), -1, 0)
    lead(bench, partition, command(ME, 6, isr=(ME,)))
    assert partition.acks_all_status(Offset(1), LeaderEpoch(5)) is E.NONE
    follow(bench, partition, command(TWO, 7))
    assert partition.acks_all_status(Offset(1), LeaderEpoch(5)) is E.NOT_LEADER_OR_FOLLOWER
    lead(bench, partition, command(ME, 8, isr=(ME,)))
    assert partition.acks_all_status(Offset(1), LeaderEpoch(5)) is E.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(("epoch", "committed"), [(6, 2), (7, 1)])
def test_a_leader_that_missed_an_epoch_does_not_trust_the_positions_it_knew(
    make_bench: MakeBench, epoch: int, committed: int
) -> None:
    """In epoch 6 another broker may have led, and the followers truncated to its log."""
    bench, partition = leading(make_bench)
    partition.append(batch("a", "b"), 1, 0)
    for follower, offset in ((TWO, 2), (THREE, 1)):
        fetch(bench, partition, follower, offset)
    assert partition.high_watermark == 1
    lead(bench, partition, command(ME, epoch, isr=(ME, TWO)))
    # Broker 3 is out of the ISR now; the offset that broker 2 fetched last decides.
    assert partition.high_watermark == committed
    fetch(bench, partition, TWO, 2)
    assert partition.high_watermark == 2


@pytest.mark.parametrize(
    ("offset", "for_follower", "error", "values"),
    [
        (0, False, E.NONE, 1),
        (1, False, E.NONE, 0),
        (2, False, E.NONE, 0),
        (3, False, E.OFFSET_OUT_OF_RANGE, 0),
        (-1, False, E.OFFSET_OUT_OF_RANGE, 0),
        (0, True, E.NONE, 2),
        (1, True, E.NONE, 1),
        (2, True, E.NONE, 0),
        (3, True, E.OFFSET_OUT_OF_RANGE, 0),
    ],
)
def test_consumers_read_to_the_high_watermark_and_followers_to_the_end(
    make_bench: MakeBench, offset: int, for_follower: bool, error: ErrorCode, values: int
) -> None:
    bench, partition = leading(make_bench)
    for value in ("a", "b"):
        partition.append(batch(value), 1, 0)
    fetch(bench, partition, TWO, 1)
    fetch(bench, partition, THREE, 1)
    assert partition.high_watermark == 1
    read = partition.read(Offset(offset), 1_000, for_follower)
    records = read.records if isinstance(read.records, bytes) else read.records.read()  # type: ignore[union-attr]
    assert (read.error, len(split_batches(records))) == (error, values)


def test_latest_offset_is_withheld_until_the_high_watermark_reaches_the_epochs_start(
    make_bench: MakeBench,
) -> None:
    bench, partition = leading(make_bench)
    partition.append(batch("a"), 1, 0)
    lead(bench, partition, command(ME, 6, isr=(ME, TWO)))
    assert partition.latest_offset_for_clients() == (E.OFFSET_NOT_AVAILABLE, NO_OFFSET)
    fetch(bench, partition, TWO, 1)
    assert partition.latest_offset_for_clients() == (E.NONE, 1)


def test_a_fetch_like_the_last_keeps_an_isr_member_in_sync(make_bench: MakeBench) -> None:
    bench, partition = leading(make_bench)
    assert fetch(bench, partition, TWO, 0) is E.NONE
    bench.kernel.run_for(LAG_MS + 1)
    assert partition.record_repeated_fetch(TWO, bench.runtime.now_ms())
    partition.append(batch("a"), -1, 0)
    assert partition.maybe_shrink_isr(bench.runtime.now_ms())
    proposal = partition.proposal()
    assert proposal is not None
    assert proposal.isr == (ME, TWO)


def test_a_fetch_is_not_like_the_last_once_there_is_more_to_note(make_bench: MakeBench) -> None:
    bench, partition = leading(make_bench)
    now_ms = bench.runtime.now_ms()
    assert not partition.record_repeated_fetch(TWO, now_ms)  # has not fetched yet
    fetch(bench, partition, TWO, 0)
    assert partition.record_repeated_fetch(TWO, now_ms)
    partition.append(batch("a"), -1, 0)
    assert not partition.record_repeated_fetch(TWO, now_ms)  # is behind now
    fetch(bench, partition, TWO, 1)
    lead(bench, partition, command(ME, 6, isr=(ME, THREE)))
    assert not partition.record_repeated_fetch(TWO, now_ms)  # may be about to join
    follow(bench, partition, command(TWO, 7))
    assert not partition.record_repeated_fetch(THREE, now_ms)  # leads no more


def test_an_unassigned_fetcher_is_refused_and_counts_nowhere(make_bench: MakeBench) -> None:
    bench, partition = leading(make_bench)
    assert fetch(bench, partition, NodeId(9), 0) is E.UNKNOWN_TOPIC_OR_PARTITION
    assert bench.traced(EventKind.REQUEST_REFUSED)


def test_a_late_fetch_of_an_earlier_incarnation_is_refused(make_bench: MakeBench) -> None:
    bench, partition = leading(make_bench)
    partition.append(batch("a"), 1, 0)
    assert fetch(bench, partition, TWO, 0, epoch=9) is E.NONE
    assert fetch(bench, partition, TWO, 1, epoch=8) is E.NOT_LEADER_OR_FOLLOWER


def test_a_caught_up_follower_is_proposed_and_counts_until_the_write_is_known(
    make_bench: MakeBench,
) -> None:
    bench = make_bench()
    partition = bench.partition()
    lead(bench, partition, command(ME, 0, isr=(ME, TWO)))
    fetch(bench, partition, THREE, 0)
    assert bench.proposed == [partition]
    proposal = partition.proposal()
    assert proposal is not None
    assert (proposal.isr, partition.isr) == ((ME, TWO, THREE), (ME, TWO))
    partition.append(batch("a"), 1, 0)
    fetch(bench, partition, TWO, 1)
    assert partition.high_watermark == 0, "the proposed member may be in the written ISR"
    assert partition.adopt_isr(proposal, proposal.isr, PartitionEpoch(1), ())
    assert (partition.isr, partition.partition_epoch) == ((ME, TWO, THREE), 1)
    assert not partition.adopt_isr(proposal, (ME,), PartitionEpoch(2), ()), "an answer counts once"


def test_a_restarted_followers_old_incarnation_is_not_proposed(make_bench: MakeBench) -> None:
    bench = make_bench()
    partition = bench.partition()
    lead(bench, partition, command(ME, 0, isr=(ME, TWO)))
    bench.registered[THREE] = BrokerEpoch(10)
    fetch(bench, partition, THREE, 0, epoch=9)
    assert bench.proposed == []


def test_an_ineligible_follower_is_not_proposed_again_at_once(make_bench: MakeBench) -> None:
    bench = make_bench()
    partition = bench.partition()
    lead(bench, partition, command(ME, 0, isr=(ME,)))
    fetch(bench, partition, TWO, 0)
    proposal = partition.proposal()
    assert proposal is not None
    partition.withdraw_proposal(proposal, ineligible=True)
    fetch(bench, partition, TWO, 0)
    assert len(bench.proposed) == 1
    partition.append(batch("a"), -1, 0)
    assert partition.high_watermark == 1, "nor is it waited for"
    bench.kernel.run_for(2_000)
    fetch(bench, partition, TWO, 1)
    assert len(bench.proposed) == 2


def test_a_smaller_isr_lets_the_high_watermark_rise_without_a_fetch(make_bench: MakeBench) -> None:
    bench, partition = leading(make_bench)
    partition.append(batch("a"), 1, 0)
    fetch(bench, partition, TWO, 1)
    bench.kernel.run_for(LAG_MS + 1)
    fetch(bench, partition, TWO, 1)
    assert partition.maybe_shrink_isr(bench.runtime.now_ms())
    proposal = partition.proposal()
    assert proposal is not None
    assert proposal.isr == (ME, TWO)
    assert partition.high_watermark == 0
    partition.adopt_isr(proposal, (ME, TWO), PartitionEpoch(1), ())
    assert partition.high_watermark == 1, "KAFKA-13091"


def test_a_leader_counts_its_isrs_changes_and_tells_how_many_members_it_can_spare(
    make_bench: MakeBench,
) -> None:
    bench = make_bench()
    partition, changes = bench.partition(min_insync_replicas=2), IsrChanges()
    partition._context = replace(partition._context, isr_changes=changes)

    def counted() -> dict[str, int]:
        counters = broker_counters(
            [partition], changes, offline_replicas=0, waiting_requests=0, waiting_fetches=0
        )
        return {name: count for name, count in counters if count}

    assert counted() == {}, "it does not lead"
    lead(bench, partition, command(ME, 0, isr=(ME, TWO, THREE)))
    assert (partition.spare_in_sync, counted()) == (1, {})
    bench.kernel.run_for(LAG_MS + 1)
    fetch(bench, partition, TWO, 0)
    assert partition.maybe_shrink_isr(bench.runtime.now_ms())
    proposal = partition.proposal()
    assert proposal is not None
    partition.adopt_isr(proposal, (ME, TWO), PartitionEpoch(1), ())
    assert counted() == {"isr_shrinks": 1, "at_min_isr_partitions": 1}
    fetch(bench, partition, THREE, 0)
    proposal = partition.proposal()
    assert proposal is not None
    partition.adopt_isr(proposal, (ME, TWO, THREE), PartitionEpoch(2), ())
    assert counted() == {"isr_shrinks": 1, "isr_expands": 1}
    partition.take_min_insync_replicas(9)
    lead(bench, partition, command(ME, 1, isr=(ME,)))
    assert counted() == {"isr_shrinks": 1, "isr_expands": 1, "under_min_isr_partitions": 1}


def test_nothing_is_committed_while_others_are_eligible_to_lead_as_they_are(
    make_bench: MakeBench,
) -> None:
    """The controller knew a higher min.insync.replicas, or this broker knows a lower one by now."""
    bench = make_bench()
    partition = bench.partition(min_insync_replicas=3)
    lead(bench, partition, replace(command(ME, 0, isr=(ME, TWO)), elr=(THREE,)))
    partition.append(batch("a"), 1, 0)
    fetch(bench, partition, TWO, 1)
    assert (partition.high_watermark, bench.proposed) == (0, [])
    partition.take_min_insync_replicas(2)
    assert partition.high_watermark == 0, "three may lead without the record"
    proposal = partition.proposal()
    assert proposal is not None
    assert proposal.isr == (ME, TWO)
    partition.adopt_isr(proposal, (ME, TWO), PartitionEpoch(1), (THREE,))
    assert (partition.high_watermark, len(bench.proposed)) == (0, 1), "the controller said no"
    partition.maybe_propose_thaw()
    proposal = partition.proposal()
    assert proposal is not None
    partition.adopt_isr(proposal, (ME, TWO), PartitionEpoch(2), ())
    assert partition.high_watermark == 1


def test_v3_lets_a_follower_join_that_has_not_reached_the_epochs_start(
    make_bench: MakeBench,
) -> None:
    for preset, proposed in ((Preset.V3, 1), (Preset.FENCED, 0)):
        bench = make_bench(preset)
        partition = bench.partition()
        lead(bench, partition, command(ME, 0, isr=(ME, TWO)))
        partition.append(batch("a"), 1, 0)
        lead(bench, partition, command(ME, 1, isr=(ME, TWO)))
        fetch(bench, partition, THREE, 0)
        assert len(bench.proposed) == proposed, "KAFKA-7128"


def test_a_new_leader_enters_its_epoch_at_once_only_with_the_fix(make_bench: MakeBench) -> None:
    for preset, entries in ((Preset.FENCED, [(5, 0)]), (Preset.V3, [])):
        _, partition = leading(make_bench, preset)
        assert [tuple(entry) for entry in partition.log.epoch_cache.entries] == entries


def test_a_bad_batch_is_refused_with_its_error_and_a_trace(make_bench: MakeBench) -> None:
    bench, partition = leading(make_bench)
    torn = bytearray(batch("a"))
    torn[-1] ^= 1
    assert partition.append(bytes(torn), 1, 0).error is E.CORRUPT_MESSAGE
    (refused,) = bench.traced(EventKind.REQUEST_REFUSED)
    assert refused.detail["error"] == "CORRUPT_MESSAGE"
