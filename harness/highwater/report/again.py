"""How a run is seen again, from its folder: the command, and the code and plan that it had."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from highwater.run_folder import name_of_test, was_on_containers
from highwater_chaos.plan import BadPlan, Plan, decode_plan
from highwater_checker.run_folder.documents import BUILD, PLAN, TOPOLOGY, RunBuild, RunTopology
from highwater_checker.run_folder.files import may_be_there, text_of
from highwater_checker.run_folder.small_files import read_document


@dataclass(frozen=True, slots=True)
class Way:
    """A command, and what it does, in words."""

    command: str
    does: str


@dataclass(frozen=True, slots=True)
class Again:
    """How a run is seen again.

    folder: the run's, from the folder in which the harness was called, and as a shell takes it.
    seed: of its plan, None without one: then `test` is the name of the test, or "".
    commit, highwater_version: of the code that ran; "" where they are not known.
    """

    folder: str
    is_virtual: bool
    seed: int | None
    preset: str
    planted: str
    commit: str
    test: str = ""
    has_plan: bool = True
    """Whether there is a plan, which this version perhaps cannot read."""
    builds: tuple[str, ...] = ()
    """Which nodes ran which builds, a line each; none where all ran the same build."""
    highwater_version: str = ""

    @property
    def command(self) -> str:
        """The command that runs the same once more, "" where there is none: see `why_not`."""
        if self.seed is not None:
            return f"highwater reproduce {self.folder}"
        return f"pytest {shlex.quote(self.test)}" if self.test else ""

    @property
    def why_not(self) -> str:
        if self.command:
            return ""
        if self.has_plan:
            return "Its plan cannot be read by this version."
        return "This run has no plan."

    @property
    def does(self) -> str:
        """What the command does, in words."""
        code = [f"preset {self.preset}"] if self.preset else []
        if self.planted:
            code.append(f"every node with the planted mistake {self.planted}")
        if self.highwater_version:
            code.append(f"Highwater {self.highwater_version}")
        if self.commit:
            code.append(f"commit {self.commit}")
        if self.seed is None:
            return ", ".join(["runs the test again", *code])
        where = "in virtual time" if self.is_virtual else "on containers"
        return ", ".join([f"runs the same plan {where}: seed {self.seed}", *code])

    @property
    def other_ways(self) -> tuple[Way, ...]:
        """Other commands that run its plan."""
        if self.seed is None:
            return ()
        if self.is_virtual:
            return (
                Way(f"{self.command} --world docker --times 10", "counts it on containers"),
                Way(f"highwater run {self.folder}/{PLAN.name} --events", "shows each event"),
            )
        return (
            Way(f"{self.command} --times 10", "counts how often it comes"),
            Way(f"{self.command} --world sim", "tries it in virtual time"),
        )

    @property
    def explain(self) -> str:
        """The command that tells the first finding's story."""
        return f"highwater explain {self.folder}"


def again_of(folder: Path) -> Again:
    """Return how the run of the folder is seen again."""
    plan = plan_of(folder)
    topology = read_document(TOPOLOGY, folder, []) or RunTopology()
    build = read_document(BUILD, folder, []) or RunBuild()
    return Again(
        folder=shlex.quote(_from_here(folder)),
        is_virtual=not was_on_containers(folder),
        seed=None if plan is None else plan.seed,
        preset=topology.preset or "",
        planted="" if plan is None else plan.planted,
        commit=build.commit,
        builds=build.told(),
        test=name_of_test(folder) if plan is None else "",
        has_plan=may_be_there(folder / PLAN.name),
        highwater_version=build.highwater_version,
    )


def plan_of(folder: Path) -> Plan | None:
    """Return the run's plan, None where there is none that this version can read."""
    raw = read_document(PLAN, folder, [])
    if raw is None:
        return None
    try:
        return decode_plan(bytes(raw))
    except BadPlan:  # of a later version, or damaged
        return None


def _from_here(folder: Path) -> str:
    """Return the folder's path below the current folder, as it is read on another machine too."""
    try:
        below = folder.absolute().relative_to(Path.cwd())
    except (ValueError, OSError):  # it is not below; or the current folder is gone
        return text_of(folder)
    return text_of(below)
