"""Fuzzes what a broker reads at its start: segments, indexes, checkpoints, epochs, identities.

A sound folder is damaged in its files; whatever is in them then, the broker's logs open or are
refused by type, in bounded work, and what lies before the first damaged byte of a log is read.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterator

from crc32c import crc32c

from highwater_broker.log.checkpoints import (
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    OffsetCheckpoint,
    claim_folder,
    write_clean_shutdown_marker,
    write_partition_metadata,
)
from highwater_broker.log.log import Log
from highwater_broker.log.log_config import LogConfig
from highwater_broker.log.record_batch import LogRefused, split_batches
from highwater_broker.log.storage_identity import StorageIdentity
from highwater_broker.log_folders import LogFolders
from highwater_broker.replica_logs import HostedLog, ReplicaLogs
from highwater_core.events import TraceEvent
from highwater_core.fail_points import BROKER_FAIL_POINTS, FailPoints
from highwater_core.ids import LeaderEpoch, NodeId, Offset, TopicId, TopicPartition
from highwater_core.ports import CannotStart
from highwater_core.traces import TraceRecorder
from highwater_simulator.files import Disk, FileNode, FolderNode, SimulatedFileSystem
from highwater_simulator.kernel import Kernel
from highwater_simulator.rng import SeededRng
from highwater_wire.kafka.record_batch import build_batch
from tests.fuzz.cases import Broken, Case, Step
from tests.fuzz.clusters import CountedReads
from tests.fuzz.draws import INT32_EDGES, INT64_EDGES, Draws, with_right_crc
from tests.support.open_logs import open_log

T0 = TopicPartition("t", 0)
LOG_FOLDER = "t-0"
CONFIG = LogConfig(segment_bytes=900, index_interval_bytes=150)
BATCHES = 14
EXAMINED_BATCHES_MAX = 1_000
READS_MAX = 3_000
"""Of one start and of all that is done with its logs; a sound folder takes about a hundred."""

Folder = dict[str, bytes]
"""Every file of a broker's folder, by its path."""


class FilesFuzzer:
    """A sound folder's files, then what happens to them, then a broker's start."""

    name = "files"

    def draw(self, draws: Draws) -> Case:
        folder = sound_folder(is_clean=draws.chance(40))
        steps = [Step(f"file {path}", content) for path, content in folder.items()]
        paths = sorted(folder)
        for _ in range(draws.between(1, 3)):
            path = draws.one_of([path for path in paths if path.endswith(".log")])
            if draws.chance(50):
                path = draws.one_of(paths)
            steps.append(_damage(draws, path, folder[path]))
        return tuple(steps)

    def run(self, case: Case) -> None:
        _Start(case).run()

    def simpler(self, step: Step) -> Iterator[Step]:
        return iter(())


# ---------------------------------------------------------------- a sound folder


@functools.cache
def sound_folder(*, is_clean: bool) -> Folder:
    """Return what a broker leaves that hosts one log of some segments and epochs."""
    kernel = Kernel()
    runtime = kernel.runtime("broker")
    disk = Disk(SeededRng(1))
    files = SimulatedFileSystem(runtime, disk)

    async def fill() -> None:
        await claim_folder(files, NodeId(0), "highwater")
        await StorageIdentity(files, SeededRng(1), "boot").settle(stopped_cleanly=False)
        log, _ = open_log(files, LOG_FOLDER, CONFIG, clean_shutdown=False, recovery_point=Offset(0))
        write_partition_metadata(files, LOG_FOLDER, TopicId("a" * 32))
        for number in range(BATCHES):
            _append(log, number)
            if number == BATCHES // 2:
                await log.flush()
        high_watermark = log.log_end_offset
        if is_clean:
            await log.flush()
        for name, offset in (
            (HIGH_WATERMARK_CHECKPOINT, high_watermark),
            (RECOVERY_POINT_CHECKPOINT, log.recovery_point),
            (LOG_START_CHECKPOINT, Offset(0)),
        ):
            await OffsetCheckpoint(files, name).write({T0: offset})
        if is_clean:
            log.close()
            await write_clean_shutdown_marker(files)

    task = runtime.start("fill", fill())
    kernel.run_until(task.is_done, 60_000)
    found = dict(_files_in(disk.root, ""))
    kernel.close()
    return found


def _append(log: Log, number: int) -> None:
    values = [(None, b"%d" % number * (1 + number % 5 * 9), 1_000 + number)] * (1 + number % 3)
    log.append_as_leader(build_batch(values), LeaderEpoch(number // 4), 1_000 + number)


def _files_in(folder: FolderNode, path: str) -> Iterator[tuple[str, bytes]]:
    for name, node in sorted(folder.entries.items()):
        if isinstance(node, FileNode):
            yield path + name, bytes(node.content)
        else:
            yield from _files_in(node, f"{path}{name}/")


# ---------------------------------------------------------------- damage


def _damage(draws: Draws, path: str, content: bytes) -> Step:
    """Return the step that damages the file: it carries the file's whole new content."""
    kind = draws.below(12)
    if kind == 0:
        return Step(f"remove {path}")
    if path.endswith(".log") and kind < 6:
        return Step(f"damage {path}", _with_forged_batch(draws, content))
    if path.endswith("index") and kind < 8:
        return Step(f"damage {path}", _forged_index(draws, path))
    if "/" not in path or path.endswith(("checkpoint", "metadata")):
        return Step(f"damage {path}", _forged_text(draws, content))
    return Step(f"damage {path}", draws.damaged(content))


def _with_forged_batch(draws: Draws, content: bytes) -> bytes:
    """Return the segment with one batch forged, mostly with a right CRC, or moved, or doubled."""
    if not content:
        return draws.batch()
    batches = [bytearray(batch.data) for batch in split_batches(content)]
    at = draws.below(len(batches))
    kind = draws.below(6)
    if kind == 0:
        batches[at:at] = [batches[draws.below(len(batches))]]
    elif kind == 1:
        other = draws.below(len(batches))
        batches[at], batches[other] = batches[other], batches[at]
    elif kind == 2:
        batches[at] = bytearray(draws.batch())
    else:
        draws.forge(batches[at])
        if kind < 5:
            batches[at] = bytearray(with_right_crc(batches[at]))
    return b"".join(batches)


def _forged_index(draws: Draws, path: str) -> bytes:
    is_of_times = path.endswith("timeindex")
    form, edges = (">qi", INT64_EDGES) if is_of_times else (">ii", INT32_EDGES)
    entries = [
        (draws.one_of(edges) if draws.chance(50) else 30 * at + draws.below(30), 30 * at)
        for at in range(draws.count(6, 3_000))
    ]
    forged = b"".join(struct.pack(form, *entry) for entry in entries)
    return forged + struct.pack(">qI", -1, crc32c(forged)) * (is_of_times and draws.chance(50))


def _forged_text(draws: Draws, content: bytes) -> bytes:
    """Return the file with a number, a word or a line replaced, or with its bytes damaged."""
    lines = content.split(b"\n")
    at = draws.below(len(lines))
    words = lines[at].split(b" ")
    kind = draws.below(5)
    if kind == 0:
        return draws.damaged(content)
    if kind == 1:
        lines[at:at] = [lines[draws.below(len(lines))]] * draws.between(1, 3)
    else:
        numbers = (b"-1", b"0", b"1", b"9" * 18, b"9" * 19, b"9" * 5_000, "٣".encode(), b"1_0", b"")
        words[draws.below(len(words))] = draws.one_of(numbers)
        lines[at] = b" ".join(words)
    return b"\n".join(lines)


# ---------------------------------------------------------------- a start


class _Start:
    """One broker's start in a folder as the case leaves it."""

    def __init__(self, case: Case) -> None:
        self._sound: Folder = {}
        self._folder: Folder = {}
        for step in case:
            action, path = step.label.split(" ", 1)
            if action == "remove":
                self._folder.pop(path, None)
            else:
                self._folder[path] = step.payload
            if action == "file":
                self._sound[path] = step.payload
        self._kernel = Kernel()
        self._runtime = self._kernel.runtime("broker")
        disk = Disk(SeededRng(1))
        disk.faults = self._reads = CountedReads(SeededRng(1))
        self._files = SimulatedFileSystem(self._runtime, disk)
        self._events: list[TraceEvent] = []

    def run(self) -> None:
        for path, content in self._folder.items():
            self._files.make_folder(path.rpartition("/")[0])
            file = self._files.open(path)
            file.append([content])
            file.close()
        task = self._runtime.start("start", self._start_twice())
        try:
            self._kernel.run_until(task.is_done, 600_000)
        finally:
            self._kernel.close()

    async def _start_twice(self) -> None:
        intact = self._intact_bytes()
        try:
            hosted = await self._load()
        except CannotStart:
            return
        for each in hosted:
            self._check_log(each.log, intact)
            await self._use(each.log)
        self._check_reads()
        for each in await self._load():
            self._read_all(each.log)

    async def _load(self) -> list[HostedLog]:
        self._reads.reads = 0
        trace = TraceRecorder(self._runtime, NodeId(0), 1, self._events.append)
        points = FailPoints(self._runtime, trace, lambda: None, BROKER_FAIL_POINTS)
        storage = StorageIdentity(self._files, SeededRng(2), "boot")
        logs = ReplicaLogs(
            self._files, trace, NodeId(0), "highwater", lambda _: CONFIG, points, storage
        )
        return await LogFolders([logs], storage).load()

    def _check_reads(self) -> None:
        if self._reads.reads > READS_MAX:
            raise Broken("work is bounded", f"{self._reads.reads} reads")

    def _intact_bytes(self) -> bytes:
        """Return the log up to its first damaged batch; nothing where its start is not known."""
        if self._folder.get(LOG_START_CHECKPOINT) != self._sound.get(LOG_START_CHECKPOINT):
            return b""
        intact = b""
        for path in sorted(path for path in self._sound if path.endswith(".log")):
            sound, found = self._sound[path], self._folder.get(path, b"")
            for batch in split_batches(sound):
                end = len(batch.data)
                if found[:end] != batch.data:
                    return intact
                intact += batch.data
                found = found[end:]
            if found:
                return intact
        return intact

    def _check_log(self, log: Log, intact: bytes) -> None:
        found = self._read_all(log)
        if not found.startswith(intact):
            same = next((at for at, pair in enumerate(zip(found, intact, strict=False))
                         if pair[0] != pair[1]), len(found))  # fmt: skip
            raise Broken("what is intact is read", f"{same} of {len(intact)} bytes, the same")

    def _read_all(self, log: Log) -> bytes:
        """Return the log's bytes as far as they can be read and are batches."""
        if not 0 <= log.log_start_offset <= log.recovery_point <= log.log_end_offset:
            raise Broken("offsets are in order", f"{log.log_start_offset} {log.log_end_offset}")
        found, offset = b"", log.log_start_offset
        for _ in range(EXAMINED_BATCHES_MAX):
            if offset >= log.log_end_offset:
                break
            try:
                records = log.read(offset, 1, log.log_end_offset).records
                data = records if isinstance(records, bytes) else records.read()
                batches = split_batches(data)
            except LogRefused:
                break
            if not batches:
                raise Broken("reads get on", f"no batch at {offset} of {log.log_end_offset}")
            found += data
            offset = Offset(max(offset, batches[-1].header.last_offset) + 1)
        else:
            raise Broken("reads get on", f"still at {offset} after {EXAMINED_BATCHES_MAX} reads")
        return found

    async def _use(self, log: Log) -> None:
        """Look up, append, flush, cut and close; each may be refused, by type."""
        for timestamp in (-1, 0, 1_000, 1_005, 2**62):
            self._may_be_refused(lambda at=timestamp: list(log.look_up_timestamp(at)))  # type: ignore[misc]
        epoch = LeaderEpoch(min(2**31 - 1, max(0, log.epoch_cache.latest_epoch) + 1))
        batch = build_batch([(None, b"after", 2_000)])
        self._may_be_refused(lambda: log.append_as_leader(batch, epoch, 2_000))
        try:
            await log.flush()
        except LogRefused:
            return
        middle = Offset((log.log_start_offset + log.log_end_offset) // 2)
        self._may_be_refused(lambda: log.truncate_to(middle))
        self._may_be_refused(log.close)

    def _may_be_refused(self, work: object) -> None:
        try:
            work()  # type: ignore[operator]
        except LogRefused:
            return
