"""The id of this broker's log contents: a new one whenever they may have lost records.

A clean stop loses no record, and neither does the end of a process alone: the page cache lasts as
long as the machine's boot. After any other end, on an empty disk, and where recovery found lost
records, a new id is drawn, before the broker registers.
Source: KIP-858 (directory.id), KIP-966 (unclean shutdowns). Deviation: for Kafka every stop without
marker is a loss.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from highwater_broker.log.checkpoints import (
    TEMPORARY_SUFFIX,
    Claimed,
    encode_properties,
    lacks_room,
    read_properties,
    write_durably,
    write_durably_where_it_lies,
)
from highwater_core.ids import NO_STORAGE_ID, StorageId
from highwater_core.ports import FileSystem, Rng

STORAGE_IDENTITY = "storage.properties"
_VERSION = "0"
_UNIT_BYTES = 512
"""The file's size is a multiple of it. A sector is written whole or not at all."""
_STORAGE_ID = re.compile(r"[0-9a-f]{32}")
"""The form of an id in a registration."""


class StorageIdentity:
    """The file with the id, and the boot in which the logs were last known to be whole.

    Also the boot, if any, in which every log was opened: from then until the boot ends the logs'
    files agree with each other as this broker wrote them. Before that a power loss may have
    reverted one file and left another.

    Invariant: storage_id is on the disk, with the present boot, once `settle` or `renew` returned.
    """

    def __init__(self, files: FileSystem, rng: Rng, boot_id: str) -> None:
        self._files = files
        self._rng = rng
        self._boot_id = boot_id
        self.storage_id: StorageId = NO_STORAGE_ID
        self.is_new = False
        """Whether the id was drawn by this process: the logs' former contents are unknown."""
        self.cluster_id = ""
        """The id in the ZooKeeper with which the broker registered first, "" before."""
        self.were_opened = False
        """Whether every log was opened before in this boot."""
        self.folders_of_boot: tuple[str, ...] = ()
        """The named log folders that were in use before in this boot."""
        self._folder_ids: dict[str, str] = {}
        """The id of each named log folder that was in use last, or had failed then, as far as it is
known; none in a file of an earlier version."""

    async def settle(self, *, stopped_cleanly: bool) -> None:
        """Keep the stored id if no record can have been lost since, else draw another one.

        Ordering: before the logs are opened and before the clean stop's marker is removed, so that
        a process that dies next leaves the new id, or the marker.

        Raises:
            OSError: the disk refused; the id must not be used.
        """
        found = read_properties(self._files, STORAGE_IDENTITY, separator="=") or {}
        stored = StorageId(found.get("storage.id", ""))
        is_same_boot = bool(self._boot_id) and found.get("boot.id") == self._boot_id
        is_whole = found.get("version") == _VERSION and (stopped_cleanly or is_same_boot)
        if is_same_boot and found.get("log.folders"):
            self.folders_of_boot = tuple(found["log.folders"].split(","))
        pairs = (each.partition(":") for each in found.get("folder.ids", "").split(",") if each)
        self._folder_ids = {name: folder_id for name, _, folder_id in pairs}
        self.were_opened = is_same_boot and found.get("opened.boot.id") == self._boot_id
        self.cluster_id = found.get("cluster.id", "")
        if not _STORAGE_ID.fullmatch(stored) or not is_whole:
            await self.renew()
            return
        if not is_same_boot:
            await self._write(stored)
        self.storage_id = stored

    async def renew(self) -> None:
        """Draw another id, since records may be lost. One that this process drew is kept.

        Ordering: before the evidence of the loss is removed, and before registration.

        Raises:
            OSError: the disk refused; the id must not be used.
        """
        if self.is_new:
            return
        storage_id = StorageId(self._rng.hex_id())
        await self._write(storage_id)
        self.storage_id = storage_id
        self.is_new = True

    async def note_opened(self) -> None:
        """Note that every log was opened in this boot, if that is not noted yet.

        Raises:
            OSError: the disk refused; the next start will not know it.
        """
        if self._boot_id and not self.were_opened:
            self.were_opened = True
            await self._write(self.storage_id)

    def draw_folder_id(self) -> str:
        """Return an id for a log folder that was not this broker's."""
        return self._rng.hex_id()

    def doubt_of(self, name: str, found: Claimed) -> str:
        """Return why a log folder may have missed a start of this broker, "" where it did not.

        The broker goes on without a folder whose disk is not mounted: it takes the empty mount
        point for a new one. When the disk is back its logs are old.
        """
        if not self._folder_ids or self._folder_ids.get(name) == found.folder_id:
            return ""
        if name in self._folder_ids:
            return "another log folder than at the last start: records may be lost"
        return "a log folder that the last start did not have" if found.was_ours else ""

    async def note_folders(self, found: Mapping[str, str], failed: Sequence[str] = ()) -> None:
        """Note the named folders in use in this boot, and their ids, if these are not noted yet.

        found: each folder's id. failed: the folders whose ids cannot be read now.

        Raises:
            OSError: the disk refused.
        """
        together = tuple(dict.fromkeys((*self.folders_of_boot, *found)))
        known = self._folder_ids or dict.fromkeys(failed, "")
        folder_ids = {**{name: known[name] for name in failed if name in known}, **found}
        if (together, folder_ids) != (self.folders_of_boot, self._folder_ids):
            self.folders_of_boot, self._folder_ids = together, folder_ids
            await self._write(self.storage_id)

    async def join(self, cluster_id: str) -> None:
        """Note the cluster that the logs are of, if that is not noted yet.

        Raises:
            OSError: the disk refused.
        """
        if not self.cluster_id:
            self.cluster_id = cluster_id
            await self._write(self.storage_id)

    async def _write(self, storage_id: StorageId) -> None:
        named = {"version": _VERSION, "boot.id": self._boot_id, "storage.id": storage_id}
        if self.cluster_id:
            named["cluster.id"] = self.cluster_id
        if self.were_opened:
            named["opened.boot.id"] = self._boot_id
        if self.folders_of_boot:
            named["log.folders"] = ",".join(self.folders_of_boot)
        if self._folder_ids:
            named["folder.ids"] = ",".join(f"{each}:{at}" for each, at in self._folder_ids.items())
        await self._replace(_filled_up(encode_properties(named, "=")))

    async def _replace(self, text: str) -> None:
        """Replace the file; on a full disk, which must not prevent a start, overwrite it.

        A start makes room by retention. A mixture, which a power loss may leave, has no valid id,
        and the next start draws one.
        """
        try:
            await write_durably(self._files, "", STORAGE_IDENTITY, text)
        except OSError as error:
            if not (lacks_room(error) and self._files.exists(STORAGE_IDENTITY)):
                raise
            self._files.remove(STORAGE_IDENTITY + TEMPORARY_SUFFIX)
            await write_durably_where_it_lies(self._files, STORAGE_IDENTITY, text)


def _filled_up(text: str) -> str:
    """Return the text with spaces at its end, so that most others of it are as long."""
    size_bytes = -(-len(text) // _UNIT_BYTES) * _UNIT_BYTES
    return text.removesuffix("\n").ljust(size_bytes - 1) + "\n"
