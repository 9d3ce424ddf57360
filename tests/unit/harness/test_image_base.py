"""A base image that is built here: missing tools are installed once."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from highwater.cluster.images import base
from highwater.errors import ImageBuildFailed

BASES_AT_A_TIME = 2


class FakeApt:
    """Refuses to run twice at a time, as apt-get does when it does not wait for its lock."""

    def __init__(self, installs: bool = True) -> None:
        self._running = threading.Lock()
        self._installs = installs
        self.installed = False
        self.runs: list[Sequence[str]] = []

    def run(self, command: Sequence[str], **_: Any) -> subprocess.CompletedProcess[str]:
        self.runs.append(command)
        if not self._running.acquire(blocking=False):
            return subprocess.CompletedProcess(command, 100, "", "E: Could not get lock")
        try:
            time.sleep(0.01)  # Long enough for the other base to come here, were it let.
            self.installed = self._installs
            return subprocess.CompletedProcess(command, 0, "", "E: no such package")
        finally:
            self._running.release()

    def which(self, command: str) -> str | None:
        return None if command == "mmdebstrap" and not self.installed else f"/usr/bin/{command}"


def on_a_machine_with(monkeypatch: pytest.MonkeyPatch, apt: FakeApt) -> None:
    monkeypatch.setattr(subprocess, "run", apt.run)
    monkeypatch.setattr(base.shutil, "which", apt.which)
    monkeypatch.setattr(base.os, "geteuid", lambda: 0)


def test_two_bases_at_a_time_install_mmdebstrap_once(monkeypatch: pytest.MonkeyPatch) -> None:
    apt = FakeApt()
    on_a_machine_with(monkeypatch, apt)

    with ThreadPoolExecutor(BASES_AT_A_TIME) as pool:
        bases = [pool.submit(base._ensure_mmdebstrap) for _ in range(BASES_AT_A_TIME)]
    for each in bases:
        each.result()

    assert len(apt.runs) == 1
    assert "DPkg::Lock::Timeout=120" in apt.runs[0], "another program's apt-get is waited for"


def test_a_package_that_is_not_to_be_had_is_an_error_with_apts_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    apt = FakeApt(installs=False)
    on_a_machine_with(monkeypatch, apt)

    with pytest.raises(ImageBuildFailed, match="no such package"):
        base._ensure_mmdebstrap()

    assert len(apt.runs) == 3, "install, update the index, install"
