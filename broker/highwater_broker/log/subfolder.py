"""A folder of a node's file system, used as a file system of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from highwater_core.ports import DiskSpace, File, FileSystem


class Subfolder:
    """The file system whose paths are relative to the folder; "" is the folder itself."""

    def __init__(self, files: FileSystem, name: str) -> None:
        self._files = files
        self._name = name
        self._has_durable_name = False

    def _at(self, path: str) -> str:
        return f"{self._name}/{path}" if path else self._name

    def open(self, path: str) -> File:
        return self._files.open(self._at(path))

    def make_folder(self, path: str) -> None:
        self._files.make_folder(self._at(path))

    def exists(self, path: str) -> bool:
        return self._files.exists(self._at(path))

    def list(self, path: str) -> list[str]:
        return self._files.list(self._at(path))

    def rename(self, source: str, target: str) -> None:
        self._files.rename(self._at(source), self._at(target))

    def remove(self, path: str) -> None:
        self._files.remove(self._at(path))

    def space(self, path: str) -> DiskSpace | None:
        return self._files.space(self._at(path))

    def bound_syncs(self, folder: str, timeout_ms: int, hangs: Callable[[], None]) -> None:
        self._files.bound_syncs(self._at(folder), timeout_ms, hangs)

    async def sync_folder(self, path: str) -> None:
        """Make the names in the folder durable; the first time its own name too, if it is "".

        A power loss would else leave nothing of a folder whose contents were all synced.
        """
        await self._files.sync_folder(self._at(path))
        if not path and not self._has_durable_name:
            await self._files.sync_folder("")
            self._has_durable_name = True

    async def sync_many(self, files: Sequence[str], folders: Sequence[str]) -> None:
        await self._files.sync_many(
            [self._at(each) for each in files], [self._at(each) for each in folders]
        )
