"""The project's wheel, built and installed into a folder of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from highwater.project import project_root

_WITHIN_S = 300


def installed_wheel(folder: Path) -> Path:
    """Build the wheel, and return the folder with what it installs; its dependencies stay here."""
    wheel, installed = built_wheel(folder / "dist"), folder / "installed"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _run([*pip, "--no-deps", "--no-index", "--target", str(installed), str(wheel)])
    return installed


def built_wheel(into: Path) -> Path:
    """Build the wheel into the folder, and return its path."""
    _run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(into)])
    (wheel,) = into.glob("*.whl")
    return wheel


def environment_with(installed: Path) -> dict[str, str]:
    """Return an environment in which Python imports Highwater from there."""
    return os.environ | {"PYTHONPATH": str(installed)}


def _run(command: list[str]) -> None:
    subprocess.run(command, cwd=project_root(), check=True, timeout=_WITHIN_S, capture_output=True)
