"""Names of the folders in a broker's folder, one for each partition.

`<topic>-<partition>` is a replica; `<topic>-<partition>.<n>-delete` is one that is being removed
and `...-stray` one that no longer belongs here, kept until its topic is known to be gone.
"""

from __future__ import annotations

import re

from highwater_core.ids import TopicPartition
from highwater_core.ports import FileSystem

DELETE_SUFFIX = "-delete"
STRAY_SUFFIX = "-stray"

_PARTITION_FOLDER = re.compile(r"([a-zA-Z0-9._-]{1,249})-(0|[1-9][0-9]{0,9})")
_ASIDE_FOLDER = re.compile(_PARTITION_FOLDER.pattern + r"\.[0-9]+(-delete|-stray)")


def partition_folder(topic_partition: TopicPartition) -> str:
    return f"{topic_partition.topic}-{topic_partition.partition}"


def parse_partition_folder(name: str) -> TopicPartition | None:
    """Return the partition whose replica the folder is, None for any other name."""
    match = _PARTITION_FOLDER.fullmatch(name)
    return TopicPartition(match[1], int(match[2])) if match else None


def list_partitions(files: FileSystem) -> list[TopicPartition]:
    """Return the partitions that have a folder here, sorted."""
    found = (parse_partition_folder(name) for name in files.list(""))
    return sorted(partition for partition in found if partition is not None)


def list_strays(files: FileSystem) -> list[tuple[TopicPartition, str]]:
    """Return partition and folder of each stray replica, sorted."""
    return _list_aside(files, STRAY_SUFFIX)


def remove_deleted_folders(files: FileSystem) -> int:
    """Finish the removals that a stop interrupted; return how many there were."""
    deleted = _list_aside(files, DELETE_SUFFIX)
    for _, folder in deleted:
        files.remove(folder)
    return len(deleted)


def rename_aside(files: FileSystem, folder: str, suffix: str) -> str:
    """Give the folder a free name that ends with the suffix, and return it."""
    number = 0
    while files.exists(f"{folder}.{number}{suffix}"):
        number += 1
    target = f"{folder}.{number}{suffix}"
    files.rename(folder, target)
    return target


def _list_aside(files: FileSystem, suffix: str) -> list[tuple[TopicPartition, str]]:
    matches = ((name, _ASIDE_FOLDER.fullmatch(name)) for name in files.list(""))
    return sorted(
        (TopicPartition(match[1], int(match[2])), name)
        for name, match in matches
        if match and match[3] == suffix
    )
