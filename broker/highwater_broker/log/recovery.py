"""Opens a partition folder's files after any stop and leaves one contiguous log.

After an unclean stop every batch from the recovery point on is checked; the first torn or corrupt
one and all after it are removed. After a clean stop only the last few headers are read. An
interrupted compaction is undone or completed: new segments that have not replaced others are
removed, and so are segments within the one before them. Repairs: a missing or corrupt index or
epoch file is rebuilt from the segments. Segments that do not continue the log (after a missing one,
or a removal) are set aside as `.detached`, since a log must be a prefix of its leader's. Segments
wholly below the log's start, which a power loss brought back, are removed.

Ordering: inspection comes first. `inspect` changes no batch and no name. If it finds lost batches
its caller notes the loss, durably, before `carry_out` removes the evidence.
Source: Kafka's LogLoader; issue KAFKA-3410 for why a shorter log is no catastrophe here.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field

from highwater_broker.log.batch_reader import SCAN_CHUNK_BYTES
from highwater_broker.log.checkpoints import TEMPORARY_SUFFIX, CorruptCheckpoint, lacks_room
from highwater_broker.log.cleaned_segment import CLEANED_SUFFIX
from highwater_broker.log.epoch_file import EpochFile
from highwater_broker.log.log_config import LogConfig
from highwater_broker.log.record_batch import LogRefused, TornBatch
from highwater_broker.log.segment import LOG_SUFFIX, Segment
from highwater_broker.log.segment_index import CorruptIndex
from highwater_broker.log.unfinished_append import LONGEST_BYTES, is_unfinished_append
from highwater_broker.logic.epoch_cache import EpochCache
from highwater_core.errors import ErrorCode
from highwater_core.ids import NO_EPOCH, LeaderEpoch, Offset
from highwater_core.ports import FileSystem
from highwater_wire.kafka.record_batch import MAX_INT64, BatchHeader

_SEGMENT_NAME = re.compile(r"([0-9]{20})\.log")
_LOG_END = 1 << 62
"""An offset beyond any log's end: a scan from there reads only batches without index entries."""


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """The findings and repairs of opening a log; repairs are for BAD_INPUT_MET."""

    log_end_offset: Offset
    clean: bool
    scanned_bytes: int
    truncated_bytes: int
    repairs: tuple[str, ...]
    has_lost_batches: bool = False
    """Whether more is lost than a batch whose append was interrupted."""


@dataclass(slots=True)
class Recovery:
    """A recovery under way: `inspect` finds the repairs, `carry_out` does them."""

    files: FileSystem
    folder: str
    config: LogConfig
    clean: bool
    recovery_point: int
    log_start_offset: int
    high_watermark: int
    stored_epochs: EpochCache | None
    """Epochs of the epoch file, when every batch must agree with it."""
    segments: list[Segment] = field(default_factory=list)
    epochs: EpochCache = field(default_factory=EpochCache)
    """Epochs of the scanned batches."""
    scanned_from: int | None = None
    scanned_bytes: int = 0
    truncated_bytes: int = 0
    repairs: list[str] = field(default_factory=list)
    has_lost_batches: bool = False
    """Whether more is lost than a batch whose append was interrupted; known before any repair."""
    _with_garbage: Segment | None = None
    _to_detach: list[Segment] = field(default_factory=list)
    _to_remove: list[Segment] = field(default_factory=list)

    @classmethod
    def inspect(
        cls,
        files: FileSystem,
        folder: str,
        config: LogConfig,
        *,
        clean_shutdown: bool,
        recovery_point: Offset,
        log_start_offset: Offset,
        high_watermark: Offset,
        epochs_are_known: bool = False,
    ) -> Recovery:
        """Return the report of the needed repairs; the offsets are the checkpointed ones.

        No CRC covers a batch's leader epoch. The epoch file has it, where the log was opened before
        in this boot of the machine (epochs_are_known). At the first opening a power loss may have
        reverted the file and left the batches.

        A log that ends below its checkpointed high watermark has lost batches. So has one that
        begins after its checkpointed start, which is written before a segment is removed. Both may
        be wrong where a follower truncated its log below its high watermark, or began it anew, and
        ended before the next checkpoint, or where the disk refused to write the start: then the
        broker only reports a loss that did not happen.

        Raises:
            LogRefused: KAFKA_STORAGE_ERROR.
        """
        self = cls(
            files,
            folder,
            config,
            clean_shutdown,
            recovery_point,
            log_start_offset,
            high_watermark,
            None,
        )
        try:
            files.make_folder(folder)
            if epochs_are_known:
                with suppress(CorruptCheckpoint):  # carry_out rebuilds and reports it
                    self.stored_epochs = EpochFile(files, folder).load()
            self._load_segments()
        except OSError as error:
            raise self._refused(error) from error
        self._judge_ends()
        return self

    def _judge_ends(self) -> None:
        """Compare the log's start and end with the checkpoints."""
        log_start_offset, high_watermark = self.log_start_offset, self.high_watermark
        log_end_offset = self.segments[-1].next_offset if self.segments else log_start_offset
        if self.segments and self.segments[0].base_offset > log_start_offset:
            self.has_lost_batches = True
            self.repairs.append(
                f"log begins at {self.segments[0].base_offset}, after its start {log_start_offset}"
            )
        if log_end_offset < log_start_offset:
            self.has_lost_batches = True
            self.repairs.append(
                f"log ends at {log_end_offset}, before its start {log_start_offset}"
            )
            self._to_remove += reversed(self.segments)
            self.segments.clear()
        elif log_end_offset < high_watermark:
            self.has_lost_batches = True
            self.repairs.append(
                f"log ends at {log_end_offset}, below its high watermark {high_watermark}"
            )

    def carry_out(self, epoch_file: EpochFile) -> EpochCache:
        """Do the repairs: `segments` (at least one) is the log then; return its epochs.

        Raises:
            LogRefused: KAFKA_STORAGE_ERROR; repairs so far stay.
        """
        try:
            for segment in self._to_detach:
                segment.detach()
            if self._with_garbage is not None:
                self._with_garbage.cut_garbage()
            for segment in self._to_remove:
                segment.remove()
            if not self.segments:
                self.segments.append(self._new_segment(self.log_start_offset))
            return self._epoch_cache(epoch_file)
        except OSError as error:
            raise self._refused(error) from error

    @property
    def changes_names(self) -> bool:
        """Whether files are removed or renamed, which a power loss must not undo later."""
        return bool(self._to_detach or self._to_remove)

    def _refused(self, error: OSError) -> LogRefused:
        return LogRefused(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.folder}: {error!r}")

    def _load_segments(self) -> None:
        """Load the contiguous segments; the others will be detached."""
        found = self._found_segments()
        while len(found) > 1 and found[1] <= self.log_start_offset:
            self._to_remove.append(self._new_segment(found.pop(0)))
            self._to_remove[-1].rest()
        for number, base_offset in enumerate(found):
            expected = self.segments[-1].next_offset if self.segments else base_offset
            if base_offset < expected and expected in found[number:]:
                self._to_remove.append(self._new_segment(base_offset))
                continue  # a compacted segment has replaced it
            if base_offset != expected:
                self._detach(
                    found[number:], f"segment {base_offset} where {expected} is the next offset"
                )
                return
            is_last = number + 1 == len(found)
            is_scanned = not self.clean and (is_last or found[number + 1] > self.recovery_point)
            segment = self._new_segment(base_offset)
            self.segments.append(segment)
            is_whole = self._load(segment, is_scanned=is_scanned)
            segment.rest()
            if not is_whole:
                self._detach(found[number + 1 :], f"the cut in segment {base_offset}")
                return

    def _epoch_cache(self, epoch_file: EpochFile) -> EpochCache:
        """Return the file's cache, corrected by the scanned batches, and store it."""
        log_end_offset = self.segments[-1].next_offset
        stored: EpochCache | None = None
        try:
            stored = epoch_file.load()
            problem = "missing"
        except CorruptCheckpoint as error:
            problem = str(error)
        if stored is None:
            cache = self._epochs_of_all_batches()
            if problem != "missing" or log_end_offset > self.segments[0].base_offset:
                self.repairs.append(f"leader epoch file rebuilt: {problem}")
        else:
            cache = stored
            if self.scanned_from is not None:
                cache = cache.truncate_from_end(Offset(self.scanned_from))
                for entry in self.epochs.entries:
                    cache = cache.assign(*entry)
                for entry in stored.entries[-1:]:
                    if entry.start_offset == log_end_offset and entry[0] > cache.latest_epoch:
                        cache = cache.assign(*entry)
            cache = self._with_last_batch(cache.truncate_from_end(Offset(log_end_offset + 1)))
        cache = self._within_log(cache)
        if cache != stored:
            self._store(cache, epoch_file, stored)
        return cache

    def _store(self, cache: EpochCache, epoch_file: EpochFile, stored: EpochCache | None) -> None:
        """Store the epochs; on a full disk the log's next append or flush must do it.

        Until then a file that has more epochs than the log may stay. One that lacks the batches'
        epochs would make the next start take them for corrupt: it is removed, and rebuilt then.
        """
        try:
            epoch_file.store(cache)
        except OSError as error:
            if not lacks_room(error):
                raise
            if stored is not None and self._within_log(stored) != cache:
                epoch_file.remove()

    def _within_log(self, cache: EpochCache) -> EpochCache:
        log_start_offset = max(self.log_start_offset, self.segments[0].base_offset)
        ended = cache.truncate_from_end(Offset(self.segments[-1].next_offset + 1))
        return ended.truncate_from_start(Offset(log_start_offset))

    def _with_last_batch(self, cache: EpochCache) -> EpochCache:
        """Return the cache with the epochs of all batches if it does not even have the last one's.

        So it is where retention let go of all batches, and a kill came before the log's start was
        on the disk: they are back.
        """
        log_end_offset = Offset(self.segments[-1].next_offset)
        is_empty = log_end_offset <= max(self.log_start_offset, self.segments[0].base_offset)
        if is_empty or cache.epoch_of_offset(Offset(log_end_offset - 1)) != NO_EPOCH:
            return cache
        whole = self._epochs_of_all_batches()
        for entry in cache.entries:
            whole = whole.assign(*entry)
        return whole

    def report(self) -> RecoveryReport:
        return RecoveryReport(
            Offset(self.segments[-1].next_offset),
            self.clean,
            self.scanned_bytes,
            self.truncated_bytes,
            tuple(self.repairs),
            self.has_lost_batches,
        )

    def _found_segments(self) -> list[int]:
        found: list[int] = []
        for name in self.files.list(self.folder):
            match = _SEGMENT_NAME.fullmatch(name)
            if match and int(match[1]) <= MAX_INT64:
                found.append(int(match[1]))
            elif name.endswith(LOG_SUFFIX):
                self.repairs.append(f"{name} is no segment's name: ignored")
            elif name.endswith((TEMPORARY_SUFFIX, CLEANED_SUFFIX)):
                self.files.remove(f"{self.folder}/{name}")
        return found

    def _new_segment(self, base_offset: int) -> Segment:
        return Segment(self.files, self.folder, base_offset, self.config.index_interval_bytes)

    def _load(self, segment: Segment, *, is_scanned: bool) -> bool:
        """Note a segment's batches; return False when some had to be removed."""
        try:
            segment.load_indexes()
        except CorruptIndex as error:
            if not (is_scanned and error.is_expected):
                self.repairs.append(f"indexes of segment {segment.base_offset} rebuilt: {error}")
        try:
            if is_scanned:
                self._scan(segment, self.recovery_point)
                return True
            for _ in segment.scan(_LOG_END, check_crc=False):
                pass
            segment.take_as_synced()
        except LogRefused as bad:
            if is_scanned:
                return self._cut(segment, bad)
        else:
            return True
        try:
            self._scan(segment, segment.base_offset)
        except LogRefused as bad:
            return self._cut(segment, bad)
        return True

    def _cut(self, segment: Segment, bad: LogRefused) -> bool:
        garbage_bytes = segment.file_size_bytes - segment.size_bytes
        self._with_garbage = segment
        self.truncated_bytes += garbage_bytes
        self.has_lost_batches |= self.clean or not self._never_ended(segment, bad)
        self.repairs.append(f"segment {segment.base_offset}: {bad}: {garbage_bytes} bytes cut")
        return False

    def _never_ended(self, segment: Segment, bad: LogRefused) -> bool:
        if not isinstance(bad, TornBatch):
            return False
        tail = segment.read_garbage(LONGEST_BYTES + 1)
        return is_unfinished_append(tail, segment.next_offset)

    def _scan(self, segment: Segment, from_offset: int) -> None:
        first: BatchHeader | None = None
        try:
            for header in segment.scan(
                from_offset,
                check_crc=True,
                chunk_bytes=SCAN_CHUNK_BYTES,
                check_header=self._check_epoch,
            ):
                if first is None:
                    first = header
                    if self.scanned_from is None or header.base_offset < self.scanned_from:
                        self.scanned_from = header.base_offset
                        self.epochs = EpochCache()
                self.scanned_bytes += header.size_bytes
                self._note_epoch(header)
        finally:
            if self.scanned_from is None:
                self.scanned_from = segment.next_offset

    def _check_epoch(self, header: BatchHeader) -> None:
        """Refuse a batch with another epoch than the stored one."""
        if self.stored_epochs is None:
            return
        expected = self.stored_epochs.epoch_of_offset(Offset(header.base_offset))
        if expected not in (NO_EPOCH, header.leader_epoch):
            raise LogRefused(
                ErrorCode.CORRUPT_MESSAGE,
                f"leader epoch {header.leader_epoch} where {expected} belongs, "
                f"at offset {header.base_offset}",
            )

    def _note_epoch(self, header: BatchHeader) -> None:
        if header.leader_epoch != self.epochs.latest_epoch and header.leader_epoch >= 0:
            self.epochs = self.epochs.assign(
                LeaderEpoch(header.leader_epoch), Offset(header.base_offset)
            )

    def _epochs_of_all_batches(self) -> EpochCache:
        self.epochs = EpochCache()
        for segment in self.segments:
            for _, header in segment.batches():
                self._note_epoch(header)
        return self.epochs

    def _detach(self, base_offsets: list[int], reason: str) -> None:
        for base_offset in base_offsets:
            segment = self._new_segment(base_offset)
            self.truncated_bytes += segment.file_size_bytes
            segment.rest()
            self.has_lost_batches = True
            self._to_detach.append(segment)
            self.repairs.append(f"segment {base_offset} detached: {reason}")
