"""Images go through a file from one engine to another; here both are one engine."""

from __future__ import annotations

import io
import tarfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from highwater.cluster.engine import connect_engine
from highwater.cluster.images import archive
from highwater.cluster.images.build import exists
from highwater.errors import HarnessError

CONTENT = b"a layer's content"


@pytest.fixture
def engine() -> Iterator[docker.DockerClient]:
    engine = connect_engine()
    yield engine
    engine.close()


@pytest.fixture
def tag(engine: docker.DockerClient, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A small image that the code under test takes for those of this version."""
    name = f"highwater-test-{uuid.uuid4().hex[:12]}"
    tag = f"{name}:1"
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        entry = tarfile.TarInfo("file")
        entry.size = len(CONTENT)
        tar.addfile(entry, io.BytesIO(CONTENT))
    engine.api.import_image_from_data(layer.getvalue(), repository=name, tag="1")
    monkeypatch.setattr(archive, "archived_tags", lambda tags: (tag,))
    monkeypatch.setattr(archive, "ensure_images", lambda engine, say: None)
    monkeypatch.setattr(archive, "ensure_faults_image", lambda engine, say: None)
    monkeypatch.setattr(archive, "tag_latest", lambda engine, tags: None)
    yield tag
    if exists(engine, tag):
        engine.images.remove(tag)


@pytest.mark.docker
def test_what_is_saved_is_loaded_and_damaged_layers_are_not(
    engine: docker.DockerClient, tag: str, tmp_path: Path
) -> None:
    file, told = tmp_path / "folder" / "images.tar", list[str]()
    assert archive.save_images(engine, file, told.append) == (tag,)
    assert [path.name for path in file.parent.iterdir()] == ["images.tar"]
    engine.images.remove(tag)

    damaged = tmp_path / "damaged.tar"
    damaged.write_bytes(file.read_bytes().replace(CONTENT, CONTENT.upper()))
    with pytest.raises(HarnessError, match="the engine did not take"):
        load(engine, damaged, told)
    assert not exists(engine, tag)

    assert load(engine, file, told) == (tag,)
    assert exists(engine, tag)
    assert load(engine, file, told) == (tag,)
    assert told[-1] == "the images are here already"


def load(engine: docker.DockerClient, file: Path, told: list[str]) -> tuple[str, ...]:
    return archive.load_images(engine, file, archive.read_own_archive(file), told.append)
