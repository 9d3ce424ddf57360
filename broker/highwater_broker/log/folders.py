"""Names of the folders in a broker's folder, one for each partition.

`<topic>-<partition>` is a replica; `<topic>-<partition>.<n>-delete` is one that is being removed
and `...-stray` one that no longer belongs here, kept until its topic is known to be gone. No name
is longer than a file system allows: in the second form a long `<topic>` is replaced by its first
characters, `~` (which no topic's name has), and a hash of the whole name.
"""

from __future__ import annotations

import re
from hashlib import sha256

from highwater_core.ids import TopicPartition
from highwater_core.ports import FileSystem
from highwater_wire.kafka.record_batch import MAX_INT32

DELETE_SUFFIX = "-delete"
STRAY_SUFFIX = "-stray"
NAME_BYTES_MAX = 255
"""NAME_MAX of the usual file systems."""

_DIGITS_MAX = 10
_HASH_DIGITS = 16
_TOPIC_ASIDE_MAX = NAME_BYTES_MAX - len(f"-.{DELETE_SUFFIX}") - 2 * _DIGITS_MAX
_TOPIC_KEPT = _TOPIC_ASIDE_MAX - len("~") - _HASH_DIGITS

_TOPIC = r"[a-zA-Z0-9._-]{1,249}"
_PARTITION = r"0|[1-9][0-9]{0,9}"
_PARTITION_FOLDER = re.compile(rf"({_TOPIC})-({_PARTITION})")
_ASIDE_FOLDER = re.compile(
    rf"({_TOPIC}|[a-zA-Z0-9._-]{{{_TOPIC_KEPT}}}~[0-9a-f]{{{_HASH_DIGITS}}})-({_PARTITION})"
    r"\.[0-9]+(-delete|-stray)"
)


def can_be_hosted(topic_partition: TopicPartition) -> bool:
    """Return whether the partition can have a folder here: with a valid name that is not too long.

    A topic of 249 characters has at most 100,000 partitions.
    """
    folder = partition_folder(topic_partition)
    return (
        len(folder) <= NAME_BYTES_MAX
        and topic_partition.topic not in (".", "..")
        and parse_partition_folder(folder) == topic_partition
    )


def topic_aside(topic: str) -> str:
    """Return the topic's part of the name of a folder that was set aside."""
    if len(topic) <= _TOPIC_ASIDE_MAX:
        return topic
    return f"{topic[:_TOPIC_KEPT]}~{sha256(topic.encode()).hexdigest()[:_HASH_DIGITS]}"


def partition_folder(topic_partition: TopicPartition) -> str:
    return f"{topic_partition.topic}-{topic_partition.partition}"


def parse_partition_folder(name: str) -> TopicPartition | None:
    """Return the partition of the replica's folder, None for any other name."""
    match = _PARTITION_FOLDER.fullmatch(name)
    if match is None or int(match[2]) > MAX_INT32:
        return None
    return TopicPartition(match[1], int(match[2]))


def list_partitions(files: FileSystem) -> list[TopicPartition]:
    """Return the partitions that have a folder here, sorted."""
    found = (parse_partition_folder(name) for name in files.list(""))
    return sorted(partition for partition in found if partition is not None)


def list_strays(files: FileSystem) -> list[tuple[TopicPartition, str]]:
    """Return partition and folder of each stray replica, sorted.

    The partition's topic is a long one's `topic_aside`, or, in a folder of an earlier version, its
    name.
    """
    return _list_aside(files, STRAY_SUFFIX)


def list_deleted_folders(files: FileSystem) -> list[str]:
    """Return the folders whose removal was interrupted by a stop or the disk."""
    return [folder for _, folder in _list_aside(files, DELETE_SUFFIX)]


class DeletedFolders:
    """These by partition, for many partitions: the data folder is listed once, at the first use."""

    def __init__(self, files: FileSystem) -> None:
        self._files = files
        self._folders: dict[TopicPartition, list[str]] | None = None

    def of(self, key: TopicPartition) -> list[str]:
        """Return the folders of one partition, of any topic of that name."""
        if self._folders is None:
            self._folders = {}
            for partition, folder in _list_aside(self._files, DELETE_SUFFIX):
                self._folders.setdefault(partition, []).append(folder)
        found: list[str] = []
        for name in dict.fromkeys((key.topic, topic_aside(key.topic))):
            found += self._folders.get(TopicPartition(name, key.partition), ())
        return found


def rename_aside(files: FileSystem, folder: str, suffix: str) -> str:
    """Rename a partition's folder to a free name that ends with the suffix, and return that."""
    topic, _, partition = folder.rpartition("-")
    name = f"{topic_aside(topic)}-{partition}"
    number = 0
    while files.exists(f"{name}.{number}{suffix}"):
        number += 1
    target = f"{name}.{number}{suffix}"
    files.rename(folder, target)
    return target


def _list_aside(files: FileSystem, suffix: str) -> list[tuple[TopicPartition, str]]:
    matches = ((name, _ASIDE_FOLDER.fullmatch(name)) for name in files.list(""))
    return sorted(
        (TopicPartition(match[1], int(match[2])), name)
        for name, match in matches
        if match and match[3] == suffix
    )
