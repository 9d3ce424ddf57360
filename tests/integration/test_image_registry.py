"""Images go through a real registry: Debian's docker-registry, unpacked and not installed."""

from __future__ import annotations

import shutil
import socket
import subprocess
import urllib.request
import uuid
from collections.abc import Iterator

import docker
import pytest

from highwater import eventually
from highwater.cluster import labels
from highwater.cluster.engine import connect_engine
from highwater.cluster.images import registry
from highwater.cluster.images.build import exists
from highwater.errors import HarnessError

FETCHED_WITHIN_S = 120
UP_WITHIN_S = 60
CONFIG = """
version: 0.1
storage:
  filesystem:
    rootdirectory: {folder}
http:
  addr: 127.0.0.1:{port}
"""
pytestmark = [pytest.mark.docker, pytest.mark.full]


@pytest.fixture(scope="module")
def engine() -> Iterator[docker.DockerClient]:
    engine = connect_engine()
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Give the address of a registry, which lives as long as these tests."""
    folder = tmp_path_factory.mktemp("registry")
    if shutil.which("apt-get") is None:
        pytest.fail("the registry comes as a package of Debian's")
    # A warning of apt's sandbox, which cannot write here, is no error.
    fetched = ("apt-get", "download", "docker-registry")
    subprocess.run(fetched, cwd=folder, check=True, timeout=FETCHED_WITHIN_S)
    (package,) = folder.glob("*.deb")
    unpacked = ("dpkg-deb", "-x", package.name, "root")
    subprocess.run(unpacked, cwd=folder, check=True, timeout=FETCHED_WITHIN_S)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (folder / "config.yml").write_text(CONFIG.format(folder=folder / "store", port=port))
    serving = subprocess.Popen(
        (folder / "root/usr/bin/docker-registry", "serve", "config.yml"), cwd=folder
    )
    try:
        eventually(lambda: answers(port), within=UP_WITHIN_S, retry_on=OSError)
        yield f"127.0.0.1:{port}"
    finally:
        serving.kill()
        serving.wait(UP_WITHIN_S)


def answers(port: int) -> bool:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/", timeout=UP_WITHIN_S) as answer:
        return bool(answer.status == 200)


@pytest.fixture
def tag(engine: docker.DockerClient, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A small image that the code under test takes for those of this version."""
    name, key = f"highwater/test-{uuid.uuid4().hex[:12]}", "0123456789ab"
    make(engine, name, key, kind=name.partition("/")[2])
    monkeypatch.setattr(registry, "archived_tags", lambda tags: (f"{name}:{key}",))
    monkeypatch.setattr(registry, "ensure_images", lambda engine, say: None)
    monkeypatch.setattr(registry, "ensure_faults_image", lambda engine, say: None)
    monkeypatch.setattr(registry, "tag_latest", lambda engine, tags: None)
    yield f"{name}:{key}"
    if exists(engine, f"{name}:{key}"):
        engine.images.remove(f"{name}:{key}")


def make(engine: docker.DockerClient, name: str, key: str, *, kind: str) -> None:
    """Make an image without a file whose label says its kind."""
    engine.api.import_image_from_data(
        bytes(1024), repository=name, tag=key, changes=[f"LABEL {labels.IMAGE}={kind}"]
    )


def test_an_image_that_was_pushed_is_pulled(
    engine: docker.DockerClient, address: str, tag: str
) -> None:
    told: list[str] = []
    (there,) = registry.push_images(engine, f"{address}/team/highwater", told.append)
    assert there.startswith(f"{address}/team/highwater/test-")
    assert registry.pull_images(engine, f"{address}/team/highwater", told.append) == (tag,)
    assert told[-1] == "the images are here already"
    engine.images.remove(tag)

    assert registry.pull_images(engine, f"{address}/team/highwater", told.append) == (tag,)
    assert exists(engine, tag)
    assert not exists(engine, there)


def test_another_version_is_told_and_another_image_is_not_taken(
    engine: docker.DockerClient, address: str, tag: str
) -> None:
    name, key = tag.split(":")
    (there,) = registry.push_images(engine, f"{address}/team", lambda text: None)
    engine.images.remove(tag)
    with pytest.raises(HarnessError, match=r"there is no .*: 'highwater images push' of this"):
        registry.pull_images(engine, f"{address}/others", lambda text: None)

    make(engine, name, key, kind="something-else")
    engine.api.tag(tag, *there.rsplit(":", 1))
    for step in engine.api.push(*there.rsplit(":", 1), stream=True, decode=True):
        assert "error" not in step
    for each in (there, tag):
        engine.images.remove(each)
    with pytest.raises(HarnessError, match="is not Highwater's image of this name"):
        registry.pull_images(engine, f"{address}/team", lambda text: None)
    assert not exists(engine, tag)
    assert not exists(engine, there)


@pytest.mark.parametrize("repository", ["127.0.0.1:1/team", "Not A Name", "https://r.example/x"])
def test_a_registry_that_does_not_answer_is_told(
    engine: docker.DockerClient, tag: str, repository: str
) -> None:
    for act in (registry.push_images, registry.pull_images):
        if act is registry.pull_images:
            engine.images.remove(tag)
        with pytest.raises(HarnessError, match="could not be"):
            act(engine, repository, lambda text: None)
