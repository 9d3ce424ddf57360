"""Image tags change with an image's contents, and only with them."""

from __future__ import annotations

import tarfile
from dataclasses import fields
from pathlib import Path

import pytest

from highwater.cluster.images.content_hash import content_hash, files_below
from highwater.cluster.images.context import BuildContext
from highwater.cluster.images.tags import image_tags
from highwater.cluster.images.wheels import platforms
from highwater.project import (
    FAULTS_PROGRAMS,
    IMAGE_FOLDER,
    NODE_LOCK,
    NODE_PACKAGES,
    PIPELINE_LOCK,
    PLANTED_PACKAGE,
)

DOCKERFILES = ("node-deps", "node", "zookeeper", "faults", "planted", "spark")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with one small file for everything that images are made of."""
    files = [
        *(IMAGE_FOLDER / f"{name}.Dockerfile" for name in DOCKERFILES),
        IMAGE_FOLDER / "zookeeper" / "zoo.cfg",
        IMAGE_FOLDER / "spark" / "start",
        NODE_LOCK,
        PIPELINE_LOCK,
        *FAULTS_PROGRAMS,
        *(package / "module.py" for package in (*NODE_PACKAGES, PLANTED_PACKAGE)),
        Path("harness/highwater/cluster/cluster.py"),
    ]
    for file in files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(f"content of {file}\n")
    return tmp_path


def packed(context: BuildContext) -> bytes:
    with context.archive() as archive:
        return archive.read()


def test_equal_files_give_equal_tags(checkout: Path) -> None:
    assert image_tags(checkout) == image_tags(checkout)


@pytest.mark.parametrize(
    ("changed", "new_tags"),
    [
        ("broker/highwater_broker/module.py", {"node", "planted"}),
        ("core/highwater_core/module.py", {"node", "planted"}),
        ("compose/images/node.Dockerfile", {"node", "planted"}),
        ("locks/node.txt", {"node_deps", "node", "planted"}),
        ("compose/images/node-deps.Dockerfile", {"node_deps", "node", "planted"}),
        ("compose/images/zookeeper/zoo.cfg", {"zookeeper"}),
        ("compose/images/zookeeper.Dockerfile", {"zookeeper"}),
        ("compose/images/faults.Dockerfile", {"faults"}),
        ("compose/images/planted.Dockerfile", {"planted"}),
        ("planted/highwater_planted/module.py", {"planted"}),
        ("compose/images/spark.Dockerfile", {"spark"}),
        ("compose/images/spark/start", {"spark"}),
        ("locks/pipeline.txt", {"spark"}),
        ("harness/highwater/faults/links/in_namespace.py", {"faults"}),
        ("harness/highwater/faults/links/packet_pipes.py", {"faults"}),
        ("harness/highwater/faults/links/tcp_in_namespace.py", {"faults"}),
        ("harness/highwater/cluster/cluster.py", set()),
        ("broker/highwater_broker/__pycache__/module.cpython-311.pyc", set()),
    ],
)
def test_a_change_gives_new_tags_to_the_images_that_it_goes_into(
    checkout: Path, changed: str, new_tags: set[str]
) -> None:
    before = image_tags(checkout)
    (checkout / changed).parent.mkdir(exist_ok=True)
    (checkout / changed).write_text("changed\n")
    after = image_tags(checkout)
    names = [each.name for each in fields(before) if each.name != "contexts"]
    assert {name for name in names if getattr(before, name) != getattr(after, name)} == new_tags


def test_a_renamed_or_newly_executable_file_is_a_change(checkout: Path) -> None:
    before = image_tags(checkout).zookeeper
    script = checkout / IMAGE_FOLDER / "zookeeper" / "zoo.cfg"
    script.chmod(0o755)
    executable = image_tags(checkout).zookeeper
    script.rename(script.with_name("other.cfg"))
    assert len({before, executable, image_tags(checkout).zookeeper}) == 3


def test_an_image_is_built_of_the_sources_of_its_tag(checkout: Path) -> None:
    tags = image_tags(checkout)
    archive = packed(tags.contexts[tags.node])
    (checkout / "broker/highwater_broker/module.py").write_text("written since\n")
    assert packed(tags.contexts[tags.node]) == archive
    assert b"content of broker/highwater_broker/module.py" in archive
    assert b"packages/highwater_broker/module.py" in archive


def test_compose_reads_the_tags_as_an_env_file(checkout: Path) -> None:
    tags = image_tags(checkout)
    assert tags.as_environment().splitlines() == [
        f"HIGHWATER_NODE_IMAGE={tags.node}",
        f"HIGHWATER_ZOOKEEPER_IMAGE={tags.zookeeper}",
        f"HIGHWATER_SPARK_IMAGE={tags.spark}",
    ]


def test_a_hash_keeps_names_and_contents_apart() -> None:
    assert content_hash([("ab", b"c")]) != content_hash([("a", b"bc")])
    assert content_hash([("a", b""), ("b", b"")]) != content_hash([("b", b""), ("a", b"")])


def test_caches_are_no_content(tmp_path: Path) -> None:
    for name in ("a.py", "b/__pycache__/c.pyc", "b/d.pyc", "b/e.txt", ".mypy_cache/f"):
        (tmp_path / "folder" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "folder" / name).touch()
    found = [path.as_posix() for path in files_below(tmp_path, Path("folder"))]
    assert found == ["folder/a.py", "folder/b/e.txt"]


def test_a_context_archive_does_not_depend_on_the_order_of_adding() -> None:
    one = BuildContext().with_text("a", "1").with_text("b", "2")
    other = BuildContext().with_text("b", "2").with_text("a", "1")
    assert packed(one) == packed(other)
    assert one.hash("base:1") == other.hash("base:1") != one.hash("base:2")


def test_a_folder_in_a_context_is_readable_by_everybody_and_no_part_of_its_hash(
    tmp_path: Path,
) -> None:
    private = tmp_path / "folder" / "package" / "module.py"
    private.parent.mkdir(parents=True, mode=0o700)
    private.write_text("x = 1\n")
    private.chmod(0o600)
    context = BuildContext().with_text("lock.txt", "package==1")
    alone = context.hash("base:1")
    context.with_folder("packages", tmp_path / "folder")
    assert context.hash("base:1") == alone
    with context.archive() as file, tarfile.open(fileobj=file) as archive:
        modes = {entry.name: entry.mode for entry in archive}
    assert modes["packages/package"] == 0o755
    assert modes["packages/package/module.py"] == 0o644
    assert set(modes) == {
        "lock.txt", "packages", "packages/package", "packages/package/module.py"
    }  # fmt: skip


def test_wheels_are_chosen_for_the_images_glibc_and_older() -> None:
    tags = platforms("aarch64")
    assert tags[0] == "manylinux_2_36_aarch64"
    assert "manylinux_2_17_aarch64" in tags
    assert "manylinux2014_aarch64" in tags
    assert not any("x86" in tag or "_2_37_" in tag for tag in tags)
