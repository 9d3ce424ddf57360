"""Copies files out of containers, running or not, into a run's folder."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Collection, Iterator
from pathlib import Path, PurePosixPath

import docker
from docker.errors import NotFound


class _Stream(io.RawIOBase):
    """Chunks as a file that is read once, front to back."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = chunk
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count


def copy_out(
    engine: docker.DockerClient,
    container: str,
    path: str,
    target: Path,
    *,
    prefix: str = "",
    left_out: Collection[str] = (),
) -> list[Path]:
    """Copy the files below a container's folder into target, and return their paths there.

    prefix goes before the names of files that lie directly in the folder. Of the folders left_out
    in it, each folder is copied as if it lay beside them. Without such a folder no file is copied.
    """
    target.mkdir(parents=True, exist_ok=True)
    try:
        chunks, _ = engine.api.get_archive(container, path)
    except NotFound:
        return []
    copied = []
    reader = io.BufferedReader(_Stream(iter(chunks)), buffer_size=1 << 20)
    with tarfile.open(fileobj=reader, mode="r|") as archive:
        for entry in archive:
            # The first part is the folder's own name.
            parts = PurePosixPath(entry.name).parts[1:]
            if not parts or ".." in parts or not entry.isfile():
                continue
            if len(parts) > 2 and parts[0] in left_out:
                parts = parts[1:]
            place = target.joinpath(*parts[:-1], prefix * (len(parts) == 1) + parts[-1])
            place.parent.mkdir(parents=True, exist_ok=True)
            source = archive.extractfile(entry)
            if source is None:
                continue
            with place.open("wb") as file:
                while block := source.read(1 << 20):
                    file.write(block)
            copied.append(place)
    return copied
