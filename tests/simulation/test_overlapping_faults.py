"""Faults of one kind overlap on one target: it is healed once the last of them has ended."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from highwater_chaos import faults as f
from highwater_chaos.plan import PlanTopology
from highwater_simulator.clocks import TRUE_RATE_PPM
from highwater_simulator.network import Plane
from highwater_simulator.oracle.oracle import Oracle
from highwater_simulator.overlaps import Overlaps
from highwater_simulator.world import World
from highwater_simulator.world_faults import WorldFaults

LINK = ("broker-0", "broker-1", Plane.REPLICATION)
REPLICATION = Plane.REPLICATION.value


class Faulty:
    def __init__(self, world: World) -> None:
        self.world = world
        self.faults = WorldFaults(world, Oracle(world))

    def begin(self, fault: f.Fault, node: int | None = None) -> Any:
        end = self.faults.apply(fault, node)
        assert end is not None
        return end

    def ails(self) -> str:
        disk = self.world.brokers[1].disk.faults
        links = [words.partition("replication: ")[2] for words in self.world.network.describe()]
        on_disk = "" if disk is None else (
            f"{disk.free_bytes} {[each.percent for each in disk._failing.values()]} "
            f"{disk.slowed_ns(0)}"
        )  # fmt: skip
        runtime = self.world.handle(1).runtime
        rate = TRUE_RATE_PPM if runtime is None else runtime.clock.rate_ppm
        words = [*links, *self.world.zookeeper.describe(), on_disk, str(rate - TRUE_RATE_PPM)]
        return ", ".join(words)


@pytest.fixture
def run() -> Iterator[Faulty]:
    world = World(1, PlanTopology())
    world.start_all()
    world.kernel.run_for(200)
    yield Faulty(world)
    world.close()


def slow_link(ms: int) -> f.Fault:
    return f.SlowLink("broker-0", "broker-1", REPLICATION, ms)


def lossy_link(percent: int) -> f.Fault:
    return f.LossyLink("broker-0", "broker-1", REPLICATION, percent)


def disk_errors(percent: int) -> f.Fault:
    return f.DiskErrors("broker-1", f.DiskOperation.SYNC, percent)


PAIRS = {
    "slow link": (slow_link(5), slow_link(300), None),
    "lossy link": (lossy_link(30), lossy_link(5), None),
    "slow zookeeper": (f.SlowZooKeeper(100), f.SlowZooKeeper(10), None),
    "restart zookeeper": (f.RestartZooKeeper(), f.RestartZooKeeper(), None),
    "disk full": (f.DiskFull("broker-1"), f.DiskFull("broker-1"), 1),
    "disk errors": (disk_errors(100), disk_errors(10), 1),
    "fail folder": (f.FailFolder("broker-1"), f.FailFolder("broker-1"), 1),
    "slow disk": (f.SlowDisk("broker-1", 20), f.SlowDisk("broker-1", 300), 1),
    "clock rate": (f.ClockRate("broker-1", 100_000), f.ClockRate("broker-1", -100_000), 1),
    "cut": (f.Cut(*LINK[:2], REPLICATION), f.Cut(*LINK[:2], REPLICATION), None),
}


@pytest.mark.parametrize("kind", list(PAIRS))
def test_the_one_that_began_last_counts_until_it_ends(run: Faulty, kind: str) -> None:
    first, second, node = PAIRS[kind]
    well = run.ails()
    end_first = run.begin(first, node)
    of_first = run.ails()
    end_second = run.begin(second, node)
    of_second = run.ails()
    assert well not in (of_first, of_second)
    end_second()
    assert run.ails() == of_first
    end_first()
    assert run.ails() == well


@pytest.mark.parametrize("kind", list(PAIRS))
def test_the_first_ones_end_is_not_the_last_ones(run: Faulty, kind: str) -> None:
    first, second, node = PAIRS[kind]
    well = run.ails()
    end_first = run.begin(first, node)
    end_second = run.begin(second, node)
    of_second = run.ails()
    end_first()
    assert run.ails() == of_second
    end_second()
    assert run.ails() == well


def test_a_fault_that_ends_after_all_was_healed_changes_nothing(run: Faulty) -> None:
    well = run.ails()
    end = run.begin(slow_link(5))
    run.faults.heal_all()
    run.begin(slow_link(300))
    of_second = run.ails()
    end()
    assert (run.ails(), well == of_second) == (of_second, False)


def test_three_end_in_any_order() -> None:
    values: list[int] = [0]
    overlaps = Overlaps()
    ends = [
        overlaps.begin("it", lambda value=value: values.append(value), lambda: values.append(0))  # type: ignore[misc]
        for value in (1, 2, 3)
    ]
    for end in (ends[1], ends[1], ends[2], ends[0]):
        end()
    assert values == [0, 1, 2, 3, 3, 1, 0]
