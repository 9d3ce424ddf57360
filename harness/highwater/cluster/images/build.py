"""Builds the images that are missing, lists and prunes them. One builder at a time on a machine."""

from __future__ import annotations

import fcntl
import getpass
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import docker
from docker.errors import APIError, ImageNotFound

from highwater.cluster import labels
from highwater.cluster.engine import connect_engine
from highwater.cluster.images.base import (
    FAULTS_BASE,
    PYTHON_BASE,
    SPARK_BASE,
    ZOOKEEPER_BASE,
    BaseSpec,
    make_base,
)
from highwater.cluster.images.context import build_image
from highwater.cluster.images.tags import ImageTags, image_tags
from highwater.cluster.images.wheels import fetch_wheels, install_packages
from highwater.project import NODE_LOCK, PIPELINE_LOCK, project_root

Say = Callable[[str], None]
CONFLICT = 409
"""The engine's answer when a container uses the image that is to be removed."""


@dataclass(frozen=True, slots=True)
class ImageListing:
    """One tag of Highwater in the engine; current: it is the tag for the checkout's files."""

    tag: str
    image_id: str
    kind: str
    size_bytes: int
    created: str
    current: bool


def ensure_images(engine: docker.DockerClient, say: Say = lambda text: None) -> ImageTags:
    """Build the missing ones of the checkout's images, and return the tags of all.

    If no source changed this only reads files and asks the engine twice.

    Raises:
        ImageBuildFailed: one of them could not be made.
    """
    tags = image_tags(project_root())
    if _exist(engine, tags):
        return tags
    with one_builder():
        if not _exist(engine, tags):
            started = time.monotonic()
            with ThreadPoolExecutor(2, thread_name_prefix="images") as pool:
                chains = [
                    pool.submit(_build_node, tags, say),
                    pool.submit(_build_zookeeper, tags, say),
                ]
            for chain in chains:
                chain.result()
            say(f"images ready after {time.monotonic() - started:.1f} s")
        tag_latest(engine, tags)
    return tags


def tag_latest(engine: docker.DockerClient, tags: ImageTags) -> None:
    """Let the tag `latest` name these images, for compose."""
    for tag in tags.latest():
        engine.images.get(tag).tag(tag.partition(":")[0], "latest")


def ensure_faults_image(engine: docker.DockerClient, say: Say = lambda text: None) -> str:
    """Build the image that faults on links need, if it is missing, and return its tag.

    Raises:
        ImageBuildFailed: it could not be made.
    """
    tags = image_tags(project_root())

    def make() -> None:
        _ensure_base(engine, FAULTS_BASE, say)
        with _timed(say, tags.faults):
            _build(engine, tags, tags.faults, BASE=tags.faults_base)

    return _make_if_missing(engine, tags.faults, make)


def ensure_planted_image(engine: docker.DockerClient, say: Say = lambda text: None) -> str:
    """Build the image with planted bugs, if it is missing, and return its tag; node exists.

    Raises:
        ImageBuildFailed: it could not be made.
    """
    tags = image_tags(project_root())

    def make() -> None:
        with _timed(say, tags.planted):
            _build(engine, tags, tags.planted, NODE=tags.node, BUILD=tags.planted)

    return _make_if_missing(engine, tags.planted, make)


def ensure_spark_image(engine: docker.DockerClient, say: Say = lambda text: None) -> str:
    """Build the image of Spark's master and workers, if it is missing, and return its tag.

    Raises:
        ImageBuildFailed: it could not be made.
    """
    tags = image_tags(project_root())

    def make() -> None:
        _ensure_base(engine, SPARK_BASE, say)
        with _timed(say, tags.spark), tempfile.TemporaryDirectory() as folder:
            install_packages(
                project_root() / PIPELINE_LOCK,
                Path(folder),
                python_version=_python_version(engine, tags.spark_base),
                machine=_machine(engine),
            )
            tags.contexts[tags.spark].with_folder("packages", Path(folder))
            _build(engine, tags, tags.spark, BASE=tags.spark_base)

    return _make_if_missing(engine, tags.spark, make)


def _make_if_missing(engine: docker.DockerClient, tag: str, make: Callable[[], None]) -> str:
    if not exists(engine, tag):
        with one_builder():
            if not exists(engine, tag):
                make()
    return tag


def list_images(engine: docker.DockerClient) -> list[ImageListing]:
    """Return Highwater's tags, newest image first."""
    tags = image_tags(project_root())
    current = {*tags.all(), *(_latest(tag) for tag in tags.latest())}
    found = [
        ImageListing(
            tag=tag,
            image_id=image.short_id.removeprefix("sha256:"),
            kind=image.labels.get(labels.IMAGE, ""),
            size_bytes=int(image.attrs.get("Size", 0)),
            created=str(image.attrs.get("Created", ""))[:19],
            current=tag in current,
        )
        for image in engine.images.list(filters={"label": labels.IMAGE})
        for tag in image.tags
    ]
    return sorted(found, key=lambda listing: (listing.created, listing.tag), reverse=True)


def prune_images(engine: docker.DockerClient) -> list[str]:
    """Remove Highwater's tags that are not current, and return them.

    A tag that a container uses stays.
    """
    removed: list[str] = []
    with one_builder():
        for listing in list_images(engine):
            if listing.current:
                continue
            try:
                engine.images.remove(listing.tag)
            except APIError as error:
                if error.status_code != CONFLICT:
                    raise
            else:
                removed.append(listing.tag)
    return removed


def _latest(tag: str) -> str:
    return f"{tag.partition(':')[0]}:latest"


def _exist(engine: docker.DockerClient, tags: ImageTags) -> bool:
    return exists(engine, tags.node) and exists(engine, tags.zookeeper)


def exists(engine: docker.DockerClient, tag: str) -> bool:
    """Return whether the engine has an image of that tag."""
    try:
        engine.images.get(tag)
    except ImageNotFound:
        return False
    return True


def _build_node(tags: ImageTags, say: Say) -> None:
    """Build base, dependencies and node image in this order, with a client for this thread."""
    engine = connect_engine()
    if exists(engine, tags.node):
        return
    if not exists(engine, tags.node_deps):
        _ensure_base(engine, PYTHON_BASE, say)
        with _timed(say, tags.node_deps), tempfile.TemporaryDirectory() as folder:
            wheels = fetch_wheels(
                project_root() / NODE_LOCK,
                Path(folder),
                python_version=_python_version(engine, tags.python_base),
                machine=_machine(engine),
            )
            context = tags.contexts[tags.node_deps]
            for wheel in wheels:
                context.with_file(f"wheels/{wheel.name}", wheel)
            _build(engine, tags, tags.node_deps, BASE=tags.python_base)
    with _timed(say, tags.node):
        _build(engine, tags, tags.node, DEPS=tags.node_deps, BUILD=tags.node)


def _build_zookeeper(tags: ImageTags, say: Say) -> None:
    engine = connect_engine()
    if exists(engine, tags.zookeeper):
        return
    _ensure_base(engine, ZOOKEEPER_BASE, say)
    with _timed(say, tags.zookeeper):
        _build(engine, tags, tags.zookeeper, BASE=tags.zookeeper_base)


def _build(engine: docker.DockerClient, tags: ImageTags, tag: str, **arguments: str) -> None:
    kind = tag.partition(":")[0].partition("/")[2]
    build_image(engine, tags.contexts[tag], tag=tag, kind=kind, arguments=arguments)


def _ensure_base(engine: docker.DockerClient, spec: BaseSpec, say: Say) -> None:
    if not exists(engine, spec.tag()):
        with _timed(say, spec.tag()):
            make_base(engine, spec, say)


def _python_version(engine: docker.DockerClient, image: str) -> str:
    """Return the version, as 3.11, of the image's python3."""
    script = "import sys; print('%d.%d' % sys.version_info[:2])"
    output = engine.containers.run(
        image, ["python3", "-c", script], remove=True, network_disabled=True, entrypoint=[]
    )
    return str(output.decode().strip())


def _machine(engine: docker.DockerClient) -> str:
    """Return the engine's machine as wheels name it."""
    architecture = str(engine.version()["Arch"])
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(architecture, architecture)


@contextmanager
def _timed(say: Say, tag: str) -> Iterator[None]:
    started = time.monotonic()
    yield
    say(f"{tag}: {time.monotonic() - started:.1f} s")


@contextmanager
def one_builder() -> Iterator[None]:
    """Hold the machine's lock: parallel test workers build nothing twice."""
    path = Path(tempfile.gettempdir()) / f"highwater-images-{getpass.getuser()}.lock"
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
