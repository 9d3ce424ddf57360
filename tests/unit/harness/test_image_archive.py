"""A file of images is taken if it is whole, of this version and for this machine."""

from __future__ import annotations

import io
import json
import os
import tarfile
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest

from highwater.cluster.images import archive
from highwater.cluster.images.archive import (
    ArchivedImages,
    ArchiveRefused,
    archive_key,
    archived_tags,
    read_archive,
    read_own_archive,
    why_of_another_version,
    why_of_other_machines,
)
from highwater.cluster.images.tags import ImageTags, image_tags
from highwater.commands import images
from highwater.errors import HarnessError
from highwater.project import project_root

Files = dict[str, bytes]


@pytest.fixture(scope="module")
def tags() -> ImageTags:
    return image_tags(project_root())


def files_of(*tags: str, machine: str = "amd64") -> Files:
    """Return the files of an archive with one image of one layer for each tag."""
    files: Files = {}
    manifest = []
    for number, tag in enumerate(tags):
        layer, config = f"{number}/layer.tar", f"{number}.json"
        files[layer] = b"x" * 3_000
        files[config] = json.dumps({"architecture": machine}).encode()
        manifest.append({"Config": config, "RepoTags": [tag], "Layers": [layer]})
    return files | {"manifest.json": json.dumps(manifest).encode()}


def written(path: Path, files: Files) -> Path:
    with tarfile.open(path, "w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return path


def test_an_archive_tells_its_tags_and_machine(tmp_path: Path) -> None:
    file = written(tmp_path / "images.tar", files_of("b:2", "a:1"))
    assert read_archive(file) == ArchivedImages(("a:1", "b:2"), frozenset({"amd64"}))


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    file = written(tmp_path / "images.tar", files_of("a:1", "b:2"))
    whole = file.read_bytes()
    end = whole.rindex(b"]") + 1  # of manifest.json; zeros follow
    cuts = [0, 1, 511, 512, *range(700, end - 1, 700), end - 1]
    for cut in cuts:
        file.write_bytes(whole[:cut])
        with pytest.raises(ArchiveRefused, match="is torn, or no archive of images"):
            read_archive(file)


@pytest.mark.parametrize(
    "files",
    [
        {"letter.txt": b"hello"},
        {"manifest.json": b"no JSON"},
        {"manifest.json": b'{"an": "object"}'},
        {"manifest.json": b"[1]"},
        {"manifest.json": b'[{"RepoTags": ["a:1"]}]'},
        {"manifest.json": b'[{"Config": "c", "RepoTags": ["a:1"], "Layers": []}]', "c": b"[]"},
        {"manifest.json": b'[{"Config": "c", "RepoTags": 7, "Layers": []}]', "c": b"{}"},
        {name: data for name, data in files_of("a:1").items() if name != "0/layer.tar"},
    ],
    ids=lambda files: files.get("manifest.json", b"none").decode()[:40],
)
def test_another_tar_is_refused(tmp_path: Path, files: Files) -> None:
    with pytest.raises(ArchiveRefused, match="is torn, or no archive of images"):
        read_archive(written(tmp_path / "images.tar", files))


def test_a_file_that_is_not_there_or_a_folder_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "nothing", tmp_path):
        with pytest.raises(ArchiveRefused, match="cannot be read"):
            read_archive(path)


def test_only_this_versions_images_for_this_machine_are_taken(tags: ImageTags) -> None:
    ours = ArchivedImages(archived_tags(tags), frozenset({"amd64"}))
    assert why_of_another_version(ours, tags) == why_of_other_machines(ours, "amd64") == ""
    said = why_of_other_machines(ours, "arm64")
    assert said == "has images for amd64, and the engine is arm64"
    for others in ((), ours.tags[1:], (*ours.tags[:-1], "highwater/zookeeper:other"), ("x:1",)):
        said = why_of_another_version(replace(ours, tags=others), tags)
        assert said.startswith("is of another version")
        assert tags.node in said


def test_a_file_is_refused_without_an_engine(
    tags: ImageTags, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images, "connect_engine", lambda: pytest.fail("the engine was asked"))
    others = written(tmp_path / "others.tar", files_of("highwater/node:other"))
    for file, why in ((others, "of another version"), (tmp_path / "none.tar", "cannot be read")):
        with pytest.raises(ArchiveRefused, match=why):
            images.load(file)
    ours = written(tmp_path / "ours.tar", files_of(*archived_tags(tags)))
    assert read_own_archive(ours).tags == archived_tags(tags)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = Thread(target=lambda: refused.append(refusal_of(tmp_path / "pipe")), daemon=True)
    refused: list[str] = []
    reader.start()
    reader.join(10)
    assert "is no regular file" in "".join(refused)


def refusal_of(file: Path) -> str:
    with pytest.raises(ArchiveRefused) as refused:
        read_archive(file)
    return str(refused.value)


class SendingEngine:
    """Sends these bytes for the images that it is asked for."""

    base_url, timeout = "http://engine", 1

    def __init__(self, content: bytes) -> None:
        self.api = self
        self.content = content
        self.asked: list[str] = []

    def get(self, url: str, params: dict[str, list[str]], **_: object) -> SendingEngine:
        self.asked = params["names"]
        return self

    def __enter__(self) -> SendingEngine:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def raise_for_status(self) -> None:
        pass

    def iter_content(self, size: int) -> list[bytes]:
        return [self.content[:1000], self.content[1000:]]


def test_a_file_is_replaced_by_a_whole_one_alone(
    tags: ImageTags, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "ensure_images", lambda engine, say: tags)
    monkeypatch.setattr(archive, "ensure_faults_image", lambda engine, say: tags.faults)
    whole = written(tmp_path / "sent.tar", files_of(*archived_tags(tags))).read_bytes()
    file = tmp_path / "folder" / "images.tar"

    engine = SendingEngine(whole)
    assert archive.save_images(engine, file, print) == archived_tags(tags)
    assert engine.asked == [*archived_tags(tags)]
    assert file.read_bytes() == whole

    with pytest.raises(HarnessError, match="did not send all of the images"):
        archive.save_images(SendingEngine(whole[:5000]), file, print)
    assert file.read_bytes() == whole
    assert list(file.parent.iterdir()) == [file]


def test_the_key_changes_with_each_of_the_images_and_the_machine(tags: ImageTags) -> None:
    key = archive_key(tags, "x86_64")
    assert key == archive_key(replace(tags, spark="highwater/spark:other"), "x86_64")
    others = [
        archive_key(tags, "aarch64"),
        *(archive_key(replace(tags, **{kind: "x:1"}), "x86_64") for kind in KINDS),
    ]
    assert len({key, *others}) == 5


KINDS = ("node", "zookeeper", "faults")
