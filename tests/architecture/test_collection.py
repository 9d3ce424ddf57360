"""Tests have the same names in every process, or the workers of a run refuse to begin.

So every run of `make test` shows it for two hash seeds, and this for those left out there too.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def collected(hash_seed: str) -> list[str]:
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "--full", "-p", "no:xdist"]
    done = subprocess.run(
        [*command, "tests"],
        cwd=ROOT,
        env=os.environ | {"PYTHONHASHSEED": hash_seed, "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    return [line for line in done.stdout.splitlines() if "::" in line]


@pytest.mark.full
def test_names_of_tests_are_the_same_under_every_hash_seed() -> None:
    names = collected("1")
    assert len(names) > 1_000
    assert names == collected("2")
