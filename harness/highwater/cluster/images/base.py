"""The base images: official ones where a registry answers, else made from Debian's packages.

The machine's own apt configuration says where packages come from; no address is written here.
A base is made once: its tag names its contents, and while that tag exists no registry is asked.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

import docker

from highwater.cluster import labels
from highwater.cluster.images.content_hash import content_hash
from highwater.cluster.images.context import BuildContext, build_image
from highwater.errors import ImageBuildFailed

Say = Callable[[str], None]

PULL_TIMEOUT_S = 10
"""Without an answer in this time there is no registry. A pull that made progress may take
PULL_PROGRESS_TIMEOUT_S."""
PULL_PROGRESS_TIMEOUT_S = 300
MAKE_TIMEOUT_S = 600
APT_LOCK_TIMEOUT_S = 120
_EXCLUDED = ("/usr/share/doc/*", "/usr/share/man/*/*", "/usr/share/locale/*", "/usr/share/info/*")
_APT_OPTIONS = (
    "Acquire::http",
    "Acquire::https",
    "Acquire::Check-",
    "Acquire::Retries",
)


@dataclass(frozen=True, slots=True)
class BaseSpec:
    """A base image in its two forms; both have the packages that the Dockerfile on it needs."""

    name: str
    official: str
    debian_packages: tuple[str, ...]
    official_lacks: tuple[str, ...] = ()
    """Packages that apt adds to the official image."""

    def tag(self) -> str:
        spec = content_hash([(type(self).__name__, repr(astuple(self)).encode())])
        return f"highwater/{self.name}:{spec}"


PYTHON_BASE = BaseSpec("base-python", "python:3.11-slim", ("python3", "python3-venv"))
ZOOKEEPER_BASE = BaseSpec(
    "base-zookeeper", "zookeeper:3.9", ("openjdk-17-jre-headless", "libzookeeper-java")
)
FAULTS_BASE = BaseSpec(
    "base-faults",
    "python:3.11-slim",
    ("python3", "nftables", "libfaketime"),
    official_lacks=("nftables", "libfaketime"),
)
SPARK_BASE = BaseSpec(
    "base-spark",
    "python:3.11-slim",
    ("python3", "default-jre-headless"),
    official_lacks=("default-jre-headless",),
)


def make_base(engine: docker.DockerClient, spec: BaseSpec, say: Say) -> None:
    """Make the base image under spec's tag.

    Raises:
        ImageBuildFailed: neither a registry nor Debian's packages can be reached.
    """
    if _pull(spec.official):
        say(f"{spec.tag()}: from {spec.official}")
        context = BuildContext().with_text("Dockerfile", _dockerfile(spec))
        network = "default" if spec.official_lacks else "none"
        build_image(engine, context, tag=spec.tag(), kind=spec.name, network=network)
        return
    say(f"{spec.tag()}: no registry has {spec.official}; making it from Debian's packages")
    with tempfile.NamedTemporaryFile(prefix="highwater-base-", suffix=".tar") as archive:
        _make_archive(spec.debian_packages, Path(archive.name))
        repository, _, hash_tag = spec.tag().partition(":")
        engine.api.import_image_from_file(
            archive.name,
            repository=repository,
            tag=hash_tag,
            changes=[f"LABEL {labels.IMAGE}={spec.name}"],
        )


def _dockerfile(spec: BaseSpec) -> str:
    lines = [f"FROM {spec.official}"]
    if spec.official_lacks:
        install = "apt-get install --yes --no-install-recommends"
        lines.append(
            f"RUN apt-get update && {install} {' '.join(spec.official_lacks)} "
            "&& rm -rf /var/lib/apt/lists/*"
        )
    return "\n".join(lines) + "\n"


def _pull(image: str) -> bool:
    """Return whether the image is here now; the docker command knows about registry logins."""
    if shutil.which("docker") is None:
        return False
    command = ["docker", "pull", image]
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)  # noqa: S603
        try:
            return process.wait(PULL_TIMEOUT_S) == 0
        except subprocess.TimeoutExpired:
            output.seek(0)
            if b"Pulling" not in output.read():
                return False
        try:
            return process.wait(PULL_PROGRESS_TIMEOUT_S) == 0
        except subprocess.TimeoutExpired:
            return False
        finally:
            process.kill()
            process.wait()


def _make_archive(packages: Sequence[str], archive: Path) -> None:
    _ensure_mmdebstrap()
    codename = _codename()
    sources = _apt_sources(codename)
    command = [
        "mmdebstrap",
        "--quiet",
        "--variant=minbase",
        f"--include={','.join(packages)}",
        *(f"--dpkgopt=path-exclude={pattern}" for pattern in _EXCLUDED),
        *(f"--aptopt={option}" for option in _apt_options()),
        # This machine's sources and options are needed for the build; they are no part of the
        # image.
        "--customize-hook=rm -rf $1/etc/apt/sources.list* $1/etc/apt/apt.conf.d/99mmdebstrap",
        codename,
        str(archive),
        *(str(path) for path in sources),
    ]
    result = subprocess.run(  # noqa: S603
        command, capture_output=True, text=True, timeout=MAKE_TIMEOUT_S, check=False
    )
    if result.returncode != 0:
        tail = "\n".join(result.stderr.splitlines()[-10:])
        raise ImageBuildFailed(f"mmdebstrap could not make a base image:\n{tail}")


_INSTALLATION = threading.Lock()
"""Held while apt-get runs: it fails where another one runs, and two bases are made at a time."""
_APT_INSTALL = (
    *("apt-get", "-o", f"DPkg::Lock::Timeout={APT_LOCK_TIMEOUT_S}"),
    *("install", "--yes", "--no-install-recommends"),
)


def _ensure_mmdebstrap() -> None:
    with _INSTALLATION:
        if shutil.which("mmdebstrap") is None:
            _install_mmdebstrap()


def _install_mmdebstrap() -> None:
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise ImageBuildFailed(
            "no registry answers, and the base images cannot be made here: "
            "let the engine pull images, or run as root on Debian (or install mmdebstrap)"
        )
    install = (*_APT_INSTALL, "mmdebstrap")
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for command in (install, ("apt-get", "update"), install):
        result = subprocess.run(  # noqa: S603
            command,
            capture_output=True,
            text=True,
            timeout=MAKE_TIMEOUT_S,
            check=False,
            env=environment,
        )
        if shutil.which("mmdebstrap"):
            return
    raise ImageBuildFailed(f"apt-get could not install mmdebstrap:\n{result.stderr[-800:]}")


def _codename() -> str:
    for line in Path("/etc/os-release").read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition("=")
        if name == "VERSION_CODENAME":
            return value.strip('"')
    raise ImageBuildFailed("/etc/os-release names no VERSION_CODENAME: not a Debian release?")


def _apt_sources(codename: str) -> list[Path]:
    """Return apt's source files that name the release."""
    folder = Path("/etc/apt/sources.list.d")
    files = [Path("/etc/apt/sources.list"), *sorted(folder.glob("*.list"))]
    files += sorted(folder.glob("*.sources"))
    return [path for path in files if path.is_file() and codename in path.read_text()]


def _apt_options() -> list[str]:
    """Return this machine's apt options about proxies and repositories' dates."""
    result = subprocess.run(
        ["apt-config", "dump"],  # noqa: S607
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    lines = result.stdout.splitlines()
    return [
        line.rstrip(";") for line in lines if line.startswith(_APT_OPTIONS) and '""' not in line
    ]
