"""Images through a registry: pushed by a machine that built them, pulled by those that need not.

A repository is a registry's address and a path in it, as registry.example.org/team/highwater. Names
there end with the processor's architecture: machines of two kinds share a repository, each with
images that it built itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import docker
from docker.errors import DockerException, NotFound
from urllib3.exceptions import HTTPError

from highwater.cluster import labels
from highwater.cluster.images.archive import archived_tags
from highwater.cluster.images.build import (
    Say,
    ensure_faults_image,
    ensure_images,
    exists,
    one_builder,
    tag_latest,
)
from highwater.cluster.images.tags import image_tags
from highwater.errors import HarnessError
from highwater.project import project_root

_ENDS_OF_LAYERS = ("Pushed", "Layer already exists", "Mounted from", "Pull complete")
_Name = tuple[str, str]
"""A repository's and a tag's."""


def names_in_registry(repository: str, tags: Iterable[str], machine: str) -> dict[str, _Name]:
    """Return where each tag's image is in the repository.

    machine: the architecture, as the engine names it ("amd64").
    """
    found: dict[str, _Name] = {}
    for tag in tags:
        name, _, key = tag.rpartition("/")[2].partition(":")
        found[tag] = f"{repository.rstrip('/')}/{name}", f"{key}-{machine}"
    return found


def push_images(engine: docker.DockerClient, repository: str, say: Say) -> tuple[str, ...]:
    """Push this version's images, all that clusters and their faults run; return their names there.

    Missing images are built first. The engine logs in as `docker login` left it.

    Raises:
        ImageBuildFailed: a missing one could not be made.
        HarnessError: the engine or the registry refused one.
    """
    tags = archived_tags(ensure_images(engine, say))
    ensure_faults_image(engine, say)
    names = names_in_registry(repository, tags, _machine(engine))
    for tag, (there, key) in names.items():
        with _told(f"{tag} could not be pushed to {repository}"), one_builder():
            engine.api.tag(tag, there, key)
            try:
                _follow(engine.api.push(there, key, stream=True, decode=True), there, key, say)
            finally:
                _forget(engine, f"{there}:{key}")  # the name alone
    return tuple(f"{there}:{key}" for there, key in names.values())


def pull_images(engine: docker.DockerClient, repository: str, say: Say) -> tuple[str, ...]:
    """Pull this version's images for the engine's machine, those that it lacks; return their tags.

    Raises:
        HarnessError: the repository lacks one, or has another image under its name; or the engine
            or the registry refused.
    """
    tags = image_tags(project_root())
    names = names_in_registry(repository, archived_tags(tags), _machine(engine))
    with one_builder():
        missing = {tag: name for tag, name in names.items() if not exists(engine, tag)}
        if not missing:
            say("the images are here already")
        for tag, (there, key) in missing.items():
            with _told(f"{tag} could not be pulled from {repository}"):
                _pull(engine, tag, there, key, say)
        tag_latest(engine, tags)
    return tuple(names)


def _pull(engine: docker.DockerClient, tag: str, there: str, key: str, say: Say) -> None:
    try:
        _follow(engine.api.pull(there, key, stream=True, decode=True), there, key, say)
    except NotFound as error:
        raise HarnessError(
            f"there is no {there}:{key}: 'highwater images push' of this version, on a machine "
            f"with the same processor, puts it there ({error.explanation})"
        ) from error
    try:
        image = engine.images.get(f"{there}:{key}")
        refusal = why_not(tag, image.attrs, _machine(engine))
        if refusal:
            raise HarnessError(f"{there}:{key} {refusal}")
        image.tag(*tag.split(":"))
    finally:
        _forget(engine, f"{there}:{key}")  # where it was refused, the image too


def _forget(engine: docker.DockerClient, name: str) -> None:
    with suppress(DockerException):  # the error before it tells more
        engine.images.remove(name)


def why_not(tag: str, image: Mapping[str, Any], machine: str) -> str:
    """Return "" if the image may be the tag's, else why not. image: as the engine describes it."""
    kind = ((image.get("Config") or {}).get("Labels") or {}).get(labels.IMAGE)
    if f"highwater/{kind}" != tag.partition(":")[0]:
        return f"is not Highwater's image of this name: its label {labels.IMAGE} is {kind!r}"
    if image.get("Architecture") != machine:
        return f"is for {image.get('Architecture')}, and the engine is {machine}"
    return ""


def _follow(steps: Iterable[dict[str, Any]], there: str, key: str, say: Say) -> None:
    """Wait for the last step, and tell the layers that are done."""
    done = 0
    for step in steps:
        if "error" in step:
            raise HarnessError(str(step["error"]))
        if str(step.get("status", "")).startswith(_ENDS_OF_LAYERS):
            done += 1
            say(f"{there}:{key}: {done} layers")


def _machine(engine: docker.DockerClient) -> str:
    return str(engine.version()["Arch"])


@contextmanager
def _told(failed: str) -> Iterator[None]:
    """Raise HarnessError, with that text first, for an error of the engine or the registry."""
    try:
        yield
    except HarnessError as error:
        raise HarnessError(f"{failed}: {error}") from error
    except (OSError, HTTPError, DockerException) as error:  # the client's own errors are OSErrors
        raise HarnessError(f"{failed}: {error}") from error
