"""Reads and writes single files of containers, running or not, as archives of the engine."""

from __future__ import annotations

import io
import tarfile

import docker


def read_archive(
    engine: docker.DockerClient, container: str, path: str, *, with_content: bool = True
) -> list[tuple[tarfile.TarInfo, bytes]]:
    """Return the entries of the engine's archive of a file or folder, each with its content.

    Raises:
        docker.errors.NotFound: there is no such path.
    """
    chunks, _ = engine.api.get_archive(container, path)
    with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as archive:
        return [(info, _content(archive, info) if with_content else b"") for info in archive]


def put_file(
    engine: docker.DockerClient,
    container: str,
    folder: str,
    entry: tarfile.TarInfo,
    content: bytes,
) -> None:
    """Write a file into the folder, in place of one of the same name.

    Raises:
        docker.errors.APIError: the engine refused.
    """
    entry.size = len(content)
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as writer:
        writer.addfile(entry, io.BytesIO(content))
    engine.api.put_archive(container, folder, archive.getvalue())


def _content(archive: tarfile.TarFile, info: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(info)
    return b"" if file is None else file.read()
