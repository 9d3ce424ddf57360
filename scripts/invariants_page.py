"""The page of invariants, from what the checker says of them and from the code that finds them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from highwater_checker import meanings
from scripts.markdown_pages import one_line, page, table

ROOT = Path(__file__).resolve().parent.parent
CHECKS = ROOT / "checker/highwater_checker/invariants"
SIMULATOR = ROOT / "simulator/highwater_simulator"
NOT_FINDING = ("documented.py",)
"""Modules of the oracle that name invariants, and find no violation."""
NAMES = (*meanings.SAFETY, *meanings.LIVENESS, *meanings.HISTORIES)


@dataclass(slots=True)
class Judges:
    """Who finds an invariant violated.

    checks: names of the checks of a run's files, as a verdict has them. The others: whether the
    simulator does, after every event, or at the end of a run.
    """

    checks: list[str] = field(default_factory=list)
    after_every_event: bool = False
    at_the_end: bool = False


def invariants_page() -> str:
    def listed(meanings: Mapping[str, str]) -> str:
        return "\n".join(f"- **{name}**: {meaning}" for name, meaning in meanings.items())

    return page(
        "Invariants",
        "What the oracle of the simulator and the judge of a run demand. `highwater explain RUN` "
        "tells how a run broke one. [Which presets promise which](presets.md); "
        "[the state machines](state-machines.md); "
        "[the order of steps](../explanation/replication.md).",
        one_line((meanings.__doc__ or "").split("\n\n")[1]),
        "## At every moment",
        listed(meanings.SAFETY),
        "## Once everything is healed, and within a bound",
        listed(meanings.LIVENESS),
        "## Of clients' histories",
        "The names are those of Jepsen's Kafka workload.",
        listed(meanings.HISTORIES),
        "## Who judges them",
        "The checks of a run's files are those that `highwater judge` prints, for both worlds. In "
        "virtual\ntime the oracle judges after every event too, and when a plan's run is over. "
        "Where no check\nof files is named, virtual time alone judges: on containers nobody sees "
        "every moment of every node.\nA cluster of containers that does not settle has the verdict "
        "unknown.",
        table(
            ("invariant", "checks of a run's files", "in virtual time"),
            ((name, "; ".join(each.checks), _when(each)) for name, each in judges().items()),
        ),
    )


def judges() -> Mapping[str, Judges]:
    """Return who finds each invariant violated, from the names in the code."""
    found = {name: Judges() for name in NAMES}
    for path in sorted(CHECKS.glob("*.py")):
        tree = ast.parse(path.read_text())
        for name in _strings(tree).intersection(NAMES):
            found[name].checks += (each for each in _checks_in(tree) if _may_find(each, name))
    for path in sorted(SIMULATOR.rglob("*.py")):
        for name in _strings(ast.parse(path.read_text())).intersection(NAMES):
            if path.parent.name != "oracle":
                found[name].at_the_end = True
            elif path.name not in NOT_FINDING:
                found[name].after_every_event = True
    return found


def _strings(tree: ast.Module) -> set[str]:
    return {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def _checks_in(tree: ast.Module) -> Iterator[str]:
    """Yield the names of the module's checks: its CHECK..., and those in its results."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(
                targets=[ast.Name(id=constant)], value=ast.Constant(value=str(name))
            ) if constant.startswith("CHECK"):
                yield name
            case ast.Call(
                func=ast.Name(id="CheckResult"), args=[ast.Constant(value=str(name)), *_]
            ):
                yield name


def _may_find(check: str, name: str) -> bool:
    """Return whether the check is one for the invariant; its name may say for which it is."""
    named = set(re.findall(r"\b[IL][0-9]+\b", check))
    return name in named or not named or name in meanings.HISTORIES


def _when(judges: Judges) -> str:
    when = {
        "after every event": judges.after_every_event,
        "at the end": judges.at_the_end,
    }
    return ", ".join(name for name, judged in when.items() if judged)
