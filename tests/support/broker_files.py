"""Reads and damages the files of a stopped broker's log folder, as a failing disk would."""

from __future__ import annotations

import posixpath
import tarfile
from dataclasses import dataclass

import docker
from docker.errors import NotFound

from highwater.cluster import labels
from highwater.cluster.cluster import Cluster
from highwater.cluster.container_files import put_file, read_archive
from highwater.cluster.containers import container_name
from highwater.cluster.disks import DATA_FOLDER, DISK_FOLDER
from highwater.cluster.engine import connect_engine
from highwater.errors import HarnessError

_REMOVE = "import os, sys; [os.remove(path) for path in sys.argv[1:]]"


class NodeRuns(HarnessError):
    """The broker runs, and uses its files."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """A file's content, and its attributes, which must stay when the content changes."""

    info: tarfile.TarInfo
    content: bytes


class BrokerFiles:
    """One stopped broker's files; paths are relative to its log folder.

    >>> files = BrokerFiles(cluster, 1)
    >>> files.write("orders-0/leader-epoch-checkpoint", b"garbage")
    """

    def __init__(
        self, cluster: Cluster, broker: int, *, engine: docker.DockerClient | None = None
    ) -> None:
        self._engine = engine or connect_engine()
        self._cluster = cluster
        self._broker = broker
        self._container = container_name(cluster.run_id, cluster.topology.node(broker))

    def read(self, path: str) -> bytes:
        """Return the file's content; the broker may run.

        Raises:
            FileNotFoundError: there is no such file.
        """
        return self._get(path).content

    def names(self, folder: str = "") -> list[str]:
        """Return the names in a folder, sorted; the broker may run.

        Raises:
            FileNotFoundError: there is no such folder.
        """
        return sorted(
            parts[1]
            for info, _ in self._archive(folder, with_content=False)
            if len(parts := info.name.rstrip("/").split("/")) == 2
        )

    def write(self, path: str, content: bytes) -> None:
        """Replace the content of an existing file.

        Raises:
            FileNotFoundError: there is no such file.
            NodeRuns: the broker runs.
        """
        self._require_stopped()
        kept = self._get(path)
        kept.info.name = posixpath.basename(path)
        folder = posixpath.dirname(f"{DISK_FOLDER}/{path}")
        put_file(self._engine, self._container, folder, kept.info, content)

    def append(self, path: str, tail: bytes) -> None:
        self.write(path, self.read(path) + tail)

    def cut(self, path: str, size_bytes: int) -> None:
        """Remove the last size_bytes bytes of the file."""
        self.write(path, self.read(path)[:-size_bytes])

    def remove(self, *paths: str) -> None:
        """Remove files, by a container on the volume: the engine has no call for it.

        Raises:
            NodeRuns: the broker runs.
            docker.errors.ContainerError: one of the files is not there.
        """
        self._require_stopped()
        node = self._engine.api.inspect_container(self._container)
        self._engine.containers.run(
            node["Image"],
            ["python", "-c", _REMOVE, *(f"{DISK_FOLDER}/{path}" for path in paths)],
            volumes={self._container: {"bind": DATA_FOLDER, "mode": "rw"}},
            network_mode="none",
            labels={
                key: text
                for key, text in node["Config"]["Labels"].items()
                if key.startswith(labels.NAMESPACE) and key not in (labels.NODE, labels.KIND)
            },
            remove=True,
        )

    def _require_stopped(self) -> None:
        if self._cluster.exit_code(self._broker) is None:
            raise NodeRuns(f"broker {self._broker} is {self._cluster.status(self._broker)}")

    def _get(self, path: str) -> _Kept:
        ((info, content),) = self._archive(path, with_content=True)
        return _Kept(info, content)

    def _archive(self, path: str, *, with_content: bool) -> list[tuple[tarfile.TarInfo, bytes]]:
        place = posixpath.join(DISK_FOLDER, path).rstrip("/")
        try:
            return read_archive(self._engine, self._container, place, with_content=with_content)
        except NotFound:
            raise FileNotFoundError(place) from None
