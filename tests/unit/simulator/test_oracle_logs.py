"""The oracle's own reading of logs: chains of batches, and the shadow of a replica's disk."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

import pytest

from highwater_broker.log.checkpoints import encode_rows
from highwater_core.ids import LeaderEpoch
from highwater_simulator.disk import Disk
from highwater_simulator.files import SimulatedFile, SimulatedFileSystem
from highwater_simulator.kernel import Kernel
from highwater_simulator.oracle.batches import (
    EMPTY,
    HEADER_BYTES,
    Batch,
    Chain,
    is_sound,
    parse_batches,
)
from highwater_simulator.oracle.shadow import EPOCHS_NAME, ReplicaShadow
from highwater_simulator.rng import SeededRng
from highwater_wire.kafka.record_batch import build_batch

FIRST, SECOND = "t-0/00000000000000000000.log", "t-0/00000000000000000004.log"


def written(base: int, epoch: int, *values: str) -> bytes:
    """Return a batch's bytes as a leader of the epoch writes them."""
    return build_batch([(None, value.encode(), 0) for value in values], base, LeaderEpoch(epoch))


def epochs(*starts: tuple[int, int]) -> bytes:
    return encode_rows([(str(epoch), str(start)) for epoch, start in starts], 2).encode()


def batch(base: int, count: int = 2, epoch: int = 0, crc: int = 7) -> Batch:
    return Batch(base, base + count, epoch, crc, 100 * base, 100)


def chain_of(*batches: Batch, start_offset: int = 0) -> Chain:
    chain = Chain(start_offset)
    for each in batches:
        chain.append(each)
    return chain


# ---------------------------------------------------------------- batches


def test_batches_are_read_by_their_headers_up_to_a_torn_one() -> None:
    one, two = written(0, 3, "a", "b"), written(2, 4, "c")
    found = parse_batches(one + two + two[:-1], 0)
    assert [(b.base_offset, b.next_offset, b.leader_epoch) for b in found] == [
        (0, 2, 3),
        (2, 3, 4),
    ]
    assert parse_batches(one + two, len(one)) == found[1:]
    assert found[1].position + found[1].size_bytes == len(one + two)


@pytest.mark.parametrize(
    "data",
    [b"", b"\0" * (HEADER_BYTES - 1), b"\0" * 4_096, written(0, 0, "a")[:-1]],
    ids=["nothing", "less than a header", "zeros", "its last byte is missing"],
)
def test_bytes_that_are_no_whole_batch_are_none(data: bytes) -> None:
    assert parse_batches(data, 0) == []


@pytest.mark.parametrize("position", [16, 17, 21, -1], ids=["magic", "CRC", "attributes", "last"])
def test_a_batch_is_sound_until_a_bit_of_its_magic_its_crc_or_the_covered_bytes_flips(
    position: int,
) -> None:
    data = bytearray(written(0, 0, "a"))
    (found,) = parse_batches(data, 0)
    assert is_sound(data, found)
    data[position] ^= 4
    (found,) = parse_batches(data, 0)
    assert not is_sound(data, found)


# ---------------------------------------------------------------- chains


def test_chains_of_equal_batches_are_equal_wherever_the_batches_lie() -> None:
    moved = batch(0)._replace(position=4, size_bytes=9)
    assert chain_of(batch(0), batch(2)).chains == chain_of(moved, batch(2)).chains


@pytest.mark.parametrize(
    "other",
    [batch(0, count=1), batch(0, epoch=1), batch(0, crc=8), batch(1)],
    ids=["length", "epoch", "content", "offset"],
)
def test_any_difference_in_a_batch_shows_in_every_later_chain_value(other: Batch) -> None:
    one, two = chain_of(batch(0), batch(2)), chain_of(other, batch(2))
    assert one.chain_below(2) != two.chain_below(2)
    assert one.chain_below(4) != two.chain_below(4)


def test_a_chain_knows_its_batches_by_offset() -> None:
    chain = chain_of(batch(0), batch(2, count=3), batch(5))
    assert [chain.index_below(offset) for offset in (0, 1, 2, 3, 5, 6, 9)] == [
        -1, 0, 0, 1, 1, 2, 2,
    ]  # fmt: skip
    assert chain.at(4) == batch(2, count=3)
    assert (chain.at(7), chain.at(-1)) == (None, None)
    assert chain.end_offset == 7
    assert chain.chain_below(0) == EMPTY


def test_a_chain_after_a_drop_is_as_without_the_dropped_batches() -> None:
    chain = chain_of(batch(0), batch(2), batch(4))
    chain.keep(1)
    assert chain.end_offset == 2
    chain.append(batch(2, crc=9))
    assert chain.chains == chain_of(batch(0), batch(2, crc=9)).chains


@pytest.mark.parametrize(
    ("mine", "theirs", "end_offset", "first"),
    [
        ((batch(0), batch(2)), (batch(0), batch(2)), 4, 4),
        ((batch(0), batch(2)), (batch(0), batch(2, crc=1)), 4, 2),
        ((batch(0, crc=1), batch(2)), (batch(0), batch(2)), 4, 0),
        ((batch(0),), (batch(0), batch(2)), 4, 2),
        ((), (batch(0),), 2, 0),
        ((batch(0), batch(2), batch(4)), (batch(0), batch(2), batch(4, epoch=1)), 4, 4),
    ],
    ids=["equal", "second", "first", "shorter", "empty", "beyond what is asked for"],
)
def test_the_first_difference_is_where_two_logs_part(
    mine: tuple[Batch, ...], theirs: tuple[Batch, ...], end_offset: int, first: int
) -> None:
    assert chain_of(*mine).first_difference(chain_of(*theirs), end_offset) == first
    assert chain_of(*theirs).first_difference(chain_of(*mine), end_offset) == first


# ---------------------------------------------------------------- shadows


class Followed:
    """A folder on a disk, and the shadow that follows it through the disk's tap."""

    def __init__(
        self, committed: Chain | None = None, log_folders: tuple[str, ...] = ("",)
    ) -> None:
        self.disk = Disk(SeededRng(1), log_folders)
        self.kernel = Kernel()
        self._runtime = self.kernel.runtime("broker-0")
        self.files = SimulatedFileSystem(self._runtime, self.disk)
        self.shadow = ReplicaShadow(self.disk, "t-0", (committed or Chain()).chain_below)
        self.added: list[Batch] = []
        if log_folders == ("",):
            self.files.make_folder("t-0")
        self.disk.changed = self._changed

    def _changed(self, path: str, operation: str) -> None:
        match operation:
            case "append":
                self.shadow.appended(path, self._note)
            case "truncate":
                self.shadow.truncated(path)
            case _:
                self.shadow.renamed(path)

    def _note(self, each: Batch, chain: int) -> None:
        self.added.append(each)

    def write(self, path: str, *data: bytes) -> SimulatedFile:
        file = self.files.open(path)
        for each in data:
            file.append([each])
        return file

    def sync(self, file: SimulatedFile) -> None:
        """Sync the file, and the names that lead to it."""
        for work in (file.sync(), self.files.sync_folder("t-0"), self.files.sync_folder("")):
            self.do(work)

    def do(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._runtime.start("work", work)
        self.kernel.run_until(task.is_done, 1_000)

    def offsets(self) -> list[int]:
        return [each.base_offset for each in self.shadow.chain.batches]


def test_a_shadow_follows_appends_through_segments_and_tells_of_each_batch() -> None:
    f = Followed()
    f.write(FIRST, written(0, 0, "a", "b"), written(2, 0, "c", "d"))
    f.write(SECOND, written(4, 1, "e"))
    assert (f.offsets(), f.shadow.end_offset) == ([0, 2, 4], 5)
    assert f.added == f.shadow.chain.batches
    assert not f.shadow.is_stale


def test_a_batch_that_arrives_in_pieces_is_one_once_it_is_whole() -> None:
    f, data = Followed(), written(0, 0, "a")
    file = f.write(FIRST, data[:20])
    assert f.offsets() == []
    file.append([data[20:]])
    assert f.offsets() == [0]


def test_a_truncation_takes_the_batches_that_no_longer_are_whole() -> None:
    f, one = Followed(), written(0, 0, "a", "b")
    file = f.write(FIRST, one, written(2, 0, "c"))
    file.truncate(len(one) + 3)
    assert f.offsets() == [0]
    file.truncate(len(one))
    file.append([written(2, 5, "x")])
    assert (f.offsets(), f.shadow.chain.batches[-1].leader_epoch) == ([0, 2], 5)


def test_a_log_that_was_cut_to_nothing_is_no_deleted_topics_any_more() -> None:
    f = Followed()
    file = f.write(FIRST, written(0, 0, "a"), written(1, 0, "b"))
    f.shadow.is_of_deleted_topic = True
    file.truncate(len(written(0, 0, "a")))
    assert f.shadow.is_of_deleted_topic
    file.truncate(0)
    assert not f.shadow.is_of_deleted_topic


def test_names_that_change_make_a_shadow_read_its_folder_anew() -> None:
    f = Followed()
    f.write(FIRST, written(0, 0, "a", "b"), written(2, 0, "c", "d"))
    f.write(SECOND, written(4, 1, "e"))
    f.files.remove(SECOND)
    assert f.shadow.is_stale
    f.write(FIRST, written(4, 2, "x"))
    f.shadow.rescan(f._note)
    assert (f.offsets(), f.shadow.chain.batches[-1].leader_epoch) == ([0, 2, 4], 2)
    f.files.remove("t-0")
    f.shadow.rescan(f._note)
    assert (f.offsets(), f.shadow.end_offset) == ([], 0)


def test_the_next_segment_is_no_reason_to_read_all_anew_an_older_one_is() -> None:
    f = Followed()
    f.write(SECOND, written(4, 0, "e"))
    assert (f.shadow.is_stale, f.shadow.chain.start_offset) == (False, 4)
    f.write(FIRST)
    assert f.shadow.is_stale


def test_a_log_is_followed_in_the_log_folder_where_it_was_created_last() -> None:
    """A topic is created again while the log folder with its earlier log has failed."""
    f = Followed(log_folders=("d0", "d1"))
    for folder in ("d0/t-0", "d1/t-0"):
        f.files.make_folder(folder)
    f.write(f"d0/{FIRST}", written(0, 0, "a", "b"))
    f.shadow.rescan(f._note)
    assert (f.shadow.home, f.shadow.log_folder, f.offsets()) == ("d0/t-0", "d0", [0])
    f.write(f"d1/{FIRST}", written(0, 1, "x"))
    assert f.shadow.is_stale
    f.shadow.rescan(f._note)
    f.write(f"d1/{FIRST}", written(1, 1, "y"))
    assert (f.shadow.log_folder, f.offsets(), f.shadow.end_offset) == ("d1", [0, 1], 2)
    f.write(f"d0/{FIRST}", written(2, 0, "c"))
    f.files.open(f"d0/{FIRST}").truncate(0)
    assert (f.offsets(), f.shadow.is_stale) == ([0, 1], False), "the earlier log counts no more"


def test_a_log_that_is_set_aside_leaves_the_one_in_the_other_log_folder() -> None:
    f = Followed(log_folders=("d0", "d1"))
    for folder in ("d0/t-0", "d1/t-0"):
        f.files.make_folder(folder)
        f.write(f"{folder}/{FIRST.partition('/')[2]}", written(0, 0, folder))
    f.files.rename("d1/t-0", "d1/t-0.0-stray")
    f.shadow.renamed("d1/t-0")
    f.shadow.rescan(f._note)
    assert (f.shadow.home, f.offsets()) == ("d0/t-0", [0])
    f.files.rename("d0/t-0", "d0/t-0.0-delete")
    f.shadow.rescan(f._note)
    assert f.offsets() == []


def test_a_log_in_a_log_folder_is_durable_once_every_name_on_the_way_is() -> None:
    f = Followed(log_folders=("d0", "d1"))
    f.files.make_folder("d1/t-0")
    file = f.write(f"d1/{FIRST}", written(0, 0, "a"))
    f.shadow.rescan(f._note)
    for work in (file.sync(), f.files.sync_folder("d1/t-0"), f.files.sync_folder("")):
        f.do(work)
    assert f.shadow.durable_end(0) == 0, "d1 does not have the name t-0 after a power loss"
    f.do(f.files.sync_folder("d1"))
    assert f.shadow.durable_end(0) == 1


def test_records_of_a_damaged_log_are_lost_from_the_first_bad_batch_on() -> None:
    f = Followed()
    f.write(FIRST, written(0, 0, "a"), written(1, 0, "b"), written(2, 0, "c"))
    before, content = f.shadow.chain, f.disk.content(FIRST)
    assert content is not None
    content[before.batches[1].position + HEADER_BYTES] ^= 4
    f.shadow.held_end = 3
    f.shadow.rescan(f._note, verify=True)
    f.shadow.note_lost_by_disk(before)
    assert (f.offsets(), f.shadow.lost_from, f.shadow.held_end) == ([0], 1, 1)
    assert f.shadow.cut_from is None


def test_lost_records_of_which_a_part_is_back_are_lost_from_there_on() -> None:
    """Seed 310000357, joins: a member that was fetching its log again counted as whole."""
    f = Followed()
    f.write(FIRST, *(written(offset, 0, "abcde"[offset]) for offset in range(5)))
    before, committed, content = f.shadow.chain, f.shadow.chain, f.disk.content(FIRST)
    assert content is not None
    del content[:]
    f.shadow.rescan(f._note, verify=True)
    f.shadow.note_lost_by_disk(before)
    assert (f.offsets(), f.shadow.lost_by_disk(0)) == ([], True)
    for back, lost_from in ((range(3), 3), (range(3, 5), None)):
        f.write(FIRST, *(written(offset, 0, "abcde"[offset]) for offset in back))
        f.shadow.note_held(committed)
        assert f.shadow.lost_from == lost_from


def test_a_first_batch_whose_offset_is_damaged_is_lost_like_another() -> None:
    """Seed 1013924, disks: the log seemed to begin far beyond its end."""
    f = Followed()
    f.write(FIRST, written(0, 0, "a"), written(1, 0, "b"))
    before, content = f.shadow.chain, f.disk.content(FIRST)
    assert content is not None
    content[1] ^= 4
    f.shadow.held_end = 2
    f.shadow.rescan(f._note, verify=True)
    f.shadow.note_lost_by_disk(before)
    assert (f.offsets(), f.shadow.lost_from, f.shadow.held_end) == ([], 0, 0)


def test_a_segment_that_a_disk_lost_takes_the_later_ones_with_it() -> None:
    f = Followed()
    f.write(FIRST, written(0, 0, "a", "b"), written(2, 0, "c", "d"))
    f.write(SECOND, written(4, 0, "e"))
    before, node = f.shadow.chain, f.disk.content(FIRST)
    assert node is not None
    del node[before.batches[1].position :]
    f.shadow.rescan(f._note, verify=True)
    f.shadow.note_lost_by_disk(before)
    assert (f.offsets(), f.shadow.lost_from) == ([0], 2)


def test_an_undone_truncation_loses_later_records_though_the_log_is_longer() -> None:
    f, kept, old = Followed(), written(0, 0, "a"), written(1, 0, "b", "c", "d")
    file = f.write(FIRST, kept, old)
    f.sync(file)
    file.truncate(len(kept))
    file.append([written(1, 1, "x")])
    before = f.shadow.chain
    f.disk.lose_power(spares_nothing=True)
    f.shadow.rescan(f._note, verify=True)
    f.shadow.note_lost_by_disk(before)
    assert f.shadow.end_offset == 4 > before.end_offset
    assert f.shadow.lost_from == 1


def test_damage_is_not_forgotten_when_names_change_before_it_is_cut() -> None:
    """Seed 1011290, disks: a later segment was set aside, and the disk refused the cut."""
    f = Followed(whole())
    f.write(FIRST, written(0, 0, "a", "b"), written(2, 0, "c", "d"))
    f.write(SECOND, written(4, 1, "e"))
    before, content = f.shadow.chain, f.disk.content(FIRST)
    assert content is not None
    content[before.batches[1].position + HEADER_BYTES - 20] ^= 4
    f.shadow.rescan(f._note, verify=True)
    f.shadow.note_lost_by_disk(before)
    f.files.rename(SECOND, SECOND + ".detached")
    f.shadow.rescan(f._note)
    f.shadow.note_held(whole())
    assert (f.offsets(), f.shadow.lost_from, f.shadow.held_end) == ([0], 2, 2)


def test_a_torn_segment_below_the_logs_start_that_is_back_hides_nothing_of_the_log() -> None:
    """Found by seed 1001375, disks: the loss was noted from the torn segment's end on."""
    f = Followed(whole())
    first = f.write(FIRST, written(0, 0, "a", "b"))
    f.sync(first)
    first.append([written(2, 0, "c", "d")])
    second = f.write(SECOND, written(4, 1, "e"))
    f.sync(second)
    second.append([written(5, 1, "f")])
    f.files.remove(FIRST)
    f.shadow.rescan(f._note)
    before = f.shadow.chain
    f.disk.lose_power(spares_nothing=True)
    f.shadow.rescan(f._note, verify=True)
    f.shadow.note_lost_by_disk(before)
    assert (f.offsets(), f.shadow.lost_from) == ([4], 5)


def test_a_removed_segment_that_is_back_without_the_next_one_lost_all_from_its_end_on() -> None:
    f = Followed(whole())
    first = f.write(FIRST, written(0, 0, "a", "b"))
    f.sync(first)
    first.append([written(2, 0, "c", "d")])
    f.write(SECOND, written(4, 1, "e"))
    f.files.remove(FIRST)
    f.shadow.rescan(f._note)
    before = f.shadow.chain
    assert before.start_offset == 4
    f.disk.lose_power(spares_nothing=True)
    f.shadow.rescan(f._note, verify=True)
    f.shadow.note_lost_by_disk(before)
    assert (f.offsets(), f.shadow.lost_from, f.shadow.held_end) == ([0], 2, 0)


def test_a_log_that_was_begun_anew_and_is_back_has_its_own_past() -> None:
    """A log was cut whole and began anew above its end; then a power loss undid part of that.

    Found by seed 2004312, joins: the old batches were taken to follow the committed ones.
    """
    f = Followed(whole())
    f.sync(f.write(FIRST, written(0, 7, "x", "y", "z", "w")))
    f.sync(f.write(SECOND, written(4, 7, "v")))
    chains = f.shadow.chain.chains
    f.write("t-0/00000000000000000009.log")
    f.files.remove(SECOND)
    f.files.remove(FIRST)
    f.shadow.rescan(f._note)
    f.disk.lose_power(spares_nothing=True)
    f.shadow.rescan(f._note, verify=True)
    assert (f.offsets(), f.shadow.chain.chains) == ([4], chains[-1:])


def test_records_below_the_last_sync_of_each_segment_in_turn_are_durable() -> None:
    f = Followed()
    first = f.write(FIRST, written(0, 0, "a", "b"))
    f.sync(first)
    first.append([written(2, 0, "c", "d")])
    second = f.write(SECOND, written(4, 0, "e"))
    assert f.shadow.durable_end(1) == 2
    f.sync(second)
    assert f.shadow.durable_end(1) == 2, "what lies behind a hole is not durable"
    f.sync(first)
    assert f.shadow.durable_end(1) == 5


def test_a_synced_file_without_a_durable_name_is_not_durable() -> None:
    f = Followed()
    first = f.write(FIRST, written(0, 0, "a", "b"))
    f.sync(first)
    second = f.write(SECOND, written(2, 0, "c"))
    f.do(second.sync())
    assert f.shadow.durable_end(1) == 2
    f.do(f.files.sync_folder("t-0"))
    assert f.shadow.durable_end(1) == 3


def test_nothing_is_durable_in_a_folder_without_a_durable_name() -> None:
    f = Followed()
    first = f.write(FIRST, written(0, 0, "a", "b"))
    f.do(first.sync())
    f.do(f.files.sync_folder("t-0"))
    assert f.shadow.durable_end(1) == 0
    f.do(f.files.sync_folder(""))
    assert f.shadow.durable_end(1) == 2


def test_epochs_missing_in_the_durable_epoch_file_are_found() -> None:
    f = Followed()
    f.sync(f.write(FIRST, written(0, 0, "a"), written(1, 2, "b"), written(2, 3, "c")))
    assert f.shadow.missing_epochs(0, 3, 1) == [], "without a file a start reads all batches"
    f.sync(f.write("t-0/tmp", epochs((0, 0), (2, 1))))
    f.files.rename("t-0/tmp", f"t-0/{EPOCHS_NAME}")
    assert f.shadow.missing_epochs(0, 3, 1) == []
    f.do(f.files.sync_folder("t-0"))
    assert f.shadow.missing_epochs(0, 2, 1) == []
    assert f.shadow.missing_epochs(0, 3, 1) == [3]
    f.write("t-0/tmp", epochs((0, 0), (2, 1), (3, 2)))
    f.files.rename("t-0/tmp", f"t-0/{EPOCHS_NAME}")
    assert f.shadow.missing_epochs(0, 3, 1) == [3], "that one may not be there after a power loss"
    f.do(f.files.sync_folder("t-0"))
    assert f.shadow.missing_epochs(0, 3, 1) == [], "a torn file is none"
    f.sync(f.files.open(f"t-0/{EPOCHS_NAME}"))
    assert f.shadow.missing_epochs(0, 3, 1) == []


# ---------------------------------------------------------------- held records


def test_a_replica_holds_its_unchanged_records() -> None:
    shadow, committed = ReplicaShadow(Disk(SeededRng(1)), "t-0"), chain_of(batch(0), batch(2))
    shadow.chain = chain_of(batch(0), batch(2, crc=1), batch(4))
    assert (shadow.holds(committed, 2), shadow.holds(committed, 4)) == (True, False)
    shadow.note_held(committed)
    assert shadow.held_end == 2


def test_a_loss_or_truncation_is_forgotten_once_the_records_are_there_again() -> None:
    shadow, committed = ReplicaShadow(Disk(SeededRng(1)), "t-0"), chain_of(batch(0), batch(2))
    shadow.chain, shadow.lost_from, shadow.cut_from = chain_of(batch(0)), 2, 2
    shadow.note_held(committed)
    assert (shadow.lost_from, shadow.cut_from) == (2, 2)
    shadow.chain.append(batch(2))
    shadow.note_held(committed)
    assert (shadow.lost_from, shadow.cut_from) == (None, None)


def test_once_a_loss_is_excused_its_records_are_unknown() -> None:
    shadow = ReplicaShadow(Disk(SeededRng(1)), "t-0")
    shadow.held_end, shadow.lost_from, shadow.cut_from = 8, 6, 4
    shadow.forget_beyond(5)
    assert (shadow.held_end, shadow.lost_from, shadow.cut_from) == (5, None, 4)


# ---------------------------------------------------------------- logs that begin above 0


def whole() -> Chain:
    """Return the chain of the batches written to both segments."""
    f = Followed()
    f.write(FIRST, written(0, 0, "a", "b"), written(2, 0, "c", "d"))
    f.write(SECOND, written(4, 1, "e"))
    return f.shadow.chain


def test_a_log_whose_start_was_dropped_still_holds_the_others_records() -> None:
    f = Followed(whole())
    f.write(FIRST, written(0, 0, "a", "b"), written(2, 0, "c", "d"))
    f.write(SECOND, written(4, 1, "e"))
    f.files.remove(FIRST)
    f.shadow.rescan(f._note)
    assert (f.shadow.chain.start_offset, f.offsets()) == (4, [4])
    assert f.shadow.holds(whole(), 5)
    f.write(SECOND, written(5, 1, "f"))
    assert f.shadow.chain.chain_below(5) == whole().chain_below(5)


def test_a_dropped_start_does_not_hide_that_it_was_another() -> None:
    f = Followed(whole())
    f.write(FIRST, written(0, 0, "a", "b"), written(2, 0, "x", "y"))
    f.write(SECOND, written(4, 1, "e"))
    f.files.remove(FIRST)
    f.shadow.rescan(f._note)
    assert not f.shadow.holds(whole(), 5)


def test_a_log_that_starts_over_above_its_end_follows_the_committed_records() -> None:
    f = Followed(whole())
    f.write(FIRST, written(0, 0, "a", "b"))
    f.files.remove(FIRST)
    f.write(SECOND)
    f.shadow.rescan(f._note)
    assert (f.shadow.end_offset, f.shadow.log_end_offset) == (4, 4)
    f.write(SECOND, written(4, 1, "e"))
    assert f.shadow.holds(whole(), 5)


def test_a_segment_beyond_the_logs_end_begins_the_log_anew_with_or_without_older_ones() -> None:
    f = Followed(whole())
    f.write(FIRST, written(0, 0, "a", "x"))
    f.write(SECOND)
    assert (f.shadow.end_offset, f.shadow.log_end_offset) == (4, 4)
    f.write(SECOND, written(4, 1, "e"))
    assert f.shadow.holds(whole(), 5)
    f.shadow.rescan(f._note)
    assert (f.offsets(), f.shadow.holds(whole(), 5)) == ([4], True)


def test_a_replica_that_first_gets_a_later_segment_follows_the_committed_records() -> None:
    f = Followed(whole())
    f.write(SECOND, written(4, 1, "e"))
    assert f.shadow.holds(whole(), 5)
    g = Followed(whole())
    g.write(SECOND, written(4, 1, "z"))
    assert not g.shadow.holds(whole(), 5)


def test_an_empty_disk_loses_a_log_that_began_above_0_whole() -> None:
    f = Followed(whole())
    f.write(SECOND, written(4, 1, "e"))
    before = f.shadow.chain
    f.disk.wipe()
    f.shadow.rescan(f._note, verify=True)
    f.shadow.note_lost_by_disk(before)
    assert (f.shadow.lost_from, f.shadow.held_end) == (0, 0)
