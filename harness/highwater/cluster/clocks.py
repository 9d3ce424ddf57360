"""Nodes with wall clocks that faults can move: the library that moves them, and how nodes load it.

The library is libfaketime. It comes from the image of link faults, and lies on a volume of the run
that all its nodes have mounted, so that images of nodes do without it. How far a node's clock is
moved is in a file on the node's own volume, and outlives its restarts.
"""

from __future__ import annotations

from collections.abc import Sequence

import docker
from docker.errors import ContainerError

from highwater.cluster.disks import DATA_FOLDER
from highwater.cluster.images import ensure_faults_image
from highwater.cluster.images.build import Say
from highwater.cluster.labels import RunLabels
from highwater.errors import ClusterStartFailed

MOVABLE_CLOCK = "highwater_adapters.movable_clock"
"""The program that loads the library, and then becomes the node."""
TRY_CLOCK = "highwater_adapters.try_clock"
"""The program that tells whether the library does what nodes need."""
CLOCK_FOLDER = "/opt/highwater-clock"
LIBRARY = f"{CLOCK_FOLDER}/libfaketime.so"
OFFSET = "clock_offset"
"""The file on a node's volume."""
CLOCK_KIND = "clock"
COPY_LIBRARY = f"cp /usr/lib/*/faketime/libfaketimeMT.so.1 {LIBRARY}"


def clock_volume(run_id: str) -> str:
    """Return the name of the run's volume with the library."""
    return f"highwater-{run_id}-{CLOCK_KIND}"


def make_clock_library(engine: docker.DockerClient, run: RunLabels, say: Say) -> None:
    """Put the library on a volume of the run.

    Raises:
        ImageBuildFailed: the image that has it could not be made.
        ClusterStartFailed: that image lacks it.
        docker.errors.APIError: the engine refused.
    """
    image = ensure_faults_image(engine, say)
    volume, of_run = clock_volume(run.run_id), run.as_labels(kind=CLOCK_KIND)
    engine.api.create_volume(volume, labels=of_run)
    try:
        engine.containers.run(
            image,
            ["-c", COPY_LIBRARY],
            entrypoint="sh",
            remove=True,
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            network_mode="none",
            labels=of_run,
            volumes={volume: {"bind": CLOCK_FOLDER, "mode": "rw"}},
        )
    except ContainerError as error:
        raise ClusterStartFailed(f"no library that moves clocks: {error}") from error


def with_movable_clock(command: Sequence[str]) -> list[str]:
    """Return the command that runs a node's one with a wall clock that can be moved."""
    return ["python", "-m", MOVABLE_CLOCK, LIBRARY, f"{DATA_FOLDER}/{OFFSET}", "--", *command]
