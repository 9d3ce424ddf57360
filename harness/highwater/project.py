"""Where the project's files are: Dockerfiles, locks, packages, run folders."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from highwater.errors import HarnessError

IMAGE_FOLDER = Path("compose/images")
PACKED_SOURCES = "_sources"
"""In this package, where it was installed from a wheel: scripts/hatch_build.py."""
NODE_LOCK = Path("locks/node.txt")
PIPELINE_LOCK = Path("locks/pipeline.txt")
PLANTED_PACKAGE = Path("planted/highwater_planted")
FAULTS_PROGRAMS: tuple[Path, ...] = (
    Path("harness/highwater/faults/links/in_namespace.py"),
    Path("harness/highwater/faults/links/nfqueue.py"),
    Path("harness/highwater/faults/links/packet_pipes.py"),
    Path("harness/highwater/faults/links/packet_queue.py"),
    Path("harness/highwater/faults/links/tcp_in_namespace.py"),
)
"""The programs of the faults image, which run in nodes' network namespaces."""
NODE_PACKAGES: tuple[Path, ...] = (
    Path("core/highwater_core"),
    Path("wire/highwater_wire"),
    Path("adapters/highwater_adapters"),
    Path("controller/highwater_controller"),
    Path("broker/highwater_broker"),
)
"""The packages that a node's process imports; nothing else goes into its image."""


@cache
def project_root() -> Path:
    """Return the checkout that this package is part of, or the copy of its sources in a wheel.

    Raises:
        HarnessError: there is neither.
    """
    for folder in Path(__file__).resolve().parents:
        if (folder / "pyproject.toml").is_file() and (folder / IMAGE_FOLDER).is_dir():
            return folder
    packed = Path(__file__).resolve().parent / PACKED_SOURCES
    if (packed / IMAGE_FOLDER).is_dir():
        return packed
    raise HarnessError(
        "the sources of Highwater's images are not here; install its wheel, or a checkout with "
        "'pip install --editable'"
    )


def runs_root() -> Path:
    """Return where run folders go: runs/ in the current folder."""
    return Path.cwd() / "runs"
