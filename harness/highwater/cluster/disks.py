"""Brokers' disks that faults need: of a fixed size, or with a file system that may fail.

Disks of a fixed size are for plans that fill one: volumes in memory, kept by a holder. Such a
volume has only the files of a broker's file system port. Traces and the count of starts are
evidence, and lie on the node's ordinary volume, where they can always be written. A volume in
memory is gone once no container has it mounted. So a container that does nothing else, the holder,
has all of them mounted while brokers are killed and started.

A faulty disk is a file system of highwater_adapters.faulty_disk, which the broker's own container
mounts over its data folder (FUSE). It knows which writes were synced, and refuses or delays
operations when it is told to. A container without such a disk has no capability at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import docker

from highwater.cluster.labels import KIND, RUN, RunLabels

DATA_FOLDER = "/var/lib/highwater"
DISK_FOLDER = f"{DATA_FOLDER}/data"
"""The folder of a broker's file system port."""
DISK_BYTES = 64 << 20
HOLDER_KIND = "disks"
LOST_AT_A_START = "a broker that is killed loses its own"
FAULTY_DISK = "highwater_adapters.faulty_disk"
"""The program that mounts a faulty disk, and then becomes the broker."""
SIZED_DISK_MODE = 0o1777
"""Of the volume's folder: any user of a node's image may write there."""


def disk_name(node_container: str) -> str:
    """Return the name of the sized volume of the node in that container."""
    return f"{node_container}-disk"


def make_disks(
    engine: docker.DockerClient, run: RunLabels, image: str, node_containers: Sequence[str]
) -> None:
    """Make a sized disk for each of the nodes' containers, and start the holder.

    image: the holder's, which must have `sleep`; the run's own, so that no further image is built.

    Raises:
        docker.errors.APIError: the engine refused.
    """
    names = [disk_name(each) for each in node_containers]
    for name in names:
        engine.api.create_volume(
            name,
            driver="local",
            driver_opts={
                "type": "tmpfs",
                "device": "tmpfs",
                "o": f"size={DISK_BYTES},mode={SIZED_DISK_MODE:o}",
            },
            labels=run.as_labels(kind=HOLDER_KIND),
        )
    engine.containers.run(
        image,
        ["sleep", "infinity"],
        name=_holder_name(run.run_id),
        detach=True,
        init=True,
        cap_drop=["ALL"],
        security_opt=["no-new-privileges"],
        read_only=True,
        network_mode="none",
        labels=run.as_labels(kind=HOLDER_KIND),
        volumes={name: {"bind": _place(name), "mode": "ro"} for name in names},
    )


def on_faulty_disk(command: Sequence[str]) -> list[str]:
    """Return the command that runs another one on a faulty disk."""
    return ["python", "-m", FAULTY_DISK, DISK_FOLDER, "--", *command]


FAULTY_DISK_RIGHTS: Mapping[str, Any] = {
    "user": "0",
    "cap_add": ["SYS_ADMIN", "SETUID", "SETGID", "KILL"],
    "devices": ["/dev/fuse"],
    "security_opt": ["no-new-privileges", "apparmor=unconfined"],
}
"""What the engine must allow a container with a faulty disk.

To mount, and to become the image's user before the broker begins. KILL is the init's: it passes
signals on to processes of another user than its own.
"""


def size_of_disk(engine: docker.DockerClient, run_id: str, node_container: str) -> int:
    """Return the size of the node's disk in bytes, as the holder sees it; 0: no such disk."""
    asked = ["stat", "-f", "-c", "%b %S", _place(disk_name(node_container))]
    made = engine.api.exec_create(_holder_name(run_id), asked)["Id"]
    said = bytes(engine.api.exec_start(made)).decode().split()
    blocks, block_bytes = map(int, said) if len(said) == 2 else (0, 0)
    return blocks * block_bytes


def _holder_name(run_id: str) -> str:
    return f"highwater-{run_id}-{HOLDER_KIND}"


def _place(name: str) -> str:
    """Return the volume's path in the holder."""
    return f"/disks/{name}"


def holder_of_disks(engine: docker.DockerClient, run_id: str) -> str:
    """Return the state of the container that holds a run's disks, or "gone"; "" without disks."""
    of_run = [f"{RUN}={run_id}", f"{KIND}={HOLDER_KIND}"]
    volumes = engine.api.volumes(filters={"label": of_run})["Volumes"]
    containers = engine.api.containers(all=True, filters={"label": of_run})
    return str(containers[0]["State"]) if containers else "gone" if volumes else ""
