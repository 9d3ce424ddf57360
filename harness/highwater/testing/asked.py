"""What a test asks the plugin for: its world, and its plan by marker and options. No I/O but a
listing of plan files; nothing of the harness is imported.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from highwater_chaos.plan import Plan

MARKER = "highwater_plan"
RUN = "highwater_run"
"""The fixture that runs the plan."""
ON_CONTAINERS = ("highwater_cluster", "highwater_module_cluster", "highwater_zookeeper")
"""The fixtures that no simulator has."""
SIM, DOCKER = "sim", "docker"
WORLD = "--highwater-world"
SEED = "--highwater-seed"
REPLAY = "--highwater-replay"


@dataclass(frozen=True)
class AskedPlan:
    """The marker's arguments.

    verdict_in: the verdicts with which the test passes; None: that which the plan expects.
    """

    plans: tuple[Plan | str | Path, ...]
    client: str = "own"
    world: str = ""
    verdict_in: frozenset[str] | None = None


def asked_plan(item: pytest.Item | pytest.Function) -> AskedPlan | None:
    """Return the arguments of the test's marker, None without one.

    Raises:
        TypeError: there is no such argument.
    """
    marker = item.get_closest_marker(MARKER)
    return None if marker is None else read_marker(marker)


def read_marker(marker: pytest.Mark) -> AskedPlan:
    fields = dict(marker.kwargs)
    if "verdict_in" in fields:
        fields["verdict_in"] = frozenset(fields["verdict_in"])
    return AskedPlan(marker.args, **fields)


def plans_of(asked: AskedPlan, folder: Path) -> list[Plan | Path]:
    """Return the marker's plans: values as they are, files below the folder, patterns by name."""
    plans: list[Plan | Path] = []
    for each in asked.plans:
        if not isinstance(each, str | Path):
            plans.append(each)
        elif "*" in str(each):
            plans += sorted(folder.glob(str(each)))
        else:
            plans.append(folder / each)
    return plans


def names_of(plans: Sequence[Plan | Path]) -> list[str]:
    """Return a name for each plan: its file's or its title, or its place."""
    return [
        each.stem if isinstance(each, Path) else each.title or str(number)
        for number, each in enumerate(plans)
    ]


def world_of(item: pytest.Item) -> str:
    """Return the world of a test with a plan: the option's, the marker's, or containers."""
    option = item.config.getoption(WORLD)
    asked = asked_plan(item)
    return str(option or (asked.world if asked else "") or DOCKER)


def add_options(group: pytest.OptionGroup) -> None:
    group.addoption(
        WORLD,
        choices=(SIM, DOCKER),
        help="Where plans of highwater_run are run: in virtual time, or on containers (default).",
    )
    group.addoption(SEED, type=_seed, metavar="N", help="The seed of those plans, not their own.")
    group.addoption(
        REPLAY,
        type=_existing_plan,
        metavar="PLAN",
        help="Run this plan, a file or the folder of a run, in the one selected test's place.",
    )


def _seed(text: str) -> int:
    seed = int(text)
    if not -(2**63) <= seed < 2**63:
        raise argparse.ArgumentTypeError(f"{text} has more than 64 bits")
    return seed


def _existing_plan(text: str) -> str:
    """Return the file's whole path; a text, which pytest-xdist can send to its workers."""
    path = Path(text).absolute()
    path = path / "plan.json" if path.is_dir() else path
    if not path.is_file():
        raise argparse.ArgumentTypeError(f"no plan is there: {path}")
    return str(path)
