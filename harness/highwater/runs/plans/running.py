"""Runs a plan in the given world: in virtual time or on containers."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from highwater.errors import HarnessError
from highwater.report.screen import Screen
from highwater.run_folder import RunFolder
from highwater.runs.stock.libraries import ClientKind
from highwater_chaos.plan import BadPlan, Plan, decode_plan, problems_of

if TYPE_CHECKING:
    from highwater.runs.plans.in_simulator import Ended
    from highwater.runs.plans.outcome import PlanResult


class WorldName(StrEnum):
    SIM = "sim"
    DOCKER = "docker"


def run_plan(
    plan: Plan | Path,
    folder: Path,
    *,
    world: WorldName = WorldName.DOCKER,
    client: ClientKind = ClientKind.OWN,
) -> PlanResult:
    """Run the plan, or the plan of a file, and return its verdict; the evidence is in the folder.

    folder: is created; if it exists it must be empty.
    client: Highwater's own clients, or a stock library, in containers alone.

    Raises:
        HarnessError: the plan cannot be run, or not in that world; no node was started.
    """
    planned = read_plan(plan) if isinstance(plan, Path) else checked(plan)
    with Screen() as screen:
        return run_in(world, planned, lambda: RunFolder(folder), screen, client)


def checked(plan: Plan) -> Plan:
    """Return the plan, which was made by a program, so that nobody has checked its values yet.

    Raises:
        HarnessError: it is possible in no world; the message says why.
    """
    if problems := problems_of(plan):
        raise HarnessError("\n".join(f"plan: {each}" for each in problems))
    return plan


def read_plan(path: Path) -> Plan:
    """Return the plan in the file.

    Raises:
        HarnessError: there is no such file, or the file is no plan; the message says why.
    """
    try:
        return decode_plan(path.read_bytes(), path)
    except OSError as error:
        raise HarnessError(f"{path}: {error.strerror}") from error
    except BadPlan as error:
        raise HarnessError(str(error)) from error


def run_in(
    world: WorldName,
    plan: Plan,
    folder: Callable[[], RunFolder],
    screen: Screen,
    client: ClientKind = ClientKind.OWN,
    ended: Ended | None = None,
    *,
    keeps_failed: bool = False,
) -> PlanResult:
    """Run the plan in that world with those clients; its folder is made once it can run.

    ended: called with the events of a simulated run once it is judged.
    keeps_failed: whether containers stay up where the verdict is fail.

    Raises:
        Unsupported, EngineMissing: it cannot run; it has no folder.
        HarnessError: stock clients in the simulator, which has no sockets; or `ended` on
            containers, where nodes have no common clock.
    """
    if world is WorldName.SIM:
        if client is not ClientKind.OWN:
            raise HarnessError(
                f"{client.value} needs sockets and a real clock: --world docker has them"
            )
        from highwater.runs.plans.in_simulator import check_simulated, run_in_simulator

        check_simulated(plan)
        return run_in_simulator(plan, folder(), screen, ended)
    if ended is not None:
        raise HarnessError("events are in one order in virtual time alone: --world sim")
    from highwater.cluster.engine import connect_engine
    from highwater.runs.plans.in_containers import check_supported, run_in_containers

    check_supported(plan)
    connect_engine().close()  # before there is a folder, so that no failed run becomes `latest`
    return run_in_containers(plan, folder(), screen, client, keeps_failed=keeps_failed)
