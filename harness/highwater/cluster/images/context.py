"""Build contexts made in memory, and the one call that builds an image from them."""

from __future__ import annotations

import io
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import docker
from docker.errors import APIError

from highwater.cluster import labels
from highwater.cluster.images.content_hash import content_hash
from highwater.errors import ImageBuildFailed

BUILD_TIMEOUT_S = 600
_LOG_LINES = 25


class BuildContext:
    """Files by their name in the context, held in memory.

    An image's tag is its context's hash. Both come from the same bytes, even when a file on the
    disk changes meanwhile.
    """

    def __init__(self) -> None:
        self._files: dict[str, tuple[bytes, int]] = {}
        self._folders: dict[str, Path] = {}

    def with_text(self, name: str, text: str) -> BuildContext:
        self._files[name] = (text.encode(), 0o644)
        return self

    def with_file(self, name: str, path: Path) -> BuildContext:
        mode = 0o755 if path.stat().st_mode & 0o100 else 0o644
        self._files[name] = (path.read_bytes(), mode)
        return self

    def with_folder(self, name: str, folder: Path) -> BuildContext:
        """Add the folder's files, read when the image is built.

        They are no part of the hash: another file that is, such as a lock, must determine them.
        """
        self._folders[name] = folder
        return self

    def hash(self, base: str) -> str:
        """Return the hash of the files, their names and modes, and the tag of the image below."""
        parts = [
            (f"{name}:{mode:o}", content) for name, (content, mode) in sorted(self._files.items())
        ]
        return content_hash([("base", base.encode()), *parts])

    def archive(self) -> IO[bytes]:
        """Return the context as a tar in an unnamed file, since it may be as large as Spark."""
        file = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
        with tarfile.open(fileobj=file, mode="w") as tar:
            for name in sorted(self._files):
                content, mode = self._files[name]
                entry = tarfile.TarInfo(name)
                entry.size, entry.mode = len(content), mode
                tar.addfile(entry, io.BytesIO(content))
            for name, folder in sorted(self._folders.items()):
                tar.add(folder, name, filter=_readable)
        file.seek(0)
        return file


def _readable(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Return the entry with rights to read for everybody, independent of this user's umask."""
    entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
    return entry


def build_image(
    engine: docker.DockerClient,
    context: BuildContext,
    *,
    tag: str,
    kind: str,
    arguments: Mapping[str, str] | None = None,
    network: str = "none",
) -> None:
    """Build the context's Dockerfile, in the engine's network of that name, and tag and label it.

    Raises:
        ImageBuildFailed: with the builder's last lines.
    """
    log: list[str] = []
    try:
        with context.archive() as archive:
            stream = engine.api.build(
                fileobj=archive,
                custom_context=True,
                dockerfile="Dockerfile",
                tag=tag,
                rm=True,
                forcerm=True,
                decode=True,
                network_mode=network,
                labels={labels.IMAGE: kind},
                buildargs=dict(arguments or {}),
                timeout=BUILD_TIMEOUT_S,
            )
            for line in _lines(stream):
                log.append(line)
    except APIError as error:
        log.append(str(error.explanation or error))
        raise ImageBuildFailed(_message(tag, log)) from error
    except _StepFailed as error:
        log.append(str(error))
        raise ImageBuildFailed(_message(tag, log)) from error


class _StepFailed(Exception):
    pass


def _lines(stream: Iterator[dict[str, Any]]) -> Iterator[str]:
    for chunk in stream:
        if "error" in chunk:
            raise _StepFailed(str(chunk["error"]))
        yield from str(chunk.get("stream", "")).splitlines()


def _message(tag: str, log: list[str]) -> str:
    tail = "\n".join(line for line in log if line.strip()) or "(the builder said nothing)"
    return f"{tag} could not be built:\n" + "\n".join(tail.splitlines()[-_LOG_LINES:])
