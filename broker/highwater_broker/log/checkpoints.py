"""The small text files in a broker's folder: offset checkpoints, topic ids, identity, shutdown.

All are written to a temporary file, synced, renamed and their folder synced, so that a reader
finds the old or the new content whole. Reading never fails on content: a missing file is empty, a
corrupt one is empty with `problem` saying why. A checksum detects flipped bits.
Source: Kafka's CheckpointFile, PartitionMetadataFile, BrokerMetadataCheckpoint.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from urllib.parse import quote, unquote

from crc32c import crc32c

from highwater_broker.log.record_batch import LogRefused, NoSpaceLeft
from highwater_core.errors import ErrorCode
from highwater_core.ids import NO_TOPIC_ID, NodeId, Offset, TopicId, TopicPartition
from highwater_core.ports import CannotStart, File, FileSystem
from highwater_wire.kafka.record_batch import MAX_INT64

HIGH_WATERMARK_CHECKPOINT = "replication-offset-checkpoint"
RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
LOG_START_CHECKPOINT = "log-start-offset-checkpoint"
CLEANER_CHECKPOINT = "cleaner-offset-checkpoint"
CLEAN_SHUTDOWN_MARKER = ".kafka_cleanshutdown"
PARTITION_METADATA = "partition.metadata"
BROKER_IDENTITY = "meta.properties"
TEMPORARY_SUFFIX = ".tmp"
CHECKSUM_NAME = "#crc32c"
"""The beginning of a file's last row or line: it is no topic's name and no key."""

_VERSION = "0"
_FOLDER_ID = "directory.id"


class CorruptCheckpoint(Exception):
    """A checkpoint file does not have its format."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint file's entries; problem: why the file is not as written, or None."""

    entries: Mapping[TopicPartition, Offset]
    problem: str | None = None


class OffsetCheckpoint:
    """One offset per partition, for all partitions of a broker.

    Ordering: among several writes under way at once the latest one's content stays.
    """

    def __init__(self, files: FileSystem, name: str) -> None:
        self._files = files
        self._name = name
        self._begun = 0
        self._renamed = 0
        self._durable = -1
        """The write whose content is known to be on the disk; none of this process's at first."""
        self._contents: dict[int, Mapping[TopicPartition, Offset]] = {}
        """Contents that a power loss may leave, by the write's number: the certainly durable one,
        later ones renamed to the file, and writes under way."""

    @property
    def name(self) -> str:
        return self._name

    @property
    def entries(self) -> Mapping[TopicPartition, Offset]:
        """Entries that the file may have: of the last read or write, and of writes under way."""
        return {key: at for each in self._contents.values() for key, at in each.items()}

    def offset_of(self, topic_partition: TopicPartition) -> Offset | None:
        """Return the partition's offset in `entries`, without making all of them."""
        for contents in reversed(self._contents.values()):
            if topic_partition in contents:
                return contents[topic_partition]
        return None

    def read(self) -> Checkpoint:
        text = read_text(self._files, self._name)
        if text is None:
            return Checkpoint({})
        try:
            rows = parse_rows(text, columns=3)
            entries = {
                TopicPartition(_unquoted(row[0]), int(row[1])): _offset(row[2]) for row in rows
            }
        except (CorruptCheckpoint, ValueError) as error:
            return Checkpoint({}, f"{self._name}: {error}")
        self._contents = {self._begun: entries}
        return Checkpoint(entries)

    async def forget(self, partitions: Sequence[TopicPartition]) -> None:
        """Return once neither the file nor `entries` have any of the partitions.

        Ordering: the caller must not write them meanwhile.

        Raises:
            LogRefused: KAFKA_STORAGE_ERROR.
        """
        listed = {key for key in partitions if self.offset_of(key) is not None}
        if listed:
            entries = self.entries
            await self.write({key: at for key, at in entries.items() if key not in listed})

    async def write(self, entries: Mapping[TopicPartition, Offset]) -> bool:
        """Return once the entries at the call are on the disk; whether they were not yet.

        A later write's may be there instead.

        Raises:
            NoSpaceLeft, LogRefused: KAFKA_STORAGE_ERROR; the file has the former content or this
                one.
        """
        if self._durable == self._begun and entries == self.entries:
            return False
        rows = [(_quoted(p.topic), str(p.partition), str(at)) for p, at in sorted(entries.items())]
        self._begun += 1
        number = self._begun
        self._contents[number] = dict(entries)
        temporary = f"{self._name}.{number}{TEMPORARY_SUFFIX}"
        try:
            await _write_synced(self._files, temporary, encode_rows(rows, columns=3))
            if number > self._renamed:
                self._files.rename(temporary, self._name)
                self._renamed = number
            else:
                self._files.remove(temporary)
            renamed = self._renamed
            await self._files.sync_folder("")
        except OSError as error:
            if number != self._renamed:
                self._contents.pop(number, None)
            with suppress(OSError):  # otherwise it is removed at the next start
                self._files.remove(temporary)
            refused = NoSpaceLeft if lacks_room(error) else LogRefused
            raise refused(ErrorCode.KAFKA_STORAGE_ERROR, f"{self._name}: {error}") from error
        for earlier in [each for each in self._contents if each < renamed]:
            del self._contents[earlier]
        if number == self._begun:
            self._durable = number
        return True


# ---------------------------------------------------------------- one file each


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """The topic id in a replica's folder; NO_TOPIC_ID without one."""

    topic_id: TopicId
    problem: str | None = None


def read_partition_metadata(files: FileSystem, folder: str) -> PartitionMetadata:
    path = metadata_path(folder)
    properties = read_properties(files, path, separator=":")
    if properties is None:
        return PartitionMetadata(NO_TOPIC_ID)
    topic_id = properties.get("topic_id", "")
    if properties.get("version") != _VERSION or not topic_id:
        problem = f"{path}: no version {_VERSION}, no topic_id, or not as it was written"
        return PartitionMetadata(NO_TOPIC_ID, problem)
    return PartitionMetadata(TopicId(topic_id))


def metadata_path(folder: str) -> str:
    return f"{folder}/{PARTITION_METADATA}"


def write_partition_metadata(files: FileSystem, folder: str, topic_id: TopicId) -> None:
    """Write the replica's topic id into its folder, which must exist.

    It survives a power loss once file and folder are synced. A torn file has a wrong checksum, or
    none.

    Raises:
        OSError: the disk refused.
    """
    text = encode_properties({"version": _VERSION, "topic_id": topic_id}, ": ")
    write_renamed(files, metadata_path(folder), text)


class WrongBrokerFolder(CannotStart):
    """The folder belongs to another broker or cluster."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """A folder that is this broker's. was_ours: already before; folder_id: "" where it has none."""

    was_ours: bool
    folder_id: str


async def claim_folder(
    files: FileSystem, broker_id: NodeId, cluster_id: str, draw_id: Callable[[], str] = lambda: ""
) -> Claimed:
    """Write the folder's owner, or check that it is this broker; called first of all.

    An unreadable identity is replaced. Leftover temporary files are removed.

    draw_id: makes the id of a folder that was not the broker's.
    Source: KIP-858 (directory.id).

    Raises:
        WrongBrokerFolder: it names another broker or cluster.
        OSError: the disk refused.
    """
    for name in files.list(""):
        if name.endswith(TEMPORARY_SUFFIX):
            files.remove(name)
    ours = {"version": _VERSION, "broker.id": str(broker_id), "cluster.id": cluster_id}
    found = read_properties(files, BROKER_IDENTITY, separator="=") or {}
    if set(ours) <= set(found):
        if any(found[key] != value for key, value in ours.items()):
            raise WrongBrokerFolder(f"folder of {found}, this is {ours}")
        return Claimed(True, found.get(_FOLDER_ID, ""))
    folder_id = draw_id()
    if folder_id:
        ours[_FOLDER_ID] = folder_id
    await write_durably(files, "", BROKER_IDENTITY, encode_properties(ours, "="))
    return Claimed(False, folder_id)


async def take_clean_shutdown_marker(files: FileSystem) -> bool:
    """Return whether the last stop was clean, and durably remove its marker."""
    if not files.exists(CLEAN_SHUTDOWN_MARKER):
        return False
    files.remove(CLEAN_SHUTDOWN_MARKER)
    await files.sync_folder("")
    return True


async def write_clean_shutdown_marker(files: FileSystem) -> None:
    """Mark that every log was flushed and closed: a stopping broker's last write."""
    await write_durably(files, "", CLEAN_SHUTDOWN_MARKER, "")


# ---------------------------------------------------------------- text and files


def lacks_room(error: OSError) -> bool:
    """Return whether the disk is full, or the quota used up."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def encode_rows(rows: Sequence[tuple[str, ...]], columns: int) -> str:
    """Return Kafka's checkpoint format: version, row count, one row a line.

    Deviation: the last row, of the same number of columns, is a checksum of the others. Without
    one a flipped bit of a log's start offset would make the log, and its followers' logs, shorter.
    """
    lines = [" ".join(row) for row in rows]
    lines.append(" ".join(_checksum_row(lines, columns)))
    return "\n".join([_VERSION, str(len(lines)), *lines]) + "\n"


def _checksum_row(lines: Sequence[str], columns: int) -> list[str]:
    return [CHECKSUM_NAME, *["0"] * (columns - 2), str(_checksum_of(lines))]


def parse_rows(text: str, columns: int) -> list[list[str]]:
    """Return the rows of a checkpoint.

    Raises:
        CorruptCheckpoint: the text is no whole checkpoint of so many columns.
    """
    lines = text.split("\n")
    if lines[0] != _VERSION:
        raise CorruptCheckpoint(f"version {lines[0][:20]!r}, not {_VERSION!r}")
    if len(lines) < 3 or lines.pop():
        raise CorruptCheckpoint("cut short")
    rows = [line.split(" ") for line in lines[2:]]
    if lines[1] != str(len(rows)):
        raise CorruptCheckpoint(f"{len(rows)} rows, {lines[1][:20]!r} announced")
    if any(len(row) != columns for row in rows):
        raise CorruptCheckpoint(f"a row has not {columns} columns")
    if not rows or rows.pop() != _checksum_row(lines[2:-1], columns):
        raise CorruptCheckpoint("the checksum does not match")
    return rows


def read_text(files: FileSystem, path: str) -> str | None:
    """Return the file's text, None when there is no such file."""
    if not files.exists(path):
        return None
    file = files.open(path)
    try:
        return file.pread(0, file.size_bytes).decode("utf-8", "replace")
    finally:
        file.close()


async def write_durably(files: FileSystem, folder: str, name: str, text: str) -> None:
    """Replace the file; on return the new content survives a power loss."""
    path = f"{folder}/{name}" if folder else name
    await _write_synced(files, path + TEMPORARY_SUFFIX, text)
    files.rename(path + TEMPORARY_SUFFIX, path)
    await files.sync_folder(folder)


async def write_durably_where_it_lies(files: FileSystem, path: str, text: str) -> None:
    """Overwrite an existing file: on a full disk there is no room for another one to replace it.

    A machine that ends meanwhile may leave a mixture, which the checksum tells.

    Raises:
        OSError: the disk refused; the content may be a mixture.
    """
    file = files.open(path)
    try:
        file.overwrite(text.encode())
        await file.sync()
    finally:
        file.close()
    await files.sync_folder(path.rpartition("/")[0])


def write_renamed(files: FileSystem, path: str, content: str | bytes) -> None:
    """Replace the file's content, in the page cache.

    Raises:
        OSError: the file is as it was.
    """
    with _filled(files, path + TEMPORARY_SUFFIX, content):
        pass
    files.rename(path + TEMPORARY_SUFFIX, path)


@contextmanager
def _filled(files: FileSystem, path: str, content: str | bytes) -> Iterator[File]:
    """Yield the file, open, with exactly this content."""
    file = files.open(path)
    try:
        file.truncate(0)
        file.append([content.encode() if isinstance(content, str) else content])
        yield file
    finally:
        file.close()


async def _write_synced(files: FileSystem, path: str, text: str) -> None:
    with _filled(files, path, text) as file:
        await file.sync()


def encode_properties(properties: Mapping[str, str], separator: str) -> str:
    """Return one line for each key, then their checksum.

    Deviation: Kafka writes none. One flipped bit would make a log another topic's, to be replaced
    by an empty one.
    """
    lines = [f"{key}{separator}{value}" for key, value in properties.items()]
    lines.append(f"{CHECKSUM_NAME}{separator}{_checksum_of(lines)}")
    return "\n".join(lines) + "\n"


def read_properties(files: FileSystem, path: str, separator: str) -> dict[str, str] | None:
    """Return the file's keys and values, None when there is no such file.

    There are none where the checksum does not match; files of earlier versions have no checksum.
    """
    text = read_text(files, path)
    if text is None:
        return None
    lines = text.splitlines()
    pairs = (line.partition(separator) for line in lines)
    found = {key.strip(): value.strip() for key, _, value in pairs}
    if CHECKSUM_NAME in text and found.pop(CHECKSUM_NAME, "") != str(_checksum_of(lines[:-1])):
        return {}
    return found


def _checksum_of(lines: Sequence[str]) -> int:
    return int(crc32c("\n".join(lines).encode()))


def _quoted(topic: str) -> str:
    """Return the name without spaces and line ends; a legal one is as it is."""
    return quote(topic, safe="", errors="surrogatepass")


def _unquoted(text: str) -> str:
    return unquote(text, errors="surrogatepass")


def _offset(text: str) -> Offset:
    value = int(text)
    if not 0 <= value <= MAX_INT64:
        raise CorruptCheckpoint(f"offset {value}")
    return Offset(value)
