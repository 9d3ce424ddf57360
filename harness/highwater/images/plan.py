"""Every image's tag, from the content of what goes into it. Reads files; asks no engine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from highwater.images.base import PYTHON_BASE, ZOOKEEPER_BASE
from highwater.images.content_hash import content_hash, file_parts, files_below
from highwater.project import IMAGE_FOLDER, NODE_LOCK, NODE_PACKAGES

ZOOKEEPER_FILE = IMAGE_FOLDER / "zookeeper.Dockerfile"
ZOOKEEPER_FILES = IMAGE_FOLDER / "zookeeper"
NODE_DEPS_FILE = IMAGE_FOLDER / "node-deps.Dockerfile"
NODE_FILE = IMAGE_FOLDER / "node.Dockerfile"
NODE_VARIABLE = "HIGHWATER_NODE_IMAGE"
ZOOKEEPER_VARIABLE = "HIGHWATER_ZOOKEEPER_IMAGE"


@dataclass(frozen=True, slots=True)
class ImagePlan:
    """The tags that a checkout's files ask for; node and zookeeper are what clusters run."""

    python_base: str
    node_deps: str
    node: str
    zookeeper_base: str
    zookeeper: str

    def tags(self) -> tuple[str, ...]:
        return (
            self.python_base,
            self.node_deps,
            self.node,
            self.zookeeper_base,
            self.zookeeper,
        )

    def as_environment(self) -> str:
        """Return lines for an env file of compose."""
        return f"{NODE_VARIABLE}={self.node}\n{ZOOKEEPER_VARIABLE}={self.zookeeper}\n"


def plan_images(root: Path) -> ImagePlan:
    """Return the tags; each image's hash includes that of the image below it."""
    python_base = PYTHON_BASE.tag()
    zookeeper_base = ZOOKEEPER_BASE.tag()
    deps_hash = content_hash(
        [("base", python_base.encode()), *file_parts(root, [NODE_DEPS_FILE, NODE_LOCK])]
    )
    packages = [path for folder in NODE_PACKAGES for path in files_below(root, folder)]
    node_hash = content_hash(
        [("deps", deps_hash.encode()), *file_parts(root, [NODE_FILE, *packages])]
    )
    zookeeper_files = [ZOOKEEPER_FILE, *files_below(root, ZOOKEEPER_FILES)]
    zookeeper_hash = content_hash(
        [("base", zookeeper_base.encode()), *file_parts(root, zookeeper_files)]
    )
    return ImagePlan(
        python_base=python_base,
        node_deps=f"highwater/node-deps:{deps_hash}",
        node=f"highwater/node:{node_hash}",
        zookeeper_base=zookeeper_base,
        zookeeper=f"highwater/zookeeper:{zookeeper_hash}",
    )
