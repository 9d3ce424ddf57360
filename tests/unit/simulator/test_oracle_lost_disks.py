"""When a controller knows that a broker came back with a disk that lost data."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from highwater_simulator.oracle.lost_disks import LostDisks


def command(broker: int, broker_epoch: int) -> Any:
    return SimpleNamespace(detail={"broker": broker, "broker_epoch": broker_epoch})


def test_a_controller_knows_once_it_commands_the_next_registration() -> None:
    disks = LostDisks()
    disks.command_sent("controller-1000", command(1, 10))
    assert not disks.knows_of_return("controller-1000", 1), "nothing was lost"
    disks.lost(1, 10)
    assert not disks.knows_of_return("controller-1000", 1)
    disks.command_sent("controller-1000", command(1, 20))
    disks.command_sent("controller-1000", command(1, 10))
    assert disks.knows_of_return("controller-1000", 1)
    assert not disks.knows_of_return("controller-1001", 1)
    assert not disks.knows_of_return("controller-1000", 2)
    assert not disks.knows_of_return("broker-0", 1)
    disks.lost(1, 20)
    assert not disks.knows_of_return("controller-1000", 1), "it was lost again"


def test_commands_that_name_no_registration_tell_nothing() -> None:
    disks = LostDisks()
    disks.lost(1, -1)
    disks.command_sent("controller-1000", command(1, -1))
    assert not disks.knows_of_return("controller-1000", 1)
