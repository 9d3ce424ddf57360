"""Runs the command line in a process of its own, as users do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

MAIN = "from highwater.cli import main; main()"


def highwater(
    *arguments: str | Path, cwd: Path, within_s: float, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Return what became of it, whatever its exit code. environment: added to this one's."""
    return subprocess.run(
        [sys.executable, "-c", MAIN, *map(str, arguments)],
        cwd=cwd,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=within_s,
        check=False,
    )
