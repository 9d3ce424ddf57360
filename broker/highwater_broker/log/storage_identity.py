"""Which contents this broker's logs are: a name that changes whenever they may have lost something.

A clean stop loses nothing, and neither does the end of a process alone: the page cache stays as
long as the machine's boot does. After any other end, on an empty disk, and where recovery found
less than there must have been, a new id is drawn, before the broker registers anywhere.
Source: KIP-858 (directory.id), KIP-966 (unclean shutdowns). Deviation: Kafka takes every stop
without marker for a loss.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from highwater_broker.log.checkpoints import encode_properties, read_properties, write_durably
from highwater_core.ids import NO_STORAGE_ID, StorageId
from highwater_core.ports import FileSystem, Rng

STORAGE_IDENTITY = "storage.properties"
_VERSION = "0"
_STORAGE_ID = re.compile(r"[0-9a-f]{32}")
"""As a registration may name it."""


class StorageIdentity:
    """The file that names the contents and the boot in which they were last known to be whole.

    Also the boot, if there is one, in which every log was opened: from then on until the boot ends
    whatever the logs' files say of one another is what this broker wrote. Before that a power loss
    may have taken one file back and left the other.

    Invariant: storage_id is on the disk, with the present boot, once `settle` or `renew` returned.
    """

    def __init__(self, files: FileSystem, rng: Rng, boot_id: str) -> None:
        self._files = files
        self._rng = rng
        self._boot_id = boot_id
        self.storage_id: StorageId = NO_STORAGE_ID
        self.is_new = False
        """Whether the id was drawn by this process: nobody knows what the logs held before."""
        self.were_opened = False
        """Whether every log was opened before in this boot."""
        self.folders_of_boot: tuple[str, ...] = ()
        """The named log folders that were in use before in this boot."""

    async def settle(self, *, stopped_cleanly: bool) -> None:
        """Keep the stored id if nothing can have been lost since, else draw another one.

        Ordering: before the logs are opened and before the clean stop's marker is taken away, so
        that a process that dies next leaves the news, or the marker.

        Raises:
            OSError: the disk refused; the id must not be used.
        """
        found = read_properties(self._files, STORAGE_IDENTITY, separator="=") or {}
        stored = StorageId(found.get("storage.id", ""))
        is_same_boot = bool(self._boot_id) and found.get("boot.id") == self._boot_id
        is_whole = found.get("version") == _VERSION and (stopped_cleanly or is_same_boot)
        if is_same_boot and found.get("log.folders"):
            self.folders_of_boot = tuple(found["log.folders"].split(","))
        self.were_opened = is_same_boot and found.get("opened.boot.id") == self._boot_id
        if not _STORAGE_ID.fullmatch(stored) or not is_whole:
            await self.renew()
            return
        if not is_same_boot:
            await self._write(stored)
        self.storage_id = stored

    async def renew(self) -> None:
        """Draw another id: something may be lost. One that this process drew is kept.

        Ordering: before anything is taken away that shows the loss, and before registration.

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
        """Write down that every log was opened, where that is not known of this boot.

        Raises:
            OSError: the disk refused; the next start will not know it.
        """
        if self._boot_id and not self.were_opened:
            self.were_opened = True
            await self._write(self.storage_id)

    async def note_folders(self, names: Sequence[str]) -> None:
        """Write down which named folders are in use in this boot, where that is not known.

        Raises:
            OSError: the disk refused.
        """
        together = tuple(dict.fromkeys((*self.folders_of_boot, *names)))
        if together != self.folders_of_boot:
            self.folders_of_boot = together
            await self._write(self.storage_id)

    async def _write(self, storage_id: StorageId) -> None:
        named = {"version": _VERSION, "boot.id": self._boot_id, "storage.id": storage_id}
        if self.were_opened:
            named["opened.boot.id"] = self._boot_id
        if self.folders_of_boot:
            named["log.folders"] = ",".join(self.folders_of_boot)
        await write_durably(self._files, "", STORAGE_IDENTITY, encode_properties(named, "="))
