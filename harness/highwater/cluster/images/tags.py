"""Every image's tag, from the content of its sources. Reads files; asks no engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from highwater.cluster.images.base import FAULTS_BASE, PYTHON_BASE, SPARK_BASE, ZOOKEEPER_BASE
from highwater.cluster.images.content_hash import files_below
from highwater.cluster.images.context import BuildContext
from highwater.project import (
    FAULTS_PROGRAMS,
    IMAGE_FOLDER,
    NODE_LOCK,
    NODE_PACKAGES,
    PIPELINE_LOCK,
    PLANTED_PACKAGE,
)

NODE_VARIABLE = "HIGHWATER_NODE_IMAGE"
ZOOKEEPER_VARIABLE = "HIGHWATER_ZOOKEEPER_IMAGE"
SPARK_VARIABLE = "HIGHWATER_SPARK_IMAGE"


@dataclass(frozen=True, slots=True)
class ImageTags:
    """The tags for a checkout's files; clusters run `node` and `zookeeper`.

    contexts: the build context of each image but the bases, by tag; without the wheels of node_deps
    and the packages of spark, which their locks pin.
    """

    python_base: str
    node_deps: str
    node: str
    zookeeper_base: str
    zookeeper: str
    faults_base: str
    faults: str
    planted: str
    spark_base: str
    spark: str
    contexts: dict[str, BuildContext] = field(repr=False, compare=False)

    def all(self) -> tuple[str, ...]:
        return (
            self.python_base,
            self.node_deps,
            self.node,
            self.zookeeper_base,
            self.zookeeper,
            self.faults_base,
            self.faults,
            self.planted,
            self.spark_base,
            self.spark,
        )

    def latest(self) -> tuple[str, str]:
        """Return the tags of the images that also go by `latest`, as compose runs them."""
        return (self.node, self.zookeeper)

    def as_environment(self) -> str:
        """Return lines for an env file of compose."""
        tags = {
            NODE_VARIABLE: self.node,
            ZOOKEEPER_VARIABLE: self.zookeeper,
            SPARK_VARIABLE: self.spark,
        }
        return "".join(f"{variable}={tag}\n" for variable, tag in tags.items())


def image_tags(root: Path) -> ImageTags:
    """Return the tags; each image's hash includes the tag of the image below it."""
    python_base = PYTHON_BASE.tag()
    zookeeper_base = ZOOKEEPER_BASE.tag()
    deps_context = _locked_context(root, "node-deps", NODE_LOCK)
    node_deps = f"highwater/node-deps:{deps_context.hash(python_base)}"
    node_context = _node_context(root)
    node = f"highwater/node:{node_context.hash(node_deps)}"
    zookeeper_context = _zookeeper_context(root)
    zookeeper = f"highwater/zookeeper:{zookeeper_context.hash(zookeeper_base)}"
    faults_base = FAULTS_BASE.tag()
    faults_context = _faults_context(root)
    faults = f"highwater/faults:{faults_context.hash(faults_base)}"
    planted_context = _planted_context(root)
    planted = f"highwater/planted:{planted_context.hash(node)}"
    spark_base = SPARK_BASE.tag()
    spark_context = _with_folder_of(root, "spark", _locked_context(root, "spark", PIPELINE_LOCK))
    spark = f"highwater/spark:{spark_context.hash(spark_base)}"
    return ImageTags(
        python_base=python_base,
        node_deps=node_deps,
        node=node,
        zookeeper_base=zookeeper_base,
        zookeeper=zookeeper,
        faults_base=faults_base,
        faults=faults,
        planted=planted,
        spark_base=spark_base,
        spark=spark,
        contexts={
            node_deps: deps_context,
            node: node_context,
            zookeeper: zookeeper_context,
            faults: faults_context,
            planted: planted_context,
            spark: spark_context,
        },
    )


def _locked_context(root: Path, kind: str, lock: Path) -> BuildContext:
    dockerfile = root / IMAGE_FOLDER / f"{kind}.Dockerfile"
    return BuildContext().with_file("Dockerfile", dockerfile).with_file(lock.name, root / lock)


def _node_context(root: Path) -> BuildContext:
    context = BuildContext().with_file("Dockerfile", root / IMAGE_FOLDER / "node.Dockerfile")
    for package in NODE_PACKAGES:
        for path in files_below(root, package):
            # core/highwater_core/ids.py lands as packages/highwater_core/ids.py
            context.with_file(f"packages/{Path(*path.parts[1:]).as_posix()}", root / path)
    return context


def _planted_context(root: Path) -> BuildContext:
    context = BuildContext().with_file("Dockerfile", root / IMAGE_FOLDER / "planted.Dockerfile")
    for path in files_below(root, PLANTED_PACKAGE):
        context.with_file(f"packages/{Path(*path.parts[1:]).as_posix()}", root / path)
    return context


def _zookeeper_context(root: Path) -> BuildContext:
    context = BuildContext().with_file("Dockerfile", root / IMAGE_FOLDER / "zookeeper.Dockerfile")
    return _with_folder_of(root, "zookeeper", context)


def _with_folder_of(root: Path, kind: str, context: BuildContext) -> BuildContext:
    for path in files_below(root, IMAGE_FOLDER / kind):
        context.with_file(f"{kind}/{path.name}", root / path)
    return context


def _faults_context(root: Path) -> BuildContext:
    context = BuildContext().with_file("Dockerfile", root / IMAGE_FOLDER / "faults.Dockerfile")
    for program in FAULTS_PROGRAMS:
        context.with_file(program.name, root / program)
    return context
