"""The machine on which a soak runs: containers, the simulator, clocks and disks."""

from __future__ import annotations

import os
import shutil
import time
import traceback
from datetime import UTC, datetime
from pathlib import Path

import docker.errors
import requests

from highwater.cluster.cleaning import remove_run
from highwater.cluster.engine import connect_engine
from highwater.errors import HarnessError, NodeUnreachable
from highwater.report.screen import Screen
from highwater.run_folder import RunFolder, new_run_id
from highwater.runs.plans.in_containers import run_in_containers
from highwater.runs.plans.outcome import PlanResult
from highwater.runs.stock.libraries import ClientKind
from highwater.search.shrinking import shrink_plan, write_plan_file
from highwater.soak.draws import Drawn
from highwater.soak.one_cluster import OneCluster
from highwater.soak.world import CouldNotRun, RoundDone
from highwater.waiting import NeverHappened, eventually

ENGINE_WITHIN_S = 600.0
"""How long a soak waits for an engine that is being started again."""
SHRINK_RUNS = 300
SIMULATED_WITHIN_CPU_S = 600.0
"""What a failed plan's runs in virtual time may take, with those that shrink it."""
_FAILED = (
    HarnessError, NeverHappened, NodeUnreachable, docker.errors.DockerException,
    requests.RequestException,
)  # fmt: skip


class Machine:
    """The real one; see `highwater.soak.running.World`."""

    def __init__(
        self, screen: Screen, shrunk: Path, *, engine_within_s: float | None = None
    ) -> None:
        """shrunk: the folder for minimal plans of what the simulator shows too.

        engine_within_s: how long an engine is waited for, None for ENGINE_WITHIN_S.
        """
        self._engine_within_s = ENGINE_WITHIN_S if engine_within_s is None else engine_within_s
        self._screen = screen
        self._shrunk = shrunk
        self._cluster: OneCluster | None = None

    def run(self, drawn: Drawn, folder: Path) -> PlanResult:
        self._await_engine()
        try:
            return run_in_containers(drawn.plan, RunFolder(folder), self._screen, drawn.client)
        except Exception as error:
            self._remove_after(error, folder.name)
            raise self._could_not_run(error) from error

    def play_round(self, drawn: Drawn, folder: Path, cluster: str, number: int) -> RoundDone:
        self._await_engine()
        try:
            if self._cluster is None or self._cluster.run_id != cluster:
                self.end_cluster(None)
                self._cluster = OneCluster(cluster, number, drawn.plan, self._screen)
                self._cluster.start()
            return self._cluster.play(drawn, folder)
        except Exception as error:
            raise self._could_not_run(error) from error

    def _could_not_run(self, error: Exception) -> CouldNotRun:
        """Return the error as a plan's own: the rest of the night goes on.

        One that none of us foresaw, as that of a disk which is full in the middle of a plan, is
        shown whole.
        """
        if not isinstance(error, _FAILED):
            self._screen.say("".join(traceback.format_exception(error)), style="red")
        return CouldNotRun(f"{type(error).__name__}: {error}")

    def end_cluster(self, folder: Path | None) -> None:
        cluster, self._cluster = self._cluster, None
        if cluster is None:
            return
        try:
            cluster.end(folder)
        except Exception as error:  # noqa: BLE001 - it is removed all the same
            self._remove_after(error, cluster.run_id)

    def _remove_after(self, error: Exception, run_id: str) -> None:
        try:
            _remove(run_id)
        except _FAILED as fault:
            self._screen.say(f"{run_id}: {error}; it is not cleaned up: {fault}")

    def _await_engine(self) -> None:
        """Return once the engine answers: it may be started again in the middle of a soak.

        Raises:
            CouldNotRun: it does not.
        """
        last = ""

        def answers() -> bool:
            nonlocal last
            try:
                connect_engine().close()
            except HarnessError as error:
                if not last:
                    self._screen.say(f"waiting {self._engine_within_s:.0f} s at most: {error}")
                last = str(error)
                return False
            return True

        try:
            eventually(
                answers,
                within=self._engine_within_s,
                what="the engine answers",
                state=lambda: last,
            )
        except NeverHappened as error:
            raise CouldNotRun(str(error)) from error

    def simulate(self, drawn: Drawn) -> str:
        from highwater.search.schedule_rows import TookTooLong, within_cpu

        try:
            with within_cpu(SIMULATED_WITHIN_CPU_S):
                return self._simulated(drawn)
        except (Exception, TookTooLong) as error:  # noqa: BLE001 - it costs itself alone
            return f"could not be seen: {type(error).__name__}: {error}"

    def _simulated(self, drawn: Drawn) -> str:
        from highwater_simulator.runner import run_plan
        from highwater_simulator.search import find
        from highwater_simulator.unsupported import unsupported

        if drawn.client is not ClientKind.OWN or drawn.plan.planted or unsupported(drawn.plan):
            return ""
        found = find(run_plan(drawn.plan))
        if found is None:
            return "nothing"
        shrunk = shrink_plan(drawn.plan, "", SHRINK_RUNS, lambda progress: None)
        path = self._shrunk / f"{drawn.number:05}-{found.violation.invariant}.json"
        write_plan_file(shrunk.plan, path)
        return f"{found.violation}; shrunk to {path}"

    def new_run_id(self) -> str:
        return new_run_id("soak")

    def remove_leftovers(self, run_id: str) -> None:
        self._await_engine()  # after a reboot the soak may be there first
        try:
            _remove(run_id)
        except _FAILED as error:
            raise CouldNotRun(f"{run_id} is not cleaned up: {error}") from error

    def now_s(self) -> float:
        return time.monotonic()

    def utc(self) -> str:
        return datetime.now(UTC).isoformat(timespec="seconds")

    def load(self) -> float:
        return os.getloadavg()[0]

    def free_bytes(self, path: Path) -> int:
        return shutil.disk_usage(path).free

    def pause(self, seconds: float) -> None:
        time.sleep(seconds)


def _remove(run_id: str) -> None:
    engine = connect_engine()
    try:
        remove_run(engine, run_id)
    finally:
        engine.close()
