"""All clients of a run on containers die together, or none does."""

from __future__ import annotations

import pytest

from highwater.faults.clients import kill_clients
from highwater.faults.done import NotDone
from highwater_chaos import faults as f


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
