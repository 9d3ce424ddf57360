"""Finds the plan of an argument, a seed or a plan file."""

from __future__ import annotations

from pathlib import Path

from highwater.errors import HarnessError
from highwater.search.options import Families
from highwater_chaos.plan import BadPlan, Plan, decode_plan
from highwater_core.config import Preset
from highwater_simulator.generate import Family, generate
from highwater_simulator.unsupported import unsupported


class NoSuchPlan(HarnessError):
    """The argument is neither a seed nor a plan file."""


def plan_of(what: str, preset: Preset | None, family: Families | None) -> Plan:
    """Return the plan of a seed or of a plan file; a file names its preset.

    Raises:
        NoSuchPlan: there is no such file, the file is no plan, or an option contradicts it.
    """
    if what.isdecimal():
        if family is Families.ALL:
            raise NoSuchPlan("a seed has a plan in each family: say --family processes or disks")
        chosen = Family((family or Families.PROCESSES).value)
        return generate(int(what), preset or Preset.FENCED, chosen)
    if preset is not None or family is not None:
        raise NoSuchPlan("--preset and --family are for seeds: a plan file says all that itself")
    return read_simulated_plan(Path(what))


def read_simulated_plan(path: Path) -> Plan:
    """Return the plan of a file.

    Raises:
        NoSuchPlan: there is no such file, or the file is no plan for the simulator.
    """
    try:
        plan = decode_plan(path.read_bytes(), path)
    except OSError as error:
        raise NoSuchPlan(f"{path}: {error.strerror}; a seed is a number from 0 on") from error
    except BadPlan as error:
        raise NoSuchPlan(str(error)) from error
    if problems := unsupported(plan):
        raise NoSuchPlan("\n".join(problems))
    return plan
