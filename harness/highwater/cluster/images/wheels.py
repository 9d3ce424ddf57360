"""Fetches a lock's packages for an image's Python on the host: builds have no network."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from highwater.errors import ImageBuildFailed

FETCH_TIMEOUT_S = 600
_NEWEST_GLIBC_MINOR = 36
"""Of Debian 12; the bases are never older."""


def platforms(machine: str) -> list[str]:
    """Return the platform tags of wheels for that machine's Linux images, newest first."""
    tags = [f"manylinux_2_{minor}_{machine}" for minor in range(_NEWEST_GLIBC_MINOR, 16, -1)]
    return [*tags, f"manylinux2014_{machine}", f"linux_{machine}"]


def fetch_wheels(lock: Path, folder: Path, *, python_version: str, machine: str) -> list[Path]:
    """Put the lock's wheels (hashes checked) into the folder and return them, sorted.

    Raises:
        ImageBuildFailed: pip's last lines.
    """
    options = ("--only-binary=:all:", f"--dest={folder}")
    _pip("download", lock, python_version, machine, *options)
    return sorted(folder.glob("*.whl"))


def install_packages(lock: Path, folder: Path, *, python_version: str, machine: str) -> None:
    """Put the lock's packages (hashes checked), unpacked, into the folder.

    A package without a wheel, as pyspark, is built here once: pip keeps the wheel, so that a
    machine that has installed the lock does not download it again.

    Raises:
        ImageBuildFailed: pip's last lines.
    """
    options = ("--no-compile", f"--target={folder}")
    _pip("install", lock, python_version, machine, *options)


def _pip(command: str, lock: Path, python_version: str, machine: str, *options: str) -> None:
    arguments = [
        *(sys.executable, "-m", "pip", command, "--quiet", "--disable-pip-version-check"),
        "--require-hashes",
        "--no-deps",
        f"--python-version={python_version}",
        "--implementation=cp",
        *(f"--platform={platform}" for platform in platforms(machine)),
        f"--requirement={lock}",
        *options,
    ]
    result = subprocess.run(  # noqa: S603
        arguments, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False
    )
    if result.returncode != 0:
        tail = "\n".join(result.stderr.splitlines()[-8:])
        raise ImageBuildFailed(f"the packages of {lock.name} could not be fetched:\n{tail}")
