"""The clients' process: its commands and reports over pipes, and how it ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from highwater.runs.plans.load_process import LoadFailed, LoadProcess
from highwater_chaos.plan import Workload
from highwater_client.load_job import LoadJob
from highwater_core.ids import Endpoint

WITHIN_S = 30.0


def job_in(folder: Path) -> LoadJob:
    """Return a job without clients: the dialogue alone."""
    (folder / "logs").mkdir()
    return LoadJob((Endpoint("127.0.0.1", 1),), Workload((), (), ()), 1, 0, str(folder))


def test_clients_answer_commands_and_end_when_their_owner_goes(tmp_path: Path) -> None:
    with LoadProcess(job_in(tmp_path), tmp_path) as load:
        load.await_done("create", WITHIN_S)
        for command in ("start", "stop", "read"):
            assert load.do(command, WITHIN_S).done == command
        with pytest.raises(LoadFailed, match="no such command"):
            load.do("dance", WITHIN_S)
    with pytest.raises(LoadFailed, match="have ended"):
        load.tell("start")


@pytest.mark.parametrize(("content", "why"), [(None, "No such file"), (b"{}", "bootstrap")])
def test_a_job_that_cannot_be_read_is_bad_usage(
    tmp_path: Path, content: bytes | None, why: str
) -> None:
    path = tmp_path / "job.json"
    if content is not None:
        path.write_bytes(content)
    ended = subprocess.run(
        [sys.executable, "-m", "highwater_client", str(path)],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert ended.returncode == 2
    assert why in ended.stderr
