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
ON_CONTAINERS = (
    "highwater_cluster",
    "highwater_class_cluster",
    "highwater_module_cluster",
    "highwater_session_cluster",
    "highwater_zookeeper",
)
"""The fixtures that no simulator has."""
SIM, DOCKER = "sim", "docker"
WORLD = "--highwater-world"
SEED = "--highwater-seed"
REPLAY = "--highwater-replay"
KEEP = "--highwater-keep"
_FIELDS = ("client", "world", "verdict_in")
_OUTCOMES = ("pass", "fail", "unknown")


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
    """Return the marker's arguments.

    Raises:
        TypeError: it has an argument of another name, or a single verdict in place of a list.
        ValueError: there is no such world or verdict.
    """
    fields = dict(marker.kwargs)
    unknown = sorted(fields.keys() - _FIELDS)
    if unknown:
        raise TypeError(f"{MARKER} has no {', '.join(unknown)}; it has {', '.join(_FIELDS)}")
    if fields.get("world", "") not in ("", SIM, DOCKER):
        raise ValueError(f"{MARKER}: world is {SIM!r} or {DOCKER!r}, not {fields['world']!r}")
    if fields.get("verdict_in") is not None:
        fields["verdict_in"] = _outcomes(fields["verdict_in"])
    return AskedPlan(marker.args, **fields)


def _outcomes(verdict_in: object) -> frozenset[str]:
    if not isinstance(verdict_in, list | tuple | set | frozenset):
        raise TypeError(f"{MARKER}: verdict_in is a list of verdicts, not {verdict_in!r}")
    unknown = [each for each in verdict_in if each not in _OUTCOMES]
    if unknown:
        raise ValueError(f"{MARKER}: verdict_in has {unknown[0]!r}; it is {', '.join(_OUTCOMES)}")
    return frozenset(verdict_in)


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
        each.stem if isinstance(each, Path) else getattr(each, "title", "") or str(number)
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
    try:
        seed = int(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number") from error
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
