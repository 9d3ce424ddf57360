"""A small effect of each planted bug of highwater_planted.compaction, by its name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from highwater_broker import log_cleaner
from highwater_broker.log.cleaned_segment import CLEANED_SUFFIX, CleanedSegment
from highwater_broker.logic.compaction import NewestOffsets
from highwater_simulator.files import Disk, FileNode, SimulatedFileSystem
from highwater_simulator.rng import SeededRng
from highwater_wire.kafka.record_batch import build_batch


def stays_of_three_records(bench: Any) -> object:
    newest = NewestOffsets(10)
    newest.note(b"a", 3)
    return [newest.has_newer(b"a", offset) for offset in (2, 3, 4)]


def end_of_the_cleanable_part(bench: Any) -> object:
    segments = [
        SimpleNamespace(base_offset=at, next_offset=at + 10, size_bytes=1, max_timestamp=0)
        for at in (0, 10, 20)
    ]
    part = log_cleaner.dirty_part(segments, 0, safe_end_offset=12, newest_timestamp_ms=None)
    return part.end_offset


def synced_bytes_of_a_compacted_segment(bench: Any) -> object:
    disk = Disk(SeededRng(1))
    files = SimulatedFileSystem(bench.runtime, disk)
    files.make_folder("t-0")
    segment = CleanedSegment(files, "t-0", 0, 4_096)
    batch = build_batch([(b"k", b"v", 1)])
    segment.add(batch)
    bench.runtime.start("test", segment.sync_batches())
    bench.kernel.run_for(100)
    node = disk.find(f"t-0/{0:020d}{CLEANED_SUFFIX}")
    assert isinstance(node, FileNode)
    return node.synced_size == len(batch)


COMPACTION: dict[str, tuple[Any, object, object]] = {
    "compaction_drops_newest": (
        stays_of_three_records, [True, False, False], [True, True, False],
    ),
    "compaction_above_high_watermark": (end_of_the_cleanable_part, 10, 20),
    "compacted_segment_not_synced": (synced_bytes_of_a_compacted_segment, True, False),
}  # fmt: skip
"""Each with its probe's result without the mistake, and with it."""
