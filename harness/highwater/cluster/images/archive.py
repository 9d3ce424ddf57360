"""Images as one file: saved on a machine that built them, loaded on one that need not.

The file is what `docker save` writes, so `docker load` takes it too. Its manifest.json names each
image's tag, layers and configuration: a tag is a hash of the image's sources, so it tells the
version.
"""

from __future__ import annotations

import json
import os
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
from urllib3.exceptions import HTTPError

from highwater.cluster.images.build import (
    Say,
    ensure_faults_image,
    ensure_images,
    exists,
    one_builder,
    tag_latest,
)
from highwater.cluster.images.content_hash import content_hash
from highwater.cluster.images.tags import ImageTags, image_tags
from highwater.errors import HarnessError
from highwater.project import project_root

MANIFEST = "manifest.json"
_MANIFEST_MAX_BYTES = 1_000_000
_CHUNK_BYTES = 1 << 20
_TOLD_EACH_BYTES = 200_000_000


class ArchiveRefused(HarnessError):
    """A file is no whole archive of this version's images; the message says what it is."""


@dataclass(frozen=True, slots=True)
class ArchivedImages:
    """What an archive says of itself.

    tags: of all its images, sorted.
    machines: the architectures that the images are for, as the engine names them ("amd64").
    """

    tags: tuple[str, ...]
    machines: frozenset[str]


def archived_tags(tags: ImageTags) -> tuple[str, ...]:
    """Return the tags that an archive holds: all that clusters and their faults run, sorted."""
    return tuple(sorted((tags.node, tags.zookeeper, tags.faults)))


def archive_key(tags: ImageTags, machine: str) -> str:
    """Return a name for the archive of these images on that machine: equal images, equal name."""
    return f"highwater-images-{content_hash([(machine, repr(archived_tags(tags)).encode())])}"


def save_images(engine: docker.DockerClient, file: Path, say: Say) -> tuple[str, ...]:
    """Write this version's images into the file, building missing ones, and return their tags.

    The file appears under its name once it is whole.

    Raises:
        ImageBuildFailed: a missing one could not be made.
        HarnessError: the engine or the disk failed.
    """
    tags = archived_tags(ensure_images(engine, say))
    ensure_faults_image(engine, say)
    say(f"saving {', '.join(tags)}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        written = _write(engine, tags, file, say)
    except ArchiveRefused as error:
        raise HarnessError(f"the engine did not send all of the images: {error}") from error
    except OSError as error:  # of the connection to the engine, too
        raise HarnessError(f"{file} could not be written: {error}") from error
    say(f"{file}: {written / 1e6:.0f} MB, {len(tags)} images")
    return tags


def _write(engine: docker.DockerClient, tags: tuple[str, ...], file: Path, say: Say) -> int:
    """Write the whole archive under another name, then rename it; return its bytes."""
    part = file.with_name(f"{file.name}.{os.getpid()}.part")
    written = 0
    with part.open("wb") as out:
        try:
            for chunk in _archive_of(engine, tags):
                if written // _TOLD_EACH_BYTES < (written + len(chunk)) // _TOLD_EACH_BYTES:
                    say(f"{file}: {(written + len(chunk)) / 1e6:.0f} MB")
                written += out.write(chunk)
            out.flush()
            read_archive(part)  # an engine that dies ends the stream as if it were whole
            part.replace(file)
        finally:
            part.unlink(missing_ok=True)
    return written


def _archive_of(engine: docker.DockerClient, tags: tuple[str, ...]) -> Iterator[bytes]:
    """Yield the archive; layers that images share are in it once."""
    # The client's own get_image asks for one image.
    with engine.api.get(
        f"{engine.api.base_url}/images/get",
        params={"names": list(tags)},
        stream=True,
        timeout=engine.api.timeout,
    ) as answer:
        answer.raise_for_status()
        yield from answer.iter_content(_CHUNK_BYTES)


def read_own_archive(file: Path) -> ArchivedImages:
    """Return what the archive says of itself, without an engine.

    Raises:
        ArchiveRefused: it is not a whole archive of this version's images.
    """
    found = read_archive(file)
    refusal = why_of_another_version(found, image_tags(project_root()))
    if refusal:
        raise ArchiveRefused(f"{file} {refusal}")
    return found


def load_images(
    engine: docker.DockerClient, file: Path, found: ArchivedImages, say: Say
) -> tuple[str, ...]:
    """Load the file's images into the engine, unless they are there, and return their tags.

    found: what `read_own_archive` read.

    Raises:
        ArchiveRefused: they are for other machines than the engine's.
        HarnessError: the engine did not take it.
    """
    tags = image_tags(project_root())
    refusal = why_of_other_machines(found, str(engine.version()["Arch"]))
    if refusal:
        raise ArchiveRefused(f"{file} {refusal}")
    with one_builder():
        if all(exists(engine, tag) for tag in found.tags):
            say("the images are here already")
        else:
            say(f"loading {file}: {file.stat().st_size / 1e6:.0f} MB")
            _load(engine, file, say)
        missing = [tag for tag in found.tags if not exists(engine, tag)]
        if missing:
            raise HarnessError(f"{file} was loaded, and the engine lacks {', '.join(missing)}")
        tag_latest(engine, tags)
    return found.tags


def _load(engine: docker.DockerClient, file: Path, say: Say) -> None:
    try:
        with file.open("rb") as archive:
            for line in engine.api.load_image(archive):  # type: ignore[no-untyped-call]
                if "error" in line:
                    raise HarnessError(f"the engine did not take {file}: {line['error']}")
                if "stream" in line:
                    say(str(line["stream"]).strip())
    except (OSError, HTTPError) as error:  # the client's own errors are OSErrors, too
        raise HarnessError(f"the engine did not take {file}: {error}") from error


def why_of_another_version(found: ArchivedImages, tags: ImageTags) -> str:
    """Return "" if the archive has this version's images, else what it has."""
    wanted = archived_tags(tags)
    if found.tags != wanted:
        return (
            f"is of another version: it has {', '.join(found.tags) or 'no tag'}, and this version's"
            f" images are {', '.join(wanted)}; 'highwater images save' writes them"
        )
    return ""


def why_of_other_machines(found: ArchivedImages, machine: str) -> str:
    """Return "" if the archive's images are for that machine, else what they are for."""
    if found.machines != {machine}:
        return f"has images for {', '.join(sorted(found.machines))}, and the engine is {machine}"
    return ""


def read_archive(file: Path) -> ArchivedImages:
    """Return what the archive says of itself, having looked that all files that it names are there.

    Reads names and two small files. Whether a layer's bytes are right is checked by the engine.

    Raises:
        ArchiveRefused: it cannot be read, is torn, or is no archive of images.
    """
    if file.exists() and not (file.is_file() or file.is_dir()):  # a pipe may be silent for ever
        raise ArchiveRefused(f"{file} is no regular file")
    try:
        with tarfile.open(file, "r:") as archive:
            members = {member.name: member for member in archive}
            images = _manifest(archive, members)
            machines = frozenset(
                str(_json(archive, members[image["Config"]])["architecture"]) for image in images
            )
        tags = sorted(tag for image in images for tag in image["RepoTags"] or ())
    except OSError as error:
        raise ArchiveRefused(f"{file} cannot be read: {error.strerror or error}") from error
    except (tarfile.TarError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ArchiveRefused(f"{file} is torn, or no archive of images: {error}") from error
    return ArchivedImages(tuple(tags), machines)


def _manifest(
    archive: tarfile.TarFile, members: dict[str, tarfile.TarInfo]
) -> list[dict[str, Any]]:
    """Return its list of images.

    Raises:
        ValueError: a file that it names is missing.
    """
    if MANIFEST not in members:
        raise ValueError(f"it has no {MANIFEST}")
    images: list[dict[str, Any]] = _json(archive, members[MANIFEST])
    for image in images:
        for name in (image["Config"], *image["Layers"]):
            if name not in members:
                raise ValueError(f"it lacks {name}")
    return images


def _json(archive: tarfile.TarFile, member: tarfile.TarInfo) -> Any:
    content = archive.extractfile(member)
    if content is None or member.size > _MANIFEST_MAX_BYTES:
        raise ValueError(f"its {member.name} is no small file")
    return json.loads(content.read())
