"""All clients of a run on containers die together, or none does."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from highwater.faults.done import NotDone
from highwater.faults.processes.clients import kill_clients
from highwater.runs.plans import load_process
from highwater.runs.stock.libraries import ClientKind
from highwater_chaos import faults as f
from highwater_chaos.plan import Workload
from highwater_client.load_job import LoadJob
from highwater_client.running_load import LoadReport


class TheClients:
    def __init__(self) -> None:
        self.calls: list[str] = []

    def kill(self) -> str:
        self.calls.append("kill")
        return "ended by signal 9"

    def start_again(self) -> str:
        self.calls.append("start")
        return "incarnation 2"


def test_they_are_killed_and_started_again_when_it_is_taken_back() -> None:
    clients = TheClients()
    done = kill_clients(clients, f.KillClient())
    assert (done.proof, done.node, clients.calls) == ("ended by signal 9", None, ["kill"])
    assert done.revert() == "incarnation 2"
    assert clients.calls == ["kill", "start"]


def test_one_of_them_cannot_be_killed_nor_can_any_where_there_are_none() -> None:
    clients = TheClients()
    with pytest.raises(NotDone, match="one process"):
        kill_clients(clients, f.KillClient("p0"))
    assert clients.calls == []
    with pytest.raises(NotDone, match="no clients"):
        kill_clients(None, f.KillClient())


class Incarnation:
    """A process that answers each command, and has sent and read no record."""

    def __init__(self, job: LoadJob, folder: Path, kind: ClientKind) -> None:
        self.number = job.incarnation
        self.latest = LoadReport()
        self.exit_code: int | None = None
        self.told: list[str] = []

    def tell(self, command: str) -> None:
        self.told.append(command)

    def await_done(self, command: str, within_s: float) -> LoadReport:
        return LoadReport(done=self.told[-1])

    def kill(self) -> int:
        self.exit_code = -signal.SIGKILL
        return self.exit_code


def test_progress_of_restarted_clients_starts_with_their_own_reports(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(load_process, "_Incarnation", Incarnation)
    job = LoadJob((), Workload((), (), ()), 1, 0, str(tmp_path))
    load = load_process.LoadProcess(job, tmp_path)
    assert load.start_again() == "they run"
    load.kill()
    assert load.start_again() == "incarnation 2 says that it began"
    assert (load.latest.sent, load.latest.read) == (0, 0)
