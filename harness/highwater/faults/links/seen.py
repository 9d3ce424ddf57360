"""Whether canaries prove that a fault on links acts, or that it is gone. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from highwater.faults.links.proof import (
    LEAST_CANARIES,
    Measured,
    Paced,
    is_asked_for,
    problem_with,
    problem_with_pace,
    tolerated_before,
)
from highwater.faults.links.rules import ALL_PORTS, Canary, Lose, Narrow, Slow, pipe_of
from highwater.faults.links.watch import Pipe, Shown

NO_CANARIES = "an end is a client or is down"


class NotProven(Exception):
    """A fault on links is not seen to act, or not seen to be gone; the message says where."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What was measured around a change of the rules.

    applied_ns: when the last node's rules were loaded, CLOCK_MONOTONIC.
    before: the streams of canaries before the change, without streams of too few canaries.
    after: all streams of canaries after the change, in the same order.
    paced: the narrow lines after the change.
    unmeasured: how many directions had no canaries, since an end does not run or is outside.
    """

    applied_ns: int
    before: tuple[Measured, ...] = ()
    after: tuple[Measured, ...] = ()
    paced: tuple[Paced, ...] = ()
    unmeasured: int = 0

    def __str__(self) -> str:
        was = {each.name: f" (before: {each.words})" for each in self.before}
        said = [f"{each}{was.get(each.name, '')}" for each in self.after]
        said += [str(each) for each in self.paced]
        if self.unmeasured:
            said.append(f"{self.unmeasured} directions without canaries: {NO_CANARIES}")
        return "; ".join(said)


def prove_links(
    does: Lose | Slow | Narrow | None,
    applied_ns: int,
    canaries: Sequence[Canary],
    before: Shown,
    shown: Shown,
    unmeasured: int,
) -> Proof:
    """Return the proof that these canaries give.

    does: the fault's effect on packets; None after it was healed.
    before, shown: loss, delay and pace of the canaries before the change, and after it.
    unmeasured: how many of the fault's directions have no canaries.

    Raises:
        NotProven: before the change or after it, canaries do not show what all active faults ask
            for; or the fault begins and has no canaries that could show it.
    """
    if does is not None and not canaries:
        raise NotProven(f"no canary goes along any of {unmeasured} directions: {NO_CANARIES}")
    told_before = [
        each for canary in canaries if (each := before.measured[canary]).sent >= LEAST_CANARIES
    ]
    measured = [shown.measured[canary] for canary in canaries]
    pipes = dict.fromkeys(map(_pipe, canaries))
    paced = [shown.paced[pipe] for pipe in pipes if pipe in shown.paced]
    paced_before = [before.paced[pipe] for pipe in pipes if pipe in before.paced]
    problems = [
        *(
            f"{each.name}: it was over before canaries were seen"
            for each in measured
            if does is not None and not is_asked_for(does, each.asked)
        ),
        *(
            f"before: {problem}"
            for each in told_before
            if (problem := problem_with(each, tolerated_before(does)))
        ),
        *(f"before: {problem}" for line in paced_before if (problem := problem_with_pace(line))),
        *(problem for each in measured if (problem := problem_with(each))),
        *(problem for line in paced if (problem := problem_with_pace(line))),
    ]
    if problems:
        raise NotProven("; ".join(problems))
    return Proof(applied_ns, tuple(told_before), tuple(measured), tuple(paced), unmeasured)


def is_as_asked(shown: Shown) -> bool:
    """Return whether all canaries show what the active faults ask for."""
    streams = (problem_with(each) for each in shown.measured.values())
    return not any((*streams, *(problem_with_pace(each) for each in shown.paced.values())))


def _pipe(canary: Canary) -> Pipe:
    """Return the canary's pipe. For a direction of all ports its number is 0, which no pipe has."""
    at = canary.direction
    return at.target, 0 if at.port == ALL_PORTS else pipe_of(at)
