"""Files that a node leaves on its volume, read while it runs or not."""

from __future__ import annotations

from docker.errors import NotFound

from highwater.cluster.cluster import Cluster
from highwater.cluster.container_files import read_archive
from highwater.cluster.disks import DATA_FOLDER


def read_node_file(cluster: Cluster, node: int, name: str) -> bytes:
    """Return a file of a node's volume.

    Raises:
        NotFound: there is none.
    """
    path = f"{DATA_FOLDER}/{name}"
    ((_, content),) = read_archive(cluster.engine, cluster.container_name(node), path)
    return content


def newest_trace(cluster: Cluster, node: int) -> list[bytes]:
    """Return the trace lines of a node's newest incarnation; none when it wrote no trace.

    The last line may be torn.
    """
    try:
        incarnation = int(read_node_file(cluster, node, "incarnation"))
        return read_node_file(cluster, node, f"trace/{incarnation}.jsonl").splitlines()
    except (NotFound, ValueError):
        return []
