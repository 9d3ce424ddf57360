"""Coverage feedback: plans that reached rare marks are kept, and changed for later schedules.

The draws depend on the corpus's seed and on the noted plans, in order, alone.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from highwater_chaos.draw import Draw
from highwater_chaos.plan import Plan, Step, problems_of
from highwater_simulator.budget import within_budget
from highwater_simulator.rng import SeededRng

Item = TypeVar("Item")

MUTANT_SHARE = 0.5
"""Share of the schedules that are mutants, once the corpus has plans."""
CORPUS_SIZE_MAX = 32
CHANGES_MAX = 4
STEPS_MAX = 16


@dataclass(frozen=True, slots=True)
class _Kept:
    """A plan and the marks that it reached first, or first so often."""

    plan: Plan
    features: tuple[tuple[str, int], ...]


class Corpus:
    """Plans that reached a new mark; plans with recently rare marks are preferred.

    Invariant: all are of one family, since the allowed losses of disks depend on the topology.
    """

    def __init__(self, seed: int) -> None:
        self._draw = Draw(SeededRng(seed).stream("feedback"))
        self._kept: list[_Kept] = []
        self._seen: Counter[tuple[str, int]] = Counter()

    def __len__(self) -> int:
        return len(self._kept)

    def note(self, plan: Plan, marks: Mapping[str, int]) -> bool:
        """Keep the plan if it reached a mark, or a magnitude of one, first; return whether."""
        features = [(mark, marks[mark].bit_length()) for mark in sorted(marks)]
        is_new = any(feature not in self._seen for feature in features)
        self._seen.update(features)
        if is_new:
            self._kept.append(_Kept(plan, tuple(features)))
            if len(self._kept) > CORPUS_SIZE_MAX:
                del self._kept[min(range(len(self._kept)), key=self._rarity_at)]
        return is_new

    def maybe_mutate(self, fresh: Plan) -> Plan | None:
        """Return a mutant of a kept plan, with the fresh plan's seed and some of its steps."""
        if not self._kept or not self._draw.chance(MUTANT_SHARE):
            return None
        weights = [(kept.plan, int(1_000 * self._rarity(kept)) + 1) for kept in self._kept]
        return mutate(self._draw.weighted(weights), fresh, self._draw)

    def _rarity_at(self, at: int) -> float:
        return self._rarity(self._kept[at])

    def _rarity(self, kept: _Kept) -> float:
        """Return the rarity of the plan's rarest mark; 1: this plan alone reached it."""
        return 1 / min(self._seen[feature] for feature in kept.features)


# ---------------------------------------------------------------- changes


def mutate(plan: Plan, donor: Plan, draw: Draw) -> Plan:
    """Return the plan with one to four changes, with steps of the donor where some are needed.

    It has the donor's seed, thus other latencies. Steps that are impossible in its topology are
    left out, and losses of disks beyond the budget.
    """
    steps = list(plan.steps)
    for _ in range(draw.between(1, CHANGES_MAX + 1)):
        change = draw.of((_add, _add, _drop, _move, _retarget, _splice))
        steps = change(steps, donor, draw)
    changed = msgspec.structs.replace(
        plan, seed=donor.seed, title=f"changed from {plan.title.removeprefix('changed from ')}"
    )
    possible = [step for step in steps if not problems_of(_with_steps(changed, (step,)))]
    possible.sort(key=lambda step: step.at_ms)
    return _with_steps(changed, within_budget(tuple(possible[:STEPS_MAX])))


def _with_steps(plan: Plan, steps: tuple[Step, ...]) -> Plan:
    return msgspec.structs.replace(plan, steps=steps)


def _add(steps: list[Step], donor: Plan, draw: Draw) -> list[Step]:
    return [*steps, draw.of(donor.steps)] if donor.steps else steps


def _drop(steps: list[Step], donor: Plan, draw: Draw) -> list[Step]:
    if not steps:
        return steps
    at = draw.between(0, len(steps))
    return [*steps[:at], *steps[at + 1 :]]


def _move(steps: list[Step], donor: Plan, draw: Draw) -> list[Step]:
    """Move a step to another's time, or somewhat earlier or later."""
    if not steps:
        return steps
    at = draw.between(0, len(steps))
    by_ms = draw.of((-400, -100, -20, -3, 3, 20, 100, 400))
    at_ms = draw.of(steps).at_ms if draw.chance(0.5) else max(0, steps[at].at_ms + by_ms)
    steps[at] = msgspec.structs.replace(steps[at], at_ms=at_ms)
    return steps


def _retarget(steps: list[Step], donor: Plan, draw: Draw) -> list[Step]:
    """Give a step the target broker, or controller, of another step."""
    able = [at for at, step in enumerate(steps) if _node_of(step)]
    if not able:
        return steps
    at = draw.of(able)
    fault, is_controller = steps[at].do, "controller" in _node_of(steps[at])
    others = [node for step in (*steps, *donor.steps) if (node := _node_of(step))]
    alike = [node for node in others if ("controller" in node) == is_controller]
    changed = msgspec.structs.replace(fault, node=draw.of(alike))
    steps[at] = msgspec.structs.replace(steps[at], do=changed)
    return steps


def _node_of(step: Step) -> str:
    """Return the step's target node, "" when it is not one node."""
    return getattr(step.do, "node", "")


def _splice(steps: list[Step], donor: Plan, draw: Draw) -> list[Step]:
    """Keep the steps up to some time; take later ones from the donor."""
    times = [step.at_ms for step in itertools.chain(steps, donor.steps)]
    if not times:
        return steps
    cut_ms = draw.of(times)
    return [step for step in steps if step.at_ms <= cut_ms] + [
        step for step in donor.steps if step.at_ms > cut_ms
    ]
