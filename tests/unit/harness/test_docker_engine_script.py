"""`scripts/docker-engine --check`, beside a docker command that answers as a broken engine does."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "scripts" / "docker-engine"


@pytest.mark.parametrize(
    ("networks", "returncode", "message"),
    [
        pytest.param("exit 0", 0, "engine 20.10.24 answers\n", id="sound"),
        pytest.param("sleep 60", 1, "its networks are locked up (moby/moby#46661)", id="locked"),
        pytest.param("exit 1", 1, "it cannot list its networks", id="refused"),
    ],
)
def test_an_engine_counts_once_its_networks_answer(
    tmp_path: Path, networks: str, returncode: int, message: str
) -> None:
    command = tmp_path / "docker"
    command.write_text(
        f"#!/bin/sh\ncase $1 in\nversion) echo 20.10.24 ;;\nnetwork) {networks} ;;\nesac\n"
    )
    command.chmod(0o755)
    environment = os.environ | {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "HIGHWATER_NETWORKS_WITHIN_SECONDS": "1",
    }
    checked = subprocess.run(
        [SCRIPT, "--check"], env=environment, capture_output=True, text=True, timeout=30
    )
    assert (checked.returncode, message in checked.stderr) == (returncode, True), checked.stderr
